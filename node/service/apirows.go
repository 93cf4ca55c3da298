package service

import (
	"errors"
	"fmt"
	"strconv"

	"chronos/node"
	"chronos/node/api"
)

// DefaultAPI is where the API of chronos dev is, if nobody says otherwise and the port is free.
const DefaultAPI = "127.0.0.1:8081"

// The limits of the API, if nobody says otherwise.
const (
	defaultAPIRate = 1000
	maxAPIBytes    = 64 << 20
)

// apiRows are the settings of the API for applications. A node has none unless it is told to, like the listener for
// operators.
func apiRows() []Setting {
	rows := []Setting{
		{
			Name: "api-listen", Commands: Run | Dev | Operate, PlaceHolder: "HOST:PORT", Default: adminOff,
			DevDefault: DefaultAPI + ", or a free port if that is taken",
			Help: "Address to take messages in on, by HTTP; off for none. Port 0 takes a free one. Addresses that " +
				"other " +
				"machines reach need api-token-file. A node that serves the API, and of which nothing says that " +
				"there is a " +
				"Kafka (neither brokers nor topics are set), runs without Kafka.",
			Allowed: "HOST:PORT, or off", value: func(s *Settings) *Value { return &s.apiListen },
			logged: loggedAlways, inForce: func(c *Config) any {
				if c.API.Listen == "" {
					return adminOff
				}
				return c.API.Listen
			},
		},
		{
			Name: "api-token-file", Commands: Run | Operate, PlaceHolder: "FILE",
			Help: "File with the token that the API asks for, as Authorization: Bearer TOKEN; or with several, each " +
				"on a line " +
				"with a name and scopes before it: NAME SCOPES TOKEN, such as \"orders read:orders.*,write:orders.* " +
				"7Gq...\". " +
				"Scopes are read and write, for all lanes, or for one or some of them; rate=N and waiting=N are " +
				"limits of a " +
				"token. Read again when it changes.",
			value: func(s *Settings) *Value { return &s.apiTokenFile },
		},
		{
			Name: "api-tls-cert", Commands: Run | Operate, PlaceHolder: "FILE",
			Help:  "PEM file with the certificate of the API, which then speaks HTTPS; read again when it changes.",
			value: func(s *Settings) *Value { return &s.apiTLSCert },
		},
		{
			Name: "api-tls-key", Commands: Run | Operate, PlaceHolder: "FILE", Help: "PEM file with the key to that " +
				"certificate.",
			value: func(s *Settings) *Value { return &s.apiTLSKey },
		},
		{
			Name: "api-max-bytes", Commands: Run, PlaceHolder: "N", Default: strconv.Itoa(api.DefaultBytes),
			Help:    "The most bytes that the body of a request may have. max-message-bytes bounds the message in it.",
			Allowed: fmt.Sprintf("a number from 1024 to %d", maxAPIBytes),
			value:   func(s *Settings) *Value { return &s.apiMaxBytes },
		},
		{
			Name: "api-rate", Commands: Run, PlaceHolder: "N", Default: strconv.Itoa(defaultAPIRate),
			Help: "How many requests a second one token may make on each node, if it has no rate=N of its own; 0 for " +
				"any " +
				"number. More are answered with 429.",
			Allowed: "a number from 0 to 1000000", value: func(s *Settings) *Value { return &s.apiRate },
		},
		{
			Name: "api-waiting", Commands: Run, PlaceHolder: "N", Default: "0",
			Help: "How many messages may wait on the lanes that a token may write to, when it brings another, if it " +
				"has no " +
				"waiting=N of its own; 0 for any number. They are counted every other second, above 10000 by estimate.",
			Allowed: "a number from 0 to 1000000000", value: func(s *Settings) *Value { return &s.apiWaiting },
		},
		{
			Name: "request-secret-file", Commands: Run | Operate, PlaceHolder: "FILE",
			Help: "With a journal: file with the secret that all nodes share, of 32 characters or more, by which " +
				"they know the requests by HTTP that they send each other through Kafka. A second line is a secret " +
				"that is accepted as well, while it is replaced.",
			value: func(s *Settings) *Value { return &s.requestSecretFile },
		},
	}
	for i := range rows {
		rows[i].Group = "api"
	}
	return rows
}

// servesAPI reports whether the API is asked for.
func (s *Settings) servesAPI() bool {
	listen := s.apiListen.or(adminOff)
	return listen != adminOff && listen != ""
}

// API returns the API that the settings ask for; its Listen is empty for none. fallback is the address if none is set.
// It reads the files, so that a mistake in them is told before anything begins.
func (s *Settings) API(fallback string) (api.Config, error) {
	config := api.Config{
		Listen: s.apiListen.or(fallback), TokenFile: s.apiTokenFile.Text, CertFile: s.apiTLSCert.Text,
		KeyFile: s.apiTLSKey.Text, Limits: api.Limits{Rate: defaultAPIRate, Bytes: api.DefaultBytes},
	}
	if config.Listen == "" || config.Listen == adminOff {
		for _, v := range []*Value{
			&s.apiTokenFile, &s.apiTLSCert, &s.apiTLSKey, &s.apiMaxBytes, &s.apiRate, &s.apiWaiting,
		} {
			if v.IsSet {
				return api.Config{}, Usagef("%s is set, but there is no API that it could be for: set "+
					"api-listen", v.Origin)
			}
		}
		return api.Config{}, nil
	}
	var bytes int
	for _, limit := range []struct {
		setting     *Value
		target      *int
		least, most int
	}{
		{&s.apiMaxBytes, &bytes, 1 << 10, maxAPIBytes},
		{&s.apiRate, &config.Limits.Rate, 0, 1_000_000},
		{&s.apiWaiting, &config.Limits.Waiting, 0, 1_000_000_000},
	} {
		if !limit.setting.IsSet {
			continue
		}
		n, err := limit.setting.number(limit.most)
		if err != nil || n < limit.least {
			return config, limit.setting.Wrong(fmt.Sprintf("it must be a number from %d to "+
				"%d", limit.least, limit.most))
		}
		*limit.target = n
	}
	if bytes > 0 {
		config.Limits.Bytes = int64(bytes)
	}
	_, err := api.New(config)
	wrong, is := errors.AsType[*node.ConfigError](err)
	if !is {
		return config, err
	}
	v := map[string]*Value{
		"Listen": &s.apiListen, "TokenFile": &s.apiTokenFile, "CertFile": &s.apiTLSCert,
	}[wrong.Setting]
	if !v.IsSet {
		return config, Usagef("%s is %s by default: %s", v.Origin, wrong.Value, wrong.Allowed)
	}
	return config, v.Wrong(wrong.Allowed)
}

// APIIsSet reports whether somebody has said where the API is to listen.
func (s *Settings) APIIsSet() bool { return s.apiListen.IsSet }
