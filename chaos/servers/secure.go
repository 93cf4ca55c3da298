package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Authority signs certificates for servers on this machine and for their clients. Nobody else trusts it.
type Authority struct {
	PEM string // its own certificate

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes one.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	a := &Authority{PEM: encode("CERTIFICATE", der), key: key}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	return a, nil
}

// Issue returns a certificate for a name, which serves for 127.0.0.1 as well, and its key, in PEM form.
func (a *Authority) Issue(name string) (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("issue a certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return "", "", fmt.Errorf("issue a certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return "", "", fmt.Errorf("issue a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("issue a certificate: %w", err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret), nil
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// secureListeners are those that ask for TLS and for who somebody is.
const (
	secureListener = "SECURE" // SASL_SSL: a password or a token
	mutualListener = "MUTUAL" // SSL: a certificate
)

// secureSettings returns the properties of a broker that let its users in by SECURE and MUTUAL, and have it ask for
// each request whether they may. Whoever comes by another listener may do everything.
func secureSettings(authority *Authority, users map[string]string) (map[string]string, error) {
	certificate, key, err := authority.Issue("broker")
	if err != nil {
		return nil, err
	}
	const scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	var jaas strings.Builder
	jaas.WriteString("org.apache.kafka.common.security.plain.PlainLoginModule required")
	for _, name := range slices.Sorted(maps.Keys(users)) {
		fmt.Fprintf(&jaas, " user_%s=%q", name, users[name])
	}
	properties := map[string]string{
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":           "User:ANONYMOUS",
	}
	for _, listener := range []string{secureListener, mutualListener} {
		prefix := "listener.name." + strings.ToLower(listener) + "."
		for name, value := range map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key,
			"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.PEM,
		} {
			properties[prefix+name] = strings.ReplaceAll(value, "\n", `\n`)
		}
	}
	maps.Copy(properties, map[string]string{
		// A password that was replaced soon ceases to serve, also on connections that are there.
		"listener.name.secure.connections.max.reauth.ms":      "2000",
		"listener.name.mutual.ssl.client.auth":                "required",
		"listener.name.mutual.ssl.principal.mapping.rules":    "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
		"listener.name.secure.sasl.enabled.mechanisms":        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		"listener.name.secure.plain.sasl.jaas.config":         jaas.String() + ";",
		"listener.name.secure.scram-sha-256.sasl.jaas.config": scram,
		"listener.name.secure.scram-sha-512.sasl.jaas.config": scram,
		// Tokens are not signed: the broker believes whatever they say.
		"listener.name.secure.oauthbearer.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer." +
			`OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
	})
	return properties, nil
}

// The files of a Postgres with TLS, in its folder.
const (
	certificateFile = "server.crt"
	keyFile         = "server.key"
	authorityFile   = "ca.crt"
	hbaFile         = "hba.conf"
)

// hba says who is let in how: the role mutual by a certificate for that name, the superuser in any way, and all others
// by password and with TLS.
const hba = `hostssl all mutual  127.0.0.1/32 cert
host    all chronos 127.0.0.1/32 scram-sha-256
hostssl all all     127.0.0.1/32 scram-sha-256
`

// tlsSettings returns the settings of a Postgres with the files in dir.
func tlsSettings(dir string) map[string]string {
	return map[string]string{
		"ssl":           "on",
		"ssl_cert_file": filepath.Join(dir, certificateFile),
		"ssl_key_file":  filepath.Join(dir, keyFile),
		"ssl_ca_file":   filepath.Join(dir, authorityFile),
		"hba_file":      filepath.Join(dir, hbaFile),
	}
}

// writeTLS writes these files.
func writeTLS(dir string, authority *Authority) error {
	certificate, key, err := authority.Issue("database")
	if err != nil {
		return err
	}
	who, err := PostgresUser()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		certificateFile: certificate, keyFile: key, authorityFile: authority.PEM, hbaFile: hba,
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the files of Postgres: %w", err)
		}
		if who != nil {
			if err := os.Chown(file, int(who.Uid), int(who.Gid)); err != nil {
				return fmt.Errorf("give Postgres its files: %w", err)
			}
		}
	}
	return nil
}
