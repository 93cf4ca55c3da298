package main

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"chronos/node/broker/kafka"
)

// connection returns how to connect to Kafka.
func (s *kafkaSettings) connection() (kafka.Config, error) {
	brokers := setting{text: s.Brokers.or(defaultBrokers)}
	config := kafka.Config{Brokers: brokers.list()}
	var err error
	if config.TLS, err = s.tlsConfig(); err != nil {
		return config, err
	}
	if config.SASL, err = s.mechanism(); err != nil {
		return config, err
	}
	if _, err := kafka.ConnectionOptions(config); err != nil {
		return config, explain(err, map[string]*setting{"Brokers": &s.Brokers})
	}
	return config, nil
}

// tlsConfig returns how to encrypt; nil for not at all.
func (s *kafkaSettings) tlsConfig() (*tls.Config, error) {
	wanted, err := s.TLS.value()
	if err != nil {
		return nil, err
	}
	for _, implies := range []*setting{&s.TLSCA, &s.TLSCert, &s.TLSKey} {
		if implies.isSet && s.TLS.isSet && !wanted {
			return nil, usagef("%s is set, but %s is false: it needs TLS", implies.origin, s.TLS.origin)
		}
		wanted = wanted || implies.isSet
	}
	if !wanted {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.TLSCA.isSet {
		pem, err := s.TLSCA.read()
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, s.TLSCA.wrong("it must be a file with a certificate in PEM form")
		}
	}
	switch {
	case s.TLSCert.isSet && !s.TLSKey.isSet:
		return nil, usagef("%s is set, but --tls-key is not: a certificate needs its key", s.TLSCert.origin)
	case s.TLSKey.isSet && !s.TLSCert.isSet:
		return nil, usagef("%s is set, but --tls-cert is not: a key needs its certificate", s.TLSKey.origin)
	case s.TLSCert.isSet:
		cert, err := s.TLSCert.read()
		if err != nil {
			return nil, err
		}
		key, err := s.TLSKey.read()
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, s.TLSCert.wrong(
				"it must be a PEM file with the certificate to the key in " + s.TLSKey.text + ": " + err.Error())
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// mechanism returns how to authenticate; nil for not at all.
func (s *kafkaSettings) mechanism() (sasl.Mechanism, error) {
	if !s.SASLMechanism.isSet {
		for _, useless := range []*setting{&s.SASLUsername, &s.SASLPassword, &s.SASLPasswordFile} {
			if useless.isSet {
				return nil, usagef("%s is set, but --sasl-mechanism is not: "+
					"it must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", useless.origin)
			}
		}
		return nil, nil
	}
	name, err := s.SASLMechanism.choice("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	if err != nil {
		return nil, err
	}
	if err := exclude(&s.SASLPassword, &s.SASLPasswordFile); err != nil {
		return nil, err
	}
	user, password := s.SASLUsername.text, s.SASLPassword.text
	if s.SASLPasswordFile.isSet {
		if password, err = s.SASLPasswordFile.secret(); err != nil {
			return nil, err
		}
	}
	switch {
	case user == "":
		return nil, usagef("%s is %s, but --sasl-username is not set", s.SASLMechanism.origin, name)
	case password == "":
		return nil, usagef(
			"%s is %s, but neither --sasl-password nor --sasl-password-file is set", s.SASLMechanism.origin, name)
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
