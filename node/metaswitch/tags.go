package metaswitch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/store/inspect"
)

// headerTags is the header by which a message keeps the tags of its timer: "CALL=2 REG=1". No callback has it: its name
// begins as those do that are Chronos's own.
const headerTags = "chronosMetaswitchTags"

// writeTags writes tags as the header has them.
func writeTags(tags map[string]uint64) []byte {
	var text []byte
	for i, name := range slices.Sorted(maps.Keys(tags)) {
		if i > 0 {
			text = append(text, ' ')
		}
		text = fmt.Appendf(text, "%s=%d", name, tags[name])
	}
	return text
}

// tagsOf adds the tags of a message to counts.
func tagsOf(m *node.Message, counts map[string]uint64) {
	for _, h := range m.Headers {
		if h.Name != headerTags {
			continue
		}
		for word := range strings.FieldsSeq(string(h.Value)) {
			name, number, _ := strings.Cut(word, "=")
			if n, err := strconv.ParseUint(number, 10, 64); err == nil {
				counts[name] += n
			}
		}
	}
}

// countedSlices bounds a count: 20,000 timers.
const countedSlices = 20_000 / inspect.MaxSlice

// CountTags returns how often timers that wait have which tags: of the 20,000 that pop next, since every node asks
// every few seconds, and there may be millions.
func CountTags(ctx context.Context, store inspect.Source) (map[string]uint64, error) {
	counts := map[string]uint64{}
	request := inspect.SliceRequest{Lane: Lane, Until: time.UnixMilli(maxStart), Limit: inspect.MaxSlice}
	for range countedSlices {
		messages, err := store.Slice(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("count tags: %w", err)
		}
		for i := range messages {
			tagsOf(&messages[i].Message, counts)
		}
		if len(messages) < request.Limit {
			break
		}
		request.After = inspect.Of(&messages[len(messages)-1], false)
	}
	return counts, nil
}
