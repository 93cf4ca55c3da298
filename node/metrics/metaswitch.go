package metrics

import (
	"cmp"
	"maps"
	"slices"
)

// maxTags is how many tags of timers have series of their own. The names are whatever clients send.
const maxTags = 100

func metaswitchRows() []Metric {
	return []Metric{{
		Name: "chronos_metaswitch_tags", Kind: Gauge, Labels: []string{"tag"},
		Help: "Of the timers that wait on the lane http:metaswitch, the sum of the counts that their statistics give " +
			"a tag: every 15 s, over the 20000 that pop next. The 100 tags with the highest counts have series of " +
			"their own; the rest is other.",
		Look: "All nodes of a store tell the same: take the maximum of them, and not the sum.",
	}}
}

// Tagged shows how often timers have which tags.
func (m *Metrics) Tagged(counts map[string]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	shown := map[string]uint64{}
	for i, name := range names {
		if i >= maxTags {
			name = other
		}
		shown[name] += counts[names[i]]
	}
	for name := range m.tags {
		if _, still := shown[name]; !still {
			m.gauges["chronos_metaswitch_tags"].DeleteLabelValues(name)
		}
	}
	for name, count := range shown {
		m.set("chronos_metaswitch_tags", float64(count), name)
	}
	m.tags = shown
}
