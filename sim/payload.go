package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"chronos/node"
)

// payload returns the record of a submission: keys, values and headers of all sorts, nulls and bytes that are no text
// included.
func payload(o *Options, s *Submission, deadline, last time.Time) node.Record {
	r := stream(o.Seed, forPayloads, s.Number, 0)
	record := node.Record{Value: junk(r, 64)}
	if s.Key != "" {
		record.Key = []byte(s.Key)
	} else if oneIn(r, 8) {
		record.Key = []byte{}
	}
	if r.IntN(100) < o.Large {
		record.Value = bytes.Repeat([]byte{'l'}, 1+r.IntN(max(o.LargeBytes, 1)))
	}
	if s.Flaw == Poison {
		record.Value = bytes.Repeat([]byte{'p'}, maxRecordBytes+1)
	}
	others := r.IntN(3)
	if !s.stores() {
		record.Value = nil
	}
	headers := make([]node.Header, 0, 1+others+2) // two are ours, of most
	headers = append(headers, node.Header{Name: "n", Value: strconv.AppendInt(nil, int64(s.Number), 10)})
	for range others {
		headers = append(headers, node.Header{Name: pick(r, "a", "b", "\xff"), Value: junk(r, 12)})
	}
	for _, h := range chronosHeaders(r, s, deadline) {
		headers = slices.Insert(headers, r.IntN(len(headers)+1), h)
	}
	if !last.IsZero() {
		headers = append(headers, node.Header{Name: node.HeaderNotAfter, Value: []byte(written(r, last))})
	}
	if s.Target > 0 {
		topic := target(o.route(s.Route%o.Routes), s.Target)
		headers = append(headers, node.Header{Name: node.HeaderTopic, Value: []byte(topic)})
	}
	record.Headers = headers
	return record
}

// junk returns null, nothing, or some bytes.
func junk(r *rand.Rand, most int) []byte {
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, 1+r.IntN(most))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// chronosHeaders returns the headers that make the record a submission, or nearly one.
func chronosHeaders(r *rand.Rand, s *Submission, deadline time.Time) []node.Header {
	id := node.Header{Name: node.HeaderID, Value: []byte(s.ID)}
	when := func() node.Header {
		if s.Delayed {
			return node.Header{Name: node.HeaderDelay, Value: []byte(writtenDelay(r, s.In))}
		}
		return node.Header{Name: node.HeaderDeadline, Value: []byte(written(r, deadline))}
	}
	if s.Every > 0 {
		series := []node.Header{
			id,
			when(),
			{Name: node.HeaderRepeat, Value: []byte("every " + s.Every.String())},
			{Name: node.HeaderRepeatCount, Value: []byte(strconv.Itoa(s.Times))},
			{Name: node.HeaderMissed, Value: []byte(pick(r, "one", "all", "skip"))},
		}
		if s.Action != "" {
			series = append(series, node.Header{Name: node.HeaderAction, Value: []byte(s.Action)})
		}
		return series
	}
	if s.Action != "" {
		return instructionHeaders(r, s, id, when)
	}
	at := when()
	switch s.Flaw {
	case "no-id":
		return []node.Header{at}
	case "empty-id":
		id.Value = nil
	case "two-ids":
		return []node.Header{id, id, at}
	case "long-id":
		id.Value = bytes.Repeat([]byte{'x'}, node.MaxIDLength+1)
	case "binary-id":
		id.Value = []byte("\xff")
	case "nul-id":
		id.Value = []byte("a\x00b")
	case "no-deadline":
		return []node.Header{id}
	case "two-deadlines":
		return []node.Header{id, at, at}
	case "bad-deadline":
		at.Value = []byte("2025-02-30T00:00:00Z")
	case "bare-deadline":
		at.Value = []byte("1735689600")
	}
	return []node.Header{id, at}
}

// instructionHeaders returns the headers that make the record an instruction, or nearly one. There are two ways to ask
// for the outcome of a schedule.
func instructionHeaders(r *rand.Rand, s *Submission, id node.Header, when func() node.Header) []node.Header {
	action := node.Header{Name: node.HeaderAction, Value: []byte(s.Action)}
	told := s.Flaw != "unknown-action" && s.Flaw != "bad-confirm"
	if s.Action == node.Schedule.String() && told && oneIn(r, 2) {
		action = node.Header{Name: node.HeaderConfirm, Value: []byte("true")}
	}
	at := when()
	headers := []node.Header{action, id}
	if s.Action != node.Cancel.String() && s.Action != node.FireNow.String() {
		headers = append(headers, at)
	}
	switch s.Flaw {
	case "unknown-action":
		headers[0].Value = []byte("postpone")
	case "two-actions":
		headers = append(headers, action)
	case "two-deadlines":
		headers = append(headers, at, at)
	case "other-topic":
		headers = append(headers, node.Header{Name: node.HeaderTopic, Value: []byte("nowhere")})
	case "bad-confirm":
		headers = append(headers, node.Header{Name: node.HeaderConfirm, Value: []byte("perhaps")})
	}
	return headers
}

// written returns an instant as applications write it: with and without a zone, in other zones, and with digits that
// are below a microsecond.
func written(r *rand.Rand, at time.Time) string {
	switch r.IntN(6) {
	case 0:
		return at.UTC().Format("2006-01-02T15:04:05.000000Z")
	case 1:
		return at.UTC().Format("2006-01-02T15:04:05.000000")
	case 2:
		return at.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	case 3:
		below := at.UTC().Add(-time.Microsecond) // which is rounded up
		return below.Format("2006-01-02T15:04:05.000000") + fmt.Sprintf("%03dZ", 1+r.IntN(999))
	default:
		minutes := r.IntN(2*14*60+1) - 14*60
		return at.In(time.FixedZone("", minutes*60)).Format("2006-01-02T15:04:05.999999-07:00")
	}
}

// writtenDelay returns a delay as applications write it.
func writtenDelay(r *rand.Rand, d time.Duration) string {
	switch r.IntN(4) {
	case 0:
		return d.String()
	case 1:
		return strconv.FormatInt(d.Microseconds(), 10) + "us"
	case 2:
		return fmt.Sprintf("PT%dM%d.%06dS", d/time.Minute, d%time.Minute/time.Second, d%time.Second/time.Microsecond)
	default:
		return fmt.Sprintf("0d%d.%06ds", d/time.Second, d%time.Second/time.Microsecond)
	}
}
