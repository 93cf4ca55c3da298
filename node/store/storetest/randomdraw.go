package storetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"chronos/node"
)

func (m *machine) incarnation() uuid.UUID {
	m.drawn++
	drawn := uuid.UUID{6: 0x40, 8: 0x80}
	binary.BigEndian.PutUint32(drawn[12:], m.drawn)
	return drawn
}

// drawAction draws what a record asks for. before are the items of the take before it.
func (m *machine) drawAction(t *rapid.T, item *node.Item, before []node.Item) {
	item.Action = rapid.SampledFrom([]node.Action{
		node.Schedule, node.Schedule, node.Schedule, node.Schedule, node.Replace, node.Replace,
		node.Reschedule, node.Cancel, node.FireNow, node.Pass,
	}).Draw(t, "action")
	if rapid.IntRange(0, 2).Draw(t, "answer") == 0 {
		item.Answer = m.drawAnswer(t)
	}
	switch {
	case item.Action == node.Pass:
		return
	case item.Action.Stores():
		item.Message = m.drawMessage(t)
		item.Claim = rapid.Bool().Draw(t, "claim")
	default:
		item.Message = node.Message{ID: drawID().Draw(t, "id"), Lane: drawLane(t), Incarnation: m.incarnation()}
		if item.Action != node.Cancel {
			item.Deadline = drawInstant().Draw(t, "deadline")
		}
	}
	// The engine draws an incarnation for one record and never again: it comes again with a later take, but not behind
	// an instruction that has taken it away.
	if slices.ContainsFunc(before, func(other node.Item) bool {
		return other.Incarnation == item.Incarnation || other.Action != node.Pass && other.Action != node.Schedule &&
			other.ID == item.ID && other.Lane == item.Lane
	}) {
		item.Incarnation = m.incarnation()
	}
	if rapid.IntRange(0, 9).Draw(t, "only") == 0 {
		item.Only = m.incarnation() // of nothing that there is
	}
	if item.Action.Stores() {
		m.messages = append(m.messages, item.Message)
	}
}

// drawRequest draws the request that asks for an instruction past Kafka: one of a few, so that they come again.
func (m *machine) drawRequest(t *rapid.T, item *node.Item) {
	if item.From != node.NoPlace || item.Action == node.Pass || rapid.IntRange(0, 7).Draw(t, "asks") > 0 {
		return
	}
	item.Request = &node.Request{
		ID:    uuid.UUID{0: 0x7e, 15: byte(rapid.IntRange(1, 3).Draw(t, "request"))},
		Print: uuid.UUID{15: byte(rapid.IntRange(1, 2).Draw(t, "print"))},
		Keep:  rapid.SampledFrom([]time.Duration{0, node.AnswerKept}).Draw(t, "keep"),
	}
	binary.BigEndian.PutUint32(item.Request.ID[4:], m.run)
}

// drawAnswer draws whom to tell. No message of the run but replies is on that lane.
func (m *machine) drawAnswer(t *rapid.T) *node.Answer {
	answer := &node.Answer{Message: node.Message{
		Lane: lanes()[2], Incarnation: m.incarnation(), Deadline: drawInstant().Draw(t, "now"),
		Key: drawBytes().Draw(t, "key"),
	}}
	answer.ID = fmt.Sprint("answer ", m.drawn)
	answer.Rejected = rapid.IntRange(0, 5).Draw(t, "rejected") == 0
	answer.Headers = m.drawHeaders(t)
	return answer
}

func (m *machine) drawMessage(t *rapid.T) node.Message {
	if len(m.messages) > 0 && rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
		return rapid.SampledFrom(m.messages).Draw(t, "message")
	}
	message := node.Message{
		ID: drawID().Draw(t, "id"), Lane: drawLane(t), Incarnation: m.incarnation(),
		Deadline: drawInstant().Draw(t, "deadline"),
		Key:      drawBytes().Draw(t, "key"), Value: drawBytes().Draw(t, "value"),
	}
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		message.ID = "with\x00NUL"
	}
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		message.NotAfter = noon().Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "not after")) * time.Microsecond)
	}
	if rapid.IntRange(0, 2).Draw(t, "recurs") == 0 {
		message.Recurrence = node.Recurrence{
			Series: rapid.SampledFrom([]string{"every 1h", "é"}).Draw(t, "series"), Sequence: 1, At: message.Deadline,
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "queues") == 0 {
		message.Line = uuid.UUID{15: byte(rapid.IntRange(1, 2).Draw(t, "line"))}
	}
	message.Headers = m.drawHeaders(t)
	return message
}

func (m *machine) drawHeaders(t *rapid.T) (headers []node.Header) {
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		headers = append(headers, node.Header{
			Name:  rapid.SampledFrom([]string{"a", "b", "", "é", "\xff", "\x00"}).Draw(t, "name"),
			Value: drawBytes().Draw(t, "value"),
		})
	}
	return headers
}

// drawHold draws a hold time. Where nobody can move the clock it is none, or far
// longer than the test.
func (m *machine) drawHold(t *rapid.T) time.Duration {
	switch {
	case m.instance.Clock == nil && m.instance.Dump == nil:
		return 0
	case m.instance.Clock == nil:
		return rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(t, "hold")
	}
	return time.Duration(rapid.IntRange(0, 5_000_000).Draw(t, "hold")) * time.Microsecond
}

// drawPlace draws a position in a partition, not far from where it began.
func (m *machine) drawPlace(t *rapid.T, at int) node.Place {
	place := m.places[at]
	place.Epoch = int32(rapid.IntRange(-1, 4).Draw(t, "epoch"))
	place.Offset += int64(rapid.IntRange(-3, 6).Draw(t, "offset"))
	return place
}

// A few ids and lanes, so that calls meet.
func drawID() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "B", "𐍈"})
}

func lanes() []string { return []string{"one", "two", "three"} }

func drawLane(t *rapid.T) string { return rapid.SampledFrom(lanes()[:2]).Draw(t, "lane") }

// everywhere are shares that claim all there is.
func everywhere() (shares []node.Share) {
	for _, lane := range lanes() {
		for _, part := range []string{"", "1", "é"} {
			shares = append(shares, node.Share{Lane: lane, Part: part, Limit: math.MaxInt, Bytes: math.MaxInt})
		}
	}
	return shares
}

// drawParts draws where to claim: on some lanes, and on none, one or all of the parts of each.
func drawParts(t *rapid.T) (parts []node.Part) {
	for _, lane := range rapid.SliceOfNDistinct(rapid.SampledFrom(lanes()), 0, 3, rapid.ID).Draw(t, "lanes") {
		for _, part := range rapid.SampledFrom([][]string{
			{""}, {"", "1", "é"}, {"é", "", "1"}, {"1"},
		}).Draw(t, "parts") {
			parts = append(parts, node.Part{Lane: lane, Name: part})
		}
	}
	return parts
}

// drawPart draws the part on which a message is parked, mostly none.
func drawPart(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "1", "é"}).Draw(t, "part")
}

func drawOwner(t *rapid.T) uuid.UUID {
	return rapid.SampledFrom([]uuid.UUID{alice(), bob()}).Draw(t, "owner")
}

// drawInstant draws from a few that are close together, and from the ends.
func drawInstant() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		micro := rapid.IntRange(-1, 10).Draw(t, "microsecond")
		switch micro {
		case -1:
			return earliest()
		case 10:
			return latest()
		}
		return noon().Add(time.Duration(micro) * time.Microsecond)
	})
}

func drawBytes() *rapid.Generator[[]byte] {
	return rapid.SampledFrom([][]byte{
		nil, {}, []byte("x"), []byte("text"), {0}, {0xff, 0xfe}, []byte(`"\u0000`),
	})
}

// changeClaim makes another claim of c for one of the changes 0 to 3.
func changeClaim(c *node.Claim, change int) {
	switch change {
	case 0:
		c.ReadiedAt = c.ReadiedAt.Add(time.Microsecond)
	case 1:
		c.ReadiedAt = c.ReadiedAt.Add(-time.Second)
	case 2:
		c.ReadiedBy[1]++
	case 3:
		c.Incarnation[1]++
	}
}

// Parts asks where anything waits.
func (m *machine) Parts(t *rapid.T) {
	got, err := m.instance.Store.Parts(m.t.Context())
	m.checkCall(t, "Parts", err, 0, 0)
	want, err := m.model.Parts(m.t.Context())
	m.checkCall(t, "the model's Parts", err, 0, 0)
	if !slices.Equal(got, want) {
		t.Fatalf("parts: got %+v, want %+v", got, want)
	}
}
