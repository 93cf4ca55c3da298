package service_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/callback"
	"chronos/node/metaswitch"
	"chronos/node/service"
)

// Goal: the address may be said in short; a node that has no other way in runs without Kafka; and the lane of timers is
// served whether the file lists it or not: by its own entry, or else by that of all others, or else by the defaults.
func TestMetaswitch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags   string
		address string
		without bool   // Kafka
		wrong   string // a part of the error
	}{
		{"", "", false, ""},
		{"metaswitch-listen=off", "", false, ""},
		{"metaswitch-listen=on", "127.0.0.1:7253", true, ""},
		{"metaswitch-listen=10.0.0.1", "10.0.0.1:7253", true, ""},
		{"metaswitch-listen=localhost", "localhost:7253", true, ""},
		{"metaswitch-listen=::1", "[::1]:7253", true, ""},
		{"metaswitch-listen=[::1]", "[::1]:7253", true, ""},
		{"metaswitch-listen=[::1]:7254", "[::1]:7254", true, ""},
		{"metaswitch-listen=0.0.0.0:0", "0.0.0.0:0", true, ""},
		{"metaswitch-listen=:7253", ":7253", true, ""},
		{"metaswitch-listen=on brokers=none", "127.0.0.1:7253", true, ""},
		{"metaswitch-listen=on brokers=localhost:9092", "127.0.0.1:7253", false, ""},
		{"metaswitch-listen=host:", "", false, "--metaswitch-listen is host:: it must be HOST:PORT"},
		{"brokers=none", "", false, "nor metaswitch-listen"},
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
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want an error with %q", c.flags, err, c.wrong)
			}
			continue
		}
		if err != nil || config.Metaswitch != c.address || config.WithoutKafka() != c.without {
			t.Errorf("%s: %q, without Kafka: %v, %v", c.flags, config.Metaswitch, config.WithoutKafka(), err)
		}
		if served := config.Node.Serves(metaswitch.Lane); served != (c.address != "") {
			t.Errorf("%s: the lane is served: %v", c.flags, served)
		}
	}
	const own, others = "{name: http:metaswitch, allowed: [10.0.0.1]}", "{name: 'http:*', allowed: [10.0.0.2]}"
	for text, want := range map[string][]string{
		"lanes: [" + own + ", " + others + "]":             {"10.0.0.1"},
		"lanes: [" + others + "]":                          {"10.0.0.2"},
		"lanes: [{name: http:other, allowed: [10.0.0.3]}]": nil,
	} {
		settings, err := service.Read(service.Run, map[string]service.Value{
			"store":             service.FlagValue("store", "sqlite:x.db"),
			"metaswitch-listen": service.FlagValue("metaswitch-listen", "on"),
			"config":            service.FlagValue("config", written(t, text)),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := settings.Config()
		of := slices.IndexFunc(config.Callback.Lanes, func(l callback.Lane) bool {
			return l.Name == metaswitch.Lane
		})
		in := slices.IndexFunc(config.Node.Callbacks.Lanes, func(l node.CallbackLane) bool {
			return l.Name == metaswitch.Lane
		})
		if err != nil || of < 0 || in != of || !slices.Equal(config.Callback.Lanes[of].Allowed, want) {
			t.Errorf("%s: %+v, %v", text, config.Callback.Lanes, err)
		}
	}
}

// Goal: dead letters do not go where timers wait, since whoever sets a timer would name what waits there.
func TestDeadLettersAmongTimers(t *testing.T) {
	t.Parallel()
	lanes := "lanes: [{name: http:a, dead-letter: http:metaswitch}, {name: http:metaswitch, url: 'https://b'}]\n"
	for listen, want := range map[string]string{"off": "", "on": "dead letters need a lane of their own"} {
		settings, err := service.Read(service.Run, map[string]service.Value{
			"store":             service.FlagValue("store", "sqlite:x.db"),
			"metaswitch-listen": service.FlagValue("metaswitch-listen", listen),
			"config":            service.FlagValue("config", written(t, lanes)),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = settings.Config(); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("metaswitch-listen %s: %v, want an error with %q", listen, err, want)
		}
	}
}

// Goal: the time limit of lanes that are not listed makes the hold time of callbacks only where there may be such
// lanes: by that, what a killed node has claimed is late.
func TestCallbackHoldTime(t *testing.T) {
	t.Parallel()
	const s = time.Second
	route := func(text string) string { return "brokers: localhost:9092\nroutes: [{input: in, " + text + "}]\n" }
	timers, timer := "metaswitch-listen: on\n", "{name: http:metaswitch, timeout: 1s}"
	for _, c := range []struct {
		text  string
		limit time.Duration // and a second for waiting
	}{
		{timers, 15 * s},
		{timers + "lanes: [" + timer + "]", 1 * s},
		{timers + "lanes: [" + timer + ", {name: http:slow, timeout: 3s}]", 3 * s},
		{timers + "lanes: [" + timer + ", {name: 'http:*', timeout: 2s}]", 1 * s},
		{timers + "api-listen: 127.0.0.1:8081\nlanes: [" + timer + "]", 15 * s},
		{timers + "api-listen: 127.0.0.1:8081\nlanes: [" + timer + ", {name: 'http:*', timeout: 2s}]", 2 * s},
		{route("output: http:a") + "lanes: [{name: http:a, timeout: 1s}]", 1 * s},
		{route("output: http:b") + "lanes: [{name: http:a, timeout: 1s}]", 15 * s},
		{route("output: out, targets: ['http:a']") + "lanes: [{name: http:a, timeout: 1s}]", 1 * s},
		{route("output: out, targets: ['http:*']") + "lanes: [{name: http:a, timeout: 1s}]", 15 * s},
		{route("output: out, targets: ['http:*']") + "lanes: [{name: http:a, timeout: 1m}]", time.Minute},
	} {
		settings, err := service.Read(service.Run, map[string]service.Value{
			"store":  service.FlagValue("store", "sqlite:x.db"),
			"config": service.FlagValue("config", written(t, c.text)),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := settings.Config()
		if want := (c.limit + s) * 5 / 2; err != nil || config.Node.CallbackHoldTime() != want {
			t.Errorf("%s: %v, %v, want %v", c.text, config.Node.CallbackHoldTime(), err, want)
		}
	}
}

// written returns a file with a text.
func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "chronos.yaml")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
