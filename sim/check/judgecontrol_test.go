package check_test

import (
	"strings"
	"testing"
)

// The parts of the history of a cancel.
const (
	decided = "decide node=1.1 message=2 id=x topic=out action=cancel lineage=1 incarnation=" + x1 + " next="
	asks    = "1.2s submit message=2 id=x topic=out partition=in/0 offset=1 action=cancel\n"
	stays   = x1 + " deadline=2s due=2s text="
	told    = "answer node=1.1 message=9 of=2 id=a topic=said lineage=1 text="
	stored  = "insert node=1.1 message=9 id=a topic=said incarnation=30000000-0000-0000-0000-000000000000 deadline=2s\n"
	passed  = "take node=1.1 message=2 partition=in/0 offset=1 lineage=1\n"
)

// changed returns the good history up to a claim that was given back at 1.92s, with a cancel that was submitted before.
func changed() string {
	back := "1.91s fail node=1.1 message=1 topic=out text=unsent incarnation=" + x1 + "\n" +
		"1.92s reset node=1.1 " + row + me + "stamp=1.9s age=20ms unsent=true\n"
	return preamble + strings.Replace(until("1.95s"), "1.03s commit", asks+"1.3s commit", 1) + back
}

// The parts of the history of a cancel past Kafka.
const (
	past  = "decide message=3 id=x topic=out action=cancel lineage=1 past=true incarnation=" + x1 + " next="
	hears = "hear message=3 id=x topic=out lineage=1 text="
)

// goneLater is the end of the good history at a later time.
func goneLater() string { return strings.ReplaceAll(gone, "1.97s", "10s") }

// waiting returns the good history up to the claim.
func waiting() string { return until("1.9s") }

// unclaimed is the good history up to 1.9s, with a cancel or a replace that was submitted, without claims, as that of a
// journal is: they are in the memory of the owner, and nobody sees them.
func unclaimed(action string) string {
	asked := strings.Replace(asks, "action=cancel", action, 1)
	return strings.Replace(preamble, "ALL", "submit,insert,delete,decide,answer,fire,copy,see", 1) +
		strings.Replace(waiting(), "1.03s commit", asked+"1.3s commit", 1)
}

// TestUnclaimed judges instructions where nobody records claims: what is answered may be so because of one.
func TestUnclaimed(t *testing.T) {
	if v := judge(t, unclaimed("action=cancel")+"1.93s "+decided+stays+"too_late\n"+end); len(v.Violations) > 0 {
		t.Errorf("somebody may have claimed it: %v", v.Violations)
	}
	for _, former := range []string{"", " former=true"} {
		again := "1.93s decide message=2 id=x topic=out action=replace lineage=1 text=replaced incarnation=" + x1 +
			"\n1.93s insert node=1.1 message=2 id=x topic=out incarnation=" + x2 + " deadline=2s\n1.93s " +
			told + "replaced deadline=2s\n1.93s " + stored +
			"2.1s fire node=1.1 message=9 topic=said payload=b text=replaced" + former + "\n"
		if v := judge(t, unclaimed("action=replace deadline=2s")+again+end); len(v.Violations) > 0 {
			t.Errorf("what is replaced may have been claimed: %v", v.Violations)
		}
	}
}

// TestPast judges a history in which an operator cancels a message past Kafka, and the store is set back then. Nothing
// is wrong with it: Kafka does not have the cancel, so it is lost, and the message comes out; and to keep it back would
// be wrong.
func TestPast(t *testing.T) {
	cancelled := preamble + waiting() + "1.4s " + past + zero + " text=cancelled\n1.41s " + hears + "cancelled\n"
	if v := judge(t, cancelled+end); len(v.Violations) > 0 {
		t.Errorf("it stays cancelled: %v", v.Violations)
	}
	lost := cancelled + "1.5s rollback lineage=1\n" +
		"1.5s keep id=x topic=out incarnation=" + x1 + " deadline=2s due=2s\n" +
		"1.5s keep-place partition=in/0 offset=1\n"
	if v := judge(t, lost+well[strings.Index(well, "1.9s"):]+gone+end); len(v.Violations) > 0 {
		t.Errorf("it was lost, and comes out: %v", v.Violations)
	}
	if v := judge(t, lost+"2s heal\n"+end); len(v.Violations) == 0 || v.Violations[0].Invariant != "L2" {
		t.Errorf("it was lost, and does not come out: %v", v.Violations)
	}
}

// TestCancelled judges a history in which a message is cancelled, and somebody is told of it. Nothing is wrong with it.
func TestCancelled(t *testing.T) {
	answer := "id=a topic=said incarnation=30000000-0000-0000-0000-000000000000 "
	v := judge(t, changed()+"1.93s "+decided+zero+" text=cancelled\n1.93s "+told+"cancelled deadline=2s\n1.93s "+stored+
		"1.93s "+passed+"1.93s move node=1.1 partition=in/0 offset=2\n1.94s commit node=1.1 partition=in/0 offset=2\n"+
		"1.95s claim node=1.1 "+answer+me+"stamp=1.95s\n"+
		"2s publish node=1.1 message=9 topic=said incarnation=30000000-0000-0000-0000-000000000000 age=5ms wall=2s\n"+
		"2.1s fire node=1.1 message=9 topic=said incarnation=30000000-0000-0000-0000-000000000000 payload=b "+
		"text=cancelled\n"+
		"2.2s delete node=1.1 "+answer+"\n"+end)
	if len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
}

func brokenControl() map[string][]string {
	claimed := preamble + strings.Replace(until("1.95s"), "1.03s commit", asks+"1.3s commit", 1)
	cancelledNow := "1.93s " + decided + zero + " text=cancelled\n"
	late := "1.92s " + decided + stays + "too_late\n"
	over := strings.Replace(recurs()[:strings.Index(recurs(), "1.95s")], "1.03s commit", asks+"1.3s commit", 1)
	over = preamble + strings.ReplaceAll(over+late, "=cancel", "=reschedule") + "1.97s " + again + "2 deadline=4s\n"
	return map[string][]string{
		"S19": {
			claimed + cancelledNow,
			changed() + cancelledNow + "1.95s publish node=1.1 message=1 topic=out incarnation=" + x1 +
				" age=50ms wall=1.95s\n",
			changed() + cancelledNow + "1.96s fire node=1.1 message=1 topic=out incarnation=" + x1 +
				" payload=a key=1 partition=out/3\n",
			preamble + until("1.95s") + "1.93s " + past + zero + " text=cancelled\n",
			changed() + "1.93s " + past + zero + " text=cancelled\n" +
				"1.95s publish node=1.1 message=1 topic=out incarnation=" + x1 + " age=50ms wall=1.95s\n",
			unclaimed("action=cancel") + cancelledNow + "1.96s fire node=1.1 message=1 topic=out incarnation=" + x1 +
				" payload=a key=1 partition=out/3\n",
		},
		"S24": {
			preamble + well + gone + "2.1s see message=1\n",
			preamble + until("1.02s take") + "1.02s see message=2\n",
			preamble + until("1.02s insert") + "1.02s see message=1\n",
			preamble + well + settled + "3s heal\n",
		},
		"S20": {
			strings.Replace(changed(), "1.92s", late+"1.92s", 1) + cancelledNow,
			over,
		},
		"S21": {
			preamble + waiting() + "1.93s " + past + stays + "not_found\n",
			preamble + waiting() + "1.93s " + past + zero + " text=cancelled only=" + zero[:35] + "7\n",
			preamble + waiting() + "1.93s " + past + zero + " text=cancelled\n1.94s " + hears + "too_late\n",
			preamble + waiting() + "1.94s " + hears + "cancelled\n",
			changed() + "1.93s " + decided + stays + "not_found\n",
			changed() + "1.93s " + decided + stays + "too_late\n",
			unclaimed("action=cancel") + "1.93s " + decided + stays + "not_found\n",
			claimed + "1.93s decide node=1.1 message=2 id=y topic=out action=cancel lineage=1 text=cancelled\n",
			changed() + cancelledNow + "1.93s " + told + "cancelled deadline=2s\n1.93s " + stored + "1.93s " +
				strings.Replace(told, "message=9", "message=8", 1) + "cancelled deadline=2s\n",
			changed() + cancelledNow + "1.93s " + passed,
			changed() + cancelledNow + "1.93s " + told + "cancelled deadline=2s\n1.93s " + stored +
				"2.1s fire node=1.1 message=9 topic=said payload=b text=too_late\n",
			changed() + cancelledNow + "1.93s " + told + "cancelled deadline=2s\n1.93s " + stored +
				"2.1s fire node=1.1 message=9 topic=said payload=b text=cancelled former=true\n",
		},
	}
}
