package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
)

// A node publishes and consumes over TLS, with each way to give a password.
func TestTLSAndSASL(t *testing.T) {
	t.Parallel()
	server, client := certificates(t)
	for method, credentials := range map[string]func(user, password string) sasl.Mechanism{
		"PLAIN": func(user, password string) sasl.Mechanism {
			return plain.Auth{User: user, Pass: password}.AsMechanism()
		},
		"SCRAM-SHA-256": func(user, password string) sasl.Mechanism {
			return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
		},
		"SCRAM-SHA-512": func(user, password string) sasl.Mechanism {
			return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
		},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(server), kfake.EnableSASL(),
				kfake.Superuser(method, "chronos", "secret"), kfake.SeedTopics(1, "topic"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			config := configFor(cluster, "group", "topic")
			config.SessionTimeout = 0
			config.TLS, config.SASL = kafka.Fixed(client), credentials("chronos", "secret")
			b := open(t, config)
			if err := publishOne(t, b, "topic", "text"); err != nil {
				t.Fatalf("publish: %v", err)
			}
			batch := pollBatch(t, b)
			if err := b.Commit(t.Context(), batch); err != nil || string(batch[0].Value) != "text" {
				t.Fatalf("polled %q; commit: %v", values(batch), err)
			}

			config.PublishTimeout = 2 * time.Second
			config.SASL = credentials("chronos", "wrong")
			expectTrouble(t, "a wrong password", config, "SASL")
			config.SASL = nil
			expectTrouble(t, "no password", config, "SASL")
			config.TLS = nil
			expectTrouble(t, "no TLS", config, "")
			config.TLS = kafka.Fixed(new(tls.Config)) // which does not know who has signed the certificate
			expectTrouble(t, "an unknown authority", config, "certificate")
		})
	}
}

// expectTrouble expects that Poll and Publish fail, both for the reason. A call that ends before the brokers have
// answered at all, on a busy machine, cannot give it: then the next one has to.
func expectTrouble(t *testing.T, what string, with config, reason string) {
	t.Helper()
	b := open(t, with)
	for call, try := range map[string]func() error{
		"poll":    func() error { return pollError(t, b) },
		"publish": func() error { return publishOne(t, b, "topic", "text") },
	} {
		err := try()
		for end := time.Now().Add(patience); err != nil && !strings.Contains(err.Error(), reason); err = try() {
			if time.Now().After(end) {
				t.Errorf("%s: %s: %v, want %q", what, call, err, reason)
				break
			}
		}
		if call == "publish" && (err == nil || node.KindOf(err).Permanent()) {
			t.Errorf("%s: publish: %v, want an unknown outcome", what, err)
		}
	}
}

// certificates returns what a broker on 127.0.0.1 needs to be trusted, and what a client needs to trust it.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots}
}

// What a node is not allowed to do is named, and hinders nothing else.
func TestPermissions(t *testing.T) {
	t.Parallel()
	allow := func(kind kmsg.ACLResourceType, name string, operation kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{
			Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: true,
		}
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.SeedTopics(1, "in", "hidden-in", "out", "described", "hidden"),
		kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("PLAIN", "chronos", "secret",
			allow(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationRead),
			allow(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationDescribe),
			allow(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationWrite),
			allow(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationDescribe),
			allow(kmsg.ACLResourceTypeTopic, "described", kmsg.ACLOperationDescribe),
			allow(kmsg.ACLResourceTypeGroup, "group", kmsg.ACLOperationRead),
		))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	config := configFor(cluster, "group", "in", "hidden-in")
	config.SessionTimeout = 0
	config.SASL = plain.Auth{User: "chronos", Pass: "secret"}.AsMechanism()
	b := open(t, config)
	admin := brokertest.NewCluster(t, kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.SASL(plain.Auth{User: "admin", Pass: "admin"}.AsMechanism()))

	records := append(texts("out", "text", 1), texts("described", "text", 1)...)
	records = append(records, texts("hidden", "text", 1)...)
	for range 2 {
		errs := b.Publish(t.Context(), records)
		if errs[0] != nil {
			t.Errorf("publish where it is allowed: %v", errs[0])
		}
		for i, err := range errs[1:] {
			if node.KindOf(err) != node.TopicMissing {
				t.Errorf("publish on topic %s: %v, want that it is forbidden", records[i+1].Topic, err)
			}
		}
	}
	if err := pollError(t, b); !strings.Contains(err.Error(), "hidden-in") {
		t.Errorf("poll: %v, want the topic that is forbidden", err)
	}
	admin.Produce(t, texts("in", "text", 1)...)
	if got := pollValues(t, b, 1); got[0] != "text-0" {
		t.Errorf("polled %q", got)
	}

	config.Group, config.Inputs = "forbidden", []string{"in"}
	if err := pollError(t, open(t, config)); !strings.Contains(err.Error(), "GROUP_AUTHORIZATION_FAILED") {
		t.Errorf("poll: %v, want that the group is forbidden", err)
	}
}

// A password that the broker refuses, as a real one does it, is told from an outage: by Poll, by Publish and by an
// Admin.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "chronos", "secret"),
		kfake.SeedTopics(1, "topic"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		response.ErrorCode = kerr.SaslAuthenticationFailed.Code
		response.ErrorMessage = new("Authentication failed: Invalid username or password")
		return response, nil, true
	})
	config := configFor(cluster, "group", "topic")
	config.SessionTimeout = 0
	config.PublishTimeout = 2 * time.Second
	config.SASL = plain.Auth{User: "chronos", Pass: "wrong"}.AsMechanism()
	b := open(t, config)
	expect := func(what string, err error) {
		t.Helper()
		if sentence, is := kafka.Permanent(err); !is || !strings.Contains(sentence, "password") {
			t.Errorf("%s: %v, want that the password is refused", what, err)
		}
	}
	for range 5 {
		expect("poll", pollError(t, b))
	}
	expect("publish", publishOne(t, b, "topic", "text"))
	_, err = b.admin.ClusterID(t.Context())
	expect("cluster id", err)
}
