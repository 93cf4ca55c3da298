package main_test

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kgo"

	chronos "chronos/cmd/chronos"
	"chronos/node/admin"
	"chronos/node/service/doctor"
)

func TestReadable(t *testing.T) {
	for _, c := range []struct {
		in         []byte
		want, word string
	}{
		{nil, `<null>`, `<null>`},
		{[]byte{}, `""`, `""`},
		{[]byte("<null>"), `"<null>"`, `"<null>"`},
		{[]byte("plain"), `plain`, `plain`},
		{[]byte("schön 日本"), `schön 日本`, `"schön 日本"`},
		{[]byte(`{"a":1}`), `{"a":1}`, `"{\"a\":1}"`},
		{[]byte("a\nb"), `"a\nb"`, `"a\nb"`},
		{[]byte{0, 0xff}, `"\x00\xff"`, `"\x00\xff"`},
		{[]byte("a=b"), `a=b`, `"a=b"`},
		{[]byte("\x1b[31m"), `"\x1b[31m"`, `"\x1b[31m"`},
	} {
		if got := chronos.Readable(c.in); got != c.want {
			t.Errorf("%q is shown as %s, want %s", c.in, got, c.want)
		}
		if got := chronos.ReadableWord(c.in); got != c.word {
			t.Errorf("%q is shown as the word %s, want %s", c.in, got, c.word)
		}
	}
}

func TestHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"":                                     "",
		`schön "日本" \ 'x'`:                     `schön "日本" \ 'x'`,
		"a\x1b[2Kb\r\n\tc\x00\x7f":             `a\x1b[2Kb\r\n\tc\x00\x7f`,
		"\u202e\u009b31m\xff \ufffd\U000e0041": `\u202e\u009b31m\xff ` + "\ufffd" + `\U000e0041`,
	} {
		if got := chronos.Harmless(in); got != want {
			t.Errorf("%q is shown as %s, want %s", in, got, want)
		}
	}
}

// TestReportIsHarmless has a server put what steers a terminal into everything that a report says.
func TestReportIsHarmless(t *testing.T) {
	const evil = "x\x1b[2J\u009b1A\ny\u202e"
	var out strings.Builder
	err := chronos.PrintReport(&out, &doctor.Report{
		Kafka: evil, Store: evil, Verdict: doctor.Found,
		Checks:   []doctor.Check{{Name: evil, Result: doctor.Found, Says: evil}},
		Findings: []doctor.Finding{{Severity: doctor.Error, About: evil, Says: evil, Means: evil, Do: evil}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), `x\x1b[2J\u009b1A\ny\u202e`); n != 8 {
		t.Errorf("%d of 8 texts are shown escaped: %s", n, out.String())
	}
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("the report has %q in it", r)
		}
	}
}

func TestLateness(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0.0 ms late"},
		{1234 * time.Microsecond, "1.2 ms late"},
		{-1250 * time.Microsecond, "1.2 ms early"},
		{9999 * time.Millisecond, "9999.0 ms late"},
		{10 * time.Second, "10s late"},
		{-26*time.Hour - 300*time.Millisecond, "26h0m0s early"},
	} {
		if got := chronos.Lateness(c.d); got != c.want {
			t.Errorf("%v is %q, want %q", c.d, got, c.want)
		}
	}
}

func TestPrintRecord(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.FixedZone("", 3600))
	for _, c := range []struct {
		record kgo.Record
		want   string
	}{
		{
			kgo.Record{Value: []byte("hello")},
			"2030-01-02T02:04:05.678Z  -  key=<null>  headers=[]  hello\n",
		},
		{
			kgo.Record{Key: []byte("k"), Headers: []kgo.RecordHeader{
				{Key: "a b", Value: []byte("c")},
				{Key: "null"},
				{Key: "a", Value: []byte{}},
				{Key: "a", Value: []byte{1}},
				{Key: "chronosDeadline", Value: []byte("2030-01-02T02:04:05.6755Z")},
			}},
			"2030-01-02T02:04:05.678Z  2.5 ms late  key=k  headers=[\"a b\"=c null=<null> a=\"\" a=\"\\x01\" " +
				"chronosDeadline=2030-01-02T02:04:05.6755Z]  <null>\n",
		},
		{
			kgo.Record{Value: []byte{}, Headers: []kgo.RecordHeader{{Key: "chronosDeadline", Value: []byte("soon")}}},
			"2030-01-02T02:04:05.678Z  -  key=<null>  headers=[chronosDeadline=soon]  \"\"\n",
		},
	} {
		var out strings.Builder
		c.record.Timestamp = at
		if err := chronos.PrintRecord(&out, &c.record, chronos.LongestField); err != nil || out.String() != c.want {
			t.Errorf("printed (%v)\n%swant\n%s", err, out.String(), c.want)
		}
	}
}

// TestPrintable has the commands print what somebody else has put into a message: nothing of that may steer the
// terminal, or begin a line or a column that looks like one of ours.
func TestPrintable(t *testing.T) {
	var out strings.Builder
	m := admin.Message{
		ID: "a\x1b[2J", Lane: "out", State: "waiting", Headers: []admin.Header{{Name: "h\nstate  fired"}},
		Trouble: &admin.Trouble{Error: "no\tgood"},
	}
	if err := chronos.PrintMessage(&out, &m, time.Now()); err != nil {
		t.Fatal(err)
	}
	lanes := admin.Lanes{Lanes: []admin.Lane{{Name: "l\x1b[1m", Paused: &admin.Pause{By: "me\x07", Reason: "a\nb"}}}}
	if err := chronos.PrintLanes(&out, &lanes); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"a\x1b[2J"`, `"h\nstate  fired = null"`, `"no\tgood"`, `"l\x1b[1m"`, `by "me\a" ("a\nb")`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not there:\n%s", want, out.String())
		}
	}
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q is printed as it is", r)
		}
	}
}

// TestTailIsNotEarly prints a message that came at its deadline, which has microseconds: the timestamps of Kafka have
// none. What tells of a message has no lateness of its own.
func TestTailIsNotEarly(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	deadline := kgo.RecordHeader{Key: "chronosDeadline", Value: []byte("2030-01-02T03:04:05.000400Z")}
	for _, c := range []struct {
		headers []kgo.RecordHeader
		want    string
	}{
		{[]kgo.RecordHeader{deadline}, "  0.0 ms late  "},
		{[]kgo.RecordHeader{deadline, {Key: "chronosOutcome", Value: []byte("scheduled")}}, "  -  "},
		{[]kgo.RecordHeader{{Key: "chronosReason", Value: []byte("expired")}, deadline}, "  -  "},
	} {
		var out strings.Builder
		err := chronos.PrintRecord(&out, &kgo.Record{Timestamp: at, Headers: c.headers}, chronos.LongestField)
		if err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("it is printed (%v) as %s, want %q", err, out.String(), c.want)
		}
	}
}
