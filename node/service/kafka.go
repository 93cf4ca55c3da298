package service

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"chronos/node/broker/kafka"
)

// Connection returns how to connect to Kafka.
func (s *Settings) Connection() (kafka.Connection, error) {
	brokers := Value{Text: s.brokers.or(defaultBrokers)}
	config := kafka.Connection{Brokers: brokers.list()}
	var err error
	if config.TLS, err = s.tlsConfig(); err != nil {
		return config, err
	}
	if config.SASL, err = s.mechanism(); err != nil {
		return config, err
	}
	if _, err := kafka.ConnectionOptions(config); err != nil {
		return config, s.explain(err, "")
	}
	return config, nil
}

// tlsConfig returns how to encrypt; nil for not at all.
func (s *Settings) tlsConfig() (*tls.Config, error) {
	wanted := s.tls.on()
	for _, implies := range []*Value{&s.tlsCA, &s.tlsCert, &s.tlsKey} {
		if implies.IsSet && s.tls.IsSet && !wanted {
			return nil, Usagef("%s is set, but %s is false: it needs TLS", implies.Origin, s.tls.Origin)
		}
		wanted = wanted || implies.IsSet
	}
	if !wanted {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.tlsCA.IsSet {
		pem, err := s.tlsCA.read()
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, s.tlsCA.Wrong("it must be a file with a certificate in PEM form")
		}
	}
	switch {
	case s.tlsCert.IsSet && !s.tlsKey.IsSet:
		return nil, Usagef("%s is set, but --tls-key is not: a certificate needs its key", s.tlsCert.Origin)
	case s.tlsKey.IsSet && !s.tlsCert.IsSet:
		return nil, Usagef("%s is set, but --tls-cert is not: a key needs its certificate", s.tlsKey.Origin)
	case s.tlsCert.IsSet:
		cert, err := s.tlsCert.read()
		if err != nil {
			return nil, err
		}
		key, err := s.tlsKey.read()
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, s.tlsCert.Wrong(
				"it must be a PEM file with the certificate to the key in " + s.tlsKey.Text + ": " + err.Error())
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// mechanism returns how to authenticate; nil for not at all.
func (s *Settings) mechanism() (sasl.Mechanism, error) {
	if !s.saslMechanism.IsSet {
		for _, useless := range []*Value{&s.saslUsername, &s.saslPassword, &s.saslPasswordFile} {
			if useless.IsSet {
				return nil, Usagef("%s is set, but --sasl-mechanism is not: "+
					"it must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", useless.Origin)
			}
		}
		return nil, nil
	}
	name := s.saslMechanism.Text
	if err := exclude(&s.saslPassword, &s.saslPasswordFile); err != nil {
		return nil, err
	}
	user, password := s.saslUsername.Text, s.saslPassword.Text
	if s.saslPasswordFile.IsSet {
		var err error
		if password, err = s.saslPasswordFile.secret(); err != nil {
			return nil, err
		}
	}
	switch {
	case user == "":
		return nil, Usagef("%s is %s, but --sasl-username is not set", s.saslMechanism.Origin, name)
	case password == "":
		return nil, Usagef(
			"%s is %s, but neither --sasl-password nor --sasl-password-file is set", s.saslMechanism.Origin, name)
	}
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	default:
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
}
