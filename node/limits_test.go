package node_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// Each limit rejects what exceeds it by one, with a reason of its own and a copy for the dead-letter topic, and lets
// pass what just keeps to it.
func TestLimits(t *testing.T) {
	extra := func(n, bytesEach int) []node.Header {
		headers := make([]node.Header, n)
		for i := range headers {
			headers[i] = node.Header{Name: "h", Value: bytes.Repeat([]byte{'x'}, bytesEach-1)}
		}
		return headers
	}
	const own = len(node.HeaderID) + 1 + len(node.HeaderDeadline) + len("2026-01-01T00:00:00Z")
	for name, c := range map[string]struct {
		limits    node.Limits
		good, bad func(r *node.Record, now time.Time)
		want      node.Reason
	}{
		"delay": {
			node.Limits{MaxDelay: 10 * time.Second},
			func(r *node.Record, now time.Time) { setDeadline(r, now.Add(10*time.Second)) },
			func(r *node.Record, now time.Time) { setDeadline(r, now.Add(11*time.Second)) },
			node.TooFar,
		},
		"headers": {
			node.Limits{MaxHeaders: 4},
			func(r *node.Record, _ time.Time) { r.Headers = append(r.Headers, extra(2, 1)...) },
			func(r *node.Record, _ time.Time) { r.Headers = append(r.Headers, extra(3, 1)...) },
			node.TooManyHeaders,
		},
		"bytes of headers": {
			node.Limits{MaxHeaderBytes: 256},
			func(r *node.Record, _ time.Time) { r.Headers = append(r.Headers, extra(1, 256-own)...) },
			func(r *node.Record, _ time.Time) { r.Headers = append(r.Headers, extra(1, 257-own)...) },
			node.HeadersTooLarge,
		},
		"bytes": {
			node.Limits{MaxBytes: 300},
			func(r *node.Record, _ time.Time) { r.Headers = append(r.Headers, extra(1, 298)...) },
			func(r *node.Record, _ time.Time) { r.Headers = append(r.Headers, extra(1, 299)...) },
			node.TooLarge,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				now := time.Now().UTC().Truncate(time.Second)
				record := func(id string, change func(*node.Record, time.Time)) node.Record {
					r := node.Record{Value: []byte{0, 0xff}, Headers: []node.Header{
						{Name: node.HeaderID, Value: []byte(id)}, {Name: node.HeaderDeadline},
					}}
					setDeadline(&r, now.Add(time.Second))
					change(&r, now)
					return w.submitRecord(r)
				}
				record("g", c.good)
				bad := record("b", c.bad)
				with := config(0)
				with.Limits = c.limits
				w.run(with, nil)
				pass(15 * time.Second)
				if got := len(w.on("out")); got != 1 {
					t.Errorf("delivered %d messages, want the one that keeps to the limit", got)
				}
				rejected := seen[node.Rejected](w)
				if len(rejected) != 1 || rejected[0].Reason != c.want || rejected[0].Record.Offset != bad.Offset {
					t.Fatalf("rejected: %+v, want %s", rejected, c.want)
				}
				checkDeadLetter(t, w.on("dead"), bad, c.want)
				w.empty()
			})
		})
	}
}

func setDeadline(r *node.Record, at time.Time) {
	r.Headers[1].Value = []byte(at.UTC().Format("2006-01-02T15:04:05Z"))
}

// Limits that no submission could keep to are refused, by name.
func TestLimitsValidate(t *testing.T) {
	for setting, limits := range map[string]node.Limits{
		"MaxDelay":       {MaxDelay: -1},
		"MaxBytes":       {MaxBytes: node.MaxMessageBytes + 1},
		"MaxMissed":      {MaxMissed: -1},
		"MaxHeaders":     {MaxHeaders: 1},
		"MaxHeaderBytes": {MaxHeaderBytes: 100},
	} {
		c := config(0)
		c.Limits = limits
		var wrong *node.ConfigError
		if err := c.Validate(); !errors.As(err, &wrong) || wrong.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// Goal: the longest delay bounds what a series has to catch up with, and no message is lost because it comes late.
// Method: what begins before the limit, and at it, of each policy, beside one message that is as late.
func TestMaxDelayLooksBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("late", -2*time.Hour)
		for _, c := range []struct {
			id, policy string
			first      time.Duration
		}{
			{"one", "one", -2 * time.Hour},
			{"skip", "skip", -2 * time.Hour},
			{"all", "all", -59 * time.Minute},
			{"far", "all", -time.Hour - time.Second},
			{"ancient", "all", -20 * 365 * 24 * time.Hour},
		} {
			w.submit(c.id, c.first, node.Header{Name: node.HeaderRepeat, Value: []byte("every 50m")},
				node.Header{Name: node.HeaderMissed, Value: []byte(c.policy)})
		}
		c := config(0)
		c.Limits.MaxDelay = time.Hour
		w.run(c, nil)
		pass(30 * time.Second)
		got := w.values("out")
		for value, want := range map[string]int{
			"value late": 1, "value one": 1, "value all": 2, "value skip": 0, "value far": 0, "value ancient": 0,
		} {
			if got[value] != want {
				t.Errorf("%s came out %d times, want %d", value, got[value], want)
			}
		}
		rejected := seen[node.Rejected](w)
		for _, r := range rejected {
			if r.Reason != node.TooFar || !strings.Contains(r.Detail, "it may begin 1h0m0s ago at most") {
				t.Errorf("rejected: %s %s", r.Reason, r.Detail)
			}
		}
		if len(rejected) != 2 {
			t.Errorf("%d series are rejected, want 2", len(rejected))
		}
	})
}
