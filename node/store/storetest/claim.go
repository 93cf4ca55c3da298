package storetest

import (
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

func claimCases() []testCase {
	return []testCase{
		{"claim/due time is inclusive", claimUntil},
		{"claim/ties by id then lane, compared as bytes", claimTies},
		{"claim/limit takes the earliest", claimLimit},
		{"claim/from an instant on, and the rest later", claimFrom},
		{"claim/from an instant on each lane", claimFromEach},
		{"claim/bytes end with the message that reaches them", claimBytes},
		{"claim/bytes count key, value and headers", claimSizes},
		{"claim/without bounds", claimUnbounded},
		{"claim/claims exclusively", claimExclusive},
		{"claim/claims are stamped by the store's clock", claimStamp},
		{"claim/by due time, not deadline", claimDue},
		{"claim/each lane has its own share", claimShares},
		{"claim/bytes of all lanes together", claimTogether},
		{"claim/a backlog on one lane takes nothing from another", claimBacklog},
		{"claim/no lane that was not asked for", claimOtherLanes},
		{"claim/in the order of due times over all lanes", claimLaneOrder},
		{"claim/counts attempts", claimAttempts},
		{"claim/says when a message fell due", claimSaysDue},
		{"claim/tells how long nothing falls due", claimIdle},
		{"claim/results share no memory with the store", claimResults},
	}
}

func claimUntil(s *subject) {
	m := s.message("a")
	s.insert(m)
	s.checkMessages(s.claim(alice(), earliest()))
	s.checkMessages(s.claim(alice(), noon().Add(-time.Microsecond)))
	s.checkMessages(s.claim(alice(), noon()), m)

	n := s.message("b")
	s.insert(n)
	s.checkMessages(s.claim(alice(), noon().Add(time.Microsecond)), n)
}

func claimTies(s *subject) {
	// In ascending order of bytes; a collation would order most of them otherwise.
	var list []node.Message
	for _, id := range []string{"A", "B", "Z", "_", "a", "a b", "a-b", "aB", "ab", "b", "z", "é", "ﬀ", "𐍈"} {
		for _, topic := range []string{"A", "B", "a", "a-", "a.b", "a_b"} {
			m := s.message(id)
			m.Lane = topic
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
	shares := s.unlimited()
	for i := range shares {
		shares[i].Limit = 7 // half of the ids of each lane
	}
	s.checkMessages(s.claimWithin(alice(), latest(), shares...),
		slices.Concat([]node.Message{first}, list[:len(list)/2], []node.Message{last})...)
	s.checkMessages(s.claim(alice(), latest()), list[len(list)/2:]...)
}

func claimLimit(s *subject) {
	list := s.messages(10)
	backwards := slices.Clone(list)
	slices.Reverse(backwards)
	s.insert(backwards...)
	for _, limit := range []int{1, 3, 4, 5, 7} {
		n := min(limit, len(list))
		s.checkMessages(s.claimWithin(alice(), latest(), share(limit, math.MaxInt)), list[:n]...)
		list = list[n:]
	}
}

// claimFrom claims what falls due from an instant on, while older messages wait: these are claimed when somebody asks
// for all there is.
func claimFrom(s *subject) {
	list := s.messages(8)
	s.insert(list...)
	from := func(i, limit, bytes int) node.Share {
		return node.Share{Lane: output, Limit: limit, Bytes: bytes, From: list[i].Deadline}
	}
	s.checkMessages(s.claimWithin(alice(), list[4].Deadline, from(5, 9, math.MaxInt)))
	s.checkMessages(s.claimWithin(alice(), list[6].Deadline, from(3, 2, math.MaxInt)), list[3:5]...)
	s.checkMessages(s.claimWithin(alice(), list[6].Deadline, from(3, 9, 1)), list[5])
	s.checkMessages(s.claimWithin(alice(), list[6].Deadline, from(3, 9, math.MaxInt)), list[6])
	s.checkMessages(s.claimWithin(alice(), list[6].Deadline, from(3, 9, math.MaxInt)))
	s.checkMessages(s.claimWithin(alice(), list[6].Deadline, share(2, math.MaxInt)), list[:2]...)
	s.checkMessages(s.claim(alice(), latest()), list[2], list[7])
}

// claimFromEach claims on one lane from an instant on, and on others from other ones, or all there is.
func claimFromEach(s *subject) {
	a, b, c := s.on("a", 4), s.on("b", 4), s.on("c", 2)
	s.insert(slices.Concat(a, b, c)...)
	s.checkMessages(s.claimWithin(alice(), latest(),
		node.Share{Lane: "b", Limit: 9, Bytes: 1000, From: b[2].Deadline},
		node.Share{Lane: "c", Limit: 9, Bytes: 1000},
		node.Share{Lane: "a", Limit: 9, Bytes: 1000, From: a[1].Deadline.Add(time.Microsecond)},
	), c[0], c[1], a[2], b[2], a[3], b[3])
	s.checkMessages(s.claim(alice(), latest()), a[0], b[0], a[1], b[1])
}

func claimBytes(s *subject) {
	for _, c := range []struct{ bytes, want int }{
		{1, 1}, {9, 1}, {10, 1}, {11, 2}, {20, 2}, {25, 3}, {30, 3}, {31, 4}, {59, 6}, {60, 6}, {61, 6}, {1000, 6},
	} {
		list := s.messages(6)
		for i := range list {
			list[i].Key, list[i].Value = nil, make([]byte, 10)
		}
		s.insert(list...)
		s.checkMessages(s.claimWithin(alice(), latest(), share(100, c.bytes)), list[:c.want]...)
		s.delete(refsOf(list)...)
	}

	// The limit holds within the bytes, too.
	list := s.messages(6)
	s.insert(list...)
	s.checkMessages(s.claimWithin(alice(), latest(), share(2, math.MaxInt)), list[:2]...)
}

func claimSizes(s *subject) {
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
		s.checkMessages(s.claimWithin(alice(), latest(), share(100, c.bytes)), want[:c.want]...)
		s.delete(refsOf(want)...)
	}
}

func claimUnbounded(s *subject) {
	list := s.messages(3)
	list[0].Deadline, list[2].Deadline = earliest(), latest()
	s.insert(list...)
	s.checkMessages(s.claimWithin(alice(), latest(), share(math.MaxInt, math.MaxInt)), list...)
	s.check("claims", len(s.expired()), 3)
}

func claimExclusive(s *subject) {
	list := s.messages(4)
	s.insert(list[:3]...)
	held := s.insertClaimed(bob(), list[3])
	readied := s.claimWithin(alice(), latest(), share(2, math.MaxInt))
	s.checkMessages(readied, list[0], list[1])
	held = append(held, claimsOf(readied)...)
	readied = s.claim(bob(), latest())
	s.checkMessages(readied, list[2])
	held = append(held, claimsOf(readied)...)
	for _, owner := range []uuid.UUID{alice(), bob()} {
		s.checkMessages(s.claim(owner, latest()))
	}

	// All of these claims are in force.
	s.check("reset", s.reset(held...), many(4, true))
}

func claimStamp(s *subject) {
	list := s.messages(3)
	s.insert(list...)
	var stamps []time.Time
	for range list {
		s.pass()
		readied := s.claimWithin(alice(), latest(), share(1, math.MaxInt))
		stamps = append(stamps, readied[0].Claim.ReadiedAt)
	}
	for i := range 2 {
		if !stamps[i].Before(stamps[i+1]) {
			s.Fatalf("claims made one after another have the instants %v", stamps)
		}
	}
	var stored []time.Time
	for _, claim := range s.expired() {
		stored = append(stored, claim.ReadiedAt)
	}
	s.check("stored instants", stored, stamps)
}

func claimDue(s *subject) {
	list := s.messages(4)
	s.insert(list...)
	claims := claimsOf(s.claim(alice(), latest()))
	at := func(seconds int) time.Time { return noon().Add(time.Duration(seconds) * time.Second) }
	s.check("reset", s.release(
		node.Release{Claim: claims[0], Due: at(30)}, node.Release{Claim: claims[1], Due: at(10)},
		node.Release{Claim: claims[2]}, node.Release{Claim: claims[3], Due: at(-10)},
	), many(4, true))
	s.checkMessages(s.claim(alice(), at(-11)))
	s.checkMessages(s.claim(alice(), at(-10)), list[3])
	s.checkMessages(s.claim(alice(), at(10)), list[2], list[1])
	s.checkMessages(s.claim(alice(), at(29)))
	s.checkMessages(s.claim(alice(), at(30)), list[0])
}

func claimResults(s *subject) {
	m := s.message("a")
	m.Headers = []node.Header{{Name: "name", Value: []byte("header")}}
	want := copyMessage(m)
	s.insert(m)
	for range 2 {
		readied := s.claim(alice(), noon())
		s.checkMessages(readied, want)
		r := &readied[0]
		r.Key[0], r.Value[0], r.Headers[0].Value[0] = 'X', 'X', 'X'
		r.Headers[0].Name = "X"
		s.check("reset", s.reset(r.Claim), []bool{true})
	}
}

// on returns n new messages on a lane, due at noon and each a millisecond later than the one before.
func (s *subject) on(lane string, n int) []node.Message {
	list := s.messages(n)
	for i := range list {
		list[i].Lane = lane
		list[i].Key, list[i].Value = nil, make([]byte, 10)
	}
	return list
}

// claimShares claims with bounds that differ by lane, in number and in bytes; what one lane leaves of its share is not
// for another.
func claimShares(s *subject) {
	a, b, c, d := s.on("a", 5), s.on("b", 5), s.on("c", 5), s.on("d", 1)
	s.insert(slices.Concat(a, b, c, d)...)
	shares := []node.Share{
		{Lane: "c", Limit: 10, Bytes: 21}, // three: the third reaches the bound
		{Lane: "none", Limit: 10, Bytes: 1000},
		{Lane: "a", Limit: 2, Bytes: 1000},
		{Lane: "d", Limit: 10, Bytes: 1000},
		{Lane: "b", Limit: 4, Bytes: 20}, // two
	}
	s.checkMessages(s.claimWithin(alice(), latest(), shares...),
		a[0], b[0], c[0], d[0], a[1], b[1], c[1], c[2])
	s.checkMessages(s.claimWithin(alice(), latest(), shares...), a[2], b[2], a[3], b[3], c[3], c[4])
	s.checkMessages(s.claimWithin(alice(), latest(), shares...), a[4], b[4])
	s.checkMessages(s.claimWithin(alice(), latest(), shares...))
}

// claimTogether claims with a bound on the bytes of all lanes together: the message that reaches it is the last, in the
// order of the lanes, and there is one at least. What the last lane has left, and the lanes that were not looked at,
// the next claims get, also where a store remembers how far it has looked.
func claimTogether(s *subject) {
	a, b, c := s.on("a", 3), s.on("b", 3), s.on("c", 3)
	s.insert(slices.Concat(a, b, c)...)
	claim := func(bytes int, want []node.Message, lanes ...string) {
		s.Helper()
		request := node.ClaimRequest{Node: alice(), Hold: hold, Until: latest(), Bytes: bytes}
		for _, lane := range lanes {
			request.Lanes = append(request.Lanes, node.Share{Lane: lane, Limit: 2, Bytes: math.MaxInt})
		}
		s.checkMessages(s.claimFor(request), want...)
	}
	claim(21, []node.Message{b[0], c[0], c[1]}, "c", "b", "a") // the third reaches the bound
	claim(1, []node.Message{a[0]}, "a", "b", "c")
	claim(20, []node.Message{a[1], a[2]}, "a", "b", "c")
	claim(1000, []node.Message{b[1], b[2], c[2]}, "a", "b", "c")
}

// claimBacklog has a lane with far more due, and due longer, than its share allows. The other lane gets what it would
// get without it (L11).
func claimBacklog(s *subject) {
	backlog, few := s.on("backlog", 500), s.on("few", 3)
	for i := range few {
		few[i].Deadline = noon().Add(time.Hour)
	}
	s.insert(backlog...)
	s.insert(few...)
	for _, order := range [][]string{{"backlog", "few"}, {"few", "backlog"}} {
		var shares []node.Share
		for _, lane := range order {
			shares = append(shares, node.Share{Lane: lane, Limit: 5, Bytes: 1000})
		}
		claimed := s.claimWithin(alice(), noon().Add(time.Hour), shares...)
		s.checkMessages(claimed, append(slices.Clone(backlog[:5]), few...)...)
		s.check("reset", s.reset(claimsOf(claimed)...), many(8, true))
	}
}

func claimOtherLanes(s *subject) {
	a, b := s.on("a", 2), s.on("b", 2)
	upper, longer := s.on("A", 1), s.on("aa", 1)
	s.insert(slices.Concat(a, b, upper, longer)...)
	share := func(lane string) node.Share { return node.Share{Lane: lane, Limit: 10, Bytes: 1000} }
	s.checkMessages(s.claimWithin(alice(), latest(), share("a")), a...)
	s.checkMessages(s.claimWithin(alice(), latest(), share("a"), share("")))
	s.checkMessages(s.claimWithin(alice(), latest(), share("b"), share("aa")), longer[0], b[0], b[1])
	s.checkMessages(s.claim(alice(), latest()), upper...)
}

// claimLaneOrder puts messages off, so that the order of due times is not that of deadlines, on two lanes.
func claimLaneOrder(s *subject) {
	a, b := s.on("a", 3), s.on("b", 3)
	s.insert(slices.Concat(a, b)...)
	var releases []node.Release
	for _, r := range s.claim(alice(), latest()) {
		// Backwards: the last is due first, and of one instant on both lanes.
		releases = append(releases, node.Release{Claim: r.Claim, Due: noon().Add(noon().Sub(r.Deadline))})
	}
	s.release(releases...)
	s.checkMessages(s.claim(alice(), latest()), a[2], b[2], a[1], b[1], a[0], b[0])
}

// A claim says when a message fell due: at its deadline, or when it was put off until.
func claimSaysDue(s *subject) {
	list := s.messages(1)
	s.insert(list[0])
	for _, due := range []time.Time{list[0].Deadline, list[0].Deadline.Add(90 * time.Minute)} {
		claimed := s.claim(alice(), latest())
		if len(claimed) != 1 {
			s.Fatalf("%d messages claimed, want 1", len(claimed))
		}
		s.checkInstant("the instant at which it fell due", claimed[0].Due)
		s.check("due", claimed[0].Due, due)
		s.release(node.Release{Claim: claimed[0].Claim, Due: list[0].Deadline.Add(90 * time.Minute)})
	}
}

func claimAttempts(s *subject) {
	list := s.messages(2)
	s.insert(list[0])
	s.insertClaimed(alice(), list[1])
	for want := 1; want <= 3; want++ {
		claimed := s.claim(bob(), latest())
		for _, r := range claimed {
			s.check("attempts", r.Attempts, want)
		}
		s.reset(s.expired()...)
	}
}

// What is said of how long there is nothing to do holds for every lane of the request, and for claims on all lanes.
func claimIdle(s *subject) {
	const elsewhere = "elsewhere"
	idle := func(ahead time.Duration, lanes ...string) time.Duration {
		request := node.ClaimRequest{Node: alice(), Hold: hold, Until: noon(), Ahead: ahead}
		for _, lane := range lanes {
			request.Lanes = append(request.Lanes, node.Share{Lane: lane, Limit: 10, Bytes: math.MaxInt})
		}
		result, err := s.Store.Claim(s.Context(), request)
		if err != nil {
			s.Fatal(err)
		}
		s.check("claimed", len(result.Messages), 0)
		return result.Idle
	}
	if idle(time.Second, output) == 0 {
		return // it need not say anything
	}
	s.check("idle of an empty store", idle(time.Second, output), time.Second)
	s.check("idle, not asked for", idle(0, output), time.Duration(0))
	m := s.message("a")
	m.Deadline = noon().Add(300 * time.Millisecond)
	s.insert(m)
	s.check("idle until it falls due", idle(time.Second, elsewhere, output), 300*time.Millisecond)
	s.check("idle, as far as was asked for", idle(200*time.Millisecond, output), 200*time.Millisecond)
	s.check("idle of another lane", idle(time.Second, elsewhere), time.Second)
	claim := s.insertClaimed(bob(), s.message("b"))
	s.check("idle while somebody holds a claim", idle(time.Second, elsewhere), time.Duration(0))
	s.reset(claim...)
	s.check("idle when it is given back", idle(time.Second, elsewhere), time.Second)
}
