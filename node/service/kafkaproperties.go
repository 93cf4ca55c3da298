package service

import (
	"errors"
	"fmt"
	"slices"

	"chronos/node/credential"
	"chronos/node/service/properties"
)

// readProperties takes what the file of --kafka-properties says for the settings that nobody has set. It is read again
// for each connection, as far as there are secrets in it.
func (s *Settings) readProperties() error {
	v := &s.kafkaProperties
	if !v.IsSet {
		return nil
	}
	if _, err := v.read(); err != nil {
		return err // it names the setting
	}
	client, err := propertiesOf(v.Text)
	if err != nil {
		return Usagef("%v", err)
	}
	s.ignoredProperties = client.Ignored
	// What somebody has set otherwise counts, and then nothing of the file that says the same in another way.
	authorities := []*Value{&s.tlsCA}
	identity := []*Value{&s.tlsCert, &s.tlsKey}
	login := []*Value{&s.saslPassword, &s.saslPasswordFile, &s.saslTokenFile}
	anySet := func(settings []*Value) bool {
		return slices.ContainsFunc(settings, func(v *Value) bool { return v.IsSet })
	}
	hasAuthorities, hasIdentity, hasLogin := anySet(authorities), anySet(identity), anySet(login)
	for _, one := range []struct {
		target *Value
		of     func(*properties.Client) *properties.Value
		inline bool
		except bool
	}{
		{target: &s.brokers, of: func(c *properties.Client) *properties.Value { return &c.Brokers }},
		{target: &s.clientID, of: func(c *properties.Client) *properties.Value { return &c.ClientID }},
		{target: &s.group, of: func(c *properties.Client) *properties.Value { return &c.Group }},
		{target: &s.tls, of: func(c *properties.Client) *properties.Value { return &c.TLS }},
		{&s.tlsCA, func(c *properties.Client) *properties.Value { return &c.CA }, false, hasAuthorities},
		{&s.tlsCA, func(c *properties.Client) *properties.Value { return &c.CAInline }, true, hasAuthorities},
		{&s.tlsCert, func(c *properties.Client) *properties.Value { return &c.Certificate }, false, hasIdentity},
		{&s.tlsCert, func(c *properties.Client) *properties.Value { return &c.CertificateInline }, true, hasIdentity},
		{&s.tlsKey, func(c *properties.Client) *properties.Value { return &c.PrivateKey }, false, hasIdentity},
		{&s.tlsKey, func(c *properties.Client) *properties.Value { return &c.PrivateKeyInline }, true, hasIdentity},
		{target: &s.saslMechanism, of: func(c *properties.Client) *properties.Value { return &c.Mechanism }},
		{target: &s.saslUsername, of: func(c *properties.Client) *properties.Value { return &c.Username }},
		{&s.saslPassword, func(c *properties.Client) *properties.Value { return &c.Password }, false, hasLogin},
		{
			&s.saslTokenURL, func(c *properties.Client) *properties.Value { return &c.TokenURL }, false,
			s.saslTokenFile.IsSet,
		},
		{target: &s.saslScope, of: func(c *properties.Client) *properties.Value { return &c.Scope }},
	} {
		said := one.of(client)
		if one.target.IsSet || one.except || !said.IsSet() {
			continue
		}
		*one.target = Value{
			Text: said.Text, Origin: fmt.Sprintf("%s:%d: %s", v.Text, said.Line, said.Key), IsSet: true,
			inline: one.inline, secret: one.target == &s.saslPassword,
			again: func() (string, error) {
				now, err := propertiesOf(v.Text)
				if err != nil {
					return "", err
				}
				if said := one.of(now); said.IsSet() {
					return said.Text, nil
				}
				return "", fmt.Errorf("%s does not say %s any more", v.Text, said.Key)
			},
		}
	}
	return nil
}

// propertiesOf reads a file of properties.
func propertiesOf(file string) (*properties.Client, error) {
	text, err := credential.ReadFile(file)
	if err != nil {
		return nil, err
	}
	client, err := properties.Parse(string(text))
	var wrong *properties.Error
	switch {
	case err == nil:
		return client, nil
	case errors.As(err, &wrong) && wrong.Line > 0:
		return nil, fmt.Errorf("%s:%d: %s %s", file, wrong.Line, wrong.Key, wrong.Sentence)
	default:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
}
