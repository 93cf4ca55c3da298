package check_test

import (
	"maps"
	"strings"
	"testing"

	"chronos/sim/check"
)

// preamble is a configuration under which everything is recorded, and a process that runs.
const preamble = `chronos history 1
0s configure recorded=ALL hold_time=5s timing_advance=50ms poll_interval=100ms detection_interval=500ms ` +
	`leave_after=1s store_timeout=1.5s publish_timeout=2s publishable_age=2.5s retry=1s store_latency=10ms ` +
	`broker_latency=10ms
0s start node=1.1 owner=00000000-0000-0000-0000-000000000001
0s start node=2.1 owner=00000000-0000-0000-0000-000000000002
0s place partition=in/0
`

// well is the life of one submission: enqueued, claimed, published, deleted.
const well = `1s submit message=1 id=x topic=out partition=in/0 payload=a key=1 deadline=2s
1.01s deliver node=1.1 message=1
1.02s insert node=1.1 message=1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000 deadline=2s
1.02s take node=1.1 message=1 partition=in/0 lineage=1
1.02s move node=1.1 partition=in/0 offset=1
1.03s commit node=1.1 partition=in/0 offset=1
1.9s claim node=1.1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000 ` +
	`owner=00000000-0000-0000-0000-000000000001 stamp=1.9s
1.9s ready node=1.1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000 limit=10 until=2.1s
1.95s publish node=1.1 message=1 topic=out incarnation=10000000-0000-0000-0000-000000000000 age=50ms wall=1.95s
1.96s fire node=1.1 message=1 topic=out incarnation=10000000-0000-0000-0000-000000000000 payload=a key=1 partition=out/3
`

// gone is what follows it when all is well.
const gone = "1.97s see message=1 topic=out\n" + settled

// settled is what follows it in the store.
const settled = `1.97s delete node=1.1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000
1.97s delete-done node=1.1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000
`

const (
	end = "10m end\n"
	x1  = "10000000-0000-0000-0000-000000000000"
	x2  = "20000000-0000-0000-0000-000000000000"
)

// inLine is the beginning of the good history and what follows, where callbacks of one key come one after the other.
func inLine(more string) string {
	return strings.NewReplacer("topic=out", "topic=http:out", "hold_time=", "ordered=true hold_time=").Replace(
		preamble + until("1.9s claim") + more)
}

// judge completes a history and judges it.
func judge(t *testing.T, text string) check.Verdict {
	t.Helper()
	var all []string
	for _, k := range check.Kinds() {
		all = append(all, string(k))
	}
	v, err := check.Check(strings.NewReader(strings.Replace(text, "ALL", strings.Join(all, ","), 1)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestGood judges a history in which nothing is wrong: every invariant is judged, and holds.
func TestGood(t *testing.T) {
	v := judge(t, preamble+well+gone+end)
	if len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
	if len(v.Judged) != len(check.Invariants()) || len(v.NotJudged) > 0 {
		t.Errorf("judged: %v; not judged: %v", v.Judged, v.NotJudged)
	}
	if s := v.Summary; s.Submitted != 1 || s.Fired != 1 || s.Records != 1 || s.Quiet.Count != 1 {
		t.Errorf("the summary is %+v", s)
	}
}

// The parts of the histories that break something.
const (
	row    = "id=x topic=out incarnation=10000000-0000-0000-0000-000000000000 "
	me     = "owner=00000000-0000-0000-0000-000000000001 "
	peer   = "owner=00000000-0000-0000-0000-000000000002 "
	commit = "commit node=1.1 partition=in/0 offset=1"
	move   = "1.02s move node=1.1 partition=in/0 offset=1\n"
	other  = "insert message=1 id=x topic=out incarnation=20000000-0000-0000-0000-000000000000 deadline=2s\n"
)

// until returns the good history up to that time.
func until(at string) string { return well[:strings.Index(well, at)] }

// TestBroken breaks each invariant by the smallest change to the good history. It must be named first.
func TestBroken(t *testing.T) {
	broken := brokenFates()
	for _, more := range []map[string][]string{
		brokenConduct(), brokenIntake(), brokenLiveness(), brokenLanes(), brokenControl(), brokenSeries(),
		brokenWindows(), brokenPaces(), brokenTasks(), brokenShares(), brokenParked(),
	} {
		maps.Copy(broken, more)
	}
	for _, i := range check.Invariants() {
		histories := broken[i.Name]
		if len(histories) == 0 {
			t.Errorf("nothing breaks %s", i.Name)
		}
		for n, text := range histories {
			if !strings.HasSuffix(text, " end\n") {
				text = strings.TrimSuffix(text, "\n") + "\n" + end
			}
			v := judge(t, text)
			if len(v.Violations) == 0 || v.Violations[0].Invariant != i.Name {
				t.Errorf("%s, history %d breaks %v instead", i.Name, n, v.Violations)
			}
		}
	}
	if v := judge(t, preamble+"1s reject node=1.1 message=1\n"+end); len(v.Violations) > 0 {
		t.Errorf("what nobody submitted can't be lost: %v", v.Violations)
	}
}

func brokenFates() map[string][]string {
	second := strings.ReplaceAll(strings.ReplaceAll(well, "message=1", "message=2"), "payload=a", "payload=b")
	zoned := strings.Replace(preamble, "leave_after", "begin=1h leave_after", 1)
	return map[string][]string{
		"S1": {
			preamble + until("1.01s") + "1.01s reject node=1.1 message=1 text=why\n",
			strings.Replace(preamble, "ALL", "submit,fire,copy", 1) + until("1.01s"),
			preamble + until("1.9s") + "1.9s rollback\n",
			preamble + "1s submit message=1 flaw=invalid\n2s fire message=1\n",
			preamble + well + "1.965s copy message=1 incarnation=" + x1 + "\n" + gone,
			strings.Replace(preamble, "leave_after", "dead_letter=true leave_after", 1) +
				"1s submit message=1 flaw=invalid\n1.1s reject message=1\n2s heal\n",
		},
		"S2": {
			preamble + until("1.95s") + gone,
			preamble + well + gone + settled,
		},
		"S3": {
			preamble + well + "2s claim node=2.1 " + row + peer + "stamp=2s\n" + goneLater(),
			preamble + strings.Replace(well, "incarnation="+x1+" age=50ms", "", 1) + gone,
			preamble + "1s claim node=1.1 " + row + me + "\n",
			preamble + until("1.9s") +
				"1.4s submit message=3 id=z topic=out partition=in/0 offset=4 payload=a deadline=9s\n" +
				"1.5s lineage lineage=2\n1.5s mark partition=in/0 offset=5\n9s claim " + row +
				me,
			preamble + until("1.9s") + "1.5s lineage lineage=2\n4s claim " + row + me,
			preamble + "0s lineage lineage=2\n" + strings.NewReplacer("1s submit", "4s submit", "1.01s", "4s",
				"deadline=2s\n1.02s take", "deadline=2s "+me+"\n4s take", "lineage=1", "lineage=2",
				"1.02s", "4s").Replace(until("1.03s")),
		},
		"S4": {
			preamble + well + "2s reset node=2.1 " + row + me + "stamp=1.9s age=100ms\n" + goneLater(),
			preamble + well + "9s reset node=2.1 " + row + me + "stamp=1.8s age=7s\n",
			preamble + strings.Replace(well, "stamp=1.9s", "stamp=1.9s expires=11.9s", 1) +
				"9s reset node=2.1 " + row + me + "stamp=1.9s age=7.1s\n",
		},
		"S5": {
			preamble + well + "1.965s fire node=1.1 message=1 topic=out payload=a partition=out/3\n" + gone,
			preamble + well + "1.965s publish node=1.1 message=1 topic=out incarnation=" + x1 + " wall=2s\n" + gone,
			preamble + well + "1.965s deliver node=2.1 message=1\n1.965s fire message=1 payload=a\n" + gone,
			preamble + well + "1.965s fail node=1.1 message=1 topic=out text=unsent\n1.965s reset node=1.1 " + row +
				me + "stamp=1.9s age=2.4s unsent=true\n" +
				"1.965s fire message=1 payload=a\n",
		},
		"S6": {
			preamble + strings.Replace(well, "payload=a key=1 partition", "payload=b key=1 partition", 1) + gone,
			preamble + strings.Replace(well, "000 deadline=2s", "000 deadline=3s", 1) + gone,
			preamble + "1s fire message=7 payload=a\n",
			zoned + strings.Replace(well, "key=1", "key=1 written=1970-01-01T03:00:02.0000001+02:00", 1),
			zoned + strings.Replace(well, "key=1", "key=1 written=1970-01-01T01:00:02+0001", 1),
			preamble + until("1.03s") + "1.1s submit message=2 id=x topic=out action=reschedule deadline=5s\n" +
				"1.2s decide node=1.1 message=2 " + row + "action=reschedule text=rescheduled deadline=4s due=4s\n",
		},
		"S7": {
			preamble + well + gone + strings.NewReplacer("id=x", "id=y", "out/3", "out/4", "incarnation=1",
				"incarnation=2", "in/0 offset=1", "in/0 offset=2", "in/0 payload", "in/0 offset=1 payload",
				"in/0 lineage", "in/0 offset=1 lineage").Replace(later(second)),
			preamble + "1s submit message=1 id=x topic=out key=1\n1s submit message=2 id=y topic=out key=1\n" +
				"1s insert message=1 id=x topic=out incarnation=" + x1 + " " + me + "\n" +
				"1s insert message=2 id=y topic=out incarnation=2" + x1[1:] + " " + me + "\n" +
				"1s publish node=1.1 message=1 topic=out wall=1s incarnation=" + x1 + "\n" +
				"1s publish node=1.1 message=2 topic=out wall=1s nth=1 incarnation=2" + x1[1:] + "\n" +
				"1s fire message=2 key=1\n1s fire message=1 key=1\n",
		},
		"S8": {
			preamble + strings.Replace(well, "wall=1.95s", "wall=1.9s", 1) + gone,
			strings.Replace(preamble, "ALL", "submit,fire", 1) +
				"1s submit message=1 payload=a deadline=2s\n1.9s fire message=1 payload=a\n",
		},
	}
}

func brokenConduct() map[string][]string {
	twice := "1s submit message=1 id=x topic=out partition=in/0 payload=a deadline=9s\n" +
		"1s submit message=2 id=x topic=out partition=in/0 offset=1 payload=b deadline=9s\n"
	return map[string][]string{
		"S9": {
			preamble + strings.Replace(well, "message=1 topic=out incarnation=1",
				"message=1 topic=out incarnation=2", 1),
			preamble + twice + "1.1s duplicate message=1\n",
			preamble + twice + "1.1s insert message=2 id=x topic=out incarnation=" + x1 + " deadline=9s\n" +
				"1.1s duplicate message=1\n",
		},
		"S10": {
			preamble + strings.Replace(well, commit, commit[:len(commit)-1]+"2", 1) + gone,
			preamble + until("1.02s") + "1.02s commit node=1.1 partition=in/0 offset=1\n",
			preamble + well + gone + "2s commit node=1.1 partition=in/0\n",
			preamble + strings.Replace(well, move, "", 1) + gone,
			preamble + well + gone + "2s taken node=1.1 partition=in/0 offset=1\n" +
				"3s rollback text=confirmed\n3s keep-place partition=in/0\n",
		},
		"S11": {preamble + well + "1.965s " + other},
		"S12": {
			preamble + "1s start node=3.1 " + me + "\n",
			preamble + "1s crash node=1.1\n1.1s poll node=1.1\n",
			preamble + strings.Replace(well, me[:len(me)-2]+"1 stamp", me[:len(me)-2]+"9 stamp", 1) + gone,
		},
		"S13": {preamble + strings.Replace(well, "age=50ms", "age=2.6s", 1) + gone},
		"S14": {preamble + well + settled[strings.Index(settled, "\n")+1:] + gone},
		"S15": {
			preamble + strings.Replace(well, "limit=10", "nth=10 limit=10", 1) + gone,
			preamble + strings.Replace(well, "until=2.1s", "until=1.9s", 1) + gone,
			preamble + strings.Replace(well, "limit=10", "part=3 limit=10", 1) + gone,
		},
		"S16": {
			strings.Replace(preamble, "publish_timeout=2s", "publish_timeout=3.5s", 1),
			strings.Replace(preamble, "publishable_age=2.5s", "publishable_age=3.5s", 1),
			preamble + strings.Replace(well, "stamp=1.9s", "stamp=1.9s expires=4.9s", 1) + gone,
		},
	}
}

func brokenIntake() map[string][]string {
	taken := "1s submit message=1 id=x topic=out partition=in/0 payload=a deadline=9s epoch=1\n" +
		"1s insert message=1 id=x topic=out incarnation=" + x1 +
		" deadline=9s\n1s take message=1 partition=in/0 epoch=1\n" +
		"1s move partition=in/0 offset=1 epoch=1\n"
	return map[string][]string{
		"S17": {
			preamble + well + gone + "2s take message=1 partition=in/0\n",
			preamble + well + gone + "2s " + other,
			strings.Replace(preamble, "ALL", "submit,insert,delete", 1) + well + gone + "2s " + other, // from outside
			preamble + strings.Replace(well, "lineage=1", "lineage=2", 1) + gone,
			preamble + taken + "2s take partition=in/0 offset=1 epoch=0\n",
		},
		"S18": {
			preamble + until("1.02s") + move,
			preamble + strings.Replace(until("1.9s"), "1.02s insert", "# ", 1),
			preamble + until("1.02s") + "1.02s take message=1 partition=in/0 skipped=true\n",
			preamble + well + gone + "2s move partition=in/0\n",
			preamble + well + gone + "2s lineage node=1.1 lineage=2\n",
			preamble + well + gone + undone + "6s lineage node=2.1 lineage=4\n7s lineage node=1.1 lineage=5\n",
			preamble + until("1.01s") + "1.01s retain partition=in/0 offset=1\n" + move,
			strings.Replace(preamble, "place partition=in/0", "submit message=1 partition=in/0", 1) +
				"1s place partition=in/0 offset=1\n",
			strings.Replace(preamble, "place partition=in/0", "submit message=1 partition=in/0", 1) +
				"1s place partition=in/0 offset=1 adopted=true\n",
			// Kafka has lost what was taken in, and something else has taken its place.
			preamble + taken + "2s truncate partition=in/0\n" +
				"3s submit message=2 id=y topic=out partition=in/0 deadline=9s epoch=2\n" +
				"4s take message=2 partition=in/0 epoch=2 skipped=true\n",
		},
	}
}

const zero = "00000000-0000-0000-0000-000000000000"

// again is the second occurrence of a series, of an interval and a number of occurrences that the good history gets.
const again = "recur node=1.1 message=1001 of=1 " + row + "next=20000000-0000-0000-0000-000000000000 nth="

func recurs() string { return strings.Replace(well, "submit", "submit every=2s limit=3", 1) }

// TestRecurs judges a series of three occurrences. Nothing is wrong with it.
func TestRecurs(t *testing.T) {
	history := preamble + recurs() + "1.97s " + again + "2 deadline=4s\n"
	first := "id=x topic=out incarnation=20000000-0000-0000-0000-000000000000 "
	second := "30000000-0000-0000-0000-000000000000"
	history += "3.9s claim node=1.1 " + first + me + "stamp=3.9s\n" +
		"4s publish node=1.1 message=1001 topic=out incarnation=20000000-0000-0000-0000-000000000000 age=100ms " +
		"wall=4s\n" +
		"4s fire node=1.1 message=1001 topic=out incarnation=20000000-0000-0000-0000-000000000000 payload=a key=1 " +
		"partition=out/3\n4.1s recur node=1.1 message=1002 of=1 " + first + "next=" + second + " nth=3 deadline=6s\n" +
		"6s claim node=1.1 id=x topic=out incarnation=" + second + " " + me + "stamp=6s\n" +
		"6s publish node=1.1 message=1002 topic=out incarnation=" + second + " age=1ms wall=6s\n" +
		"6s fire node=1.1 message=1002 topic=out incarnation=" + second + " payload=a key=1 partition=out/3\n" +
		"6.1s delete node=1.1 id=x topic=out incarnation=" + second + "\n"
	if v := judge(t, history+end); len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
}

func brokenSeries() map[string][]string {
	stop := "1.93s " + decided + stays + "stopped\n"
	inFlight := strings.Replace(recurs(), "1.03s commit", asks+"1.3s commit", 1)
	inFlight = preamble + strings.Replace(inFlight, "1.95s publish", stop+"1.95s publish", 1)
	return map[string][]string{
		"S22": {
			preamble + recurs() + gone,
			preamble + recurs() + "1.97s " + again + "3 deadline=6s\n",
			preamble + recurs() + "1.97s " + again + "2 deadline=3.97s\n",
			preamble + recurs() + "1.97s " + strings.Replace(again, "incarnation="+x1, "incarnation="+zero, 1) +
				"2 deadline=4s\n",
			preamble + recurs()[:strings.Index(recurs(), "1.95s")] + "1.97s " + again + "2 deadline=4s\n",
			inFlight + "1.97s " + again + "2 deadline=4s\n",
		},
	}
}

func brokenLiveness() map[string][]string {
	held := preamble + later(until("1.95s"))
	return map[string][]string{
		"L1": {preamble + until("1.95s") + "1.95s crash node=1.1\n2s heal\n"},
		"L2": {
			preamble + until("1.9s") + "2s heal\n",
			preamble + until("1.9s") + "2s heal\n9m59s lineage lineage=2\n20m end\n",
		},
		"L3": {
			preamble + until("1.01s") + "2s heal\n",
			preamble + until("1.02s") + "2s heal\n",
			preamble + strings.Replace(well, "1.03s "+commit+"\n", "", 1) + gone + "2s heal\n",
			preamble + inherited + "1s retain partition=in#2/0 offset=12\n" + well + gone + "2s heal\n",
			preamble + inherited + "1s submit message=2 id=y topic=out partition=in#2/0 flaw=invalid deadline=2s\n" +
				"1s deliver node=1.1 message=2\n1s reject node=1.1 message=2\n1s take node=1.1 message=2 " +
				"partition=in#2/0 lineage=1\n1s move node=1.1 partition=in#2/0 offset=1\n" + well + gone + "2s heal\n",
		},
		"L4": {
			preamble + "0.5s heal\n" + well + "1.965s unknown message=1\n" +
				"1.966s fire message=1 incarnation=" + x1 + " payload=a\n" + gone,
			preamble + until("1.95s") + strings.Repeat("2s fail message=1 text=missing incarnation="+x1+"\n", 15),
			preamble + until("1.95s") + strings.Repeat("2s fail message=1 text=rejected incarnation="+x1+"\n", 13),
			preamble + strings.Repeat("2s error node=1.1 port=source text=poll\n", 51),
			preamble + strings.Repeat("2s error node=1.1 port=store text=take\n", 51),
			calling + strings.Repeat("2s error node=1.1 port=store text=take\n", 251),
		},
		"L5": {
			preamble + strings.NewReplacer("1.95s publish", "2.2s publish", "1.96s fire", "2.21s fire").Replace(well),
			held + "18s reset node=2.1 " + row + me + "stamp=1.9s age=6.1s\n",
		},
		"L6": {
			preamble + "0.5s submit message=9 flaw=invalid\n" +
				strings.NewReplacer("1.95s publish", "2.3s publish", "1.96s fire", "2.4s fire").Replace(well),
		},
		"L7": {
			preamble + "1s join node=1.1\n" + "2s cut node=1.1 port=store\n30s mend node=1.1 port=store\n",
		},
		"L8": {preamble + until("1.95s") + "1.95s term node=1.1\n1.96s stop node=1.1\n"},
		"L9": {
			preamble + well + gone + "2s rollback\n2s keep-place partition=in/0\n3s lineage lineage=2\n4s heal\n",
		},
	}
}

func brokenLanes() map[string][]string {
	back := preamble + until("1.95s") + "1.95s reset node=1.1 " + row + me + "stamp=1.9s age=50ms unsent=true"
	return map[string][]string{
		"S23": {
			back,
			back + " due=5s",
			preamble + until("1.95s") + "1.92s fail node=1.1 message=1 topic=out text=unsent\n" +
				"1.95s reset node=1.1 " + row + me + "stamp=1.9s age=50ms unsent=true due=1.9s",
			preamble + until("1.95s") + "1.92s fail node=1.1 message=8 topic=other text=unsent\n" +
				"1.95s reset node=1.1 " + row + me + "stamp=1.9s age=50ms unsent=true",
			preamble + until("1.95s") + "1.92s fail node=1.1 message=8 topic=out text=unsent\n" +
				"1.95s reset node=1.1 " + row + me + "stamp=1.9s age=50ms unsent=true due=5s",
			// Its lane is open since before the claim; that of another node would be closed; it is closed until soon.
			windowed("out/1m/30s/1.5s", given()), going("out/1m/30s/0s", windowed("out/1m/1s/0s", given())),
			strings.Replace(windowed("out/1m/30s/1.92s", given()), "hold_time=", "lookahead=250ms hold_time=", 1),
		},
		"S25": {
			preamble + strings.Replace(well, "1.9s claim", "1.5s pause topic=out stamp=1.5s\n1.9s claim", 1),
			preamble + "0.5s pause\n" + well,
			preamble + "0.5s pause topic=out stamp=0.5s\n" + strings.Replace(well, "deadline=2s\n1.02s take",
				"deadline=2s "+me+"stamp=1.02s\n1.02s take", 1),
			preamble + waiting() + "1.5s pause\n1.93s " + past + zero + " text=cancelled\n",
		},
		"S26": {
			preamble + strings.Replace(well, "payload=a", "payload=a not_after=1.94s", 1),
			preamble + ends("9s") + "1.95s publish node=1.1 message=1 topic=dead incarnation=" + x1 + " wall=1.95s\n",
			preamble + ends("1.94s") + "1.95s copy message=1 incarnation=" + x1 + " text=publish_rejected\n",
			strings.Replace(preamble, "ALL", "submit,fire", 1) +
				"1s submit message=1 id=x topic=out payload=a deadline=2s not_after=3s\n6s fire message=1 payload=a\n",
		},
		"L12": {
			preamble + until("1.95s") + "1.92s pause topic=out stamp=1.92s\n" +
				"6.5s fire message=1 topic=out incarnation=" + x1 + " payload=a key=1 partition=out/3\n",
			strings.NewReplacer("topic=out", "topic=http:out").Replace(preamble + until("1.95s") +
				"1.92s pause topic=out stamp=1.92s\n" +
				"7.4s publish node=1.1 message=1 topic=out incarnation=" + x1 + " age=1ms wall=7.4s\n" +
				"7.5s fire message=1 topic=out incarnation=" + x1 + " payload=a key=1\n"),
		},
		"L13": {
			strings.NewReplacer("topic=out", "topic=http:out").Replace(preamble + until("1.95s publish") +
				"1.95s publish node=1.1 message=1 topic=out incarnation=" + x1 + " wall=1.95s\n" +
				"1.96s unknown node=1.1 message=1 topic=out incarnation=" + x1 + "\n" +
				"1.97s reset node=1.1 " + row + me + "stamp=1.9s age=70ms due=2.4s\n" +
				"2.4s claim node=1.1 " + row + me + "stamp=2.4s\n" +
				"2.5s publish node=1.1 message=1 topic=out incarnation=" + x1 + " wall=2.5s\n"),
		},
		"S27": {
			strings.NewReplacer("topic=out", "topic=http:out", "retry=1s", "retry=1s retry_for=3s").
				Replace(preamble + until("1.96s") +
					"1.96s unknown node=1.1 message=1 topic=out incarnation=" + x1 + "\n" +
					"1.97s insert node=1.1 message=1 id=x topic=dead " +
					"incarnation=20000000-0000-0000-0000-000000000000 deadline=1.97s\n"),
		},
		"L14": {
			strings.NewReplacer("topic=out", "topic=http:out", "retry=1s", "retry=1s retry_for=3s").
				Replace(preamble + until("1.95s publish") +
					"1.95s publish node=1.1 message=1 topic=out incarnation=" + x1 + " wall=1.95s\n" +
					"5.1s unknown node=1.1 message=1 topic=out incarnation=" + x1 + "\n" +
					"5.11s reset node=1.1 " + row + me + "stamp=1.9s age=3.21s due=7s\n" +
					"7s claim node=1.1 " + row + me + "stamp=7s\n" +
					"7.1s publish node=1.1 message=1 topic=out incarnation=" + x1 + " wall=7.1s\n"),
		},
		"S28": {
			// It is published before one that comes first.
			inLine("1.5s submit message=2 id=w topic=out partition=in/0 offset=1 payload=b key=1 deadline=1.9s\n" +
				"1.5s insert message=2 id=w topic=out incarnation=" + x2 + " deadline=1.9s\n" +
				"4s claim node=1.1 " + row + me + "stamp=4s\n" +
				"4.1s publish node=1.1 message=1 topic=out incarnation=" + x1 + " age=100ms wall=4.1s\n"),
			// It is published while one of its key is out, which comes second.
			inLine("1.5s submit message=2 id=y topic=out partition=in/0 offset=1 payload=b key=1 deadline=3s\n" +
				"1.5s insert message=2 id=y topic=out incarnation=" + x2 + " deadline=3s\n" +
				"3.9s claim node=2.1 id=y topic=out incarnation=" + x2 + " " + peer + "stamp=3.9s\n" +
				"3.9s publish node=2.1 message=2 topic=out incarnation=" + x2 + " wall=3.9s\n" +
				"4s claim node=1.1 " + row + me + "stamp=4s\n" +
				"4.1s publish node=1.1 message=1 topic=out incarnation=" + x1 + " age=100ms wall=4.1s\n"),
			// One that comes first, and came later, is published while the other is out.
			inLine(well[strings.Index(well, "1.9s claim"):strings.Index(well, "1.96s")] +
				"1.96s submit message=2 id=w topic=out partition=in/0 offset=1 payload=b key=1 deadline=1.9s\n" +
				"1.97s insert message=2 id=w topic=out incarnation=" + x2 + " deadline=1.9s\n" +
				"2.1s claim node=2.1 id=w topic=out incarnation=" + x2 + " " + peer + "stamp=2.1s\n" +
				"2.2s publish node=2.1 message=2 topic=out incarnation=" + x2 + " age=100ms wall=2.2s\n"),
			// Of two with one deadline the first is that with the lower id.
			inLine("1.5s submit message=2 id=w topic=out partition=in/0 offset=1 payload=b key=1 deadline=2s\n" +
				"1.5s insert message=2 id=w topic=out incarnation=" + x2 + " deadline=2s\n" +
				"4s claim node=1.1 " + row + me + "stamp=4s\n" +
				"4.1s publish node=1.1 message=1 topic=out incarnation=" + x1 + " age=100ms wall=4.1s\n"),
		},
		"L15": {
			inLine("7s claim node=1.1 " + row + me + "stamp=7s\n" +
				"7.1s publish node=1.1 message=1 topic=out incarnation=" + x1 + " age=100ms wall=7.1s\n"),
			inLine(cancelledBefore("60s")),
		},
		"L10": {
			preamble + "0.5s hang topic=other\n" +
				strings.NewReplacer("1.95s publish", "6s publish", "1.96s fire", "6.1s fire").Replace(well),
		},
		"L11": {
			preamble + strings.Replace(later(until("1.9s ready")), "11.9s claim", "19.9s claim", 1),
			preamble + "1s heal\n" + strings.NewReplacer("deadline=12s",
				"deadline=9m50s").Replace(later(until("1.9s"))) + end,
		},
	}
}

// undone are two lineages of which the first is undone. They have the same number.
const undone = "2s rollback lineage=2\n2s keep-place partition=in/0 offset=1\n3s lineage node=1.1 lineage=3\n" +
	"4s rollback lineage=2\n4s keep-place partition=in/0 offset=1\n5s lineage node=2.1 lineage=3\n"

// TestNumberTwice has a node begin one more lineage, since it has seen the one that was undone. That is no mistake.
func TestNumberTwice(t *testing.T) {
	v := judge(t, preamble+well+gone+undone+"6s lineage node=1.1 lineage=4\n"+end)
	if len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
}

// later moves a history by ten seconds.
func later(text string) string {
	var moved strings.Builder
	for line := range strings.Lines(text) {
		moved.WriteString("1" + line)
	}
	return strings.NewReplacer("deadline=2s", "deadline=12s", "until=2.1s", "until=12.1s", "wall=1.95s",
		"wall=11.95s").Replace(moved.String())
}

// TestNotJudged leaves kinds of events out. What needs them is not judged, and nothing else changes.
func TestNotJudged(t *testing.T) {
	v := judge(t, strings.Replace(preamble, "ALL", "submit,fire,copy,fault", 1)+
		"1s submit message=1 id=x topic=out payload=a deadline=2s\n2s fire message=1 payload=a\n"+end)
	if got := strings.Join(v.Judged, " "); got != "S1 S5 S6 S7 S8 S16 S26 S29 L5 L6" || len(v.Violations) > 0 {
		t.Errorf("judged: %s; broken: %v", got, v.Violations)
	}
	for _, n := range v.NotJudged {
		if len(n.Missing) == 0 {
			t.Errorf("%s is not judged, and nothing is missing", n.Invariant)
		}
	}
}

// TestUnreadable gives histories that can't be judged. Each error names the line and what is wrong.
func TestUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "empty",
		"1s submit\n":                            `line 1: this is no history`,
		"chronos history 1\n1s end\n":            "line 2: the first event is end",
		"chronos history 1\n# c\n0s configure\n": `breaks off: its last event is "configure"`,
		"chronos history 1\n0s configure\n1s fire massage=1\n":     `line 3: fire has no field "massage"`,
		"chronos history 1\n0s configure\n1s fir\n":                `line 3: there is no kind of event "fir"`,
		"chronos history 1\n0s configure\n1 fire\n":                `line 3: "1" is no time`,
		"chronos history 1\n0s configure\n1s fire id=\"x\n":        "line 3: the value of id has no end",
		"chronos history 1\n0s configure\n1s fire owner=1\n":       `line 3: set owner to "1"`,
		"chronos history 1\n0s configure\n1s fire id\n":            "is not of the form name=value",
		"chronos history 1\n0s configure\n2s heal\n1s end\n":       "line 4: the time goes back from 2s to 1s",
		"chronos history 1\n0s configure\n1s end\n2s fire\n":       "line 4: there is a fire after the end",
		"chronos history 1\n0s configure\n0s configure\n":          "line 3: there is a second configure",
		"chronos history 1\n0s configure recorded=fire,fury\n":     `there is no kind of event "fury"`,
		"chronos history 1\n0s configure\n1s submit flaw=ugly\n":   "there is no such flaw",
		"chronos history 1\n0s configure hold_time=5\n1s end\n":    "line 2: set hold_time",
		"chronos history 1\n0s configure\n1s submit message=one\n": "line 3: set message",
	} {
		_, err := check.Check(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
}

// TestCovered gives histories in which an id is used twice and the second submission never fires, as somebody sees it
// who does not know what inserts have found.
func TestCovered(t *testing.T) {
	const seen = "submit,fire,copy,heal,fault,insert,claim,reset,delete"
	const again = "submit message=2 id=x topic=out payload=b deadline=9s\n"
	history := func(recorded, at string) string {
		return strings.Replace(preamble, "ALL", recorded, 1) + well + gone + at + " " + again + end
	}
	early := strings.Replace(preamble, "ALL", seen, 1) + well[:strings.Index(well, "1.9s")] + "1.5s " + again +
		well[strings.Index(well, "1.9s"):] + gone + end
	for name, c := range map[string]struct {
		text string
		lost bool
	}{
		"while the row was there":          {early, false},
		"after the row was gone":           {history(seen, "5s"), true},
		"soon after, and no rows are seen": {history("submit,fire,copy", "5s"), false},
		"long after, and no rows are seen": {history("submit,fire,copy", "1m"), true},
	} {
		v := judge(t, c.text)
		lost := len(v.Violations) > 0 && (v.Violations[0].Invariant == "S1" || v.Violations[0].Invariant == "L3")
		if lost != c.lost {
			t.Errorf("%s: %v", name, v.Violations)
		}
		if !c.lost && v.Summary.Covered != 1 {
			t.Errorf("%s: %d are covered", name, v.Summary.Covered)
		}
	}
}

// TestBounded lets a submission fire again and again, as somebody sees it who reads the table and the topics only: what
// may excuse it is used up in the end.
func TestBounded(t *testing.T) {
	const seen = "submit,fire,copy,heal,fault,insert,claim,reset,delete"
	stored := well[:strings.Index(well, "1.95s")]
	for name, c := range map[string]struct {
		before, broken string
		most           int // so often it may fire
	}{
		"in trouble":        {"0.5s fault\n", "S5", 2},
		"after the healing": {"0.5s fault\n0.6s heal\n", "L4", 1},
	} {
		text := strings.Replace(preamble, "ALL", seen, 1) + c.before + stored
		for range c.most {
			text += "1.96s fire message=1 topic=out payload=a key=1 partition=out/3\n"
		}
		if v := judge(t, text+gone+end); len(v.Violations) > 0 {
			t.Errorf("%s: it fires %d times: %v", name, c.most, v.Violations)
		}
		text += "1.96s fire message=1 topic=out payload=a key=1 partition=out/3\n"
		if v := judge(t, text+gone+end); len(v.Violations) == 0 || v.Violations[0].Invariant != c.broken {
			t.Errorf("%s: it fires %d times, and what is broken is %v", name, c.most+1, v.Violations)
		}
	}
}

// TestLost loses two submissions of three. One violation is enough to fail, and the summary counts both.
func TestLost(t *testing.T) {
	v := judge(t, strings.Replace(preamble, "ALL", "submit,fire,copy", 1)+
		"1s submit message=1 id=x topic=out payload=a deadline=2s\n"+
		"1s submit message=2 id=y topic=out payload=b deadline=2s\n"+
		"1s submit message=3 id=z topic=out payload=c deadline=2s\n2s fire message=2 payload=b\n"+end)
	var text strings.Builder
	_, err := v.WriteTo(&text)
	if v.Summary.Lost != 2 || err != nil || !strings.Contains(text.String(), "covered by another 0, LOST 2\n") {
		t.Errorf("%d are lost: %v\n%s", v.Summary.Lost, err, text.String())
	}
}
