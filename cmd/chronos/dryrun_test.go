package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDryRunsCheckWhatTheRunChecks has dry runs meet what their runs would fail on: a topic and a folder that are not
// there, and dead letters in which nothing has changed.
func TestDryRunsCheckWhatTheRunChecks(t *testing.T) {
	t.Parallel()
	_, address := cluster(t, "")
	c := client(t, address)
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopics(t.Context(), 1, 1, nil, "dead", "in"); err != nil {
		t.Fatal(err)
	}
	letter := func(reason, deadline, topic string) *kgo.Record {
		return &kgo.Record{Topic: "dead", Headers: []kgo.RecordHeader{
			{Key: "chronosMessageId", Value: []byte(reason)},
			{Key: "chronosDeadline", Value: []byte(deadline)},
			{Key: "chronosTopic", Value: []byte(topic)},
			{Key: "chronosReason", Value: []byte(reason)},
			{Key: "chronosSourceTopic", Value: []byte("in")},
		}}
	}
	produce(t, address, letter("invalid_deadline", "tomorrow", "out"),
		letter("unknown_topic", "2030-01-01T00:00:00Z", "mails"), letter("too_far", "2030-01-01T00:00:00Z", "out"))
	file := func(targets string) string {
		return writeFile(t, "chronos.yaml", "brokers: "+address+"\nroutes: [{input: in, output: out, dead-letter: dead"+
			targets+"}]\n")
	}
	for args, want := range map[string]string{
		"dead --brokers " + address:                   "1 of them would be rejected again",
		"--config " + file(""):                        "2 of them would be rejected again",
		"--config " + file(", targets: [mails]"):      "1 of them would be rejected again",
		"--reason too_far --config " + file(""):       "1 go back to in.\nNothing was changed",
		"dead --reason x --brokers " + address:        "0 dead letters.\n",
		"--reason unknown_topic --config " + file(""): "1 of them would be rejected again",
	} {
		got := run(t, "", append([]string{"dead", "replay"}, strings.Fields(args)...)...)
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("dead replay %s exits with %d: %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
	says(t, 4, `^chronos: topic nosuch, which 3 go back to, does not exist: create it, or name another one with --to`,
		"dead", "replay", "dead", "--to", "nosuch", "--brokers", address)

	store := "sqlite:" + filepath.Join(t.TempDir(), "own.db")
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 {
		t.Fatal(got.stderr)
	}
	for _, yes := range [][]string{nil, {"--yes"}} {
		export := append([]string{"export", "--store", store, "--to"}, "/no/such/folder/x.zst")
		says(t, 2, `^chronos: --to is /no/such/folder/x\.zst: there is no folder /no/such/folder\n$`,
			append(export, yes...)...)
		there := writeFile(t, "there.zst", "")
		says(t, 2, `which is there already`, append([]string{"export", "--store", store, "--to", there}, yes...)...)
	}
}

// TestSmallSentences asks for what people type, and what they are told.
func TestSmallSentences(t *testing.T) {
	t.Parallel()
	_, address := cluster(t, "")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"send", "--in", "-5s", "x"}, 2, "it needs a value: one that begins with - is written --in=-5s"},
		{[]string{"tail", "--count", "0"}, 2, "--count is 0: it must be 1 or more"},
		{
			[]string{
				"send", "--repeat", "@daily", "--repeat-zone", "europe/berlin", "--topic", "none", "--brokers", address,
				"x",
			},
			1, "topic none does not exist",
		},
	} {
		got := run(t, "", c.args...)
		if got.code != c.code || !strings.Contains(got.stderr, c.want) {
			t.Errorf("chronos %q exits with %d: %s", c.args, got.code, got.stderr)
		}
	}
}
