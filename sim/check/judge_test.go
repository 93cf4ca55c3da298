package check_test

import (
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
`

// well is the life of one submission: enqueued, claimed, published, deleted.
const well = `1s submit message=1 id=x topic=out partition=in/0 payload=a key=1 deadline=2s
1.01s deliver node=1.1 message=1
1.02s insert node=1.1 message=1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000 deadline=2s
1.03s commit node=1.1 partition=in/0 offset=1
1.9s claim node=1.1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000 ` +
	`owner=00000000-0000-0000-0000-000000000001 stamp=1.9s
1.9s ready node=1.1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000 limit=10 until=2.1s
1.95s publish node=1.1 message=1 topic=out incarnation=10000000-0000-0000-0000-000000000000 age=50ms wall=1.95s
1.96s fire node=1.1 message=1 topic=out incarnation=10000000-0000-0000-0000-000000000000 payload=a key=1 partition=out/3
`

// gone is what follows it when all is well.
const gone = `1.97s delete node=1.1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000
1.97s delete-done node=1.1 id=x topic=out incarnation=10000000-0000-0000-0000-000000000000
`

const (
	end = "10m end\n"
	x1  = "10000000-0000-0000-0000-000000000000"
)

// goneLater is the same at a later time.
func goneLater() string { return strings.ReplaceAll(gone, "1.97s", "10s") }

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

// TestBroken breaks each invariant by the smallest change to the good history. It must be named first.
func TestBroken(t *testing.T) {
	const row = "id=x topic=out incarnation=10000000-0000-0000-0000-000000000000 "
	const me = "owner=00000000-0000-0000-0000-000000000001 "
	const peer = "owner=00000000-0000-0000-0000-000000000002 "
	second := strings.ReplaceAll(strings.ReplaceAll(well, "message=1", "message=2"), "payload=a", "payload=b")
	broken := map[string][]string{
		"S1": {
			preamble + "1s reject node=1.1 message=1\n" + end, // nobody has submitted it
			preamble + well[:strings.Index(well, "1.01s")] + "1.01s reject node=1.1 message=1 text=why\n" + end,
			strings.Replace(preamble, "ALL", "submit,fire,copy", 1) + well[:strings.Index(well, "1.01s")] + end,
			preamble + well[:strings.Index(well, "1.9s")] + "1.9s rollback\n" + end,
		},
		"S2": {
			preamble + well[:strings.Index(well, "1.95s")] + gone + end,
			preamble + well + gone + gone,
		},
		"S3": {
			preamble + well + "2s claim node=2.1 " + row + peer + "stamp=2s\n" + goneLater() + end,
			preamble + strings.Replace(well, "incarnation="+x1+" age=50ms", "", 1) + gone + end,
			preamble + gone[:0] + "1s claim node=1.1 " + row + me + "\n" + end,
		},
		"S4": {
			preamble + well + "2s reset node=2.1 " + row + me + "stamp=1.9s age=100ms\n" + goneLater() + end,
			preamble + well + "9s reset node=2.1 " + row + me + "stamp=1.8s age=7s\n" + end,
		},
		"S5": {
			preamble + well + "1.965s fire node=1.1 message=1 topic=out payload=a partition=out/3\n" + gone + end,
			preamble + well + "1.965s publish node=1.1 message=1 topic=out " +
				"incarnation=10000000-0000-0000-0000-000000000000 wall=2s\n" + gone + end,
		},
		"S6": {
			preamble + strings.Replace(well, "payload=a key=1 partition", "payload=b key=1 partition", 1) + gone + end,
			preamble + strings.Replace(well, "000 deadline=2s", "000 deadline=3s", 1) + gone + end,
			preamble + "1s fire message=7 payload=a\n" + end,
		},
		"S7": {
			preamble + well + gone + strings.NewReplacer("id=x", "id=y", "out/3", "out/4", "incarnation=1",
				"incarnation=2", "offset=1", "offset=2", "in/0", "in/0 offset=1", "in/0 offset=2",
				"in/0 offset=2").Replace(later(second)) + end,
		},
		"S8": {
			preamble + strings.Replace(well, "wall=1.95s", "wall=1.9s", 1) + gone + end,
			strings.Replace(preamble, "ALL", "submit,fire", 1) +
				"1s submit message=1 payload=a deadline=2s\n1.9s fire message=1 payload=a\n" + end,
		},
		"S9": {
			preamble + well[:strings.Index(well, "1.02s")] +
				"1.02s publish node=1.1 message=1 topic=out direct=true wall=2s\n" + end,
		},
		"S10": {
			preamble + strings.Replace(well, "offset=1", "offset=2", 1) + gone + end,
			preamble + well[:strings.Index(well, "1.02s")] + "1.02s commit node=1.1 partition=in/0 offset=1\n" + end,
			preamble + well + gone + "2s commit node=1.1 partition=in/0\n" + end,
		},
		"S11": {
			preamble + well + "1.965s insert message=1 id=x topic=out " +
				"incarnation=20000000-0000-0000-0000-000000000000 deadline=2s\n" + end,
		},
		"S12": {
			preamble + "1s start node=3.1 " + me + "\n" + end,
			preamble + "1s crash node=1.1\n1.1s poll node=1.1\n" + end,
			preamble + strings.Replace(well, me[:len(me)-2]+"1 stamp", me[:len(me)-2]+"9 stamp", 1) + gone + end,
		},
		"S13": {preamble + strings.Replace(well, "age=50ms", "age=2.6s", 1) + gone + end},
		"S14": {preamble + well + gone[strings.Index(gone, "\n")+1:] + gone + end},
		"S15": {
			preamble + strings.Replace(well, "limit=10", "nth=10 limit=10", 1) + gone + end,
			preamble + strings.Replace(well, "until=2.1s", "until=1.9s", 1) + gone + end,
		},
		"S16": {
			strings.Replace(preamble, "publish_timeout=2s", "publish_timeout=3.5s", 1) + end,
			strings.Replace(preamble, "publishable_age=2.5s", "publishable_age=3.5s", 1) + end,
		},
		"L1": {
			preamble + well[:strings.Index(well, "1.95s")] + "1.95s crash node=1.1\n2s heal\n" + end,
		},
		"L2": {preamble + well[:strings.Index(well, "1.9s")] + "2s heal\n" + end},
		"L3": {
			preamble + well[:strings.Index(well, "1.01s")] + "2s heal\n" + end,
			preamble + well[:strings.Index(well, "1.02s")] + "2s heal\n" + end,
			preamble + strings.Replace(well, "1.03s commit node=1.1 partition=in/0 offset=1\n", "", 1) + gone +
				"2s heal\n" + end,
		},
		"L4": {
			preamble + "0.5s heal\n" + well + "1.965s unknown message=1\n" +
				"1.966s fire message=1 incarnation=10000000-0000-0000-0000-000000000000 payload=a\n" + gone + end,
		},
		"L5": {
			preamble + strings.NewReplacer("1.95s publish", "2.2s publish", "1.96s fire", "2.21s fire").Replace(well) +
				end,
		},
		"L6": {
			preamble + "0.5s submit message=9 flaw=invalid\n" +
				strings.NewReplacer("1.95s publish", "2.3s publish", "1.96s fire", "2.4s fire").Replace(well) + end,
		},
		"L7": {
			preamble + "1s join node=1.1\n" + well[:strings.Index(well, "1.02s")] +
				"2s cut node=1.1 port=store\n30s mend node=1.1 port=store\n" + end,
		},
	}
	broken["S9"] = append(broken["S9"], preamble+
		"1s submit message=1 id=x topic=out partition=in/0 payload=a deadline=9s\n"+
		"1s submit message=2 id=x topic=out partition=in/0 offset=1 payload=b deadline=0.5s\n"+
		"1.1s deliver node=1.1 message=1\n1.1s deliver node=1.1 message=2\n"+
		"1.2s present node=1.1 id=x topic=out absent=true\n"+
		"1.3s publish node=1.1 message=2 topic=out direct=true wall=2s\n"+end)
	broken["L8"] = []string{
		preamble + well[:strings.Index(well, "1.95s")] + "1.95s term node=1.1\n1.96s stop node=1.1\n" + end,
	}
	for _, i := range check.Invariants() {
		histories := broken[i.Name]
		if len(histories) == 0 {
			t.Errorf("nothing breaks %s", i.Name)
		}
		if i.Name == "S1" {
			if v := judge(t, histories[0]); len(v.Violations) > 0 {
				t.Errorf("what nobody submitted can't be lost: %v", v.Violations)
			}
			histories = histories[1:]
		}
		for n, text := range histories {
			if !strings.HasSuffix(text, end) {
				text += end
			}
			v := judge(t, text)
			if len(v.Violations) == 0 || v.Violations[0].Invariant != i.Name {
				t.Errorf("%s, history %d breaks %v instead", i.Name, n, v.Violations)
			}
		}
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
	if got := strings.Join(v.Judged, " "); got != "S1 S5 S6 S7 S8 S16 L5 L6" || len(v.Violations) > 0 {
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
		"in trouble":        {"0.5s fault\n", "S5", 3},
		"in more trouble":   {"0.5s fault\n", "S5", 4},
		"after the healing": {"0.5s fault\n0.6s heal\n", "L4", 2},
	} {
		text := strings.Replace(preamble, "ALL", seen, 1) + c.before + stored
		if c.most == 4 {
			text += "1.91s fault\n"
		}
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
