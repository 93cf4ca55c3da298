package storetest

import (
	"context"
	"errors"
	"math"
	"time"

	"chronos/node"
)

func generalCases() []testCase {
	return []testCase{
		{"general/empty batches", emptyBatches},
		{"general/large batches", largeBatches},
		{"general/context is done", doneContext},
		{"general/life of a message", lifeOfMessage},
	}
}

func emptyBatches(s *subject) {
	m := s.message("a")
	s.insert(m)
	before := s.rows()
	s.insertAll(alice())
	s.insertAll(alice(), []node.Insertion{}...)
	s.present()
	s.present([]node.MessageID{}...)
	s.delete()
	s.delete([]node.Ref{}...)
	s.release()
	s.release([]node.Release{}...)
	s.check("claims", len(s.stuck(0)), 0)
	s.checkMessages(s.ready(alice(), noon().Add(-time.Second)))
	s.checkRows(before, "empty batches")
	s.checkMessages(s.ready(alice(), noon()), m)
	s.checkMessages(s.ready(alice(), noon()))
}

// largeBatches exceeds what databases bind to one statement, 32,766 or 65,535 values, at ten values for each message.
func largeBatches(s *subject) {
	const size = 6600
	list := s.messages(size)
	batch := insertions(list, false)
	for i := range batch {
		batch[i].Headers = []node.Header{{Name: "n", Value: []byte("v")}}
		list[i] = batch[i].Message
		batch[i].Readied = i%2 == 1
	}
	var claims []node.Claim
	for i, result := range s.insertAll(alice(), batch...) {
		if result.Outcome != node.Inserted {
			s.Fatalf("result %d is %+v", i, result)
		}
		if batch[i].Readied {
			s.checkClaim(result.Claim, batch[i].Ref(), alice())
			claims = append(claims, result.Claim)
		}
	}
	ids := make([]node.MessageID, 0, size)
	for _, m := range list {
		ids = append(ids, messageID(m))
	}
	s.check("present", s.present(ids...), many(size, true))
	s.check("claims", len(s.stuck(0)), size/2)
	s.check("reset", s.reset(claims...), many(size/2, true))
	s.checkMessages(s.readyWithin(node.ReadyRequest{
		Node: bob(), Until: latest(), Limit: size, Bytes: math.MaxInt,
	}), list...)
	s.check("delete", s.delete(refsOf(list)...), many(size, true))
	s.check("present", s.present(ids...), many(size, false))
}

// doneContext makes every call with a context that is done. Each returns at once with an error that says so; as
// after any error, a repeated call finds out what is true.
func doneContext(s *subject) {
	waiting, held, fresh := s.message("waiting"), s.message("held"), s.message("fresh")
	s.insert(waiting)
	claim := s.insertReadied(alice(), held)[0]
	done, cancel := context.WithCancel(s.Context())
	cancel()

	_, inserted := s.Store.Insert(done, node.InsertRequest{
		Node: alice(), Messages: []node.Insertion{{Message: fresh, Readied: true}},
	})
	_, present := s.Store.Present(done, []node.MessageID{messageID(waiting)})
	_, ready := s.Store.Ready(done, node.ReadyRequest{
		Node: alice(), Until: latest(), Limit: 1, Bytes: 1,
	})
	_, stuck := s.Store.Stuck(done, node.StuckRequest{Limit: 1})
	_, reset := s.Store.Reset(done, []node.Release{{Claim: claim}})
	_, deleted := s.Store.Delete(done, []node.Ref{waiting.Ref()})
	for call, err := range map[string]error{
		"Insert": inserted, "Present": present, "Ready": ready, "Stuck": stuck, "Reset": reset, "Delete": deleted,
	} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s with a context that is done: error %v, want one that wraps %v",
				call, err, context.Canceled)
		}
	}

	s.check("insert", s.insertAll(alice(), node.Insertion{Message: fresh})[0].Outcome, node.Inserted)
	s.reset(claim)
	s.delete(waiting.Ref())
	s.check("present", s.present(messageID(waiting), messageID(held), messageID(fresh)),
		[]bool{false, true, true})
}

// lifeOfMessage follows one id through two nodes, a failure and a second submission.
func lifeOfMessage(s *subject) {
	m := s.message("a")
	s.insert(m)
	failed := s.ready(alice(), noon())[0]
	s.pass()
	s.check("suspected", s.stuck(0), []node.Claim{failed.Claim})
	s.check("reset", s.reset(failed.Claim), []bool{true})
	taken := s.ready(bob(), noon())
	s.checkMessages(taken, m)
	s.check("late release by the failed node", s.reset(failed.Claim), []bool{false})
	s.check("present", s.present(messageID(m)), []bool{true})
	s.check("delete", s.delete(taken[0].Ref()), []bool{true})
	s.check("late delete by the failed node", s.delete(failed.Ref()), []bool{false})
	s.check("present", s.present(messageID(m)), []bool{false})
	next := s.message("a")
	s.insert(next)
	s.check("later delete by the failed node", s.delete(failed.Ref()), []bool{false})
	s.checkMessages(s.ready(alice(), noon()), next)
}
