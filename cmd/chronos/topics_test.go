package main_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCommandsTakeTopicsOfSettings gives commands nothing but the settings of the nodes. They send to the input topics
// of these, read their output and dead-letter topics, and ask only where there are several.
func TestCommandsTakeTopicsOfSettings(t *testing.T) {
	t.Parallel()
	_, address := cluster(t, "")
	c := client(t, address)
	defer c.Close()
	topics := []string{
		"single.in", "single.out", "single.dead", "a.in", "a.out", "a.dead", "a.more", "b.in", "b.out",
	}
	if _, err := kadm.NewClient(c).CreateTopics(t.Context(), 1, 1, nil, topics...); err != nil {
		t.Fatal(err)
	}
	brokers := "brokers: " + address + "\n"
	single := writeFile(t, "single.yaml", brokers+"input-topic: single.in\noutput-topic: single.out\n"+
		"dead-letter-topic: single.dead\noutcome-topic: ''\n")
	one := writeFile(t, "one.yaml", brokers+"routes: [{input: a.in, output: a.out, dead-letter: a.dead}]\n")
	two := writeFile(t, "two.yaml", brokers+"max-delay: 1d\nroutes:\n"+
		"- {input: a.in, output: a.out, dead-letter: a.dead, targets: ['a.*', 'http:*']}\n"+
		"- {input: b.in, output: b.out}\n")
	for _, tc := range []struct {
		command string
		env     string
		code    int
		to      string // where the record has gone
		says    string // on stderr
	}{
		{"send --in 1h --config " + single + " x", "", 0, "single.in", ""},
		{"cancel id --no-wait --config " + single, "", 0, "single.in", ""},
		{"fire id --no-wait --config " + one, "", 0, "a.in", ""},
		{"send --in 1h x", "CHRONOS_INPUT_TOPIC=b.in", 0, "b.in", ""},
		{"send --in 1h --topic a.in x", "CHRONOS_INPUT_TOPIC=b.in", 0, "a.in", ""},
		{"send --in 1h --topic-out b.out --config " + two + " x", "", 0, "b.in", ""},
		{"send --in 1h --topic-out a.more --config " + two + " x", "", 0, "a.in", ""},
		{"send --in 1h --url http://h/ --config " + two + " x", "", 0, "a.in", ""},
		{
			"send --in 1h --config " + two + " x", "", 2, "",
			`--topic is not set, and \S+two\.yaml:3: routes has several input topics: name one of a\.in, b\.in`,
		},
		{
			"cancel id --no-wait --config " + two, "", 2, "", `--topic is not set, and .* several input topics`,
		},
		{
			"send --in 1h --topic b.in --topic-out a.out --config " + two + " x", "", 2, "",
			`nodes would reject it, and nothing was sent: .* "a\.out", which is no target of input topic b\.in ` +
				`\(unknown_topic\)`,
		},
		{
			"send --in 2d --topic b.in --config " + two + " x", "", 2, "",
			`nothing was sent: the deadline is .*\(too_far\)`,
		},
		{"send --in 1h --topic-out a.dead --config " + two + " x", "", 2, "", `dead letters or outcomes`},
		{"send --in 1h --id chronos:x x", "", 2, "", `begins with chronos:, as the ids of dead letters`},
		{"send --in 1h --url http://h/ --method FOO x", "", 2, "", `--method is FOO: it must be one of POST, PUT`},
		{"tail --count 1 --from-start", "CHRONOS_OUTPUT_TOPIC=single.in", 0, "", "following single.in from its start"},
		{"tail --count 1 --config " + two, "", 2, "", "has several output topics: name one of a.out, b.out"},
		{"dead list --config " + single, "", 0, "", ""},
		{"dead list --config " + two, "", 0, "", ""},
		{"dead list", "", 2, "", `TOPIC is not set, .* name it, such as chronos\.dead`},
	} {
		before := endsOf(t, c, topics)
		env := []string{"CHRONOS_BROKERS=" + address, tc.env}
		if tc.env == "" {
			env = env[:1]
		}
		got := beside(t, "http://127.0.0.1:1", env, strings.Fields(tc.command)...)
		if got.code != tc.code || !regexp.MustCompile(tc.says).MatchString(got.stderr) {
			t.Errorf("chronos %s: exit code %d, want %d: %s%s", tc.command, got.code, tc.code, got.stdout, got.stderr)
		}
		after := endsOf(t, c, topics)
		for _, topic := range topics {
			want := before[topic]
			if topic == tc.to {
				want++
			}
			if after[topic] != want {
				t.Errorf("chronos %s: topic %s ends at %d, want %d", tc.command, topic, after[topic], want)
			}
		}
	}
}

// endsOf returns where topics of one partition end.
func endsOf(t *testing.T, c *kgo.Client, topics []string) map[string]int64 {
	t.Helper()
	listed, err := kadm.NewClient(c).ListEndOffsets(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Topic] = o.Offset })
	return ends
}

// TestSendSaysWhatItKnows asks that nothing is said to come out before a node has decided so.
func TestSendSaysWhatItKnows(t *testing.T) {
	t.Parallel()
	_, address := dev(t, "--admin-listen", "off")
	got := run(t, "", "send", "--brokers", address, "--topic-out", "nosuch", "--in", "1h", "--id", "a", "x")
	want := `^id        a\ndeadline  \S+Z\n` +
		`state     sent: nodes decide when they read it, and --confirm waits for that\n$`
	if got.code != 0 || !regexp.MustCompile(want).MatchString(got.stdout) {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	got = run(t, "", "send", "--brokers", address, "--at", "2020-01-01T00:00:00Z", "--id", "b", "x")
	want = `deadline  2020-01-01T00:00:00\.000000Z, which has passed\n`
	if got.code != 0 || !regexp.MustCompile(want).MatchString(got.stdout) {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	for _, c := range []struct{ args, want string }{
		{
			"--at 2020-01-01T00:00:00Z",
			`^scheduled  c0  it comes out now: its deadline, 2020-01-01T00:00:00\.000000Z, has passed\n$`,
		},
		{"--in 1h", `^scheduled  c1  it comes out at \S+Z\n$`},
	} {
		id := "c" + fmt.Sprint(map[bool]int{true: 0, false: 1}[strings.HasPrefix(c.args, "--at")])
		args := append([]string{"send", "--brokers", address, "--confirm", "--id", id}, strings.Fields(c.args)...)
		got := run(t, "", append(args, "x")...)
		if got.code != 0 || !regexp.MustCompile(c.want).MatchString(got.stdout) {
			t.Errorf("send %s: exit code %d: %s%s", c.args, got.code, got.stdout, got.stderr)
		}
	}
}
