package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// "chronos dev" with its store in a topic of the embedded broker: what waits when it stops comes out when it has
// started again, once; what was cancelled does not; and what was paused stays so. The pause keeps what is due in the
// store until the first node has stopped, however slow the machine is.
func TestDevJournal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	begin := func() (p *program, address string, says func(want string, words ...string)) {
		p, address = dev(t, "--data-dir", folder, "--store", "journal:chronos.journal", "--admin-listen", "127.0.0.1:0")
		node := p.stdout.await(t, `A page, metrics and health: (\S+)`, 1)[1]
		return p, address, func(want string, words ...string) {
			t.Helper()
			expression := regexp.MustCompile(want)
			for end := time.Now().Add(patience); ; { // it owns nothing of the journal yet, when it has just started
				got := run(t, "", append(words, "--admin", node)...)
				said := got.stdout + got.stderr
				if expression.MatchString(said) {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%s: exit code %d, %s, want %s", words, got.code, said, want)
				}
			}
		}
	}
	p, address, says := begin()
	produce(t, address, submission("now", time.Now(), []byte("now")))
	if got := p.stdout.await(t, firedLine, 1); got[1] != "now" {
		t.Errorf("%q fired, want now", got[1])
	}
	says(`Paused (just now|\S+ ago) by .*test`, "pause", "chronos.out", "--reason", "test") // the owner has heard of it
	produce(t, address, submission("later", time.Now(), []byte("later")),
		submission("never", time.Now(), []byte("never")))
	if got := run(t, "", "cancel", "never", "--brokers", address, "--key", "k"); got.code != 0 {
		t.Errorf("cancel: exit code %d: %s", got.code, got.stderr)
	}
	says(`(?s)later.*overdue.*submitted by  topic chronos.in`, "get", "later")
	says(`chronos.out +1 .*PAUSED`, "count")
	says(`Paused (just now|\S+ ago)`, "pause", "--intake")
	says(`Resumed`, "resume", "--intake")
	got := run(t, "", "list", "--store", "journal:x")
	if !strings.Contains(got.stderr, "of which each node has its own part: ask a node") {
		t.Errorf("list: exit code %d: %s", got.code, got.stderr)
	}
	p.stop()
	if code := p.code(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr)
	}

	p, address, says = begin()
	says(`chronos.out +1 .*PAUSED`, "count")
	says(`Resumed`, "resume", "chronos.out")
	says(`It was not paused`, "resume", "chronos.out")
	if got := p.stdout.await(t, firedLine, 1); got[1] != "later" {
		t.Errorf("%q fired, want later", got[1])
	}
	produce(t, address, submission("last", time.Now(), []byte("last")))
	p.stdout.await(t, firedLine, 2)
	var came []string
	for _, r := range consume(t, address, "chronos.out", 3) {
		came = append(came, string(r.Value))
	}
	if got := strings.Join(came, " "); got != "now later last" {
		t.Errorf("came out: %s", got)
	}
}

// What the commands say that a journal is not for, and of a topic that is not as it has to be.
func TestJournalCommands(t *testing.T) {
	t.Parallel()
	address := clusterWithTopics(t)
	copies := filepath.Join(t.TempDir(), "copy")
	create := func(topic string, partitions int32, settings ...string) {
		t.Helper()
		c := client(t, address)
		defer c.Close()
		values := map[string]*string{}
		for i := 0; i < len(settings); i += 2 {
			values[settings[i]] = new(settings[i+1])
		}
		if _, err := kadm.NewClient(c).CreateTopic(t.Context(), partitions, 1, values, topic); err != nil {
			t.Fatal(err)
		}
	}
	create("deletes", 1)
	create("wide", 2, "cleanup.policy", "compact")
	create("forgets", 1, "cleanup.policy", "compact", "delete.retention.ms", "1000")
	create("small", 1, "cleanup.policy", "compact", "max.message.bytes", "1000")
	create("unclean", 1, "cleanup.policy", "compact", "unclean.leader.election.enable", "true")
	at := " --brokers " + address
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"migrate print --store journal:j", 0, `--create --topic j .*cleanup.policy=compact .*min.insync.replicas=2`},
		{"migrate status --store journal:j" + at, 1, `the journal j does not exist: there is nowhere to keep messages` +
			`; "chronos migrate up" creates it`},
		{"run --store journal:j --data-dir " + copies + at, 1, `the journal j does not exist`},
		{"migrate up --store journal:j --input-topic none" + at, 1, `has no input topic none`},
		{"migrate up --store journal:j" + at, 0, `^applied 1 topic j with 1 partitions\n$`},
		{"migrate up --store journal:j" + at, 0, `^up to date already\n$`},
		{"migrate status --store journal:j" + at, 0, `^the topic of journal:j is as it has to be\n$`},
		{"migrate up --store journal:deletes" + at, 1, `has cleanup.policy=delete: messages would be deleted while`},
		{"migrate up --store journal:wide" + at, 1, `has 2 partitions, and its input topic chronos.in has 1`},
		{"migrate up --store journal:forgets" + at, 1, `has delete.retention.ms=1000: .*7200000 or more`},
		{"migrate up --store journal:small" + at, 1, `has max.message.bytes=1000: `},
		{"migrate up --store journal:unclean" + at, 1, `has unclean.leader.election.enable=true: `},
		{"export --store journal:none --to x" + at, 1, `the journal none does not exist`},
		{"import x --store journal:wide" + at, 1, `has 2 partitions, and its input topic chronos.in has 1`},
		{"import x --store journal:j --place here" + at, 2, `--place is here: it must be key or origin`},
		{"import x --store sqlite:x --place key", 2, `are for a journal in Kafka, and sqlite:x is none`},
		{"bind --store journal:j" + at, 2, `neither bound to others nor rewound`},
		{"rewind --store journal:j --topic chronos.in --to-earliest" + at, 2, `neither bound to others nor rewound`},
		{"doctor --store journal:wide" + at, 1, `(?s)ERROR  journal wide: has 2 partitions.*  do     Do not add`},
		{"dev --store sqlite:x", 2, `it must be journal:TOPIC`},
		{"dev --store journal:j --horae-listen 127.0.0.1:0 --listen 127.0.0.1:0", 2, `leave --metaswitch-listen and`},
	} {
		got := run(t, "", strings.Fields(c.command)...)
		if said := got.stdout + got.stderr; got.code != c.code || !regexp.MustCompile(c.want).MatchString(said) {
			t.Errorf("chronos %s: exit code %d, want %d\n%s\nwant %s", c.command, got.code, c.code, said, c.want)
		}
	}

	// A group that has come far with another store.
	c := client(t, address, kgo.ConsumerGroup("far"), kgo.ConsumeTopics("chronos.in"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	produce(t, address, submission("x", time.Now(), nil))
	c.PollFetches(t.Context())
	if err := c.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	got := run(t, "", strings.Fields("run --store journal:j --group far --data-dir "+copies+at)...)
	if want := "consumer group far has committed offsets, and there is nothing in the journal j"; got.code != 1 ||
		!strings.Contains(got.stderr, want) {
		t.Errorf("exit code %d: %s, want %s", got.code, got.stderr, want)
	}
}

// What the commands do where there are several input topics: each has a journal, of which both are made and looked at,
// and which are moved one by one.
func TestJournalInputsCommands(t *testing.T) {
	t.Parallel()
	address := clusterWithTopics(t)
	folder := t.TempDir()
	c := client(t, address)
	for topic, partitions := range map[string]int32{"more.in": 3, "far.in": 1} {
		if _, err := kadm.NewClient(c).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	file := func(second string) string {
		name := filepath.Join(folder, second+".yaml")
		routes := "routes:\n- {input: chronos.in, output: chronos.out}\n- {input: " + second +
			", output: chronos.out}\nbrokers: " + address + "\n"
		if err := os.WriteFile(name, []byte(routes), 0o600); err != nil {
			t.Fatal(err)
		}
		return " --config " + name
	}
	more := " --store journal:chronos.in=j,more.in=k" + file("more.in")
	for _, one := range []struct {
		command string
		code    int
		want    string
	}{
		{"migrate print" + more, 0, `(?s)as chronos.in has.*--topic j .*as more.in has.*--topic k .*compact`},
		{"migrate up --store journal:j --brokers " + address, 0, `^applied 1 topic j with 1 partitions\n$`},
		{"migrate status" + more, 1, `the journal k does not exist`},
		{"migrate up" + more, 0, `^applied 1 topic k with 3 partitions\n$`},
		{"migrate up" + more, 0, `^up to date already\n$`},
		{"migrate status" + more, 0, `^the topics of journal:chronos.in=j,more.in=k are as they have to be\n$`},
		{"migrate up --store journal:chronos.in=j,none.in=l" + file("none.in"), 1, `l has no input topic none`},
		{"migrate up --store journal:chronos.in=k,more.in=j" + file("more.in"), 1, `k has 3 partitions, and its input`},
		{"doctor" + more, 1, `a journal in Kafka, topic j with 1 partitions, topic k with 3 partitions`},
		{"doctor --store journal:chronos.in=k,more.in=j" + file("more.in"), 1, `(?s)k: has 3.*journal j: has 1`},
		{"export --to x" + more, 2, `moved by itself: .* as in --store journal:j --input-topic chronos.in`},
		{"migrate up --store journal:chronos.in=j,far.in=l" + file("far.in"), 0, `topic l with 1 partitions`},
	} {
		got := run(t, "", strings.Fields(one.command)...)
		if said := got.stdout + got.stderr; got.code != one.code || !regexp.MustCompile(one.want).MatchString(said) {
			t.Errorf("chronos %s: exit code %d, want %d\n%s\nwant %s", one.command, got.code, one.code, said, one.want)
		}
	}
}

// An input topic that the group has read with another store, or with another journal, does not begin anew on one that
// is empty, though the journal of the other input topic is in use.
func TestJournalInputsBegin(t *testing.T) {
	t.Parallel()
	address := clusterWithTopics(t)
	folder := t.TempDir()
	c := client(t, address, kgo.ConsumerGroup("far"), kgo.ConsumeTopics("chronos.in"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 1, 1, nil, "more.in"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "routes.yaml")
	routes := "routes:\n- {input: more.in, output: chronos.out}\n- {input: chronos.in, output: chronos.out}\n"
	if err := os.WriteFile(file, []byte(routes), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := []string{
		"--store", "journal:chronos.in=new,more.in=used", "--config", file, "--brokers", address,
	}
	if got := run(t, "", append([]string{"migrate", "up"}, settings...)...); got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	produce(t, address, submission("x", time.Now(), nil))
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "used", Key: []byte("k")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.PollFetches(t.Context())
	if err := c.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	got := run(t, "", append([]string{
		"run", "--group", "far", "--data-dir", filepath.Join(folder, "copy"),
	}, settings...)...)
	if want := "consumer group far has committed offsets, and there is nothing in the journal new"; got.code != 1 ||
		!strings.Contains(got.stderr, want) {
		t.Errorf("exit code %d: %s, want %s", got.code, got.stderr, want)
	}
}
