package service

import (
	"strings"

	"chronos/node/admin"
)

// DefaultAdmin is where the listener of chronos dev is, if nobody says otherwise and the port is free.
const DefaultAdmin = "127.0.0.1:8080"

// adminOff is the value of admin-listen for no listener.
const adminOff = "off"

// adminRows are the settings of the listener. A node has none unless it is told to: nodes with the same settings can
// run on one machine, and only one of them could have a port; and a service opens no port that nobody has asked for.
func adminRows() []Setting {
	rows := []Setting{
		{
			Name: "admin-listen", Commands: Run | Dev | Probe | Examine, Reads: Ask | Cancel,
			PlaceHolder: "HOST:PORT", Default: adminOff,
			DevDefault: DefaultAdmin + ", or a free port if that is taken",
			Help: "Address to serve metrics and health on; off for none. Port 0 takes a free one. Addresses that " +
				"other machines reach need admin-token-file.",
			Allowed: "HOST:PORT, or off", field: "Listen",
			value:  func(s *Settings) *Value { return &s.adminListen },
			logged: loggedAlways, inForce: func(c *Config) any {
				if c.Admin.Listen == "" {
					return adminOff
				}
				return c.Admin.Listen
			},
		},
		{
			Name: "admin-token-file", Commands: Run | Examine, Reads: Ask | Cancel,
			PlaceHolder: "FILE", field: "TokenFile",
			Help: "File with the token that the API asks for, as Authorization: Bearer TOKEN; or with several, each " +
				"on a line with a name and rights before it: NAME RIGHTS TOKEN, such as \"ann read,control " +
				"7Gq...\". Read again when it changes. Metrics and probes need none.",
			value: func(s *Settings) *Value { return &s.adminTokenFile },
		},
		{
			Name: "admin-tls-cert", Commands: Run | Probe | Examine, Reads: Ask | Cancel,
			PlaceHolder: "FILE", field: "CertFile",
			Help: "PEM file with the certificate of the listener, which then speaks HTTPS; read again when it " +
				"changes.",
			value: func(s *Settings) *Value { return &s.adminTLSCert },
		},
		{
			Name: "admin-tls-key", Commands: Run | Examine, PlaceHolder: "FILE", field: "KeyFile",
			Help:  "PEM file with the key to that certificate.",
			value: func(s *Settings) *Value { return &s.adminTLSKey },
		},
	}
	rows = append(rows, Setting{
		Name: "admin-allow", Commands: Run | Dev | Examine, PlaceHolder: "RIGHT,...", Default: "read",
		DevDefault: "read,payload,control",
		Help: "What the API and the page allow: read; payload, to show the values of messages; control, to pause and " +
			"resume, and to cancel, reschedule and fire messages. A token may have less, see admin-token-file. " +
			"The former word for control was write, and is still understood.",
		Allowed: "some of read, payload and control, separated by commas",
		value:   func(s *Settings) *Value { return &s.adminAllow },
	})
	for i := range rows {
		rows[i].Group = "admin"
	}
	return rows
}

// Admin returns the listener that the settings ask for; its Listen is empty for none. fallback is the address if none
// is set. It reads the files, so that a mistake in them is told before anything begins.
func (s *Settings) Admin(fallback string) (admin.Config, error) {
	config := admin.Config{
		Listen: s.adminListen.or(fallback), TokenFile: s.adminTokenFile.Text,
		CertFile: s.adminTLSCert.Text, KeyFile: s.adminTLSKey.Text,
	}
	if err := s.rights(&config.Rights, fallback != ""); err != nil {
		return config, err
	}
	if config.Listen == "" || config.Listen == adminOff {
		for _, v := range []*Value{&s.adminTokenFile, &s.adminTLSCert, &s.adminTLSKey} {
			if v.IsSet {
				return admin.Config{}, Usagef("%s is set, but there is no listener that it could be for: "+
					"set admin-listen", v.Origin)
			}
		}
		return admin.Config{}, nil
	}
	if _, err := admin.New(config); err != nil {
		return config, s.explain(err, "")
	}
	return config, nil
}

// rights sets what the API allows, which is all if nobody says anything and all is set.
func (s *Settings) rights(rights *admin.Rights, all bool) (err error) {
	if !s.adminAllow.IsSet {
		rights.Payload, rights.Control = all, all
		return nil
	}
	if len(s.adminAllow.list()) == 0 {
		return nil
	}
	if *rights, err = admin.ParseRights(strings.Join(s.adminAllow.list(), ",")); err != nil {
		return s.adminAllow.Wrong("it must be some of read, payload and control, separated by commas")
	}
	return nil
}

// AdminIsSet reports whether somebody has said where to listen.
func (s *Settings) AdminIsSet() bool { return s.adminListen.IsSet }
