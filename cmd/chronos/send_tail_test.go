package main_test

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	chronos "chronos/cmd/chronos"
)

// sent is what "chronos send" prints. Its submatches are id and deadline.
var sent = regexp.MustCompile(`^id        (.+)\ndeadline  (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)\n` +
	`state     sent: nodes decide when they read it, and --confirm waits for that\n$`)

// TestSendAndTail sends a message and sees it arrive with the two commands only.
func TestSendAndTail(t *testing.T) {
	_, address := dev(t)
	tail := start(t, "tail", "--brokers", address, "--count", "1")
	tail.stderr.await(t, `^chronos: following chronos.out from now on; Ctrl-C stops\n$`, 1)
	before := time.Now()
	got := run(t, "", "send", "--brokers", address, "--in", "250ms", "--key", "k 1",
		"--header", "a=b=c", "--header", "a=", `{"order":1}`)
	after := time.Now()
	match := sent.FindStringSubmatch(got.stdout)
	if got.code != 0 || got.stderr != "" || match == nil {
		t.Fatalf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
	id, printed := match[1], match[2]
	deadline, err := time.Parse(time.RFC3339Nano, printed)
	sentAt := deadline.Add(-250 * time.Millisecond)
	if err != nil || sentAt.Before(before.Truncate(time.Microsecond)) || sentAt.After(after) {
		t.Errorf("the deadline is %s (%v)", printed, err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("the id %s is no UUID v4", id)
	}
	if code := tail.code(t); code != 0 {
		t.Errorf("tail exits with %d: %s", code, tail.stderr)
	}
	want := `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  \d+\.\d ms (late|early)  key="k 1"  ` +
		`headers=\[chronosMessageId=` + id + ` chronosDeadline=` + regexp.QuoteMeta(printed) +
		` a="b=c" a=""\]  \{"order":1\}\n$`
	if line := tail.stdout.String(); !regexp.MustCompile(want).MatchString(line) {
		t.Errorf("tail prints %q, want %s", line, want)
	}
}

// TestSendForms sends messages in many forms and compares the records on the input topic.
func TestSendForms(t *testing.T) {
	t.Parallel()
	_, address := dev(t)
	far := "2030-01-31T09:00:00.000000Z"
	var want []*kgo.Record
	for _, c := range []struct {
		stdin string
		args  []string
		key   []byte
		value []byte
		extra []kgo.RecordHeader
	}{
		{"ignored", []string{"value"}, nil, []byte("value"), nil},
		{"ignored", []string{""}, nil, []byte{}, nil},
		{"from stdin\n\x00\xff", nil, nil, []byte("from stdin\n\x00\xff"), nil},
		{"from stdin", []string{"-"}, nil, []byte("from stdin"), nil},
		{"", []string{"-"}, nil, []byte{}, nil},
		{"ignored", []string{"--null-value"}, nil, nil, nil},
		{"", []string{"--key", "", "x"}, []byte{}, []byte("x"), nil},
		{
			"",
			[]string{"--key=k", "--header", "b=2,3", "--header", "a=1", "--header=b=", "x"},
			[]byte("k"), []byte("x"),
			[]kgo.RecordHeader{
				{Key: "b", Value: []byte("2,3")}, {Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{}},
			},
		},
		{
			"",
			[]string{"--key=\xff", "--header=n=\xfe", "\xfd"},
			[]byte("\xff"), []byte("\xfd"),
			[]kgo.RecordHeader{{Key: "n", Value: []byte("\xfe")}},
		},
		{strings.Repeat("x", 1<<20), nil, nil, []byte(strings.Repeat("x", 1<<20)), nil},
	} {
		id := "id-" + string(rune('a'+len(want)))
		args := append([]string{"send", "--brokers", address, "--at", "2030-01-31 10:00+01", "--id", id}, c.args...)
		got := run(t, c.stdin, args...)
		match := sent.FindStringSubmatch(got.stdout)
		if got.code != 0 || match == nil || match[1] != id || match[2] != far {
			t.Errorf("send %.200q: exit code %d, stdout %q, stderr %q", c.args, got.code, got.stdout, got.stderr)
		}
		want = append(want, &kgo.Record{Key: c.key, Value: c.value, Headers: append([]kgo.RecordHeader{
			{Key: "chronosMessageId", Value: []byte(id)}, {Key: "chronosDeadline", Value: []byte(far)},
		}, c.extra...)})
	}
	for i, got := range consume(t, address, "chronos.in", len(want)) {
		w := want[i]
		same := slices.EqualFunc(got.Headers, w.Headers, func(a, b kgo.RecordHeader) bool {
			return a.Key == b.Key && string(a.Value) == string(b.Value)
		})
		if string(got.Key) != string(w.Key) || (got.Key == nil) != (w.Key == nil) || !same ||
			string(got.Value) != string(w.Value) || (got.Value == nil) != (w.Value == nil) {
			t.Errorf("record %d is key %q, value %.40q, headers %q", i, got.Key, got.Value, got.Headers)
		}
	}
}

func TestTailFromStart(t *testing.T) {
	_, address := dev(t)
	for _, value := range []string{"one", "two", "three"} {
		produce(t, address, &kgo.Record{Topic: "chronos.dead", Value: []byte(value)})
	}
	got := run(t, "", "tail", "--brokers", address, "--topic", "chronos.dead", "--from-start", "--count", "2")
	want := regexp.MustCompile(`^\S+  -  key=<null>  headers=\[\]  one\n\S+  -  key=<null>  headers=\[\]  two\n$`)
	if got.code != 0 || got.stderr != "chronos: following chronos.dead from its start; Ctrl-C stops\n" ||
		!want.MatchString(got.stdout) {
		t.Errorf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
}

// TestTailFollows lets the broker go away and come back.
func TestTailFollows(t *testing.T) {
	folder, address := t.TempDir(), freeAddress(t)
	first := start(t, "dev", "--listen", address, "--data-dir", folder)
	first.address(t)
	tail := start(t, "tail", "--brokers", address, "--topic", "chronos.dead")
	tail.stderr.await(t, `following`, 1)
	produce(t, address, &kgo.Record{Topic: "chronos.dead", Value: []byte("one")})
	tail.stdout.await(t, `one\n`, 1)
	first.stop()
	first.code(t)
	second := start(t, "dev", "--listen", address, "--data-dir", folder)
	second.address(t)
	produce(t, address, &kgo.Record{Topic: "chronos.dead", Value: []byte("two")})
	tail.stdout.await(t, `two\n`, 1)
	tail.stop()
	if code := tail.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if said := tail.stderr.String(); strings.Count(said, "\n") != 1 {
		t.Errorf("tail said\n%s", said)
	}
}

func TestClientSentences(t *testing.T) {
	t.Parallel()
	_, address := dev(t)
	const (
		silence = "no Kafka broker answers at 127.0.0.1:1: is it, or \"chronos dev\", running there? --brokers " +
			"names others"
		noTopic = "topic none does not exist; --topic names another one, and \"chronos run --create-topics\" creates " +
			"those that it uses"
		badID = "it must be 1 to 128 bytes of UTF-8 without NUL"
	)
	send := func(args ...string) []string { return append([]string{"send"}, args...) }
	soon := func(args ...string) []string { return append([]string{"send", "--in", "1s"}, args...) }
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{send("--in"), 2, `--in: it needs a value, such as --in=TIME; "chronos send --help" explains`},
		{send("x"), 2, "none of --in, --at and --delay is set: one of them must say when the message is to appear"},
		{soon("--at", "2030-01-01T00:00Z", "x"), 2, "--in and --at exclude each other: " +
			"only one of them may be set"},
		{send("--in", "soon", "x"), 2, "--in is soon: it must be a time such as 100ms, 1m30s or 1d12h"},
		{send("--in", "300000w", "x"), 2, "--in is 300000w: it must be less than 292 years, or 15,250 weeks"},
		{send("--at", "noon", "x"), 2, "--at is noon: write an instant such as 2099-12-31T23:59:59Z, or " +
			"with an offset, 2099-12-31T23:59:59+01:00"},
		{send("--at", "1893456000", "x"), 2, "--at is 1893456000: bare numbers are not accepted, " +
			"because they do not tell their unit: write an instant such as 2099-12-31T23:59:59Z, or with an offset, " +
			"2099-12-31T23:59:59+01:00"},
		{soon("--id", "", "x"), 2, `--id is "": ` + badID},
		{soon("--id", "\xff", "x"), 2, `--id is "\xff": ` + badID},
		{soon("--id", strings.Repeat("x", 129), "x"), 2, "--id is " + strings.Repeat("x", 129) + ": " + badID},
		{soon("--header", "x", "x"), 2, "--header is x: it must be NAME=VALUE"},
		{soon("--header", "=x", "x"), 2, `--header is "=x": it must be NAME=VALUE`},
		{soon("--header", "chronosMessageId=1", "x"), 2, `--header is "chronosMessageId=1": ` +
			"the headers of Chronos have flags of their own"},
		{soon("--null-value", "x"), 2, "--null-value is set, but there is a value as well: x"},
		{soon("--brokers", "x", "x"), 2, `--brokers is "x": it must be host:port: there is no port`},
		{soon("--brokers", "127.0.0.1:1", "x"), 1, silence},
		{soon("--brokers", address, "--topic", "none", "x"), 1, noTopic},
		{[]string{"tail", "--brokers", "127.0.0.1:1"}, 1, silence},
		{[]string{"tail", "--brokers", address, "--topic", "none"}, 4, noTopic},
		{[]string{"tail", "--brokers", address, "--count=-1"}, 2, "--count is -1: it must be 1 or more"},
	} {
		began := time.Now()
		got := run(t, "", c.args...)
		if got.code != c.code || got.stderr != "chronos: "+c.want+"\n" || got.stdout != "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr\n%swant\nchronos: %s",
				c.args, got.code, got.stdout, got.stderr, c.want)
		}
		if took := time.Since(began); took > chronos.AnswerTimeout {
			t.Errorf("%q took %v", c.args, took)
		}
	}
}

// TestBrokersByEnvironment uses the variable that all commands share.
func TestBrokersByEnvironment(t *testing.T) {
	_, address := dev(t)
	t.Setenv("CHRONOS_BROKERS", address)
	if got := run(t, "", "send", "--in", "1h", "x"); got.code != 0 {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

// TestSendInterrupted interrupts a send that waits for its value.
func TestSendInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	defer func() { _ = writer.Close() }() // so that the reader ends
	stderr := newStream()
	done := make(chan int)
	go func() { done <- chronos.Run(ctx, []string{"send", "--in", "1s"}, reader, io.Discard, stderr) }()
	cancel()
	want := "chronos: interrupted before there was a value: nothing was sent\n"
	if code := <-done; code != 1 || stderr.String() != want {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestSendInDays writes a delay as nobody writes it in hours.
func TestSendInDays(t *testing.T) {
	_, address := dev(t)
	before := time.Now()
	got := run(t, "", "send", "--brokers", address, "--in", "1w2d", "x")
	after := time.Now()
	match := sent.FindStringSubmatch(got.stdout)
	if got.code != 0 || match == nil {
		t.Fatalf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
	const delay = 9 * 24 * time.Hour
	deadline, err := time.Parse(time.RFC3339Nano, match[2])
	if err != nil || deadline.Before(before.Add(delay).Truncate(time.Microsecond)) || deadline.After(after.Add(delay)) {
		t.Errorf("the deadline is %s (%v), and it is %v now", match[2], err, after)
	}
}

// TestTailCutsWhatIsLong prints a value that would keep a terminal busy, cut and whole.
func TestTailCutsWhatIsLong(t *testing.T) {
	value := strings.Repeat("x", chronos.LongestField-1) + strings.Repeat("\u20ac", 300_000) // 3 bytes each
	record := &kgo.Record{
		Key: []byte(value), Value: []byte(value), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte(value)}},
	}
	var cut, whole strings.Builder
	if err := errors.Join(chronos.PrintRecord(&cut, record, chronos.LongestField),
		chronos.PrintRecord(&whole, record, len(value))); err != nil {
		t.Fatal(err)
	}
	left := strings.Repeat("x", chronos.LongestField-1) + "... (900000 bytes more)"
	if want := "key=" + left + "  headers=[h=" + left + "]  " + left + "\n"; !strings.HasSuffix(cut.String(), want) {
		t.Errorf("cut, it is %d bytes that end in %q", cut.Len(), cut.String()[max(0, cut.Len()-60):])
	}
	want := "key=" + value + "  headers=[h=" + value + "]  " + value + "\n"
	if !strings.HasSuffix(whole.String(), want) {
		t.Errorf("whole, it is %d bytes", whole.Len())
	}
	_, address := dev(t)
	produce(t, address, &kgo.Record{Topic: "chronos.dead", Value: []byte(value)})
	tail := []string{"tail", "--brokers", address, "--topic", "chronos.dead", "--from-start", "--count", "1"}
	if got := run(t, "", tail...); got.code != 0 || !strings.HasSuffix(got.stdout, left+"\n") {
		t.Errorf("exit code %d, %d bytes", got.code, len(got.stdout))
	}
	if got := run(t, "", append(tail, "--whole")...); got.code != 0 || !strings.HasSuffix(got.stdout, "  "+value+"\n") {
		t.Errorf("whole: exit code %d, %d bytes", got.code, len(got.stdout))
	}
}
