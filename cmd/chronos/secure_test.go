package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// authority signs certificates for a test, and is trusted by nobody else.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string // its certificate in PEM form
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = writeFile(t, "ca.pem", block("CERTIFICATE", der))
	return a
}

// issue returns a certificate for 127.0.0.1 and its key, in PEM form.
func (a *authority) issue(t *testing.T) (certificate, key string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	own := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", secret)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// TestSecureConnections sends a message to brokers that ask for TLS, for a certificate, and for a password in each way,
// with and without what they ask for.
func TestSecureConnections(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certificate, key := ca.issue(t)
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(ca.certificate)
	oneWay := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	mutual := oneWay.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, clients

	trust := []string{"--tls-ca", ca.file}
	identity := append([]string{
		"--tls-cert", writeFile(t, "cert.pem", certificate), "--tls-key", writeFile(t, "key.pem", key),
	}, trust...)
	login := func(mechanism, password string) []string {
		return []string{"--sasl-mechanism", mechanism, "--sasl-username", "u", "--sasl-password", password}
	}
	byFile := []string{
		"--sasl-mechanism", "SCRAM-SHA-512", "--sasl-username", "u",
		"--sasl-password-file", writeFile(t, "password", "right\n"),
	}
	// A Kafka would say that authentication failed. This broker just hangs up.
	const hangUp = "closes the connection: it may want other TLS or SASL settings"
	for name, c := range map[string]struct {
		broker      []kfake.Opt
		right       []string
		wrong       []string
		explanation string // of the error without
	}{
		"TLS":           {[]kfake.Opt{kfake.TLS(oneWay)}, trust, []string{"--tls"}, "not trusted here"},
		"TLS, not used": {[]kfake.Opt{kfake.TLS(oneWay)}, trust, nil, hangUp},
		"mutual TLS":    {[]kfake.Opt{kfake.TLS(mutual)}, identity, trust, "certificate required"},
		"PLAIN":         {password("PLAIN"), login("PLAIN", "right"), login("PLAIN", "wrong"), hangUp},
		"SCRAM-SHA-256": {
			password("SCRAM-SHA-256"), login("SCRAM-SHA-256", "right"), login("SCRAM-SHA-256", "wrong"), hangUp,
		},
		"SCRAM-SHA-512": {password("SCRAM-SHA-512"), byFile, login("SCRAM-SHA-512", "wrong"), hangUp},
		"both": {
			append(password("PLAIN"), kfake.TLS(oneWay)), append(login("PLAIN", "right"), trust...),
			append(login("PLAIN", "wrong"), trust...), hangUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			options := append(c.broker, kfake.NumBrokers(1), kfake.SeedTopics(1, "chronos.in"))
			cluster, err := kfake.NewCluster(options...)
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			send := append([]string{"send", "--in", "1h", "--brokers", cluster.ListenAddrs()[0]}, "x")
			if got := run(t, "", append(send, c.right...)...); got.code != 0 {
				t.Errorf("with all that is asked for: exit code %d: %s", got.code, got.stderr)
			}
			got := run(t, "", append(send, c.wrong...)...)
			if got.code != 1 || !strings.Contains(got.stderr, c.explanation) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("without: exit code %d, %q, want %q in it", got.code, got.stderr, c.explanation)
			}
		})
	}
}

// TestRunRefusedByKafka starts nodes with a password that the broker refuses, and without the right to the consumer
// group: neither is an outage that could pass. They end after a few tries, with a sentence that says what to do.
func TestRunRefusedByKafka(t *testing.T) {
	t.Parallel()
	allow := func(kind kmsg.ACLResourceType, name string) kfake.ACL {
		return kfake.ACL{
			Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationAll,
			Allow: true,
		}
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.SeedTopics(1, "chronos.in", "chronos.out", "chronos.dead"),
		kfake.User("PLAIN", "u", "right", allow(kmsg.ACLResourceTypeTopic, "*"),
			allow(kmsg.ACLResourceTypeCluster, "kafka-cluster")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	// A Kafka says that authentication failed. This broker would just hang up.
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if strings.Contains(string(request.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes), "right") {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		response.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return response, nil, true
	})
	for password, want := range map[string]string{
		"wrong": "check the SASL settings",
		"right": "GROUP_AUTHORIZATION_FAILED",
	} {
		got := run(t, "", "run", "--store", "sqlite:"+filepath.Join(t.TempDir(), "chronos.db"), "--migrate",
			"--brokers", cluster.ListenAddrs()[0],
			"--sasl-mechanism", "PLAIN", "--sasl-username", "u", "--sasl-password", password)
		last := got.stderr[strings.LastIndex(strings.TrimSpace(got.stderr), "\n")+1:]
		if got.code != 1 || !strings.Contains(last, `"msg":"the node can't go on"`) || !strings.Contains(last, want) {
			t.Errorf("password %q: exit code %d, and the last line is %s, of\n%s", password, got.code, last, got.stderr)
		}
	}
}

// password makes a broker ask for a password.
func password(mechanism string) []kfake.Opt {
	return []kfake.Opt{kfake.EnableSASL(), kfake.Superuser(mechanism, "u", "right")}
}
