package service

import (
	"net"
	"net/url"
	"strings"
)

// compatKindred is the value of compat for the environment of Kindred's chronos.
const compatKindred = "kindred"

// readCompat gives settings that nobody has set what the environment variables of another service say. What is written
// for us wins, wherever it stands.
func (s *Settings) readCompat(rows []Setting, environ []string) {
	if s.compat.Text != compatKindred {
		return
	}
	env := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	if s.storePasswordFile.IsSet {
		delete(env, "PG_PASSWORD") // that file has the password
	}
	theirs := kindred(env)
	if s.file != nil && s.file.routesOrigin != "" {
		delete(theirs, "input-topic")
		delete(theirs, "output-topic")
	}
	for i := range rows {
		v := rows[i].value(s)
		if value, there := theirs[rows[i].Name]; there && !v.IsSet {
			*v = value
		}
	}
}

// kindred returns the settings that the environment of Kindred's chronos has values for. Its times are left out: they
// are those of another algorithm, and two of them do not do what they are called.
func kindred(env map[string]string) map[string]Value {
	settings := map[string]Value{}
	set := func(name, variable, text string) {
		if text != "" {
			settings[name] = Value{Text: text, Origin: variable, IsSet: true}
		}
	}
	set("input-topic", "KAFKA_IN_TOPIC", env["KAFKA_IN_TOPIC"])
	set("output-topic", "KAFKA_OUT_TOPIC", env["KAFKA_OUT_TOPIC"])
	set("group", "KAFKA_GROUP_ID", env["KAFKA_GROUP_ID"])
	if env["KAFKA_HOST"] != "" {
		var brokers []string
		for host := range strings.SplitSeq(env["KAFKA_HOST"], ",") {
			brokers = append(brokers, net.JoinHostPort(strings.TrimSpace(host), env["KAFKA_PORT"])) // all have one port
		}
		set("brokers", "KAFKA_HOST with KAFKA_PORT", strings.Join(brokers, ","))
	}
	if env["KAFKA_USERNAME"] != "" && env["KAFKA_PASSWORD"] != "" { // one alone means none
		set("sasl-mechanism", "KAFKA_USERNAME", "SCRAM-SHA-512")
		set("sasl-username", "KAFKA_USERNAME", env["KAFKA_USERNAME"])
		set("sasl-password", "KAFKA_PASSWORD", env["KAFKA_PASSWORD"])
	}
	if env["PG_HOST"] != "" {
		store := url.URL{Scheme: "postgres", Host: env["PG_HOST"], Path: "/" + env["PG_DATABASE"]}
		if env["PG_PORT"] != "" {
			store.Host = net.JoinHostPort(env["PG_HOST"], env["PG_PORT"])
		}
		switch user, password := env["PG_USER"], env["PG_PASSWORD"]; {
		case password != "":
			store.User = url.UserPassword(user, password)
		case user != "":
			store.User = url.User(user)
		}
		set("store", "PG_HOST", store.String())
	}
	return settings
}
