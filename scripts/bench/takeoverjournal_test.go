package main

import (
	"testing"
	"time"
)

// TestOwnings reads in the log of a node when it has come to own what.
func TestOwnings(t *testing.T) {
	t.Parallel()
	const log = `{"time":"2026-11-24T20:00:00.5Z","level":"INFO","msg":"started"}
{"time":"2026-11-24T20:00:01.25Z","level":"INFO","msg":"owns a partition of the journal","partition":3}
{"time":"2026-11-24T20:00:02Z","level":"INFO","msg":"owns a partition of the journal","partition":0}
{"time":"2026-11-24T20:00:09.75Z","level":"INFO","msg":"owns a partition of the journal","partition":3}
`
	got, err := ownings([]byte(log))
	if err != nil || len(got) != 2 || got[3].Format(time.StampMilli) != "Nov 24 20:00:09.750" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ownings([]byte(`{"msg":"owns a partition of the journal","partition":"a/1"}`)); err == nil {
		t.Error("a partition that is no number is none that anybody here can find")
	}
}

// TestAfterPause finds the end of the longest pause, which begins before the instant of a kill or behind it.
func TestAfterPause(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	stamps := func(seconds ...float64) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, at.Add(time.Duration(s*float64(time.Second))))
		}
		return all
	}
	for _, c := range []struct {
		stamps []time.Time
		want   time.Duration
	}{
		{stamps(-20, -0.5, 0.25, 6.5, 6.75, 7), 6500 * time.Millisecond},
		{stamps(-20, -0.5, 6.5, 6.75, 9), 6500 * time.Millisecond},
		{stamps(6.5, 6.75), 6500 * time.Millisecond},
	} {
		again, err := afterPause(c.stamps, at)
		if err != nil || again.Sub(at) != c.want {
			t.Errorf("%v: %v after it, %v; want %v", c.stamps, again.Sub(at), err, c.want)
		}
	}
	if _, err := afterPause(stamps(-2, -1), at); err == nil {
		t.Error("nothing came out again, and that is no error")
	}
}
