package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chronos/node/service"
)

// Goal: a node runs without Kafka if it serves the API and nothing says that there is a Kafka, or if the settings say
// so outright; and settings that contradict each other are refused with the names of both.
func TestWithoutKafka(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "chronos.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const api = "api-listen=127.0.0.1:0"
	for _, c := range []struct {
		flags   string
		without bool
		wrong   string // a part of the error
	}{
		{"", false, ""},
		{api, true, ""},
		{api + " brokers=none", true, ""},
		{api + " admin-listen=127.0.0.1:0 max-delay=1h hold-time=10s", true, ""},
		{api + " brokers=localhost:9092", false, ""},
		{api + " output-topic=out", false, ""},
		{api + " group=x", false, ""},
		{api + " config=" + file("routes: [{input: in, output: out}]"), false, ""},
		{api + " config=" + file("lanes: [{name: http:a, dead-letter: http:b}, {name: http:b, url: "+
			"'https://b'}]"), true, ""},
		{"api-listen=off", false, ""},
		{"brokers=none", false, "api-listen is not set"},
		{api + " brokers=none input-topic=in", false, "--input-topic is set"},
		{api + " brokers=none config=" + file("routes: [{input: in, output: out}]"), false, "routes is set"},
		{api + " config=" + file("lanes: [{name: http:a, dead-letter: dead}]"), false, "there is no Kafka"},
		{"api-listen=0.0.0.0:0", false, "a token is needed"},
		{"api-listen=nonsense", false, "it must be HOST:PORT"},
		{"api-rate=5", false, "set api-listen"},
		{api + " api-rate=-5", false, "a number from 0"},
		{api + " api-max-bytes=10", false, "a number from 1024"},
		{api + " api-token-file=/no/such/file", false, "--api-token-file is /no/such/file"},
		{api + " api-tls-cert=x", false, "a certificate and its key"},
	} {
		flags := map[string]service.Value{"store": service.FlagValue("store", "sqlite:x.db")}
		for flag := range strings.FieldsSeq(c.flags) {
			name, value, _ := strings.Cut(flag, "=")
			flags[name] = service.FlagValue(name, value)
		}
		settings, err := service.Read(service.Run, flags, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.flags, err)
		}
		config, err := settings.Config()
		_, usage := errors.AsType[*service.UsageError](err)
		switch {
		case c.wrong != "" && (!usage || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want an error with %q", c.flags, err, c.wrong)
		case c.wrong == "" && (err != nil || config.WithoutKafka() != c.without):
			t.Errorf("%s: without Kafka: %v, %v; want %v", c.flags, config.WithoutKafka(), err, c.without)
		case c.wrong == "" && (len(config.Node.Routes) > 0) == c.without:
			t.Errorf("%s: routes %v", c.flags, config.Node.Routes)
		}
	}
}
