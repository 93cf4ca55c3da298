package admin_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/credential"
)

// hello is a handler to guard.
func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func newServer(t *testing.T, config admin.Config) *admin.Server {
	t.Helper()
	s, err := admin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("GET /open", admin.Open, http.HandlerFunc(hello))
	s.Handle("GET /guarded", admin.Guarded, http.HandlerFunc(hello))
	s.Handle("POST /guarded", admin.Guarded, http.HandlerFunc(hello))
	return s
}

// Goal: whoever may not listen or has named a wrong file is told which setting it is. Method: configurations with one
// mistake each.
func TestRefusesMistakes(t *testing.T) {
	t.Parallel()
	empty := write(t, "empty", "\n")
	token := write(t, "token", "a-secret-of-mine\n")
	for _, c := range []struct {
		config  admin.Config
		setting string
		says    string
	}{
		{admin.Config{Listen: "8080"}, "Listen", "HOST:PORT"},
		{admin.Config{Listen: "localhost"}, "Listen", "HOST:PORT"},
		{admin.Config{Listen: ":8080"}, "Listen", "a token is needed"},
		{admin.Config{Listen: "0.0.0.0:8080"}, "Listen", "a token is needed"},
		{admin.Config{Listen: "[::]:8080"}, "Listen", "a token is needed"},
		{admin.Config{Listen: "chronos.example:8080"}, "Listen", "a token is needed"},
		{admin.Config{Listen: "0.0.0.0:8080", TokenFile: empty}, "TokenFile", "it is empty"},
		{admin.Config{Listen: "0.0.0.0:8080", TokenFile: empty + "-no"}, "TokenFile", "no such file"},
		{admin.Config{Listen: "127.0.0.1:0", CertFile: token}, "CertFile", "set together"},
		{admin.Config{Listen: "127.0.0.1:0", KeyFile: token}, "CertFile", "set together"},
		{admin.Config{Listen: "127.0.0.1:0", CertFile: token, KeyFile: token}, "CertFile", "find any PEM data"},
	} {
		_, err := admin.New(c.config)
		var wrong *node.ConfigError
		if !errors.As(err, &wrong) || wrong.Setting != c.setting || !strings.Contains(wrong.Allowed, c.says) {
			t.Errorf("%+v: error %v, want one about %s that says %q", c.config, err, c.setting, c.says)
		}
	}
	for _, listen := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0", "127.0.0.2:1"} {
		if _, err := admin.New(admin.Config{Listen: listen}); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
	if _, err := admin.New(admin.Config{Listen: ":0", TokenFile: token}); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Goal: what is guarded is answered to whoever may ask, and to nobody else; what is open is answered to all. Method:
// requests as tools, strangers and foreign pages send them.
func TestGuards(t *testing.T) {
	t.Parallel()
	without := newServer(t, admin.Config{Listen: "127.0.0.1:0"})
	with := newServer(t, admin.Config{Listen: "0.0.0.0:0", TokenFile: write(t, "token", "a-secret-of-mine\n")})
	for _, c := range []struct {
		server  *admin.Server
		request string
		host    string
		headers []string // name, value
		status  int
	}{
		{without, "GET /open", "127.0.0.1:8080", nil, 200},
		{without, "GET /open", "evil.example", nil, 200},
		{without, "GET /guarded", "127.0.0.1:8080", nil, 200},
		{without, "GET /guarded", "localhost", nil, 200},
		{without, "GET /guarded", "[::1]:8080", nil, 200},
		{without, "GET /guarded", "[::1]", nil, 200},
		{without, "GET /guarded", "evil.example:8080", nil, 403},
		{without, "POST /guarded", "notlocalhost:8080", nil, 403},
		{without, "POST /guarded", "localhost.evil.example:8080", nil, 403},
		{without, "POST /guarded", "127.0.0.1.evil.example", nil, 403},
		{without, "POST /guarded", "", nil, 403},
		{without, "POST /guarded", "127.0.0.1:8080", nil, 200},
		{without, "POST /guarded", "127.0.0.1:8080", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{without, "POST /guarded", "127.0.0.1:8080", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{without, "POST /guarded", "127.0.0.1:8080", []string{"Origin", "https://evil.example"}, 403},
		{without, "GET /nothing", "127.0.0.1:8080", nil, 404},
		{with, "GET /open", "chronos-1:8080", nil, 200},
		{with, "GET /guarded", "chronos-1:8080", nil, 401},
		{with, "GET /guarded", "chronos-1:8080", []string{"Authorization", "Bearer wrong"}, 401},
		{with, "GET /guarded", "chronos-1:8080", []string{"Authorization", "Bearer "}, 401},
		{with, "GET /guarded", "chronos-1:8080", []string{"Authorization", "Basic secret"}, 401},
		{with, "GET /guarded", "chronos-1:8080", []string{"Authorization", "Bearer a-secret-of-mine"}, 200},
		{with, "GET /guarded", "chronos-1:8080", []string{"Authorization", "bearer a-secret-of-mine"}, 200},
		{
			with, "POST /guarded", "chronos-1:8080",
			[]string{"Authorization", "Bearer a-secret-of-mine", "Sec-Fetch-Site", "cross-site"},
			403,
		},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Host = c.host
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		w := httptest.NewRecorder()
		c.server.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s to %s with %v: status %d (%s), want %d",
				c.request, c.host, c.headers, w.Code, w.Body, c.status)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: the answer shows the token: %s", c.request, w.Body)
		}
	}
}

// Goal: a token that is replaced in its file is the one that counts, and a file that is gone for a moment locks nobody
// out, and is told of. Method: the file is written anew, emptied, removed, with a request after each.
func TestReadsTokenAgain(t *testing.T) {
	t.Parallel()
	file := write(t, "token", "the-first-token.\n")
	keeper := new(credential.Keeper)
	var told []string
	keeper.Tell(func(err error) { told = append(told, err.Error()) })
	s := newServer(t, admin.Config{Listen: "127.0.0.1:0", TokenFile: file, Keeper: keeper})
	status := func(token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/guarded", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	if got := status("the-first-token."); got != 200 {
		t.Fatalf("status %d with the first token", got)
	}
	if err := os.WriteFile(file, []byte("the-second-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := status("the-second-token"); got != 200 {
		t.Errorf("status %d with the new token", got)
	}
	if got := status("the-first-token."); got != 401 {
		t.Errorf("status %d with the former token", got)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := status("the-second-token"); got != 200 {
		t.Errorf("status %d while the file is empty", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := status("the-second-token"); got != 200 {
		t.Errorf("status %d while the file is gone", got)
	}
	if want := []string{
		"it must be a file with a token, or with one on each line: the file " + file + ": it is empty",
		"it must be a file with a token, or with one on each line: read " + file + ": no such file or directory",
	}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// Goal: a listener serves from its address, says in one sentence that a port is taken, and lets go of it at the end.
// Method: two listeners on one port. Another process may get it between the two, so there are three tries: a listener
// that keeps its port fails in all of them.
func TestListens(t *testing.T) {
	t.Parallel()
	var err error
	for range 3 {
		if err = takesTurns(t); err == nil {
			return
		}
	}
	t.Errorf("after the first has ended: %v", err)
}

// takesTurns has two listeners use one port one after the other, and returns what kept the second from it.
func takesTurns(t *testing.T) error {
	t.Helper()
	s := newServer(t, admin.Config{Listen: "127.0.0.1:0"})
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if got := body(t, http.DefaultClient, s.URL()+"/open"); got != "hello" {
		t.Errorf("it serves %q", got)
	}
	second := newServer(t, admin.Config{Listen: s.Address()})
	var taken *admin.InUseError
	err := second.Open(t.Context())
	if !errors.As(err, &taken) || !strings.Contains(err.Error(), s.Address()+" is in use") {
		t.Errorf("the second listener: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := second.Open(t.Context()); err != nil {
		return err
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	return nil
}

func body(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Goal: with a certificate the listener speaks HTTPS, and a renewed one is taken up by new connections. Method: two
// certificates, one after the other in the same files; clients that trust one of them only.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	first := certificate(t, cert, key)
	s := newServer(t, admin.Config{Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key})
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if got := body(t, first, s.URL()+"/open"); got != "hello" || !strings.HasPrefix(s.URL(), "https://127.0.0.1:") {
		t.Errorf("%s serves %q", s.URL(), got)
	}
	second := certificate(t, cert, key)
	if got := body(t, second, s.URL()+"/open"); got != "hello" {
		t.Errorf("with a new certificate it serves %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// certificate writes a new certificate and its key, and returns a client that trusts nothing else.
func certificate(t *testing.T, certFile, keyFile string) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "chronos"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
	}}
}

// Goal: a probe says whether all is well by its status, and why by its words: all of them if asked, and those that
// matter if not. Method: probes with and without a check that is not well.
func TestProbes(t *testing.T) {
	t.Parallel()
	well := admin.Check{Name: "store", OK: true, Detail: "it answered 0.2 s ago"}
	unwell := admin.Check{Name: "group", Detail: "not joined: no broker answers"}
	s, err := admin.New(admin.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	warning := admin.Check{Name: "lane out", OK: true, Warn: true, Detail: "it has no topic"}
	live := []admin.Check{well}
	s.Health(
		func() []admin.Check { return live },
		func() []admin.Check { return []admin.Check{well, unwell} })
	for _, c := range []struct {
		path   string
		status int
		text   string
	}{
		{"/livez", 200, "ok\n"},
		{"/livez?verbose", 200, "[+] store: it answered 0.2 s ago\nok\n"},
		{"/readyz", 503, "[-] group: not joined: no broker answers\nnot ready\n"},
		{
			"/readyz?verbose=1", 503,
			"[+] store: it answered 0.2 s ago\n[-] group: not joined: no broker answers\nnot ready\n",
		},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil))
		if w.Code != c.status || !bytes.Equal(w.Body.Bytes(), []byte(c.text)) {
			t.Errorf("%s: %d %q, want %d %q", c.path, w.Code, w.Body, c.status, c.text)
		}
	}
	live = append(live, warning)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/livez", nil))
	if want := "[!] lane out: it has no topic\nok for this node, but not all is well\n"; w.Code != 200 ||
		w.Body.String() != want {
		t.Errorf("with a warning: %d %q, want 200 %q", w.Code, w.Body, want)
	}
}
