package storetest

import (
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

func presentCases() []testCase {
	return []testCase{
		{"present/waiting, ready, gone and never there", presentStates},
		{"present/by id and topic, in order, repeated", presentOrder},
	}
}

func readyCases() []testCase {
	return []testCase{
		{"ready/due time is inclusive", readyUntil},
		{"ready/ties by id then topic, compared as bytes", readyTies},
		{"ready/limit takes the earliest", readyLimit},
		{"ready/bytes end with the message that reaches them", readyBytes},
		{"ready/bytes count key, value and headers", readySizes},
		{"ready/without bounds", readyUnbounded},
		{"ready/claims exclusively", readyExclusive},
		{"ready/claims are stamped by the store's clock", readyStamp},
		{"ready/by due time, not deadline", readyDue},
		{"ready/results share no memory with the store", readyResults},
	}
}

func presentStates(s *subject) {
	waiting, held, gone := s.message("waiting"), s.message("held"), s.message("gone")
	s.insert(waiting, gone)
	claim := s.insertReadied(alice(), held)[0]
	s.delete(gone.Ref())
	before := s.rows()
	ids := []node.MessageID{
		messageID(waiting), messageID(held), messageID(gone), {ID: "never", Topic: output},
	}
	s.check("present", s.present(ids...), []bool{true, true, false, false})
	s.checkRows(before, "Present")
	s.check("claims", s.stuck(0), []node.Claim{claim})
}

func presentOrder(s *subject) {
	m := s.message("m")
	m.Topic = "topic"
	s.insert(m)
	s.check("present", s.present(
		node.MessageID{ID: "z", Topic: "topic"}, node.MessageID{ID: "m", Topic: "topic"},
		node.MessageID{ID: "topic", Topic: "m"}, node.MessageID{ID: "m", Topic: "other"},
		node.MessageID{ID: "m", Topic: "topic"}, node.MessageID{ID: "M", Topic: "topic"},
		node.MessageID{ID: "a", Topic: "topic"}, node.MessageID{ID: "m", Topic: "topic"},
	), []bool{false, true, false, false, true, false, false, true})
}

func readyUntil(s *subject) {
	m := s.message("a")
	s.insert(m)
	s.checkMessages(s.ready(alice(), earliest()))
	s.checkMessages(s.ready(alice(), noon().Add(-time.Microsecond)))
	s.checkMessages(s.ready(alice(), noon()), m)

	n := s.message("b")
	s.insert(n)
	s.checkMessages(s.ready(alice(), noon().Add(time.Microsecond)), n)
}

func readyTies(s *subject) {
	// In ascending order of bytes; a collation would order most of them otherwise.
	var list []node.Message
	for _, id := range []string{"A", "B", "Z", "_", "a", "a b", "a-b", "aB", "ab", "b", "z", "é", "ﬀ", "𐍈"} {
		for _, topic := range []string{"A", "B", "a", "a-", "a.b", "a_b"} {
			m := s.message(id)
			m.Topic = topic
			list = append(list, m)
		}
	}
	first := s.message("zz")
	first.Deadline = noon().Add(-time.Microsecond)
	last := s.message("0")
	last.Deadline = noon().Add(time.Microsecond)
	for i := range list {
		s.insert(list[i*31%len(list)]) // 31 and the number of messages have no common divisor
	}
	s.insert(last, first)
	want := slices.Concat([]node.Message{first}, list, []node.Message{last})
	s.checkMessages(s.readyWithin(node.ReadyRequest{
		Node: alice(), Until: latest(), Limit: 40, Bytes: math.MaxInt,
	}), want[:40]...)
	s.checkMessages(s.ready(alice(), latest()), want[40:]...)
}

func readyLimit(s *subject) {
	list := s.messages(10)
	backwards := slices.Clone(list)
	slices.Reverse(backwards)
	s.insert(backwards...)
	for _, limit := range []int{1, 3, 4, 5, 7} {
		n := min(limit, len(list))
		s.checkMessages(s.readyWithin(node.ReadyRequest{
			Node: alice(), Until: latest(), Limit: limit, Bytes: math.MaxInt,
		}), list[:n]...)
		list = list[n:]
	}
}

func readyBytes(s *subject) {
	for _, c := range []struct{ bytes, want int }{
		{1, 1}, {9, 1}, {10, 1}, {11, 2}, {20, 2}, {25, 3}, {30, 3}, {31, 4}, {59, 6}, {60, 6}, {61, 6}, {1000, 6},
	} {
		list := s.messages(6)
		for i := range list {
			list[i].Key, list[i].Value = nil, make([]byte, 10)
		}
		s.insert(list...)
		s.checkMessages(s.readyWithin(node.ReadyRequest{
			Node: alice(), Until: latest(), Limit: 100, Bytes: c.bytes,
		}), list[:c.want]...)
		s.delete(refsOf(list)...)
	}

	// The limit holds within the bytes, too.
	list := s.messages(6)
	s.insert(list...)
	s.checkMessages(s.readyWithin(node.ReadyRequest{
		Node: alice(), Until: latest(), Limit: 2, Bytes: math.MaxInt,
	}), list[:2]...)
}

func readySizes(s *subject) {
	ten := []byte("é123456€")[:10] // bytes are counted, not characters
	none, key, value, name, header, zero, last := s.message("0"), s.message("1"), s.message("2"),
		s.message("3"), s.message("4"), s.message("5"), s.message("6")
	list := []*node.Message{&none, &key, &value, &name, &header, &zero, &last}
	for i, m := range list {
		m.Key, m.Value = nil, nil
		m.Deadline = noon().Add(time.Duration(i) * time.Second)
	}
	key.Key = ten
	value.Value = ten
	name.Headers = []node.Header{{Name: string(ten[:6])}, {Name: "four", Value: nil}}
	header.Headers = []node.Header{{Name: "n", Value: []byte("\xff\x00234")}, {Name: "ab", Value: ten[:2]}}
	zero.Key, zero.Value = []byte{}, []byte{}
	for _, c := range []struct{ bytes, want int }{
		{1, 2}, {10, 2}, {11, 3}, {20, 3}, {21, 4}, {30, 4}, {31, 5}, {40, 5}, {41, 7},
	} {
		var want []node.Message
		for _, m := range list {
			m.Incarnation = s.incarnation()
			want = append(want, *m)
		}
		s.insert(want...)
		s.checkMessages(s.readyWithin(node.ReadyRequest{
			Node: alice(), Until: latest(), Limit: 100, Bytes: c.bytes,
		}), want[:c.want]...)
		s.delete(refsOf(want)...)
	}
}

func readyUnbounded(s *subject) {
	list := s.messages(3)
	list[0].Deadline, list[2].Deadline = earliest(), latest()
	s.insert(list...)
	s.checkMessages(s.readyWithin(node.ReadyRequest{
		Node: alice(), Until: latest(), Limit: math.MaxInt, Bytes: math.MaxInt,
	}), list...)
	claims, err := s.Store.Stuck(s.Context(), node.StuckRequest{Limit: math.MaxInt})
	s.checkCall("Stuck", err, len(claims), 3)
}

func readyExclusive(s *subject) {
	list := s.messages(4)
	s.insert(list[:3]...)
	held := s.insertReadied(bob(), list[3])
	readied := s.readyWithin(node.ReadyRequest{Node: alice(), Until: latest(), Limit: 2, Bytes: math.MaxInt})
	s.checkMessages(readied, list[0], list[1])
	held = append(held, claimsOf(readied)...)
	readied = s.ready(bob(), latest())
	s.checkMessages(readied, list[2])
	held = append(held, claimsOf(readied)...)
	for _, owner := range []uuid.UUID{alice(), bob()} {
		s.checkMessages(s.ready(owner, latest()))
	}

	// All of these claims are in force.
	s.check("reset", s.reset(held...), many(4, true))
}

func readyStamp(s *subject) {
	list := s.messages(3)
	s.insert(list...)
	var stamps []time.Time
	for range list {
		s.pass()
		readied := s.readyWithin(node.ReadyRequest{
			Node: alice(), Until: latest(), Limit: 1, Bytes: math.MaxInt,
		})
		stamps = append(stamps, readied[0].Claim.ReadiedAt)
	}
	for i := range 2 {
		if !stamps[i].Before(stamps[i+1]) {
			s.Fatalf("claims made one after another have the instants %v", stamps)
		}
	}
	var stored []time.Time
	for _, claim := range s.stuck(0) {
		stored = append(stored, claim.ReadiedAt)
	}
	s.check("stored instants", stored, stamps)
}

func readyDue(s *subject) {
	list := s.messages(4)
	s.insert(list...)
	claims := claimsOf(s.ready(alice(), latest()))
	at := func(seconds int) time.Time { return noon().Add(time.Duration(seconds) * time.Second) }
	s.check("reset", s.release(
		node.Release{Claim: claims[0], Due: at(30)}, node.Release{Claim: claims[1], Due: at(10)},
		node.Release{Claim: claims[2]}, node.Release{Claim: claims[3], Due: at(-10)},
	), many(4, true))
	s.checkMessages(s.ready(alice(), at(-11)))
	s.checkMessages(s.ready(alice(), at(-10)), list[3])
	s.checkMessages(s.ready(alice(), at(10)), list[2], list[1])
	s.checkMessages(s.ready(alice(), at(29)))
	s.checkMessages(s.ready(alice(), at(30)), list[0])
}

func readyResults(s *subject) {
	m := s.message("a")
	m.Headers = []node.Header{{Name: "name", Value: []byte("header")}}
	want := copyMessage(m)
	s.insert(m)
	for range 2 {
		readied := s.ready(alice(), noon())
		s.checkMessages(readied, want)
		r := &readied[0]
		r.Key[0], r.Value[0], r.Headers[0].Value[0] = 'X', 'X', 'X'
		r.Headers[0].Name = "X"
		s.check("reset", s.reset(r.Claim), []bool{true})
	}
}
