package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/node"
)

func insertCases() []testCase {
	return []testCase{
		{"insert/waiting", insertWaiting},
		{"insert/readied", insertReadied},
		{"insert/one result for each message in order", insertMixed},
		{"insert/duplicate changes nothing", insertDuplicate},
		{"insert/id is free again after the delete", insertAfterDelete},
		{"insert/same id on two topics", insertTwoTopics},
		{"insert/names that differ a little", insertSimilarNames},
		{"insert/same id twice in one batch", insertTwiceInBatch},
		{"insert/same incarnation twice in one batch", insertSameTwiceInBatch},
		{"insert/repeated while waiting", insertRepeatedWaiting},
		{"insert/repeated while readied", insertRepeatedReadied},
		{"insert/repeated after a reset", insertRepeatedAfterReset},
		{"insert/claim is of the requesting node only", insertRepeatedByOther},
		{"insert/refused message disturbs no other", insertRefused},
		{"insert/arguments are not changed or kept", insertArguments},
	}
}

func insertWaiting(s *subject) {
	m := s.message("a")
	s.insert(m)
	s.check("claims", len(s.stuck(0)), 0)
	s.checkMessages(s.ready(bob(), noon()), m)
}

func insertReadied(s *subject) {
	m := s.message("a")
	claim := s.insertReadied(bob(), m)[0]
	s.checkMessages(s.ready(alice(), latest()))
	s.check("claims", s.stuck(0), []node.Claim{claim})

	// The claim is a full one: it can be given up, and then the message is there.
	s.check("reset", s.reset(claim), []bool{true})
	s.checkMessages(s.ready(alice(), noon()), m)
}

func insertMixed(s *subject) {
	old := s.messages(4)
	s.insert(old...)
	fresh := s.messages(8) // the first four are other incarnations of the old ones
	batch := []node.Insertion{
		{Message: fresh[6], Readied: true},
		{Message: fresh[1]},
		{Message: fresh[4]},
		{Message: old[3], Readied: true},
		{Message: fresh[0], Readied: true},
		{Message: fresh[5], Readied: true},
		{Message: fresh[7]},
		{Message: old[2]},
	}
	results := s.insertAll(bob(), batch...)
	var outcomes []node.InsertOutcome
	for i, result := range results {
		outcomes = append(outcomes, result.Outcome)
		if result.Outcome == node.Inserted && i != 3 && batch[i].Readied {
			s.checkClaim(result.Claim, batch[i].Ref(), bob())
		} else if result.Claim != (node.Claim{}) {
			s.Fatalf("result %d has a claim: %+v", i, result)
		}
	}
	s.check("outcomes", outcomes, []node.InsertOutcome{
		node.Inserted, node.Duplicate, node.Inserted, node.Inserted,
		node.Duplicate, node.Inserted, node.Inserted, node.Inserted,
	})
	s.checkMessages(s.ready(alice(), latest()), old[0], old[1], old[2], old[3], fresh[4], fresh[7])
}

func insertDuplicate(s *subject) {
	waiting, held := s.message("a"), s.message("b")
	held.Deadline = noon().Add(time.Second)
	s.insert(waiting)
	claim := s.insertReadied(alice(), held)[0]
	before := s.rows()
	s.pass()

	for _, readied := range []bool{false, true} {
		for _, id := range []string{"a", "b"} {
			again := s.message(id)
			again.Deadline = earliest()
			again.Key, again.Value = nil, []byte("other")
			again.Headers = []node.Header{{Name: "other"}}
			result := s.insertAll(alice(), node.Insertion{Message: again, Readied: readied})[0]
			s.check("result", result, node.InsertResult{Outcome: node.Duplicate})
		}
	}
	s.checkRows(before, "duplicates")
	s.check("claims", s.stuck(0), []node.Claim{claim})
	s.checkMessages(s.ready(bob(), noon().Add(-time.Microsecond)))
	s.checkMessages(s.ready(bob(), latest()), waiting)
}

func insertAfterDelete(s *subject) {
	for range 3 {
		waiting, held := s.message("a"), s.message("b")
		s.insert(waiting)
		s.insertReadied(alice(), held)
		s.check("delete", s.delete(waiting.Ref(), held.Ref()), []bool{true, true})
	}
}

func insertTwoTopics(s *subject) {
	one, two := s.message("a"), s.message("a")
	two.Topic = "other"
	two.Value = []byte("on the other topic")
	s.insert(one, two)
	s.check("delete on the wrong topic", s.delete(
		node.Ref{ID: "a", Topic: "other", Incarnation: one.Incarnation},
		node.Ref{ID: "a", Topic: output, Incarnation: two.Incarnation},
	), []bool{false, false})
	s.check("delete", s.delete(one.Ref()), []bool{true})
	s.checkMessages(s.ready(alice(), noon()), two)
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
		m.Topic = topic
		list = append(list, m)
	}
	s.insert(list...)
	s.check("delete", s.delete(refsOf(list)...), many(len(list), true))
}

func insertTwiceInBatch(s *subject) {
	first, second, third := s.message("a"), s.message("a"), s.message("a")
	results := s.insertAll(
		bob(), node.Insertion{Message: first}, node.Insertion{Message: second, Readied: true},
		node.Insertion{Message: third},
	)
	s.check("results", results, []node.InsertResult{
		{Outcome: node.Inserted}, {Outcome: node.Duplicate}, {Outcome: node.Duplicate},
	})
	s.checkMessages(s.ready(alice(), noon()), first)

	// The same when the order of the batch is not the order of anything else.
	first, second = s.message("b"), s.message("b")
	results = s.insertAll(
		bob(), node.Insertion{Message: second, Readied: true}, node.Insertion{Message: first},
	)
	s.checkClaim(results[0].Claim, second.Ref(), bob())
	s.check("outcome of the second", results[1], node.InsertResult{Outcome: node.Duplicate})
	s.checkMessages(s.ready(alice(), noon()))
}

func insertSameTwiceInBatch(s *subject) {
	waiting, held := s.message("a"), s.message("b")
	results := s.insertAll(
		bob(),
		node.Insertion{Message: waiting}, node.Insertion{Message: waiting, Readied: true},
		node.Insertion{Message: held, Readied: true}, node.Insertion{Message: held},
	)
	s.check("results of the waiting one", results[:2], many(2, node.InsertResult{Outcome: node.Inserted}))
	s.checkClaim(results[2].Claim, held.Ref(), bob())
	s.check("second result of the readied one", results[3], results[2])
	s.checkMessages(s.ready(alice(), noon()), waiting)
}

func insertRepeatedWaiting(s *subject) {
	m := s.message("a")
	s.insert(m)
	before := s.rows()
	for _, readied := range []bool{false, true} {
		result := s.insertAll(alice(), node.Insertion{Message: m, Readied: readied})[0]
		s.check("result", result, node.InsertResult{Outcome: node.Inserted})
	}
	s.checkRows(before, "repeated inserts")
	s.check("claims", len(s.stuck(0)), 0)
	s.checkMessages(s.ready(alice(), noon()), m)
	s.checkMessages(s.ready(alice(), noon()))
}

func insertRepeatedReadied(s *subject) {
	m := s.message("a")
	claim := s.insertReadied(alice(), m)[0]
	s.pass()
	before := s.rows()
	for _, readied := range []bool{true, false} {
		result := s.insertAll(alice(), node.Insertion{Message: m, Readied: readied})[0]
		s.check("result", result, node.InsertResult{Outcome: node.Inserted, Claim: claim})
	}
	s.checkRows(before, "repeated inserts")
	s.check("claims", s.stuck(0), []node.Claim{claim})
}

func insertRepeatedAfterReset(s *subject) {
	m := s.message("a")
	claim := s.insertReadied(alice(), m)[0]
	later := noon().Add(time.Hour)
	s.check("reset", s.release(node.Release{Claim: claim, Due: later}), []bool{true})
	result := s.insertAll(alice(), node.Insertion{Message: m, Readied: true})[0]
	s.check("result", result, node.InsertResult{Outcome: node.Inserted})
	s.checkMessages(s.ready(alice(), later.Add(-time.Microsecond)))
	s.checkMessages(s.ready(alice(), later), m)
}

func insertRepeatedByOther(s *subject) {
	m := s.message("a")
	claim := s.insertReadied(alice(), m)[0]
	again := node.Insertion{Message: m, Readied: true}
	s.check("result of another node", s.insertAll(bob(), again)[0], node.InsertResult{Outcome: node.Inserted})

	s.pass()
	s.check("reset", s.reset(claim), []bool{true})
	held := s.ready(bob(), noon())[0].Claim
	s.check("result of the former owner", s.insertAll(alice(), again)[0],
		node.InsertResult{Outcome: node.Inserted})
	s.check("result of the new owner", s.insertAll(bob(), again)[0],
		node.InsertResult{Outcome: node.Inserted, Claim: held})
}

// insertRefused puts messages that a database may be unable to hold between ordinary ones, in one batch. A store
// holds each as it is or refuses it with a reason; no other message notices.
func insertRefused(s *subject) {
	strange := s.strangeMessages()
	for _, m := range strange {
		others := s.messages(3)
		results := s.insertAll(
			alice(), insertions([]node.Message{others[0], others[1], m, others[2]}, false)...,
		)
		s.checkStrange([]node.Message{m}, results[2:3], others)
		s.check("results of the others", slices.Delete(results, 2, 3),
			many(3, node.InsertResult{Outcome: node.Inserted}))
	}

	// Several at once, with duplicates and claims around them.
	old, others := s.message("old"), s.messages(2)
	s.insert(old)
	batch := []node.Insertion{{Message: s.message("old")}, {Message: others[0], Readied: true}}
	batch = append(batch, insertions(strange, false)...)
	batch = append(batch, node.Insertion{Message: others[1]}, node.Insertion{Message: s.message("old")})
	results := s.insertAll(bob(), batch...)
	end := len(batch) - 2
	duplicate := node.InsertResult{Outcome: node.Duplicate}
	s.check("first result", results[0], duplicate)
	s.checkClaim(results[1].Claim, others[0].Ref(), bob())
	s.check("last results", results[end:], []node.InsertResult{{Outcome: node.Inserted}, duplicate})
	s.check("reset", s.reset(results[1].Claim), []bool{true})
	s.checkStrange(strange, results[2:end], []node.Message{others[0], old, others[1]})
}

// strangeMessages returns messages outside of what node.Message allows, each with an id of its own.
func (s *subject) strangeMessages() []node.Message {
	var list []node.Message
	for _, id := range []string{
		"", "\x00", "with\x00NUL", "\xff", "half a rune \xf0\x9d", "a surrogate \xed\xa0\x80",
		strings.Repeat("x", 1000), strings.Repeat("x", 100_000),
	} {
		list = append(list, s.message(id))
	}
	for _, year := range []int{-5000, -1, 0, 10_000, 294_277} {
		m := s.message(fmt.Sprint("year ", year))
		m.Deadline = time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		list = append(list, m)
	}
	return list
}

// checkStrange ends the case unless each strange message is stored or refused with a reason, and the others are
// all that is waiting beside those stored. Then it deletes all of them.
func (s *subject) checkStrange(strange []node.Message, results []node.InsertResult, others []node.Message) {
	s.Helper()
	stored := map[node.Ref]bool{}
	refs := refsOf(others)
	for i, m := range strange {
		switch result := results[i]; {
		case result == node.InsertResult{Outcome: node.Inserted}:
			stored[m.Ref()] = true
			refs = append(refs, m.Ref())
		case result.Outcome != node.Refused || result.Reason == "" || result.Claim != node.Claim{}:
			s.Fatalf("inserting %s, due %v: %+v", brief(m.ID), m.Deadline, result)
		}
	}
	readied := slices.DeleteFunc(s.ready(bob(), latest()), func(r node.Readied) bool {
		return stored[r.Ref()]
	})
	slices.SortFunc(others, func(a, b node.Message) int { return a.Deadline.Compare(b.Deadline) })
	s.checkMessages(readied, others...)
	s.check("delete", s.delete(refs...), many(len(refs), true))
}

func insertArguments(s *subject) {
	m := s.message("a")
	m.Headers = []node.Header{{Name: "name", Value: []byte("header")}, {Name: "null"}}
	want := copyMessage(m)
	batch := []node.Insertion{{Message: s.message("c")}, {Message: m}, {Message: s.message("b")}}
	s.insertAll(alice(), batch...)
	if why := diffMessage(batch[1].Message, want); why != "" {
		s.Fatalf("Insert has changed its argument: %s", why)
	}
	s.check("order of the argument", []string{batch[0].ID, batch[1].ID, batch[2].ID}, []string{"c", "a", "b"})

	// The caller uses its memory for something else.
	m.Key[0], m.Value[0], m.Headers[0].Value[0] = 'X', 'X', 'X'
	m.Headers[0].Name = "X"
	batch[1].ID = "X"
	s.checkMessages(s.ready(alice(), noon())[:1], want)
}
