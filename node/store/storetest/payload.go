package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

func payloadCases() []testCase {
	return []testCase{
		{"payload/keys", payloadKeys},
		{"payload/values", payloadValues},
		{"payload/header values", payloadHeaderValues},
		{"payload/header names", payloadHeaderNames},
		{"payload/lists of headers", payloadHeaderLists},
		{"payload/ids and topics", payloadNames},
		{"payload/incarnations", payloadIncarnations},
		{"payload/deadlines", payloadDeadlines},
		{"payload/deadlines are cut to microseconds", payloadInstants},
		{"payload/large", payloadLarge},
	}
}

// checkKept stores the messages in one batch, and checks that each comes back from a claim as it was, twice: for
// the messages inserted as waiting, and for those inserted as claimed and given back.
func (s *subject) checkKept(list ...node.Message) {
	s.Helper()
	s.insert(list...)
	first := s.claim(alice(), latest())
	s.checkSet(first, list)
	s.check("delete", s.delete(refsOf(list)...), many(len(list), true))

	claims := s.insertClaimed(bob(), list...)
	s.check("reset", s.reset(claims...), many(len(list), true))
	s.checkSet(s.claim(alice(), latest()), list)
	s.check("delete", s.delete(refsOf(list)...), many(len(list), true))
}

// checkSet ends the case when the claimed messages are not those wanted, in any order.
func (s *subject) checkSet(messages []node.Ready, want []node.Message) {
	s.Helper()
	byRef := map[node.Ref]node.Message{}
	for _, m := range want {
		byRef[m.Ref()] = m
	}
	for _, r := range messages {
		m, found := byRef[r.Ref()]
		if !found {
			s.Fatalf("message %s came unasked or twice", brief(r.ID))
		}
		delete(byRef, r.Ref())
		s.checkInstant("Deadline", r.Deadline)
		if why := diffMessage(r.Message, m); why != "" {
			s.Fatalf("message %s: %s", brief(r.ID), why)
		}
	}
	if len(byRef) > 0 {
		s.Fatalf("%d of %d messages did not come", len(byRef), len(want))
	}
}

// awkward returns the byte strings that are hard to keep. The first is null.
func awkward() [][]byte {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return [][]byte{
		nil,
		{},
		{0},
		{0, 0},
		{0xff},
		[]byte("text"), []byte("a\x00b"), []byte("é𐍈\ufffd\u2028"), every,
		[]byte("\xed\xa0\x80"), []byte(" \t\r\n"), []byte("null"), []byte("NULL"), []byte(`\N`), []byte(`\x00`),
		[]byte(`\u0000`), []byte(`"`), []byte(`'`), []byte(`{"base64":"AA=="}`), []byte("{}"), []byte(`{a,"b"}`),
		[]byte(`{"b": 1.0, "a": 1e2, "b": 2}`), []byte("12345678901234567890.10"), []byte("<&>"), []byte("%s$1?1"),
	}
}

func payloadKeys(s *subject) {
	var list []node.Message
	for i, key := range awkward() {
		m := s.message(fmt.Sprint("key ", i))
		m.Key = key
		list = append(list, m)
	}
	s.checkKept(list...)
}

func payloadValues(s *subject) {
	var list []node.Message
	for i, value := range awkward() {
		m := s.message(fmt.Sprint("value ", i))
		m.Value = value
		list = append(list, m)
	}
	all := s.message("all null")
	all.Key, all.Value = nil, nil
	s.checkKept(append(list, all)...)
}

func payloadHeaderValues(s *subject) {
	together := s.message("together")
	list := []node.Message{together}
	for i, value := range awkward() {
		m := s.message(fmt.Sprint("header ", i))
		m.Headers = []node.Header{{Name: "name", Value: value}}
		list = append(list, m)
		list[0].Headers = append(list[0].Headers, node.Header{Name: "name", Value: value})
	}
	s.checkKept(list...)
}

func payloadHeaderNames(s *subject) {
	together := s.message("together")
	list := []node.Message{together}
	for i, name := range append(awkward(), []byte("base64"), []byte("nameBase64"), []byte("Name"), []byte("name")) {
		for j, value := range [][]byte{nil, {}, []byte("text"), {0xff, 0}} {
			h := node.Header{Name: string(name), Value: value}
			m := s.message(fmt.Sprint("header ", i, " ", j))
			m.Headers = []node.Header{h}
			list = append(list, m)
			list[0].Headers = append(list[0].Headers, h)
		}
	}
	s.checkKept(list...)
}

func payloadHeaderLists(s *subject) {
	none, empty, repeated, many := s.message("none"), s.message("empty"), s.message("repeated"), s.message("many")
	none.Headers = nil
	empty.Headers = []node.Header{}
	repeated.Headers = []node.Header{
		{Name: "b", Value: []byte("1")},
		{Name: "a", Value: []byte("2")},
		{Name: "b", Value: nil},
		{Name: "B", Value: []byte("3")},
		{Name: "b", Value: []byte("1")},
		{Name: "b", Value: []byte("1")},
	}
	for i := range 1000 {
		many.Headers = append(many.Headers, node.Header{
			Name: fmt.Sprint("h", i*7919%1000), Value: []byte(fmt.Sprint(i)),
		})
	}
	s.checkKept(none, empty, repeated, many)
}

func payloadNames(s *subject) {
	var list []node.Message
	for _, id := range []string{
		"x", strings.Repeat("x", 128), strings.Repeat("𐍈", 32), strings.Repeat("é", 64), " ", "\t\r\n", "'", `"`,
		`\`, `\\`, "NULL", "null", "{}", "{a,b}", "a,b", `{"a"}`, "%s", "$1", "?1", ":id", "a;b--c", "\ufffd",
		"\ufeffbom", "\u202eright to left", "\x7f\x01", "3767d5c7-aced-45e5-91f1-3f7ad8205a3f", "-1", "0x00",
	} {
		list = append(list, s.message(id))
	}
	for _, topic := range []string{"a.b_c-D9", strings.Repeat("t", 249), "x"} {
		m := s.message("x")
		m.Lane = topic
		list = append(list, m)
	}
	s.insert(list...)
	s.check("delete", s.delete(refsOf(list)...), many(len(list), true))
	s.checkKept(list...)
}

func payloadIncarnations(s *subject) {
	var list []node.Message
	for i, incarnation := range []uuid.UUID{
		{}, {15: 1}, {0: 0xff}, uuid.Max, uuid.NameSpaceDNS, {6: 0x40, 8: 0x80},
	} {
		m := s.message(fmt.Sprint("incarnation ", i))
		m.Incarnation = incarnation
		list = append(list, m)
	}
	s.checkKept(list...)
}

// deadlines returns instants in ascending order, among them both ends of what is allowed, neighbours a
// microsecond apart, and the places where a representation of time may end or change its sign.
func deadlines() []time.Time {
	list := []time.Time{earliest(), earliest().Add(time.Microsecond)}
	for _, t := range []time.Time{
		time.Date(1582, 10, 15, 0, 0, 0, 0, time.UTC), // the first day of the Gregorian calendar
		time.Date(1677, 9, 21, 0, 12, 43, 145225000, time.UTC),
		time.Unix(0, 0).UTC(),
		time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), // the epoch of PostgreSQL
		time.Date(2016, 12, 31, 23, 59, 59, 999999000, time.UTC),
		time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC),
		time.Date(2262, 4, 11, 23, 47, 16, 854776000, time.UTC), // the end of nanoseconds in 64 bits
		time.Date(4970, 1, 1, 0, 0, 0, 123457000, time.UTC),
	} {
		list = append(list, t.Add(-time.Microsecond), t, t.Add(time.Microsecond))
	}
	return append(list, latest().Add(-time.Microsecond), latest())
}

func payloadDeadlines(s *subject) {
	list := s.messages(len(deadlines()))
	for i, deadline := range deadlines() {
		list[i].Deadline = deadline
	}
	s.checkKept(list...)

	// They order and compare as they should, each with the microsecond before it.
	s.insert(list...)
	for i, deadline := range deadlines() {
		if i > 0 {
			s.checkMessages(s.claim(alice(), deadline.Add(-time.Microsecond)))
		}
		s.checkMessages(s.claim(alice(), deadline), list[i])
	}
}

// payloadInstants gives the store finer instants than it keeps, in another zone. What it returns must be what
// it compares with later (hazard H24: a claim in nanoseconds never matches the stored one).
func payloadInstants(s *subject) {
	zone := time.FixedZone("somewhere", -7*60*60)
	given, want := s.messages(2), s.messages(2)
	want[0].Incarnation, want[1].Incarnation = given[0].Incarnation, given[1].Incarnation
	given[0].Deadline = time.Date(2025, 6, 1, 5, 0, 0, 123456789, zone)
	want[0].Deadline = time.Date(2025, 6, 1, 12, 0, 0, 123456000, time.UTC)
	given[1].Deadline = time.Date(1960, 6, 1, 5, 0, 0, 123456789, zone)
	want[1].Deadline = time.Date(1960, 6, 1, 12, 0, 0, 123456000, time.UTC)
	s.insert(given...)
	readied := s.claim(alice(), want[1].Deadline)
	s.checkMessages(readied, want[1])
	readied = append(readied, s.claim(alice(), want[0].Deadline.In(zone).Add(999))...)
	s.checkMessages(readied, want[1], want[0])

	later := time.Date(2025, 6, 2, 5, 0, 0, 123456789, zone)
	due := time.Date(2025, 6, 2, 12, 0, 0, 123456000, time.UTC)
	s.check("reset", s.release(node.Release{Claim: readied[1].Claim, Due: later}), []bool{true})
	s.checkMessages(s.claim(alice(), due.Add(-time.Microsecond)))
	s.checkMessages(s.claim(alice(), due), want[0])
}

func payloadLarge(s *subject) {
	random := rand.NewChaCha8([32]byte{1})
	noise := func(size int) []byte {
		data := make([]byte, size)
		if _, err := random.Read(data); err != nil {
			s.Fatal(err)
		}
		return data
	}
	value, key, header, name := s.message("value"), s.message("key"), s.message("header"), s.message("name")
	size := cmp.Or(s.Largest, 1<<20)
	value.Value = noise(size)
	key.Key = bytes.Repeat([]byte{0}, size)
	header.Headers = []node.Header{{Name: "noise", Value: noise(size)}, {Name: "text", Value: []byte("x")}}
	name.Headers = []node.Header{{Name: strings.Repeat("n", 10_000), Value: []byte(strings.Repeat("é\"", 1<<18))}}
	s.checkKept(value, s.message("small"), key, header, name)
}
