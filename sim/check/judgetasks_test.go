package check_test

import (
	"slices"
	"strings"
	"testing"

	"chronos/sim/check"
)

// The ids of histories with tasks.
const (
	nights  = "queue=00000000-0000-0000-0000-00000000000a "
	outer   = "queue=00000000-0000-0000-0000-00000000000b "
	first   = "task=00000000-0000-0000-0000-000000000001 "
	second  = "task=00000000-0000-0000-0000-000000000002 "
	one     = "run=10000000-0000-0000-0000-000000000001 "
	two     = "run=10000000-0000-0000-0000-000000000002 "
	nowhere = "run=10000000-0000-0000-0000-000000000003 "
)

// aSyncQueue is the beginning of histories with a sync queue.
const aSyncQueue = preamble + "1s queue " + nights + "stamp=1s lasts=1m sync=true paths=/a/b\n"

// aTask is the life of a task of it: it comes, is executed, completed and promised.
const aTask = "2s arrive " + first + nights + "stamp=2s arrival=1 limit=1\n" +
	"2s begin " + first + one + "stamp=2s\n" +
	"2s accept " + first + "\n" +
	"3s call " + first + one + "text=execution\n" +
	"5s done " + first + one + "text=Complete stamp=5s\n" +
	"5s promise " + first + one + "\n" +
	"5s told " + first + one + "text=Complete\n" +
	"6s call " + first + one + "text=promise/0\n"

// contained is a queue that contains the other one, with windows or without.
func contained(windows string) string {
	return "1s queue " + outer + "stamp=1s lasts=1m paths=/a " + windows + "\n"
}

// TestTasks judges histories in which nothing is wrong.
func TestTasks(t *testing.T) {
	another := strings.NewReplacer(first, second, one, two, "arrival=1", "arrival=2").Replace(aTask)
	next := strings.NewReplacer("2s ", "7s ", "3s ", "7s ", "5s ", "8s ", "6s ", "9s ")
	for name, text := range map[string]string{
		"one":       aTask,
		"in turn":   aTask + next.Replace(another),
		"opens":     strings.Replace(contained("windows=q/1h/59m/2s")+aTask, "2s arrive", "1.5s arrive", 1),
		"sibling":   strings.ReplaceAll(contained("windows=q/1h/1m/30s"), "/a ", "/a/bc ") + aTask,
		"same path": strings.ReplaceAll(contained("windows=q/1h/1m/30s"), "/a ", "/a/b ") + aTask,
		"first by rank": strings.Replace(aTask, "2s begin",
			"2s arrive "+second+nights+"stamp=2s arrival=2 priority=-1\n2s begin", 1) +
			"8s withdraw " + second + "text=asked\n",
		"asked twice": aTask + "7s call " + first + one + "text=promise/0\n",
		"set back": aTask + "7s rollback\n7s keep-queue " + nights + "lasts=1m sync=true\n" +
			"7s keep-task " + first + nights + one + "text=Running limit=1\n" +
			"9s done " + first + one + "text=Failure stamp=9s\n9s promise " + first + one + "\n",
		"deleted": aTask + "7s arrive " + second + nights + "stamp=7s arrival=2\n7s drop-queue " + nights +
			"\n7s withdraw " + second + "\n7s queue-gone " + nights + "\n",
	} {
		if v := judge(t, aSyncQueue+text+"1m heal\n"+end); len(v.Violations) > 0 {
			t.Errorf("%s: %v", name, v.Violations)
		}
	}
}

// TestTimeLimits judges tasks that nobody completes, where the clock of the store is set. What it says counts.
func TestTimeLimits(t *testing.T) {
	for name, text := range map[string]string{
		"set back":                          limited("20s jump stamp=10s\n", "72s", "62s") + "73s end\n",
		"set back, and nobody says so":      limited("20s jump\n", "72s", "62s") + "73s end\n",
		"set back, and it still runs":       strings.Split(aTask, "5s done")[0] + "20s jump stamp=10s\n65s end\n",
		"set, and nobody knows how it ends": strings.Split(aTask, "5s done")[0] + "20s jump\n65s end\n",
	} {
		if v := judge(t, aSyncQueue+text); slices.ContainsFunc(v.Violations, func(v check.Violation) bool {
			return v.Invariant == "L19"
		}) {
			t.Errorf("%s: %v", name, v.Violations)
		}
	}
}

// limited is the life of a task that nobody completes: what happens meanwhile, and when it fails, also by the clock of
// the store.
func limited(meanwhile, at, stamp string) string {
	return strings.Split(aTask, "5s done")[0] + meanwhile +
		at + " done " + first + one + "text=Failure stamp=" + stamp + "\n" +
		at + " promise " + first + one + "\n" + at + " call " + first + one + "text=promise/0\n"
}

func brokenTasks() map[string][]string {
	arrive := "2s arrive " + first + nights + "stamp=2s arrival=1 limit=1\n"
	arrive2 := "2s arrive " + second + nights + "stamp=2s arrival=2\n"
	begin := "2s begin " + first + one + "stamp=2s\n"
	begin2 := "2.5s begin " + second + two + "stamp=2.5s\n"
	done := "5s done " + first + one + "text=Complete stamp=5s\n"
	promise := "5s promise " + first + one + "\n"
	started := arrive + begin
	tasks := map[string][]string{
		"S31": {
			contained("windows=q/1h/59m/3s") + aTask, contained("windows=q/1h/30s/1m") + aTask,
			"1.5s queue " + nights + "stamp=1.5s lasts=1m sync=true windows=q/1h/30s/1m\n" + aTask,
			begin,
		},
		"S32": {
			started + arrive2 + begin2, started + begin,
			started + done + promise + "6s begin " + first + two + "stamp=6s\n",
		},
		"S33": {
			arrive + arrive2 + begin2,
			arrive + strings.Replace(arrive2, "arrival=2", "arrival=2 priority=1", 1) + begin,
			"1.5s queue " + nights + "stamp=1.5s lasts=1m\n" +
				strings.Replace(arrive, "limit=1", "limit=1 due=2.1s", 1) + begin,
		},
		"S34": {
			arrive + done, started + done + promise + done, started + promise, started + done + promise + promise,
			started + "3s call " + first + nowhere + "text=execution\n",
			started + done + "5s call " + first + one + "text=promise/0\n",
			started + done + promise + "5s told " + first + one + "text=Failure\n",
			started + "5s told " + first + one + "text=Complete\n",
			started + "3s call " + first + one + "text=execution\n" + done,
			started + "3s call " + first + one + "text=execution\n" + done + promise + "6s heal\n",
			started + done + promise + "6s call " + first + one + "text=promise/0\n6s heal\n",
		},
		"L18": {
			arrive + "7s begin " + first + one + "stamp=7s\n", arrive, arrive + "3s withdraw " + first + "\n",
			"2s accept " + first + "\n", arrive + "3s drop-queue " + nights + "drain=true\n3s withdraw " + first + "\n",
			started + "3s queue-gone " + nights + "\n",
			started + arrive2 + done + promise + "8s begin " + second + two + "stamp=8s\n",
			contained("windows=q/1h/59m/6s") + arrive + "9s begin " + first + one + "stamp=9s\n",
			"1.5s queue " + nights + "stamp=1.5s lasts=1m\n" + strings.Replace(arrive, "limit=1", "limit=1 due=9s", 1) +
				"12s begin " + first + one + "stamp=12s\n",
		},
		"L19": {
			started + "70s done " + first + one + "text=Failure stamp=70s\n", started,
			limited("20s jump stamp=10s\n", "75s", "65s"), limited("20s jump stamp=40s\n", "45s", "65s"),
			// It still runs by the clock that was set, and nothing has said so since.
			started + "20s jump stamp=30s\n55s end\n",
		},
	}
	for _, histories := range tasks {
		for i := range histories {
			histories[i] = aSyncQueue + histories[i]
		}
	}
	return tasks
}
