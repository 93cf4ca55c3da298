package main_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	chronos "chronos/cmd/chronos"
)

// storeForms says what a store may be.
const storeForms = "it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, sqlite:FILE or journal:TOPIC"

// aStore is a store that needs not be there.
const aStore = "postgres://u@127.0.0.1:1/db"

// settings runs "chronos run" just long enough for it to log its settings, and returns them.
func settings(t *testing.T, args ...string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := runUntil(ctx, "", append([]string{"run"}, args...)...)
	if got.code != 0 {
		t.Fatalf("chronos run %q exits with %d: %s", args, got.code, got.stderr)
	}
	first, _, _ := strings.Cut(got.stderr, "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(first), &line); err != nil || line["msg"] != "starting" {
		t.Fatalf("the first line of the log is %q (%v)", first, err)
	}
	return line
}

func TestDefaults(t *testing.T) {
	got := settings(t, "--store", aStore)
	for key, want := range map[string]any{
		"brokers":            "localhost:9092",
		"tls":                false,
		"group":              "chronos",
		"routes":             "chronos.in -> chronos.out",
		"store":              aStore,
		"timing_advance":     "0s",
		"hold_time":          "5s",
		"poll_interval":      "100ms",
		"detection_interval": "500ms",
		"lookahead":          "250ms",
		"leave_after":        "10s",
	} {
		if got[key] != want {
			t.Errorf("%s is %v by default, want %v", key, got[key], want)
		}
	}
}

// TestPrecedence sets one setting in all combinations of the three places.
func TestPrecedence(t *testing.T) {
	file := writeFile(t, "c.yaml", "hold-time: 7s\nstore: "+aStore+"\n")
	other := writeFile(t, "other.yaml", "store: "+aStore+"\n")
	for _, c := range []struct {
		flag, env, file, want string
	}{
		{"", "", other, "5s"},
		{"", "", file, "7s"},
		{"", "8s", other, "8s"},
		{"", "8s", file, "8s"},
		{"9s", "", other, "9s"},
		{"9s", "", file, "9s"},
		{"9s", "8s", other, "9s"},
		{"9s", "8s", file, "9s"},
	} {
		t.Setenv("CHRONOS_HOLD_TIME", c.env) // An empty variable counts as not set.
		args := []string{"--config", c.file}
		if c.flag != "" {
			args = append(args, "--hold-time", c.flag)
		}
		if got := settings(t, args...)["hold_time"]; got != c.want {
			t.Errorf("flag %q, variable %q, file %s: hold time is %v, want %s", c.flag, c.env, c.file, got, c.want)
		}
	}
}

func TestConfigFileByEnvironment(t *testing.T) {
	file := writeFile(t, "c.yaml", "group: orders\nstore: "+aStore+"\n")
	t.Setenv("CHRONOS_CONFIG", file)
	if got := settings(t); got["group"] != "orders" || got["config"] != file {
		t.Errorf("group is %v, config is %v", got["group"], got["config"])
	}
}

func TestConfigFileForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want map[string]any
	}{
		"empty":    {"", map[string]any{"group": "chronos"}},
		"comments": {"# nothing\n---\n# here\n", map[string]any{"group": "chronos"}},
		"lists": {
			"brokers: [a:1, b:2]\nrelay-headers:\n  - chronosDeadline\n  - chronosMessageId\n",
			map[string]any{"brokers": "a:1,b:2", "relay_headers": "chronosDeadline,chronosMessageId"},
		},
		"list as text":  {"brokers: a:1, b:2\n", map[string]any{"brokers": "a:1,b:2"}},
		"with protocol": {"brokers: PLAINTEXT://a:1, plaintext://b:2\n", map[string]any{"brokers": "a:1,b:2"}},
		"with TLS":      {"tls: true\nbrokers: SSL://[::1]:1\n", map[string]any{"brokers": "[::1]:1"}},
		"alias":         {"input-topic: &t x.in\ngroup: *t\n", map[string]any{"group": "x.in"}},
		"numbers and booleans": {
			"group: 17\ncreate-topics: true\nmigrate: false\n",
			map[string]any{"group": "17", "create_topics": "true", "migrate": "false"},
		},
		"routes": {
			"routes:\n- {input: a.in, output: a.out, dead-letter: dead}\n- input: b.in\n  output: b.out\n",
			map[string]any{"routes": "a.in -> a.out, rejected -> dead; b.in -> b.out"},
		},
		"a route of another format": {
			"routes:\n- {input: a, format: amnesix, output: http:b, dead-letter: c}\n",
			map[string]any{"routes": "a -> http:b, in the format amnesix, rejected -> c"},
		},
		"routes with all that there is": {
			"routes:\n- {input: a, output: b, targets: [c, d], dead-letter: e, outcomes: f}\n",
			map[string]any{"routes": "a -> b, on request -> c or d, rejected -> e, outcomes -> f"},
		},
		"one route with all that there is": {
			"input-topic: a\noutput-topic: b\ntargets: c, d\ndead-letter-topic: e\noutcome-topic: f\n",
			map[string]any{"routes": "a -> b, on request -> c or d, rejected -> e, outcomes -> f"},
		},
		"compression of one route": {
			"compression: gzip\n",
			map[string]any{"routes": "chronos.in -> chronos.out, compressed by gzip"},
		},
		"compression of several": {
			"routes:\n- {input: a, output: b, compression: zstd}\n- {input: c, output: d, compression: none}\n",
			map[string]any{"routes": "a -> b, compressed by zstd; c -> d"},
		},
		"headers of all kinds": {
			"relay-headers: [chronosAction, chronosDelay, chronosNotAfter, chronosTopic, chronosConfirm]\n",
			map[string]any{"relay_headers": "chronosAction,chronosDelay,chronosNotAfter,chronosTopic,chronosConfirm"},
		},
		"auto": {"timing-advance: auto\n", map[string]any{"timing_advance": "auto"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := settings(t, "--store", aStore, "--config", writeFile(t, "c.yaml", c.text))
			for key, want := range c.want {
				if got[key] != want {
					t.Errorf("%s is %v, want %v", key, got[key], want)
				}
			}
		})
	}
}

// wrongValues are values that each setting cannot have, for those that cannot have every value.
func wrongValues() map[string]string {
	return map[string]string{
		"brokers": "localhost", "tls": "maybe", "tls-ca": "/no/such", "tls-cert": "/no/such", "tls-key": "/no/such",
		"sasl-mechanism": "NONE", "sasl-username": "u", "sasl-password": "p", "sasl-password-file": "/no/such",
		"store": "nowhere", "store-password-file": "/no/such", "pgbouncer": "maybe", "data-dir": "/set",
		"standby":     "maybe",
		"input-topic": "a b", "output-topic": "a b", "dead-letter-topic": "a b", "relay-headers": "x",
		"outcome-topic": "a b", "targets": "a,b c", "compression": "brotli",
		"epoch-deadlines": "days", "create-topics": "maybe", "create-partitions": "many", "migrate": "maybe",
		"timing-advance": "soon", "hold-time": "soon", "poll-interval": "soon", "idle-interval": "soon",
		"detection-interval": "soon", "lookahead": "soon", "leave-after": "soon", "session-timeout": "soon",
		"log-level": "loud", "log-format": "xml",
		"config": "/no/such", "admin-listen": "8080", "admin-token-file": "/no/such", "admin-tls-cert": "/no/such",
		"admin-tls-key": "/no/such", "admin-allow": "everything",
		"kafka-properties": "/no/such", "sasl-token-file": "/no/such", "sasl-token-url": "nowhere", "sasl-scope": "s",
		"max-message-bytes": "many", "max-headers": "many", "max-header-bytes": "many", "max-delay": "soon",
		"max-missed": "many",
		"api-listen": "8081", "api-token-file": "/no/such", "api-tls-cert": "/no/such", "api-tls-key": "/no/such",
		"api-max-bytes": "many", "api-rate": "many", "api-waiting": "many", "request-secret-file": "/no/such",
		"compat": "quartz", "metaswitch-listen": "a:b:c",
		"horae-listen": "a:b:c", "horae-url": "nowhere", "task-retention": "soon",
		"fetch-memory": "1000", "batch-memory": "3000000000", "http-memory": "1000",
		"group": "",                                   // every name is good
		"admin": "", "token-file": "", "admin-ca": "", // of commands that ask a node: TestWhereCommandsAsk
	}
}

// TestEverySettingInAllPlaces gives each setting a wrong value as a flag, a variable and a key of the file, and asks
// that the sentence names it as it was written there.
func TestEverySettingInAllPlaces(t *testing.T) {
	wrong := wrongValues()
	for name := range chronos.SettingNames() {
		value, known := wrong[name]
		if !known {
			t.Errorf("--%s is a setting that this test does not know", name)
		}
		if value == "" {
			continue
		}
		args := []string{"run"}
		if name != "store" {
			args = append(args, "--store", aStore)
		}
		expect := func(place, origin string, args ...string) {
			t.Helper()
			got := run(t, "", args...)
			if got.code != 2 || !strings.HasPrefix(got.stderr, "chronos: "+origin+" is ") ||
				strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
				t.Errorf("%s of %s: exit code %d, %q", place, name, got.code, got.stderr)
			}
		}
		expect("flag", "--"+name, append(args, "--"+name+"="+value)...)

		variable := "CHRONOS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		t.Setenv(variable, value)
		expect("variable", variable, args...)
		if err := os.Unsetenv(variable); err != nil { // Setenv puts back what was there.
			t.Fatal(err)
		}

		if name != "config" {
			file := writeFile(t, "c.yaml", "# one line\n"+name+": "+value+"\n")
			expect("key", file+":2: "+name, append(args, "--config", file)...)
		}
	}
}

// TestSentences holds every sentence about a wrong configuration. FILE stands for a file with the text given.
func TestSentences(t *testing.T) {
	secret := writeFile(t, "secret", "s3cret\n")
	empty := writeFile(t, "empty", "\n")
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args string // of "chronos run --store URL", unless it sets a store itself; separated by blanks
		env  string
		file string
		want string
	}{
		{args: "--hold-time 1s", want: "--hold-time is 1s: it must be 2.5s or more, " +
			"because four tenths of it limit a publish"},
		{args: "--hold-time 61m", want: "--hold-time is 61m: it must be 1h0m0s or less"},
		{args: "--hold-time 5", want: "--hold-time is 5: it must be a time such as 100ms, 1m30s or 1d12h"},
		{args: "--hold-time=", want: `--hold-time is "": it must be a time such as 100ms, 1m30s or 1d12h`},
		{args: "--timing-advance never", want: "--timing-advance is never: it must be a time such as 50ms, or auto"},
		{args: "--timing-advance=-1ms", want: "--timing-advance is -1ms: it must be from 0s to 10s"},
		{env: "CHRONOS_POLL_INTERVAL=2s", want: "CHRONOS_POLL_INTERVAL is 2s: it must be from 1ms to 1s, " +
			"a fifth of the hold time"},
		{file: "group: g\nlookahead: 1s\n", want: "FILE:2: lookahead is 1s: it must be from 0s to 999.999ms, " +
			"less than a fifth of the hold time, because claims are held for that long before they are published"},
		{args: "--detection-interval 1ms", want: "--detection-interval is 1ms: it must be from 10ms to 1h0m0s"},
		{args: "--fetch-memory 64MB", want: "--fetch-memory is 64MB: it must be a number from 1048576 to 2147483647"},
		{args: "--batch-memory 1000", want: "--batch-memory is 1000: it must be a number from 1048576 to 2147483647"},
		{args: "--leave-after 0s", want: "--leave-after is 0s: it must be from 1s to 1h0m0s"},

		{args: "--horae-listen 0.0.0.0:8015", want: "--horae-listen is 0.0.0.0:8015: it is no address that a " +
			"completion could be sent to: name one, or set horae-url"},
		{args: "--horae-url ftp://x", want: "--horae-url is ftp://x: it must be a URL such as " +
			"http://chronos.example:8015"},
		{args: "--task-retention 1s", want: "--task-retention is 1s: it must be from 1m to 3650d"},

		{args: "--brokers a:1,b", want: `--brokers is "b": it must be host:port: there is no port`},
		{args: "--brokers HTTP://a:1", want: `--brokers is HTTP://a:1: it must be host:port, or begin with the ` +
			`protocol, ` +
			`PLAINTEXT://, SSL://, SASL_PLAINTEXT:// or SASL_SSL://`},
		{args: "--brokers SASL_SSL://a:1", want: `--brokers is SASL_SSL://a:1, but the other settings make it ` +
			`PLAINTEXT://: TLS is by --tls, and SASL by --sasl-mechanism, or both by security.protocol of a ` +
			`properties file`},
		{args: "--brokers a:1,PLAINTEXT://b:2 --tls", want: `--brokers is PLAINTEXT://b:2, but the other settings ` +
			`make it SSL://: TLS is by --tls, and SASL by --sasl-mechanism, or both by security.protocol of a ` +
			`properties file`},
		{args: "--brokers=", want: `--brokers is empty: it must hold one address, host:port, or more`},
		{args: "--brokers a:99999", want: `--brokers is "a:99999": it must be host:port: ` +
			`the port is not a number from 1 to 65535`},
		{args: "--group=", want: `--group is "": it must name a consumer group`},
		{args: "--input-topic chronos.out", want: "--input-topic is chronos.out: the input and the output topic " +
			"must differ, because a message must not be submitted again by being delivered"},
		{args: "--input-topic a --output-topic a", want: "--output-topic is a: the input and the output topic " +
			"must differ, because a message must not be submitted again by being delivered"},
		{args: "--dead-letter-topic chronos.in", want: "--dead-letter-topic is chronos.in: it must not be the " +
			"input topic, because a rejected record must not be submitted again"},
		{args: "--dead-letter-topic chronos.out", want: "--dead-letter-topic is chronos.out: it must not be the " +
			"output topic, because rejected records and outcomes need topics of their own"},
		{args: "--outcome-topic chronos.in", want: "--outcome-topic is chronos.in: it must not be the input topic, " +
			"because an outcome is no submission"},
		{args: "--outcome-topic t --targets s,t", want: "--outcome-topic is t: it must not be the output topic or a " +
			"target, because rejected records and outcomes need topics of their own"},
		{args: "--outcome-topic d --dead-letter-topic d", want: "--outcome-topic is d: it must not be the " +
			"dead-letter topic, because rejected records and outcomes need topics of their own"},
		{args: "--targets chronos.in", want: "--targets is chronos.in: it must not be the input topic, because a " +
			"message must not be submitted again by being delivered"},
		{args: "--targets chronos.out", want: "--targets is chronos.out: it must not name the output topic, which a " +
			"record may name anyway"},
		{args: "--targets a,a", want: "--targets is a,a: a is there twice"},
		{args: "--targets a,chronos.*", want: `--targets is "a,chronos.*": it must not stand for chronos.in, because ` +
			"a message must not come out where records are read, rejected or answered"},
		{args: "--targets or*ders", want: `--targets is "or*ders": the name of a topic has 1 to 249 letters, digits, ` +
			"dots, underscores and hyphens; that of a callback lane http: and 1 to 240 of the same; a target may end " +
			"with a *, for all whose names begin so"},
		{args: "--output-topic a/b", want: "--output-topic is a/b: the name of a topic has 1 to 249 letters, digits, " +
			"dots, underscores and hyphens; that of a callback lane http: and 1 to 240 of the same"},
		{args: "--output-topic=..", want: "--output-topic is ..: the name of a topic has 1 to 249 letters, digits, " +
			"dots, underscores and hyphens; that of a callback lane http: and 1 to 240 of the same"},
		{args: "--input-topic=", want: `--input-topic is "": the name of a topic has 1 to 249 letters, digits, ` +
			"dots, underscores and hyphens"},
		{args: "--relay-headers chronosDeadline,x", want: "--relay-headers is chronosDeadline,x: it may name " +
			"some of chronosMessageId, chronosDeadline, chronosDelay, chronosNotAfter, chronosAction, chronosTopic, " +
			"chronosConfirm, chronosRepeat, chronosRepeatZone, chronosRepeatCount, chronosRepeatUntil, " +
			"chronosMissed; all other headers are relayed anyway"},
		{args: "--epoch-deadlines days", want: "--epoch-deadlines is days: it must be reject, seconds or milliseconds"},
		{args: "--create-partitions 0", want: "--create-partitions is 0: it must be a number from 1 to 10000"},
		{args: "--create-topics=perhaps", want: "--create-topics is perhaps: it must be true or false"},
		{args: "--log-level loud", want: "--log-level is loud: it must be debug, info, warn or error"},
		{args: "--log-format xml", want: "--log-format is xml: it must be text, json or auto"},

		{args: "--tls-ca " + missing, want: "--tls-ca is MISSING: it must be a file that can be read: " +
			"no such file or directory"},
		{args: "--tls-ca " + secret, want: "--tls-ca is SECRET: it must be a file with a certificate in PEM form"},
		{args: "--tls-cert " + secret, want: "--tls-cert is set, but --tls-key is not: a certificate needs its key"},
		{args: "--tls-key " + secret, want: "--tls-key is set, but --tls-cert is not: a key needs its certificate"},
		{args: "--tls-cert " + secret + " --tls-key " + secret, want: "--tls-cert is SECRET: it must be a PEM file " +
			"with the certificate to the key in SECRET: tls: failed to find any PEM data in certificate input"},
		{args: "--tls=false --tls-ca " + secret, want: "--tls-ca is set, but --tls is false: it needs TLS"},
		{args: "--sasl-mechanism GSSAPI", want: "--sasl-mechanism is GSSAPI: it must be PLAIN, SCRAM-SHA-256, " +
			"SCRAM-SHA-512 or OAUTHBEARER"},
		{args: "--sasl-mechanism PLAIN", want: "--sasl-mechanism is PLAIN, but --sasl-username is not set"},
		{args: "--sasl-mechanism PLAIN --sasl-username u", want: "--sasl-mechanism is PLAIN, but neither " +
			"--sasl-password nor --sasl-password-file is set"},
		{
			args: "--sasl-mechanism PLAIN --sasl-username u --sasl-password-file " + secret,
			env:  "CHRONOS_SASL_PASSWORD=x",
			want: "CHRONOS_SASL_PASSWORD and --sasl-password-file exclude each other: only one of them may be set",
		},
		{
			args: "--sasl-mechanism PLAIN --sasl-username u --sasl-password-file " + empty,
			want: "--sasl-password-file is EMPTY: it must be a file with a secret in it: the file EMPTY is empty",
		},
		{env: "CHRONOS_SASL_PASSWORD=x", want: "CHRONOS_SASL_PASSWORD is set, but --sasl-mechanism is not: " +
			"it must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"},

		{
			args: "--store=",
			want: `--store is "": it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, sqlite:FILE or journal:TOPIC`,
		},
		{args: "--store chronos.db", want: "--store is chronos.db: " +
			"it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, sqlite:FILE or journal:TOPIC"},
		{args: "--store sqlite:", want: "--store is sqlite:: " +
			"it must be sqlite:FILE, such as sqlite:chronos.db or sqlite:/var/lib/chronos.db"},
		{args: "--store sqlite::memory:", want: "--store is sqlite::memory:: " +
			"it must be sqlite:FILE, such as sqlite:chronos.db or sqlite:/var/lib/chronos.db"},
		{
			args: "--store mysql://u:hunter2@h/db",
			want: "--store is not the URL of a store (it is not shown, there may be " +
				"a password in it): " + storeForms,
		},
		{
			args: "--store host=h;password=hunter2",
			want: "--store is not the URL of a store (it is not shown, there may " +
				"be a password in it): " + storeForms,
		},
		{
			args: "--store postgres://u:hun/ter2@h/db",
			want: "--store is not a well-formed URL (it is not shown, there may " +
				"be a password in it): " + storeForms + ", " +
				"with special characters in the password written as %XX",
		},
		{
			args: "--store sqlite:x.db --store-password-file " + secret,
			want: "--store-password-file is set, but --store " +
				"is a SQLite file, which has no password",
		},
		{args: "--store postgres://u:p@h/db --store-password-file " + secret, want: "--store-password-file is set, " +
			"but there is a password in --store: only one of them may be set"},

		{args: "--store journal:", want: `--store is journal:: it must be journal:TOPIC, such as ` +
			"journal:chronos.journal: the name of a topic has 1 to 249 letters, digits, dots, underscores and hyphens"},
		{args: "--store journal:j", want: "--data-dir is not set: a node whose store is a journal needs a folder for " +
			"its local copy, such as /var/lib/chronos"},
		{args: "--data-dir /set", want: "--data-dir is set, but --store is no journal in Kafka: it is for the local " +
			"copy of one"},
		{args: "--standby", want: "--standby is set, but --store is no journal in Kafka: it is for the local copies " +
			"of one"},
		{args: "--store journal:chronos.in", want: "--store is journal:chronos.in: the journal must be a topic of " +
			"its own, where nothing else is read or written"},
		{args: "--store journal:j --pgbouncer", want: "--pgbouncer is set, but --store is a journal in Kafka, which " +
			"is reached as the brokers say"},
		{args: "--store journal:j --store-password-file " + secret, want: "--store-password-file is set, but --store " +
			"is a journal in Kafka, which is reached as the brokers say"},
		{
			args: "--store journal:j --brokers b:1 --metaswitch-listen 127.0.0.1:0",
			want: "--metaswitch-listen is set, and --store is " +
				"a journal in Kafka, which takes messages in through the input topic only: leave it out, or use a " +
				"database",
		},
		{args: "--store journal:j --api-listen 127.0.0.1:0", want: "--store is a journal in Kafka, and there is no " +
			"Kafka: set --brokers"},
		{
			args: "--store journal:j", file: "routes:\n- {input: a, output: b}\n- {input: c, output: d}\n",
			want: "FILE:1: routes has 2 input topics, and --store names one journal: name that of each, as in " +
				"journal:a=TOPIC,c=TOPIC; j belongs to the input topic that it was made for",
		},
		{
			args: "--store journal:a=j", file: "routes:\n- {input: a, output: b}\n- {input: c, output: d}\n",
			want: "--store names no journal for the input topic c, which FILE:1: routes has: add c=TOPIC",
		},
		{
			args: "--store journal:a=j,c=k,e=l", file: "routes:\n- {input: a, output: b}\n- {input: c, output: d}\n",
			want: "--store names a journal for the input topic e, which FILE:1: routes has not: nothing of it would " +
				"fire; keep the route until all of it has come out",
		},
		{
			args: "--store journal:a=j,c=j", file: "routes:\n- {input: a, output: b}\n- {input: c, output: d}\n",
			want: `--store is "journal:a=j,c=j": ` +
				"the input topics a and c must have a journal each, and not j together",
		},
		{
			args: "--store journal:a=j,a=k", file: "routes:\n- {input: a, output: b}\n- {input: c, output: d}\n",
			want: `--store is "journal:a=j,a=k": ` +
				"it names the input topic a twice",
		},
		{
			args: "--store journal:a=j,c=b", file: "routes:\n- {input: a, output: b}\n- {input: c, output: d}\n",
			want: `--store is "journal:a=j,c=b": ` +
				"the journal must be a topic of its own, where nothing else is read or " +
				"written",
		},
		{
			args: "--store journal:j --data-dir /set --output-topic http:b",
			file: "lanes:\n- {name: 'http:b', url: 'https://b.example', dead-letter: j}\n",
			want: "--store is journal:j: the journal must be a topic of its own, where nothing else is read or written",
		},
		{args: "--store journal:a=", want: `--store is "journal:a=": ` +
			"it must be journal:INPUT=TOPIC,INPUT=TOPIC: the " +
			"name of a topic has 1 to 249 letters, digits, dots, underscores and hyphens"},
		{
			args: "--store journal:a=j,c=k --data-dir /set",
			file: "routes:\n- {input: a, output: 'http:b'}\n- {input: c, output: d, targets: ['http:*']}\n" +
				"lanes:\n- {name: 'http:b', url: 'https://b.example', order: key}\n",
			want: "FILE:4: lanes has a lane with order: key, 2 input topics lead to callback lanes, and --store is a " +
				"journal for each of them, which does not know the messages of the others: set order: none, have one " +
				"input topic lead to callback lanes, or use a database",
		},
		{
			args: "--store journal:j --data-dir /set --output-topic http:b --api-listen 127.0.0.1:0",
			file: "lanes:\n- {name: 'http:b', url: 'https://b.example', order: key}\n",
			want: "FILE:1: lanes has a lane with order: key, --api-listen is set, and --store is a journal in Kafka, " +
				"in which a message by HTTP is in the partition of its id, and not of its key: set order: none, " +
				"leave --api-listen out, or use a database",
		},
		{
			args: "--store journal:j --data-dir /set --brokers b:1 --api-listen 127.0.0.1:0",
			want: "--api-listen is set, --store is a journal in Kafka, and --request-secret-file is not set: nodes " +
				"could not tell requests by HTTP from what others write to the input topic; make a file with openssl " +
				"rand -base64 32, and give it to all nodes",
		},
		{
			args: "--store sqlite:x --request-secret-file /no/such",
			want: "--request-secret-file is set, but --store is no journal in Kafka: it is for requests by HTTP with " +
				"one",
		},
		{
			args: "--store journal:j --data-dir /set --brokers b:1 --request-secret-file /dev/null",
			want: "--request-secret-file is /dev/null: it must have one secret, or two while it is replaced, each on " +
				"a line; it has 0",
		},

		{
			env: "CHRONOS_HOLD_TMIE=5s",
			want: "CHRONOS_HOLD_TMIE is set in the environment, but there is no such setting; " +
				"did you mean CHRONOS_HOLD_TIME?",
		},
		{env: "CHRONOS_NONSENSE=1", want: "CHRONOS_NONSENSE is set in the environment, but there is no such setting; " +
			`"chronos run --help" lists them`},

		{file: "group: a\nhold-tmie: 5s\n", want: `FILE:2: there is no setting "hold-tmie"; did you mean hold-time?`},
		{file: "nonsense: 5s\n", want: `FILE:1: there is no setting "nonsense"; "chronos run --help" lists them`},
		{file: "config: x\n", want: `FILE:1: there is no setting "config"; "chronos run --help" lists them`},
		{file: "group: a\n\ngroup: b\n", want: "FILE:3: group is there twice, first on line 1"},
		{file: "group:\n", want: "FILE:1: group has no value: give it one, or leave the line out"},
		{file: "group: {a: b}\n", want: "FILE:1: group is not a plain value or a list of them"},
		{file: "brokers: [a, [b]]\n", want: "FILE:1: brokers has an element that is not a plain value"},
		{file: "- group\n", want: `FILE:1: there must be settings, such as "group: chronos"`},
		{file: "group: a\n---\ngroup: b\n", want: "FILE has more than one YAML document: it may have one"},
		{file: "group: a\n b: [\n", want: "FILE:2: it is not YAML: mapping values are not allowed in this context"},
		{args: "--config " + missing, want: "--config is MISSING: no such file or directory"},

		{
			file: "routes: x\n",
			want: "FILE:1: routes is not a list: it must have an entry with the keys input, output, " +
				"targets, dead-letter, outcomes, format, window and compression for each route",
		},
		{file: "routes:\n- a\n", want: "FILE:2: there must be the keys input, output, targets, dead-letter, " +
			"outcomes, format, window and compression"},
		{
			file: "routes:\n- {input: a, output: http:b, format: amnesia}\n",
			want: "FILE:2: format is amnesia: it must be chronos, amnesix or etf1",
		},
		{
			file: "routes:\n- {input: a, output: b, format: amnesix}\n",
			want: "FILE:1: routes has input topic a of the format amnesix with the output b: its jobs are requests, " +
				"so the output must be a callback lane, http: and a name",
		},
		{file: "routes:\n- {input: a}\n", want: "FILE:2: output is not set: every route needs it"},
		{file: "routes:\n- {output: a}\n", want: "FILE:2: input is not set: every route needs it"},
		{file: "routes:\n- {inputs: a}\n", want: `FILE:2: there is no setting "inputs"; did you mean input?`},
		{
			file: "routes:\n- {input: a, output: b c}\n",
			want: `FILE:2: output is "b c": the name of a topic has 1 to 249 ` +
				"letters, digits, dots, underscores and hyphens; that of a callback lane http: and 1 to 240 of the " +
				"same",
		},
		{
			file: "routes:\n- {input: a, output: b}\n- {input: a, output: c}\n",
			want: "FILE:1: routes has input topic a " +
				"twice: an input topic has one route",
		},
		{
			file: "routes:\n- {input: a, output: b}\n- {input: b, output: c}\n",
			want: "FILE:1: routes has topic b both an " +
				"input and a target: a message must not be submitted again by being delivered",
		},
		{
			file: "routes:\n- {input: a, output: b, targets: ['a*']}\n",
			want: `FILE:1: routes has target of input topic a that stands for a: a message must not come out where ` +
				"records are read, rejected or answered",
		},
		{
			file: "routes:\n- {input: a, output: b, outcomes: b}\n",
			want: "FILE:1: routes has topic b both an output and a dead-letter or outcome topic: rejected records " +
				"and outcomes need topics of their own",
		},
		{
			args: "--outcome-topic x",
			file: "routes:\n- {input: a, output: b}\n",
			want: "--outcome-topic and FILE:1: routes exclude each other: only one of them may be set",
		},
		{
			args: "--input-topic x",
			file: "routes:\n- {input: a, output: b}\n",
			want: "--input-topic and FILE:1: routes " +
				"exclude each other: only one of them may be set",
		},
		{
			env:  "CHRONOS_DEAD_LETTER_TOPIC=x",
			file: "routes:\n- {input: a, output: b}\n",
			want: "CHRONOS_DEAD_LETTER_TOPIC " +
				"and FILE:1: routes exclude each other: only one of them may be set",
		},

		{
			args: "--hold-tmie 5s",
			want: `unknown flag --hold-tmie, did you mean "--hold-time"?; "chronos run --help" explains`,
		},
		{args: "now", want: `unexpected argument now; "chronos run --help" explains`},
		{args: "--group", want: `--group: it needs a value, such as --group=NAME; "chronos run --help" explains`},
		{args: "--store postgres://u@h/db?sslmode=x", want: "--store: read the store's URL: cannot parse " +
			"`postgres://u@h/db?sslmode=x`: failed to configure TLS (sslmode is invalid)"},
	} {
		t.Run(c.want, func(t *testing.T) {
			args := append([]string{"run"}, strings.Fields(c.args)...)
			if !strings.Contains(c.args, "--store=") && !strings.Contains(c.args, "--store ") {
				args = append(args, "--store", aStore)
			}
			replace := []string{missing, "MISSING", secret, "SECRET", empty, "EMPTY"}
			if c.file != "" {
				file := writeFile(t, "c.yaml", c.file)
				args = append(args, "--config", file)
				replace = append(replace, file, "FILE")
			}
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			got := run(t, "", args...)
			sentence := strings.NewReplacer(replace...).Replace(got.stderr)
			if want := "chronos: " + c.want + "\n"; sentence != want || got.code != 2 || got.stdout != "" {
				t.Errorf("exit code %d, stdout %q, sentence\n%swant\n%s", got.code, got.stdout, sentence, want)
			}
		})
	}
}

func TestStoreIsNeeded(t *testing.T) {
	got := run(t, "", "run")
	want := "chronos: --store is not set: " + storeForms + "\n"
	if got.code != 2 || got.stderr != want {
		t.Errorf("exit code %d, %q, want 2 and %q", got.code, got.stderr, want)
	}
}

// TestForeignVariables asks that what Kubernetes puts into every pod beside a service named chronos is no error.
func TestForeignVariables(t *testing.T) {
	for _, name := range []string{
		"CHRONOS_SERVICE_HOST", "CHRONOS_SERVICE_PORT", "CHRONOS_SERVICE_PORT_HTTP", "CHRONOS_PORT",
		"CHRONOS_PORT_8080_TCP", "CHRONOS_PORT_8080_TCP_PROTO", "CHRONOS_PORT_8080_TCP_PORT",
		"CHRONOS_PORT_8080_TCP_ADDR", "CHRONOS_METRICS_SERVICE_HOST", "CHRONOS_METRICS_PORT_9090_TCP_ADDR",
		"CHRONOS_TEST_KAFKA",
	} {
		t.Setenv(name, "x")
	}
	settings(t, "--store", aStore)
}
