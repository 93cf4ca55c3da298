package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/cmd/chronos/bench"
)

// span is a time in which a server did something that holds others up.
type span struct{ from, to time.Time }

func (s span) took() time.Duration { return s.to.Sub(s.from) }

// within returns the spans that have a part in another one.
func within(all []span, of span) (some []span) {
	for _, s := range all {
		if s.to.After(of.from) && s.from.Before(of.to) {
			some = append(some, s)
		}
	}
	return some
}

// longest returns how long the longest one is; 0 where there is none.
func longest(all []span) (most time.Duration) {
	for _, s := range all {
		most = max(most, s.took())
	}
	return most
}

// interruptions are what the logs of the servers say of themselves.
type interruptions struct {
	known       bool   // somebody has the logs
	stops       []span // of Kafka, by its collector
	checkpoints []span // of Postgres
	vacuums     []span // of Postgres, by itself
}

// interruptions reads the logs of the servers. Those that somebody else runs have none here.
func (g *ground) interruptions() (*interruptions, error) {
	if g.servers == nil || g.kafka.Brokers[0].Collector == "" {
		return new(interruptions), nil
	}
	collector, err := os.ReadFile(g.kafka.Brokers[0].Collector)
	if err != nil {
		return nil, fmt.Errorf("read what Kafka's collector has done: %w", err)
	}
	database, err := os.ReadFile(g.postgres.Log)
	if err != nil {
		return nil, fmt.Errorf("read what Postgres has done: %w", err)
	}
	all := &interruptions{known: true, stops: collections(string(collector))}
	all.checkpoints, all.vacuums = housekeeping(string(database))
	return all, nil
}

// in returns what there was of them in a time.
func (i *interruptions) in(of span) *interruptions {
	return &interruptions{i.known, within(i.stops, of), within(i.checkpoints, of), within(i.vacuums, of)}
}

// plus returns these and others.
func (i *interruptions) plus(other *interruptions) *interruptions {
	return &interruptions{
		i.known || other.known, slices.Concat(i.stops, other.stops),
		slices.Concat(i.checkpoints, other.checkpoints), slices.Concat(i.vacuums, other.vacuums),
	}
}

// cells are how many stops there were and the longest of them, checkpoints and vacuums.
func (i *interruptions) cells() []string {
	if !i.known {
		return []string{"-", "-", "-"}
	}
	stops := "0"
	if len(i.stops) > 0 {
		stops = fmt.Sprintf("%d, %.1f ms", len(i.stops), longest(i.stops).Seconds()*1000)
	}
	return []string{stops, strconv.Itoa(len(i.checkpoints)), strconv.Itoa(len(i.vacuums))}
}

// String says which kinds of them there were.
func (i *interruptions) String() string {
	if !i.known {
		return "-"
	}
	var some []string
	if len(i.stops) > 0 {
		some = append(some, fmt.Sprintf("a stop of %.1f ms", longest(i.stops).Seconds()*1000))
	}
	if len(i.checkpoints) > 0 {
		some = append(some, "a checkpoint")
	}
	if len(i.vacuums) > 0 {
		some = append(some, "a vacuum")
	}
	if len(some) == 0 {
		return "none of these"
	}
	return strings.Join(some, ", ")
}

// collection is a line of the log of a collector: when a stop was over, and how many milliseconds it took.
var collection = regexp.MustCompile(`(?m)^\[([^]]+)\] GC\(\d+\) Pause .* (\d+\.\d+)ms\s*$`)

// collections reads the log of a collector.
func collections(log string) (stops []span) {
	for _, found := range collection.FindAllStringSubmatch(log, -1) {
		to, err := time.Parse("2006-01-02T15:04:05.000-0700", found[1])
		took, wrong := strconv.ParseFloat(found[2], 64)
		if err == nil && wrong == nil {
			stops = append(stops, span{to.Add(-time.Duration(took * float64(time.Millisecond))), to})
		}
	}
	return stops
}

// talkative settings have Postgres tell of what it does by itself, in a time zone that can be read. It is nothing but
// talk: its other settings are those that it comes with.
var talkative = map[string]string{
	"log_checkpoints": "on", "log_autovacuum_min_duration": "0", "log_timezone": "UTC",
}

var (
	// duty is a line of the log of Postgres that begins or ends what it does by itself.
	duty = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC \[\d+\] LOG:  ` +
		`(checkpoint|automatic)( starting| complete|)`)

	// elapsed is what stands some lines below the end of a vacuum.
	elapsed = regexp.MustCompile(`elapsed: (\d+\.\d+) s`)
)

// housekeeping reads the log of Postgres: what it does by itself. A checkpoint that is not over is under way until the
// end of time.
func housekeeping(log string) (checkpoints, vacuums []span) {
	open := false
	var ended time.Time // of a vacuum, of which it is not said yet how long it took
	for line := range strings.SplitSeq(log, "\n") {
		found := duty.FindStringSubmatch(line)
		if found == nil {
			if took := elapsed.FindStringSubmatch(line); took != nil && !ended.IsZero() {
				seconds, _ := strconv.ParseFloat(took[1], 64)
				vacuums = append(vacuums, span{ended.Add(-time.Duration(seconds * float64(time.Second))), ended})
				ended = time.Time{}
			}
			continue
		}
		at, err := time.Parse("2006-01-02 15:04:05.000", found[1])
		switch {
		case err != nil:
		case found[2] == "automatic":
			ended = at
		case found[3] == " starting":
			checkpoints = append(checkpoints, span{at, at.AddDate(1, 0, 0)})
			open = true
		case open:
			checkpoints[len(checkpoints)-1].to = at
			open = false
		}
	}
	return checkpoints, vacuums
}

// measuredTime is the time of a run that is measured.
func measuredTime(r *bench.Result) span {
	return span{r.Began.Add(r.Load.WarmUp), r.Began.Add(r.Took.Duration())}
}

// latestTime is the time in which the latest message of a run was late: from the begin of the second before it came,
// less by how much it was late. It is empty where nothing came.
func latestTime(r *bench.Result) (of span) {
	latest := bench.Millis(0)
	before := r.Began
	for _, s := range r.Seconds {
		at := r.Began.Add(s.At.Duration())
		if s.Max != nil && *s.Max > latest && at.After(r.Began.Add(r.Load.WarmUp)) {
			latest, of = *s.Max, span{before.Add(-s.Max.Duration()), at}
		}
		before = at
	}
	return of
}
