package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"chronos/node/broker/kafka"
	"chronos/node/credential"
)

// Connection returns how to connect to Kafka; without brokers where there is none.
func (s *Settings) Connection() (kafka.Connection, error) {
	if s.withoutKafka() {
		return kafka.Connection{}, nil
	}
	brokers := Value{Text: s.brokers.or(defaultBrokers)}
	config := kafka.Connection{ClientID: s.clientID.Text}
	var err error
	if config.TLS, err = s.tlsConfig(); err != nil {
		return config, err
	}
	if config.SASL, err = s.mechanism(); err != nil {
		return config, err
	}
	for _, address := range brokers.list() {
		if address, err = s.plainAddress(address, config.TLS != nil, config.SASL != nil); err != nil {
			return config, err
		}
		config.Brokers = append(config.Brokers, address)
	}
	if _, err := kafka.ConnectionOptions(config); err != nil {
		return config, s.explain(err, "")
	}
	return config, nil
}

// plainAddress returns the address of a broker without the protocol that Java's clients and librdkafka take before it,
// as in SASL_SSL://kafka-1:9093, and an error if that is not the one of the settings.
func (s *Settings) plainAddress(address string, encrypted, authenticated bool) (string, error) {
	name, rest, found := strings.Cut(address, "://")
	if !found {
		return address, nil
	}
	protocol := "PLAINTEXT"
	switch {
	case encrypted && authenticated:
		protocol = "SASL_SSL"
	case encrypted:
		protocol = "SSL"
	case authenticated:
		protocol = "SASL_PLAINTEXT"
	}
	switch upper := strings.ToUpper(name); {
	case !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, upper):
		return "", Usagef("%s is %s: it must be host:port, or begin with the protocol, PLAINTEXT://, SSL://, "+
			"SASL_PLAINTEXT:// or SASL_SSL://", s.brokers.Origin, Shown(address))
	case upper != protocol:
		return "", Usagef("%s is %s, but the other settings make it %s://: TLS is by --tls, and SASL by "+
			"--sasl-mechanism, or both by security.protocol of a properties file", s.brokers.Origin, Shown(address),
			protocol)
	}
	return rest, nil
}

// BrokersAreSet reports whether somebody has said where Kafka is.
func (s *Settings) BrokersAreSet() bool { return s.brokers.IsSet }

// tlsConfig returns how to encrypt a connection, with the files as they are then; nil for not at all.
func (s *Settings) tlsConfig() (func() (*tls.Config, error), error) {
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
	switch {
	case s.tlsCert.IsSet && !s.tlsKey.IsSet:
		return nil, Usagef("%s is set, but --tls-key is not: a certificate needs its key", s.tlsCert.Origin)
	case s.tlsKey.IsSet && !s.tlsCert.IsSet:
		return nil, Usagef("%s is set, but --tls-cert is not: a key needs its certificate", s.tlsKey.Origin)
	}
	config := func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12}, nil }
	if s.tlsCA.IsSet {
		roots, err := credential.New(s.keeper, s.tlsCA.authorities)
		if err != nil {
			return nil, err
		}
		before := config
		config = func() (*tls.Config, error) {
			c, err := before()
			c.RootCAs = roots.Get()
			return c, err
		}
	}
	if s.tlsCert.IsSet {
		pair, err := credential.New(s.keeper, s.pair)
		if err != nil {
			return nil, err
		}
		before := config
		config = func() (*tls.Config, error) {
			c, err := before()
			c.Certificates = []tls.Certificate{*pair.Get()}
			return c, err
		}
	}
	return config, nil
}

// pair returns the certificate of this client with its key.
func (s *Settings) pair() (*tls.Certificate, error) {
	certificate, err := s.tlsCert.read()
	if err != nil {
		return nil, err
	}
	key, err := s.tlsKey.read()
	if err != nil {
		return nil, err
	}
	pair, err := credential.Pair(certificate, key)
	if err != nil {
		from := s.tlsKey.Text
		if s.tlsKey.inline {
			from = s.tlsKey.Origin
		}
		return nil, s.tlsCert.Wrong("it must be a PEM file with the certificate to the key in " + from + ": " +
			err.Error())
	}
	return pair, nil
}

// mechanism returns how to authenticate; nil for not at all.
func (s *Settings) mechanism() (sasl.Mechanism, error) {
	if !s.saslMechanism.IsSet {
		for _, useless := range []*Value{
			&s.saslUsername, &s.saslPassword, &s.saslPasswordFile, &s.saslTokenFile, &s.saslTokenURL, &s.saslScope,
		} {
			if useless.IsSet {
				return nil, Usagef("%s is set, but --sasl-mechanism is not: "+
					"it must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER", useless.Origin)
			}
		}
		return nil, nil
	}
	name := s.saslMechanism.Text
	if name == "OAUTHBEARER" {
		return s.tokenMechanism()
	}
	for _, useless := range []*Value{&s.saslTokenFile, &s.saslTokenURL, &s.saslScope} {
		if useless.IsSet {
			return nil, Usagef("%s is set, but %s is %s: only OAUTHBEARER has tokens",
				useless.Origin, s.saslMechanism.Origin, name)
		}
	}
	login, err := s.login()
	if err != nil {
		return nil, err
	}
	scramAuth := func(context.Context) (scram.Auth, error) {
		now := login.Get()
		return scram.Auth{User: now.user, Pass: now.password}, nil
	}
	switch name {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			now := login.Get()
			return plain.Auth{User: now.user, Pass: now.password}, nil
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(scramAuth), nil
	default:
		return scram.Sha512(scramAuth), nil
	}
}

// login is a user with the password.
type login struct{ user, password string }

// login returns the user and the password, which are read for each connection.
func (s *Settings) login() (*credential.Source[login], error) {
	name := s.saslMechanism.Text
	if err := exclude(&s.saslPassword, &s.saslPasswordFile); err != nil {
		return nil, err
	}
	switch {
	case s.saslUsername.Text == "":
		return nil, Usagef("%s is %s, but --sasl-username is not set", s.saslMechanism.Origin, name)
	case s.saslPassword.Text == "" && !s.saslPasswordFile.IsSet:
		return nil, Usagef(
			"%s is %s, but neither --sasl-password nor --sasl-password-file is set", s.saslMechanism.Origin, name)
	}
	return credential.New(s.keeper, func() (now login, err error) {
		if now.user, err = s.saslUsername.current(); err != nil {
			return now, err
		}
		if s.saslPasswordFile.IsSet {
			now.password, err = s.saslPasswordFile.fileSecret()
		} else {
			now.password, err = s.saslPassword.current()
		}
		return now, err
	})
}

// tokenMechanism returns how to authenticate with a token.
func (s *Settings) tokenMechanism() (sasl.Mechanism, error) {
	if err := exclude(&s.saslTokenFile, &s.saslTokenURL); err != nil {
		return nil, err
	}
	switch {
	case s.saslTokenFile.IsSet:
		for _, useless := range []*Value{&s.saslUsername, &s.saslPassword, &s.saslPasswordFile, &s.saslScope} {
			if useless.IsSet {
				return nil, Usagef("%s is set, but the token is in %s: it is for --sasl-token-url",
					useless.Origin, s.saslTokenFile.Origin)
			}
		}
		token, err := credential.New(s.keeper, s.saslTokenFile.fileSecret)
		if err != nil {
			return nil, err
		}
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: token.Get()}, nil }),
			nil
	case s.saslTokenURL.IsSet:
		login, err := s.login()
		if err != nil {
			return nil, err
		}
		endpoint, err := s.tokenEndpoint(login)
		if err != nil {
			return nil, err
		}
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := endpoint.token(ctx)
			return oauth.Auth{Token: token}, err
		}), nil
	default:
		return nil, Usagef("%s is OAUTHBEARER, but neither --sasl-token-file nor --sasl-token-url is set",
			s.saslMechanism.Origin)
	}
}

// current returns the text of a value, from where it is kept if that may change.
func (v *Value) current() (string, error) {
	if v.again == nil {
		return v.Text, nil
	}
	return v.again()
}

// read returns what is in the file that v names, or in v itself.
func (v *Value) read() ([]byte, error) {
	if v.inline {
		text, err := v.current()
		return []byte(text), err
	}
	content, err := credential.ReadFile(v.Text)
	if err != nil {
		return nil, v.Wrong("it must be a file that can be read: " + reasonOf(err))
	}
	return content, nil
}

// fileSecret returns the password or token in the file that v names.
func (v *Value) fileSecret() (string, error) {
	if _, err := v.read(); err != nil {
		return "", err
	}
	secret, err := credential.Secret(v.Text)
	if err != nil {
		return "", v.Wrong("it must be a file with a secret in it: " + err.Error())
	}
	return secret, nil
}

// number returns the value as a number.
func (v *Value) number(most int) (int, error) {
	var n int
	if _, err := fmt.Sscanf(v.Text+";", "%d;", &n); err != nil || n < 0 || n > most {
		return 0, v.Wrong("it must be a number")
	}
	return n, nil
}
