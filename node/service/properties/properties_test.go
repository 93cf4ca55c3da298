package properties_test

import (
	"slices"
	"strings"
	"testing"

	"chronos/node/service/properties"
)

const certificate = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"

// Files as people have them, of Java's clients and of librdkafka, mean what they mean there.
func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want map[string]string // by the field
	}{
		"nothing": {"# a comment\n! and another\n\n", map[string]string{}},
		"Java, SCRAM": {
			`bootstrap.servers=a:1,b:2
security.protocol = SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
  username="u" \
  password="p\\"q\\\\;=";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/ca.pem
group.id=g
client.id=billing
acks=all
`,
			map[string]string{
				"brokers": "a:1,b:2", "tls": "true", "mechanism": "SCRAM-SHA-512", "user": "u", "password": `p"q\;=`,
				"ca": "/etc/ca.pem", "group": "g", "client": "billing", "ignored": "acks",
			},
		},
		"Java, twice": {
			"bootstrap.servers=a:1\nclient.id=one\nclient.id=two\nbootstrap.servers=b:2\n",
			map[string]string{"brokers": "b:2", "client": "two"},
		},
		"librdkafka, twice": {
			"metadata.broker.list=a:1\nsecurity.protocol=plaintext\nclient.id=one\nclient.id=two\n" +
				"metadata.broker.list=b:2\n",
			map[string]string{"brokers": "b:2", "client": "two", "tls": "false"},
		},
		"Java, mutual TLS with one file": {
			"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=c.pem\n",
			map[string]string{"tls": "true", "certificate": "c.pem", "key": "c.pem"},
		},
		"Java, PEM on one line": {
			"security.protocol=SSL\nssl.truststore.type=PEM\n" +
				"ssl.truststore.certificates=-----BEGIN CERTIFICATE----- QU JD -----END CERTIFICATE-----\n",
			map[string]string{"tls": "true", "ca inline": certificate},
		},
		"Java, PEM on several lines": {
			"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=-----BEGIN " +
				"CERTIFICATE-----\\n\\\n" +
				"QUJD\\n\\\n-----END CERTIFICATE-----\n",
			map[string]string{"tls": "true", "ca inline": certificate},
		},
		"Java, token": {
			"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n" +
				"sasl.login.callback.handler.class=" +
				"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n" +
				"sasl.oauthbearer.token.endpoint.url=https://id/token\n" +
				"sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required " +
				"clientId='c' clientSecret='s' scope='x';\n",
			map[string]string{
				"tls": "true", "mechanism": "OAUTHBEARER", "url": "https://id/token", "user": "c", "password": "s",
				"scope": "x",
			},
		},
		"librdkafka": {
			"metadata.broker.list=a:1\nsecurity.protocol=sasl_ssl\nsasl.mechanisms=PLAIN\nsasl.username=u\n" +
				`sasl.password=C:\new"x"` + "\nssl.ca.location=ca.pem\nssl.certificate.location=c.pem\n" +
				"ssl.key.location=k.pem\nqueue.buffering.max.ms=5\n",
			map[string]string{
				"brokers": "a:1", "tls": "true", "mechanism": "PLAIN", "user": "u", "password": `C:\new"x"`,
				"ca":          "ca.pem",
				"certificate": "c.pem", "key": "k.pem", "ignored": "queue.buffering.max.ms",
			},
		},
		"what the protocol does not use": {
			"security.protocol=PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\nssl.ca.location=x\n",
			map[string]string{"tls": "false"},
		},
	} {
		client, err := properties.Parse(c.file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := map[string]string{"ignored": strings.Join(client.Ignored, " ")}
		for field, v := range map[string]properties.Value{
			"brokers": client.Brokers, "client": client.ClientID, "group": client.Group, "tls": client.TLS,
			"ca": client.CA, "ca inline": client.CAInline, "certificate": client.Certificate, "key": client.PrivateKey,
			"mechanism": client.Mechanism, "user": client.Username, "password": client.Password,
			"url": client.TokenURL, "scope": client.Scope,
		} {
			got[field] = v.Text
		}
		for field, text := range got {
			if text != c.want[field] {
				t.Errorf("%s: %s is %q, want %q", name, field, text, c.want[field])
			}
		}
	}
}

// What cannot be honoured is refused: the error names the key and what to do, and shows no secret.
func TestRefuse(t *testing.T) {
	const login = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
	for name, c := range map[string]struct{ file, key, says string }{
		"unknown":        {"a.b.c=hush", "a.b.c", "not a property"},
		"misspelt":       {"boostrap.servers=hush", "boostrap.servers", "did you mean bootstrap.servers?"},
		"other signs":    {"bootstrap_servers=hush", "bootstrap_servers", "did you mean bootstrap.servers?"},
		"JKS by type":    {"ssl.truststore.type=JKS", "ssl.truststore.type", "keytool -exportcert"},
		"JKS by default": {"ssl.truststore.location=/x.jks", "ssl.truststore.location", "keytool -exportcert"},
		"PKCS12":         {"ssl.keystore.type=PKCS12", "ssl.keystore.type", "openssl pkcs12"},
		"store password": {"ssl.truststore.password=hush", "ssl.truststore.password", "PEM"},
		"key password":   {"ssl.key.password=hush", "ssl.key.password", "openssl pkey"},
		"no check of names": {
			"ssl.endpoint.identification.algorithm=", "ssl.endpoint.identification.algorithm",
			"https",
		},
		"no check at all": {
			"enable.ssl.certificate.verification=false", "enable.ssl.certificate.verification", "always checks",
		},
		"Kerberos":     {"security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", "sasl.mechanism", "SCRAM-SHA-512"},
		"no mechanism": {"security.protocol=SASL_SSL", "security.protocol", "no sasl.mechanism"},
		"no protocol":  {"sasl.mechanism=PLAIN", "sasl.mechanism", "security.protocol"},
		"protocol":     {"security.protocol=TLS", "security.protocol", "SASL_PLAINTEXT"},
		"providers":    {"config.providers=file", "config.providers", "--sasl-password-file"},
		"two dialects": {"sasl.jaas.config=x\nsasl.username=u", "sasl.jaas.config", "sasl.username"},
		"open quote": {
			login + `sasl.jaas.config=a.PlainLoginModule required password="hush;`, "sasl.jaas.config",
			"quote",
		},
		"no semicolon": {
			login + `sasl.jaas.config=a.PlainLoginModule required password="hush"`, "sasl.jaas.config",
			"semicolon",
		},
		"other module": {
			login + `sasl.jaas.config=a.Krb5LoginModule required hush="x";`, "sasl.jaas.config",
			"login module",
		},
		"other option": {
			login + `sasl.jaas.config=a.PlainLoginModule required hush="x";`, "sasl.jaas.config",
			"password, username",
		},
		"no value": {
			login + `sasl.jaas.config=a.PlainLoginModule required hush hush hush;`, "sasl.jaas.config",
			"form",
		},
		"delegation token": {
			login + `sasl.jaas.config=a.ScramLoginModule required tokenauth=true;`, "sasl.jaas.config",
			"delegation",
		},
		"handler": {
			"sasl.login.callback.handler.class=a.B", "sasl.login.callback.handler.class",
			"--sasl-token-file",
		},
		"no PEM":        {"ssl.truststore.certificates=hush", "ssl.truststore.certificates", "BEGIN"},
		"broken escape": {`sasl.jaas.config=\uhush`, "the file", "escape"},
	} {
		_, err := properties.Parse(c.file)
		switch {
		case err == nil:
			t.Errorf("%s: no error", name)
		case !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v, want %q and %q", name, err, c.key, c.says)
		case strings.Contains(err.Error(), "hush"):
			t.Errorf("%s: the error shows the value: %v", name, err)
		}
	}
}

// Whatever is in a file, nothing panics, and no error shows a value that is a password.
func FuzzParse(f *testing.F) {
	f.Add("sasl.password", "zq1")
	f.Add("sasl.jaas.config", `a.PlainLoginModule required username="zq1`)
	f.Add("ssl.key.pem", `-----BEGIN X-----\nzq1`)
	secrets := []string{"sasl.password", "sasl.jaas.config", "ssl.keystore.key", "ssl.key.pem", "ssl.key.password"}
	f.Fuzz(func(t *testing.T, key, value string) {
		if strings.ContainsAny(key, "\n\r\\") || strings.ContainsAny(value, "\n\r") {
			return
		}
		_, err := properties.Parse(key + "=" + value)
		if err != nil && len(value) > 2 && strings.Contains(value, "zq1") && slices.Contains(secrets, key) &&
			strings.Contains(err.Error(), "zq1") {
			t.Errorf("the error shows it: %v", err)
		}
	})
}
