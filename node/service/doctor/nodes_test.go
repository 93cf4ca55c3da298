package doctor_test

import (
	"strings"
	"testing"

	"chronos/node/service"
	"chronos/node/service/doctor"
)

// Nodes on several machines have addresses and files of their own, and nothing is wrong with that; whether a node
// listens at all is one matter for all of them. Method: each listener and each file of the table of settings, so that
// none that comes later is forgotten.
func TestWhatNodesHaveInCommon(t *testing.T) {
	t.Parallel()
	listeners := 0
	for _, row := range service.Table(service.Run) {
		listens := strings.HasSuffix(row.Name, "-listen")
		if !listens && row.PlaceHolder != "FILE" {
			continue
		}
		found := doctor.Differing(map[string]any{row.Name: "10.1.0.5:80"}, map[string]any{row.Name: "10.1.0.6:80"})
		if len(found) > 0 {
			t.Errorf("%s may not differ: %+v", row.Name, found)
		}
		if !listens || row.Name == "admin-listen" {
			continue
		}
		listeners++
		found = doctor.Differing(map[string]any{row.Name: "10.1.0.5:80"}, map[string]any{row.Name: "off"})
		if len(found) != 1 || !strings.Contains(found[0].Says, row.Name+" (an address on a; off on b)") {
			t.Errorf("%s is off on one node, and what is found is %+v", row.Name, found)
		}
	}
	if listeners < 3 {
		t.Errorf("there are %d listeners: are they called otherwise now?", listeners)
	}
	const url = "horae-url"
	if found := doctor.Differing(map[string]any{url: "http://a/"}, map[string]any{url: "http://b/"}); len(found) > 0 {
		t.Errorf("each node may name itself: %+v", found)
	}
}

// Goal: findings that say the same of several things are one for people, and what was not there to look at is not well.
// Method: findings, and the checks of a Kafka without any topic of the routes.
func TestTogether(t *testing.T) {
	t.Parallel()
	same := doctor.Finding{Check: "replication", Severity: doctor.Warning, About: "topic a", Says: "has one replica"}
	too, other := same, same
	too.About, other.About, other.Says = "topic b", "topic c", "has two replicas"
	got := doctor.Together([]doctor.Finding{same, other, too})
	if len(got) != 2 || got[0].About != "topic a, topic b" || got[1] != other {
		t.Errorf("together: %+v", got)
	}
}
