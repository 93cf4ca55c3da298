package main_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDeadReplayLimits puts back a message that had expired, and a record that would expire. Nobody is surprised: it is
// said before that the one comes out late, and the other one is left out, until somebody says what is to be.
func TestDeadReplayLimits(t *testing.T) {
	t.Parallel()
	p, address := dev(t, "--admin-listen", "off")
	header := func(name, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: []byte(value)} }
	past := time.Now().Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")
	expired := submission("expired", time.Now().Add(-time.Hour), []byte("expired"), header("chronosNotAfter", past))
	rejected := submission("rejected", time.Now().Add(-time.Hour), []byte("rejected"),
		header("chronosNotAfter", past), header("chronosTopic", "nowhere"))
	produce(t, address, expired, rejected)
	consume(t, address, "chronos.dead", 2)
	replay := func(code int, pattern string, args ...string) {
		t.Helper()
		says(t, code, pattern, append([]string{
			"dead", "replay", "chronos.dead", "--to", "chronos.in", "--brokers", address,
		}, args...)...)
	}
	replay(2, `--not-after is soon: it must be none, or an instant`, "--not-after", "soon")
	replay(2, `--not-after is 2020-01-01T00:00:00Z, which has passed`, "--not-after", "2020-01-01T00:00:00Z")
	replay(0, `(?s)1 are left out: their chronosNotAfter has passed.*1 go back to chronos\.in\.\n`+
		`1 of them had expired: they come out now.*Nothing was changed`)
	replay(0, `^1 dead letter: unknown_topic 1\.\n1 go back to chronos\.in\.\nNothing was changed`,
		"--id", "rejected", "--not-after", "none")
	replay(0, `^1 dead letter: expired 1\.\n1 go back to chronos\.in\.\nDone: 1 are written\.\n$`,
		"--id", "expired", "--not-after", "2999-01-01T00:00:00Z", "--yes")
	if out := consume(t, address, "chronos.out", 1)[0]; string(out.Value) != "expired" {
		t.Errorf("%q came out", out.Value)
	}
	in := consume(t, address, "chronos.in", 3)[2]
	limit := ""
	for _, h := range in.Headers {
		if h.Key == "chronosNotAfter" {
			limit += string(h.Value) + ";"
		}
	}
	if limit != "2999-01-01T00:00:00.000000Z;" {
		t.Errorf("the limit of what went back is %q", limit)
	}
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
