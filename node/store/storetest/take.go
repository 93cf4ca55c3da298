package storetest

import (
	"slices"
	"strings"
	"time"

	"chronos/node"
)

func takeCases() []testCase {
	return []testCase{
		{"take/waiting", insertWaiting},
		{"take/as claimed", insertClaimed},
		{"take/one result for each message in order", insertMixed},
		{"take/duplicate changes nothing", insertDuplicate},
		{"take/id is free again after the delete", insertAfterDelete},
		{"take/same id on two lanes", insertTwoTopics},
		{"take/names that differ a little", insertSimilarNames},
		{"take/same id twice in one batch", insertTwiceInBatch},
		{"take/same incarnation twice in one batch", insertSameTwiceInBatch},
		{"take/repeated while waiting", insertRepeatedWaiting},
		{"take/repeated while claimed", insertRepeatedReadied},
		{"take/repeated after a reset", insertRepeatedAfterReset},
		{"take/claim is of the requesting node only", insertRepeatedByOther},
		{"take/refusal takes in what came before", takeRefused},
		{"take/one rule for ids, lanes and deadlines", takeRules},
		{"take/what is not taken is not refused", takeRefusesOnlyNew},
		{"take/arguments are not changed or kept", insertArguments},
	}
}

func insertWaiting(s *subject) {
	m := s.message("a")
	s.insert(m)
	s.check("claims", len(s.expired()), 0)
	s.checkMessages(s.claim(bob(), noon()), m)
}

func insertClaimed(s *subject) {
	m := s.message("a")
	claim := s.insertClaimed(bob(), m)[0]
	s.checkMessages(s.claim(alice(), latest()))
	s.check("claims", s.expired(), []node.Claim{claim})

	// The claim is a full one: it can be given up, and then the message is there.
	s.check("reset", s.reset(claim), []bool{true})
	s.checkMessages(s.claim(alice(), noon()), m)
}

func insertMixed(s *subject) {
	old := s.messages(4)
	s.insert(old...)
	fresh := s.messages(8) // the first four are other incarnations of the old ones
	batch := []submission{
		{Message: fresh[6], claim: true},
		{Message: fresh[1]},
		{Message: fresh[4]},
		{Message: old[3], claim: true},
		{Message: fresh[0], claim: true},
		{Message: fresh[5], claim: true},
		{Message: fresh[7]},
		{Message: old[2]},
	}
	results := s.insertAll(bob(), batch...)
	var outcomes []node.Outcome
	for i, result := range results {
		outcomes = append(outcomes, result.Outcome)
		if result.Outcome == node.Scheduled && i != 3 && batch[i].claim {
			s.checkClaim(result.Claim, batch[i].Ref(), bob(), hold)
		} else if result.Claim != (node.Claim{}) {
			s.Fatalf("result %d has a claim: %+v", i, result)
		}
	}
	s.check("outcomes", outcomes, []node.Outcome{
		node.Scheduled, node.Duplicate, node.Scheduled, node.Scheduled,
		node.Duplicate, node.Scheduled, node.Scheduled, node.Scheduled,
	})
	s.checkMessages(s.claim(alice(), latest()), old[0], old[1], old[2], old[3], fresh[4], fresh[7])
}

func insertDuplicate(s *subject) {
	waiting, held := s.message("a"), s.message("b")
	held.Deadline = noon().Add(time.Second)
	s.insert(waiting)
	claim := s.insertClaimed(alice(), held)[0]
	before := s.rows()
	s.pass()

	for _, readied := range []bool{false, true} {
		for _, id := range []string{"a", "b"} {
			again := s.message(id)
			again.Deadline = earliest()
			again.Key, again.Value = nil, []byte("other")
			again.Headers = []node.Header{{Name: "other"}}
			result := s.insertAll(alice(), submission{again, readied})[0]
			s.check("result", result, node.ItemResult{Outcome: node.Duplicate})
		}
	}
	s.checkRows(before, "duplicates")
	s.check("claims", s.expired(), []node.Claim{claim})
	s.checkMessages(s.claim(bob(), noon().Add(-time.Microsecond)))
	s.checkMessages(s.claim(bob(), latest()), waiting)
}

func insertAfterDelete(s *subject) {
	for range 3 {
		waiting, held := s.message("a"), s.message("b")
		s.insert(waiting)
		s.insertClaimed(alice(), held)
		s.check("delete", s.delete(waiting.Ref(), held.Ref()), []bool{true, true})
	}
}

func insertTwoTopics(s *subject) {
	one, two := s.message("a"), s.message("a")
	two.Lane = "other"
	two.Value = []byte("on the other topic")
	s.insert(one, two)
	s.check("delete on the wrong lane", s.delete(
		node.Ref{ID: "a", Lane: "other", Incarnation: one.Incarnation},
		node.Ref{ID: "a", Lane: output, Incarnation: two.Incarnation},
	), []bool{false, false})
	s.check("delete", s.delete(one.Ref()), []bool{true})
	s.checkMessages(s.claim(alice(), noon()), two)
}

// insertSimilarNames has ids that a collation, a trim or a text search would take for each other.
func insertSimilarNames(s *subject) {
	var list []node.Message
	for _, id := range []string{
		"a", "A", " a", "a ", "a\t", "a\u00a0", "á", "a\u0301", "ａ", "aa", "a%", "a_", "0", "00", "0.0",
	} {
		list = append(list, s.message(id))
	}
	for _, topic := range []string{"Output", "output.", "output-", "output_"} {
		m := s.message("a")
		m.Lane = topic
		list = append(list, m)
	}
	s.insert(list...)
	s.check("delete", s.delete(refsOf(list)...), many(len(list), true))
}

func insertTwiceInBatch(s *subject) {
	first, second, third := s.message("a"), s.message("a"), s.message("a")
	results := s.insertAll(
		bob(), submission{Message: first}, submission{second, true},
		submission{Message: third},
	)
	s.check("results", results, []node.ItemResult{
		{Outcome: node.Scheduled}, {Outcome: node.Duplicate}, {Outcome: node.Duplicate},
	})
	s.checkMessages(s.claim(alice(), noon()), first)

	// The same when the order of the batch is not the order of anything else.
	first, second = s.message("b"), s.message("b")
	results = s.insertAll(
		bob(), submission{second, true}, submission{Message: first},
	)
	s.checkClaim(results[0].Claim, second.Ref(), bob(), hold)
	s.check("outcome of the second", results[1], node.ItemResult{Outcome: node.Duplicate})
	s.checkMessages(s.claim(alice(), noon()))
}

func insertSameTwiceInBatch(s *subject) {
	waiting, held := s.message("a"), s.message("b")
	results := s.insertAll(
		bob(),
		submission{Message: waiting}, submission{waiting, true},
		submission{held, true}, submission{Message: held},
	)
	s.check("results of the waiting one", results[:2], many(2, node.ItemResult{Outcome: node.Scheduled}))
	s.checkClaim(results[2].Claim, held.Ref(), bob(), hold)
	s.check("second result of the readied one", results[3], results[2])
	s.checkMessages(s.claim(alice(), noon()), waiting)
}

func insertRepeatedWaiting(s *subject) {
	m := s.message("a")
	s.insert(m)
	before := s.rows()
	for _, readied := range []bool{false, true} {
		result := s.insertAll(alice(), submission{m, readied})[0]
		s.check("result", result, node.ItemResult{Outcome: node.Scheduled})
	}
	s.checkRows(before, "repeated inserts")
	s.check("claims", len(s.expired()), 0)
	s.checkMessages(s.claim(alice(), noon()), m)
	s.checkMessages(s.claim(alice(), noon()))
}

func insertRepeatedReadied(s *subject) {
	m := s.message("a")
	claim := s.insertClaimed(alice(), m)[0]
	s.pass()
	before := s.rows()
	for _, readied := range []bool{true, false} {
		result := s.insertAll(alice(), submission{m, readied})[0]
		s.check("result", result, node.ItemResult{Outcome: node.Scheduled, Claim: claim})
	}
	s.checkRows(before, "repeated inserts")
	s.check("claims", s.expired(), []node.Claim{claim})
}

func insertRepeatedAfterReset(s *subject) {
	m := s.message("a")
	claim := s.insertClaimed(alice(), m)[0]
	later := noon().Add(time.Hour)
	s.check("reset", s.release(node.Release{Claim: claim, Due: later}), []bool{true})
	result := s.insertAll(alice(), submission{m, true})[0]
	s.check("result", result, node.ItemResult{Outcome: node.Scheduled})
	s.checkMessages(s.claim(alice(), later.Add(-time.Microsecond)))
	s.checkMessages(s.claim(alice(), later), m)
}

func insertRepeatedByOther(s *subject) {
	m := s.message("a")
	claim := s.insertClaimed(alice(), m)[0]
	again := submission{m, true}
	s.check("result of another node", s.insertAll(bob(), again)[0], node.ItemResult{Outcome: node.Scheduled})

	s.pass()
	s.check("reset", s.reset(claim), []bool{true})
	held := s.claim(bob(), noon())[0].Claim
	s.check("result of the former owner", s.insertAll(alice(), again)[0],
		node.ItemResult{Outcome: node.Scheduled})
	s.check("result of the new owner", s.insertAll(bob(), again)[0],
		node.ItemResult{Outcome: node.Scheduled, Claim: held})
}

// outside are changes that make a message one that no store keeps.
func outside() map[string]func(*node.Message) {
	changes := map[string]func(*node.Message){}
	for name, id := range map[string]string{
		"empty id": "", "NUL": "\x00", "NUL inside": "with\x00NUL", "no UTF-8": "\xff", "half a rune": "x\xf0\x9d",
		"a surrogate": "\xed\xa0\x80", "129 bytes": strings.Repeat("x", 129), "65 runes": strings.Repeat("é", 65),
		"33 runes": strings.Repeat("𐍈", 33), "large id": strings.Repeat("x", 100_000),
	} {
		changes[name] = func(m *node.Message) { m.ID = id }
	}
	for name, topic := range map[string]string{
		"empty lane": "", "lane with NUL": "a\x00b", "lane not UTF-8": "\xff",
		"topic of 250 bytes": strings.Repeat("t", 250),
	} {
		changes[name] = func(m *node.Message) { m.Lane = topic }
	}
	for name, deadline := range map[string]time.Time{
		"year -5000": time.Date(-5000, 6, 1, 0, 0, 0, 0, time.UTC), "year 0": earliest().Add(-time.Microsecond),
		"year 10000": latest().Add(time.Microsecond), "year 294277": time.Date(294_277, 6, 1, 0, 0, 0, 0, time.UTC),
	} {
		changes[name] = func(m *node.Message) { m.Deadline = deadline }
	}
	return changes
}

// takeRules has messages outside of what node.Message allows. Each is refused, by the sentence of the one rule, and
// nothing has happened; the ends of what is allowed are a case of their own (payload/ids and topics).
func takeRules(s *subject) {
	for name, change := range outside() {
		m := s.message("a")
		change(&m)
		request := s.request(alice(), submission{Message: m})
		want := node.TakeResult{
			State: s.state(), Positions: []node.Position{s.at.Position}, Refused: []bool{false}, Refusal: m.Refusal(),
		}
		if got := s.take(request); got.Refusal == "" || !sameTake(got, want) {
			s.Fatalf("%s: got %s, want %s", name, brief(got), brief(want))
		}
	}
	s.checkMessages(s.claim(bob(), latest()))
}

// sameTake compares results; no results and an empty list of them are the same.
func sameTake(a, b node.TakeResult) bool {
	return slices.EqualFunc(a.Results, b.Results, sameResult) && slices.Equal(a.Positions, b.Positions) &&
		slices.Equal(a.Refused, b.Refused) && a.State == b.State && a.Taken == b.Taken && a.Refusal == b.Refusal
}

func sameResult(a, b node.ItemResult) bool {
	if a.Told != nil && b.Told != nil && *a.Told == *b.Told {
		a.Told = b.Told
	}
	return a == b
}

// takeRefused has a message in the middle of a take, with records of two partitions around it, that can never be
// kept. Those before it are taken in and move their positions, those behind it do not.
func takeRefused(s *subject) {
	one, two := s.place(1, 10), s.place(1, 20)
	list := s.messages(5)
	list[2].ID = "with\x00NUL"
	request := requestAt(one, alice(), submissions(list, false)...)
	request.From = append(request.From, two)
	request.Items[1].From, request.Items[1].Offset = 1, 20
	request.Items[2].Offset = 11
	request.Items[3].Offset = 12
	request.Items[4].From, request.Items[4].Offset = 1, 21
	for _, what := range []string{"take", "repeated take"} {
		result := s.take(request)
		s.check(what, result, node.TakeResult{
			State: result.State, Refused: []bool{false, false},
			Positions: []node.Position{{Epoch: 1, Offset: 11}, {Epoch: 1, Offset: 21}},
			Taken:     2, Refusal: list[2].Refusal(),
			Results: many(2, node.ItemResult{Outcome: node.Scheduled}),
		})
	}

	// The caller goes on with something else in its place.
	request.Items[2].Action, request.Items[2].Message = node.Pass, node.Message{}
	scheduled := node.ItemResult{Outcome: node.Scheduled}
	s.check("results", s.take(request).Results, []node.ItemResult{
		scheduled, scheduled, {Outcome: node.Passed}, scheduled, scheduled,
	})
	s.checkMessages(s.claim(bob(), latest()), list[0], list[1], list[3], list[4])
}

// takeRefusesOnlyNew has messages that can never be kept where they need not be: in a partition that is refused, and
// below the position.
func takeRefusesOnlyNew(s *subject) {
	one, two := s.place(1, 10), s.place(1, 20)
	two.Offset++
	list := s.messages(3)
	list[0].ID, list[1].ID = "with\x00NUL", ""
	request := requestAt(one, alice(), submissions(list, false)...)
	request.From = append(request.From, two)
	request.Items[0].Offset = 9
	request.Items[1].From, request.Items[1].Offset = 1, 21
	request.Items[2].Offset = 10
	s.check("results", s.take(request).Results, []node.ItemResult{
		{Outcome: node.Skipped}, {Outcome: node.Untaken}, {Outcome: node.Scheduled},
	})
	s.checkMessages(s.claim(bob(), latest()), list[2])
}

func insertArguments(s *subject) {
	m := s.message("a")
	m.Headers = []node.Header{{Name: "name", Value: []byte("header")}, {Name: "null"}}
	want := copyMessage(m)
	request := s.request(
		alice(), submission{Message: s.message("c")}, submission{Message: m}, submission{Message: s.message("b")},
	)
	items := slices.Clone(request.Items)
	s.take(request)
	if why := diffMessage(request.Items[1].Message, want); why != "" {
		s.Fatalf("Take has changed its argument: %s", why)
	}
	s.check("argument", request.Items, items)
	s.check("argument", request.From, []node.Place{s.at})

	// The caller uses its memory for something else.
	m.Key[0], m.Value[0], m.Headers[0].Value[0] = 'X', 'X', 'X'
	m.Headers[0].Name = "X"
	request.Items[1].ID = "X"
	request.From[0].Offset = 0
	s.checkMessages(s.claim(alice(), noon())[:1], want)
}
