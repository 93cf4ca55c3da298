package metaswitch_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"chronos/node/metaswitch"
)

// Goal: bad statistics never reject a timer, and only what is bad of them is left out, as their tests of bodies ask
// (src/ut/test_timer.cpp, by the names that they have there); the tags of timers that wait are summed up, an update
// counts as the new one, and what is deleted counts no more.
func TestTags(t *testing.T) {
	t.Parallel()
	tags := func(list string) string { return `, "statistics": {"tag-info": ` + list + `}` }
	for _, c := range []struct {
		name, rest string
		want       map[string]uint64
	}{
		{"none", "", nil},
		{"FromJSONTestsBadStatisticsObject", `, "statistics": []`, nil},
		{"FromJSONTestsBadTagInfoArray", tags(`{"type": "TAG1", "count": 1}`), nil},
		{
			"FromJSONTestsBadTagInfoObject", tags(`[{"nottype": "TAG1", "count": 1}, {"type": "TAG2", "count": -1},
			{"type": "TAG3", "count": "one"}, {"type": 4, "count": 3}, {"type": "TAG5", "count": 3}]`),
			map[string]uint64{"TAG5": 3},
		},
		{"FromJSONTestsStatisticsMultipleTags", tags(`[{"type": "TAG1"}, {"type": "TAG1", "count": 4294967295},
			{"type": "TAG2", "count": 2}]`), map[string]uint64{"TAG1": 4294967296, "TAG2": 2}},
		{"no tags", tags(`[{"type": ""}, {"type": "lower"}, {"type": "A SPACE"}, {"type": "SEVENTEENLETTERSX"}]`), nil},
	} {
		w := newWorld(t, nil)
		if status, _, text := w.ask(t, "PUT", named, body(`"interval": 100`, c.rest)); status != 200 {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
		if got, err := metaswitch.CountTags(t.Context(), w.store); err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	var many []string
	most := map[string]uint64{}
	for i := range 40 {
		name := fmt.Sprintf("TAG%02d", i)
		if many = append(many, fmt.Sprintf(`{"type": %q}`, name)); i < 32 {
			most[name] = 1
		}
	}
	w := newWorld(t, nil)
	w.ask(t, "PUT", named, body(`"interval": 100`, tags("["+strings.Join(many, ",")+`,{"type": "TAG00"}]`)))
	most["TAG00"] = 2
	if got, err := metaswitch.CountTags(t.Context(), w.store); err != nil || !maps.Equal(got, most) {
		t.Errorf("of 40 tags %v are counted, %v", got, err)
	}
	w = newWorld(t, nil)
	call := body(`"interval": 100`, tags(`[{"type": "CALL", "count": 2}]`))
	for i := range 1200 {
		w.ask(t, "PUT", fmt.Sprintf("/timers/%016x-2", i), call)
	}
	w.ask(t, "PUT", "/timers/0000000000000000-2", body(`"interval": 100`, tags(`[{"type": "REG"}]`)))
	w.ask(t, "DELETE", "/timers/0000000000000001-2", "")
	want := map[string]uint64{"CALL": 2396, "REG": 1}
	if got, err := metaswitch.CountTags(t.Context(), w.store); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
