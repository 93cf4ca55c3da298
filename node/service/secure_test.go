package service_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chronos/node/service"
)

// settings reads flags, as the command run would.
func settings(t *testing.T, flags map[string]string) (*service.Settings, error) {
	t.Helper()
	values := map[string]service.Value{}
	for name, text := range flags {
		values[name] = service.FlagValue(name, text)
	}
	return service.Read(service.Run, values, nil)
}

// hello returns what a client says first to authenticate over a new connection.
func hello(t *testing.T, s *service.Settings) (func() string, error) {
	t.Helper()
	connection, err := s.Connection()
	if err != nil {
		return nil, err
	}
	return func() string {
		_, message, err := connection.SASL.Authenticate(context.Background(), "localhost:1")
		if err != nil {
			return "error: " + err.Error()
		}
		return string(message)
	}, nil
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What replaces a password, a token or a file of properties is used from the next connection on. While the file is
// missing or empty, what was there before is.
func TestSecretsAreReadAnew(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	const properties = "security.protocol=SASL_PLAINTEXT\nsasl.mechanisms=PLAIN\nsasl.username=u\nsasl.password="
	for name, c := range map[string]struct {
		flags  map[string]string
		before string // of the secret in the file
		shown  string // before the secret in what is sent
	}{
		"password": {
			map[string]string{"sasl-mechanism": "PLAIN", "sasl-username": "u", "sasl-password-file": file},
			"",
			"\x00u\x00",
		},
		"token":      {map[string]string{"sasl-mechanism": "OAUTHBEARER", "sasl-token-file": file}, "", "auth=Bearer "},
		"properties": {map[string]string{"kafka-properties": file}, properties, "\x00u\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, file, c.before+"first\n")
			s, err := settings(t, c.flags)
			if err != nil {
				t.Fatal(err)
			}
			say, err := hello(t, s)
			if err != nil {
				t.Fatal(err)
			}
			expect := func(want string) {
				t.Helper()
				if got := say(); !strings.Contains(got, c.shown+want) {
					t.Errorf("it says %q, want %q in it", got, c.shown+want)
				}
			}
			expect("first")
			write(t, file, c.before+"second")
			expect("second")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			expect("second")
			write(t, file, "")
			expect("second")
			write(t, file, c.before+"third\r\n")
			expect("third")
		})
	}
}

// A certificate that was replaced is used from the next connection on, but not while it does not fit its key.
func TestCertificateIsReadAnew(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	install := func(certificate, key string) {
		write(t, path("cert"), certificate)
		write(t, path("key"), key)
	}
	firstCertificate, firstKey := selfSigned(t, 1)
	secondCertificate, secondKey := selfSigned(t, 2)
	install(firstCertificate, firstKey)
	write(t, path("ca"), firstCertificate)
	s, err := settings(t, map[string]string{"tls-cert": path("cert"), "tls-key": path("key"), "tls-ca": path("ca")})
	if err != nil {
		t.Fatal(err)
	}
	connection, err := s.Connection()
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, serial int64, trusted *x509.Certificate) {
		t.Helper()
		config, err := connection.TLS()
		if err != nil {
			t.Fatal(err)
		}
		if got := leaf(t, config); got.SerialNumber.Int64() != serial {
			t.Errorf("%s: the certificate is number %v, want %d", what, got.SerialNumber, serial)
		}
		if _, err := trusted.Verify(x509.VerifyOptions{Roots: config.RootCAs}); err != nil {
			t.Errorf("%s: it does not trust what it should: %v", what, err)
		}
	}
	first, second := parse(t, firstCertificate), parse(t, secondCertificate)
	expect("first", 1, first)
	write(t, path("cert"), secondCertificate) // and not the key yet
	expect("half replaced", 1, first)
	write(t, path("key"), secondKey)
	write(t, path("ca"), "no certificate")
	expect("replaced", 2, first)
	write(t, path("ca"), secondCertificate)
	expect("authority replaced", 2, second)
}

func parse(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func leaf(t *testing.T, config *tls.Config) *x509.Certificate {
	t.Helper()
	certificate, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// selfSigned returns a certificate with a serial number, and its key, in PEM form.
func selfSigned(t *testing.T, serial int64) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// Tokens come from an endpoint by client credentials: each is used until it expires, and a secret that was replaced is
// used at once. An endpoint that refuses, or sends elsewhere, is an error without any secret.
func TestTokenEndpoint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write(t, file, "one")
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		id, secret, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, "/token", http.StatusTemporaryRedirect)
		case r.FormValue("scope") != "a b" || id != "client":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_request"}`)
		case secret == "hush":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"`+secret+`"}`)
		default:
			_, _ = fmt.Fprintf(w, `{"access_token":"token-%s","token_type":"bearer","expires_in":3600}`, secret)
		}
	}))
	defer server.Close()
	flags := map[string]string{
		"sasl-mechanism": "OAUTHBEARER", "sasl-token-url": server.URL + "/token", "sasl-username": "client",
		"sasl-password-file": file, "sasl-scope": "a,b",
	}
	s, err := settings(t, flags)
	if err != nil {
		t.Fatal(err)
	}
	say, err := hello(t, s)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := say(); !strings.Contains(got, "auth=Bearer token-one") {
			t.Errorf("it says %q", got)
		}
	}
	if asked != 1 {
		t.Errorf("the endpoint was asked %d times for one token", asked)
	}
	write(t, file, "two")
	if got := say(); !strings.Contains(got, "auth=Bearer token-two") {
		t.Errorf("after the secret was replaced it says %q", got)
	}
	write(t, file, "hush")
	if got := say(); !strings.Contains(got, "invalid_client") || strings.Contains(got, "hush") {
		t.Errorf("refused: %q", got)
	}
	flags["sasl-token-url"] = server.URL + "/away"
	write(t, file, "hush2")
	if s, err = settings(t, flags); err != nil {
		t.Fatal(err)
	}
	if say, err = hello(t, s); err != nil {
		t.Fatal(err)
	}
	if got := say(); !strings.HasPrefix(got, "error: ") || strings.Contains(got, "hush2") {
		t.Errorf("sent elsewhere: %q", got)
	}
}

// What somebody sets on the command line counts more than what is in a file of properties.
func TestPropertiesAreDefaults(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "client.properties")
	write(t, file, "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"+
		`sasl.jaas.config=a.b.PlainLoginModule required username="theirs" password="theirs";`+"\nclient.id=billing\n")
	password := filepath.Join(dir, "password")
	write(t, password, "ours")
	s, err := settings(t, map[string]string{"kafka-properties": file, "brokers": "b:2", "sasl-password-file": password})
	if err != nil {
		t.Fatal(err)
	}
	connection, err := s.Connection()
	if err != nil {
		t.Fatal(err)
	}
	say, err := hello(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if connection.Brokers[0] != "b:2" || connection.ClientID != "billing" || say() != "\x00theirs\x00ours" {
		t.Errorf("brokers %v, client %q, login %q", connection.Brokers, connection.ClientID, say())
	}
}

// What does not go together is an error that names the settings.
func TestSecurityErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	secret := file("secret", "hush")
	unknown := file("unknown.properties", "acks=all\nsasl.pasword=hush\n")
	for name, c := range map[string]struct {
		flags map[string]string
		says  []string
	}{
		"no token": {map[string]string{"sasl-mechanism": "OAUTHBEARER"}, []string{
			"--sasl-token-file",
			"--sasl-token-url",
		}},
		"two tokens": {
			map[string]string{
				"sasl-mechanism": "OAUTHBEARER", "sasl-token-file": secret,
				"sasl-token-url": "https://a/b",
			},
			[]string{"--sasl-token-file", "--sasl-token-url", "exclude"},
		},
		"token of PLAIN": {
			map[string]string{"sasl-mechanism": "PLAIN", "sasl-token-file": secret}, []string{
				"--sasl-token-file",
				"OAUTHBEARER",
			},
		},
		"user beside a token": {
			map[string]string{"sasl-mechanism": "OAUTHBEARER", "sasl-token-file": secret, "sasl-username": "u"},
			[]string{"--sasl-username", "--sasl-token-url"},
		},
		"endpoint in clear": {
			map[string]string{
				"sasl-mechanism": "OAUTHBEARER", "sasl-token-url": "http://id/token", "sasl-username": "u",
				"sasl-password-file": secret,
			},
			[]string{"--sasl-token-url", "https://"},
		},
		"endpoint with a password": {
			map[string]string{
				"sasl-mechanism": "OAUTHBEARER", "sasl-token-url": "https://u:hush@id/token", "sasl-username": "u",
				"sasl-password-file": secret,
			},
			[]string{"--sasl-token-url", "not shown"},
		},
		"unknown property": {
			map[string]string{"kafka-properties": unknown}, []string{
				"unknown.properties:2: sasl.pasword",
				"sasl.password?",
			},
		},
		"no file": {map[string]string{"kafka-properties": dir + "/none"}, []string{"/none", "no such file"}},
	} {
		s, err := settings(t, c.flags)
		if err == nil {
			_, err = s.Connection()
		}
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

// Neither the log at the start nor the API shows a secret, however it was given.
func TestSettingsAreShownWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "client.properties")
	certificate, key := selfSigned(t, 1)
	inline := func(text string) string { return strings.ReplaceAll(text, "\n", `\n`) }
	const store = "postgres://u:hush@h/d?sslpassword=hush"
	for name, c := range map[string]struct {
		properties string
		flags      map[string]string
		hidden     string
	}{
		"key": {
			"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key=" + inline(key) +
				"\nssl.keystore.certificate.chain=" + inline(certificate), map[string]string{},
			strings.Split(key, "\n")[1],
		},
		"login": {
			"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n" +
				`sasl.jaas.config=a.PlainLoginModule required username="u" password="hush";`,
			map[string]string{},
			"hush",
		},
		"flag": {
			"",
			map[string]string{"sasl-mechanism": "PLAIN", "sasl-username": "u", "sasl-password": "hush"},
			"hush",
		},
	} {
		write(t, file, c.properties)
		c.flags["kafka-properties"], c.flags["store"] = file, store
		s, err := settings(t, c.flags)
		if err != nil {
			t.Fatal(err)
		}
		config, err := s.Config()
		if err != nil {
			t.Fatal(err)
		}
		if shown := config.Shown(); strings.Contains(shown, c.hidden) || strings.Contains(shown, "hush") ||
			!strings.Contains(shown, file) {
			t.Errorf("%s: %s", name, shown)
		}
	}
}
