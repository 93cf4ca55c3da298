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
	before, at := s.rows(), s.at
	s.check("results", len(s.take(node.TakeRequest{Node: alice()}).Results), 0)
	s.check("results", len(s.take(node.TakeRequest{From: []node.Place{at}, Items: []node.Item{}}).Results), 0)
	s.check("positions", len(s.positions()), 0)
	s.delete()
	s.delete([]node.Ref{}...)
	s.release()
	s.release([]node.Release{}...)
	s.check("claims", len(s.expired()), 0)
	s.checkMessages(s.claimWithin(alice(), latest()))
	s.checkMessages(s.claim(alice(), noon().Add(-time.Second)))
	s.checkRows(before, "empty batches")
	s.check("position", s.positions(at), []node.Position{at.Position})
	s.checkMessages(s.claim(alice(), noon()), m)
	s.checkMessages(s.claim(alice(), noon()))
}

// largeBatches exceeds what databases bind to one statement, 32,766 or 65,535 values, at ten values for each message.
func largeBatches(s *subject) {
	const size = 6600
	list := s.messages(size)
	batch := submissions(list, false)
	for i := range batch {
		batch[i].Headers = []node.Header{{Name: "n", Value: []byte("v")}}
		list[i] = batch[i].Message
		batch[i].claim = i%2 == 1
	}
	var claims []node.Claim
	for i, result := range s.insertAll(alice(), batch...) {
		if result.Outcome != node.Scheduled {
			s.Fatalf("result %d is %+v", i, result)
		}
		if batch[i].claim {
			s.checkClaim(result.Claim, batch[i].Ref(), alice(), hold)
			claims = append(claims, result.Claim)
		}
	}
	s.check("claims", len(s.expired()), size/2)
	s.check("reset", s.reset(claims...), many(size/2, true))
	s.checkMessages(s.claimWithin(bob(), latest(), share(size, math.MaxInt)), list...)
	s.check("delete", s.delete(refsOf(list)...), many(size, true))
}

// doneContext makes every call with a context that is done. Each returns at once with an error that says so; as
// after any error, a repeated call finds out what is true.
func doneContext(s *subject) {
	waiting, held, fresh := s.message("waiting"), s.message("held"), s.message("fresh")
	s.insert(waiting)
	claim := s.insertClaimed(alice(), held)[0]
	request := s.request(alice(), submission{fresh, true})
	done, cancel := context.WithCancel(s.Context())
	cancel()

	_, bind := s.Store.Bind(done, node.BindRequest{Cluster: "cluster", Group: "group"})
	_, _, positions := s.Store.Positions(done, []node.Place{s.at})
	_, take := s.Store.Take(done, request)
	_, catchUp := s.Store.CatchUp(done, node.CatchUpRequest{Lineage: s.state().Lineage, Begin: true})
	_, claimed := s.Store.Claim(done, node.ClaimRequest{
		Node: alice(), Until: latest(), Lanes: []node.Share{share(1, 1)},
	})
	_, expired := s.Store.Expired(done, 1)
	_, reset := s.Store.Reset(done, []node.Release{{Claim: claim}})
	_, deleted := s.Store.Settle(done, node.Removals(waiting.Ref()))
	_, rearmed := s.Store.Settle(done, []node.Next{{Of: waiting.Ref()}})
	for call, err := range map[string]error{
		"Bind": bind, "Positions": positions, "Take": take, "CatchUp": catchUp, "Claim": claimed,
		"Expired": expired, "Reset": reset, "Settle, of a removal": deleted, "Settle": rearmed,
	} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s with a context that is done: error %v, want one that wraps %v",
				call, err, context.Canceled)
		}
	}

	s.check("outcome", s.accept(request, s.take(request))[0].Outcome, node.Scheduled)
	s.reset(claim)
	s.delete(waiting.Ref())
	s.check("delete", s.delete(waiting.Ref(), held.Ref(), fresh.Ref()), []bool{false, true, true})
}

// lifeOfMessage follows one id through two nodes, a failure and a second submission.
func lifeOfMessage(s *subject) {
	m := s.message("a")
	s.insert(m)
	failed := s.claim(alice(), noon())[0]
	s.pass()
	s.check("suspected", s.expired(), []node.Claim{failed.Claim})
	s.check("reset", s.reset(failed.Claim), []bool{true})
	taken := s.claim(bob(), noon())
	s.checkMessages(taken, m)
	s.check("late release by the failed node", s.reset(failed.Claim), []bool{false})
	s.check("delete", s.delete(taken[0].Ref()), []bool{true})
	s.check("late delete by the failed node", s.delete(failed.Ref()), []bool{false})
	next := s.message("a")
	s.insert(next)
	s.check("later delete by the failed node", s.delete(failed.Ref()), []bool{false})
	s.checkMessages(s.claim(alice(), noon()), next)
}
