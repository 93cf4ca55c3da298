package node_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// parted is a sink some of whose parts do not answer, and what a node asks of the store: how it parks, probes and comes
// back, to the second.
type parted struct {
	*world

	node   *running
	decide func(n int, call string) (error, bool)

	mu     sync.Mutex
	began  time.Duration                  // of what counts: asks before that are forgotten
	asks   map[string][]time.Duration     // of parts of the lane out, by name: when they are claimed on
	most   int                            // how many of them in one claim
	limit  int                            // the largest limit of a share of a part
	bytes  int                            // and the largest bound on its bytes
	late   int                            // shares of parts that are not from the oldest on
	tries  map[string]int                 // of values
	answer func(name, value string) error // what becomes of what belongs to a part
}

// park runs a node in a world where what is called part-N-I belongs to part N of its lane, which does not answer.
func park(t *testing.T, c node.Config) *parted {
	t.Helper()
	p := &parted{world: newWorld(t), decide: busy}
	p.reset()
	p.answer = func(name, _ string) error { return &node.PublishError{Kind: node.PartUnavailable, Part: name} }
	p.refuse = func(r node.Record) error {
		value := strings.TrimPrefix(string(r.Value), "value ")
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tries[value]++
		if fields := strings.Split(value, "-"); fields[0] == "part" && r.Topic != "dead" {
			return p.answer(fields[1], value)
		}
		return nil
	}
	asks := func(request node.ClaimRequest) {
		p.mu.Lock()
		defer p.mu.Unlock()
		parts := 0
		for _, share := range request.Lanes {
			if share.Part != "" {
				if parts++; !share.From.IsZero() {
					p.late++
				}
				p.asks[share.Part] = append(p.asks[share.Part], time.Since(p.world.began)-p.began)
				p.limit, p.bytes = max(p.limit, share.Limit), max(p.bytes, share.Bytes)
			}
		}
		p.most = max(p.most, parts)
	}
	p.node = p.run(c, func(n int, call string) (error, bool) { return p.decide(n, call) })
	p.node.gate.asks.Store(&asks)
	return p
}

// reset forgets what was asked.
func (p *parted) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = time.Since(p.world.began)
	p.asks, p.tries = map[string][]time.Duration{}, map[string]int{}
	p.most, p.limit, p.bytes = 0, 0, 0
}

// becomes says what becomes of what belongs to a part from now on.
func (p *parted) becomes(answer func(name, value string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// works has all parts answer.
func works(string, string) error { return nil }

// waits stores messages of each of some parts, which are due now.
func (p *parted) waits(parts, each int, change func(*node.Message)) {
	var messages []node.Message
	for i := range parts {
		for n := range each {
			m := node.Message{ID: fmt.Sprintf("part-%d-%d", i, n), Lane: "out", Deadline: time.Now().UTC()}
			if change != nil {
				change(&m)
			}
			messages = append(messages, m)
		}
	}
	p.stored(messages...)
}

// traffic has a message come out on the lane each tenth of a second, for so long.
func (p *parted) traffic(seconds int) { p.prompt(10*seconds, 100*time.Millisecond) }

// at returns how many messages wait on each part of the lane out, by name; what is claimed counts where it is given
// back to if nobody says otherwise.
func (p *parted) at() map[string]int {
	count := map[string]int{}
	for _, row := range p.store.Dump() {
		count[row.Part]++
	}
	return count
}

// asked returns when a part was claimed on, and the shares of all.
func (p *parted) asked(part string) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asks[part])
}

// out returns how many messages of parts came out, and when the last one did.
func (p *parted) out() (n int, last time.Time) {
	for _, d := range p.on("out") {
		if strings.HasPrefix(d.id(), "part-") {
			n, last = n+1, d.at
		}
	}
	return n, last
}

// A part that does not answer is probed after 1, 2 and 4 s, then each 5 s, give or take a fifth, a few messages at a
// time, be they large. What comes for it meanwhile makes that neither sooner nor later.
func TestPartIsProbed(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		t.Run(fmt.Sprintf("fresh %v", fresh), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := park(t, config(0))
				p.traffic(1) // or the lane would fail first, and its parts be probed when it works
				p.reset()
				p.waits(1, 100, nil)
				for i := range 600 {
					if fresh && i%3 == 0 {
						fresh := fmt.Sprint("part-0-fresh", i)
						p.stored(node.Message{ID: fresh, Lane: "out", Deadline: time.Now().UTC()})
					}
					p.prompt(1, 100*time.Millisecond)
				}
				before := time.Duration(0)
				asked := p.asked("0")
				for i, at := range asked {
					least, most := 4*time.Second, 6500*time.Millisecond
					if i < 3 {
						least, most = time.Second<<i*8/10, time.Second<<i*12/10+500*time.Millisecond
					}
					if at-before < least || at-before > most {
						t.Errorf("probe %d comes %v after the one before", i, at-before)
					}
					before = at
				}
				if len(asked) < 10 || p.limit != probe || p.bytes != 64<<10 {
					t.Errorf("%d probes, of %d messages and %d bytes", len(asked), p.limit, p.bytes)
				}
			})
		})
	}
}

// When a part answers all that is parked there comes out, as fast as on any lane. When it falls silent again it is
// probed as before, and when nothing has waited there for a while it is forgotten.
func TestPartComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 10_000
		p := park(t, config(0))
		p.waits(1, waiting, nil)
		p.traffic(20)
		if got := p.at()["0"]; got != waiting {
			t.Errorf("%d of %d are parked", got, waiting)
		}
		p.becomes(works)
		p.traffic(10)
		first := time.Time{}
		for _, d := range p.on("out") {
			if first.IsZero() && strings.HasPrefix(d.id(), "part-") {
				first = d.at
			}
		}
		if n, last := p.out(); n != waiting || last.Sub(first) > 1300*time.Millisecond {
			t.Errorf("%d of %d came out, the last one %v after the first", n, waiting, last.Sub(first))
		}
		p.becomes(func(name, _ string) error { return &node.PublishError{Kind: node.PartUnavailable, Part: name} })
		p.waits(1, waiting, nil)
		p.traffic(3)
		p.reset()
		p.traffic(20)
		if asked := p.asked("0"); len(asked) < 3 || len(asked) > 6 || p.limit > probe {
			t.Errorf("a part that fell silent again is claimed on at %v, for %d messages", asked, p.limit)
		}
		p.becomes(works)
		p.traffic(10)
		if n, _ := p.out(); n != 2*waiting {
			t.Errorf("%d of %d came out", n, 2*waiting)
		}
		pass(3 * time.Minute)
		p.reset()
		pass(time.Minute)
		if asked := p.asked("0"); len(asked) > 0 {
			t.Errorf("a part without messages is claimed on at %v", asked)
		}
	})
}

// Nothing waits any more on a part that does not answer, since a peer that reaches it has published all: it is claimed
// on no more often than that, and forgotten.
func TestPartWithoutMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := park(t, config(0))
		p.waits(1, 5, nil)
		pass(5 * time.Second)
		var gone []node.Item
		for _, row := range p.store.Dump() {
			gone = append(gone, node.Item{From: node.NoPlace, Action: node.Cancel, Message: row.Message})
		}
		if _, err := p.store.Take(t.Context(), node.TakeRequest{Items: gone}); err != nil {
			t.Fatal(err)
		}
		p.empty()
		p.reset()
		pass(50 * time.Second)
		if asked := p.asked("0"); len(asked) < 5 || len(asked) > 13 {
			t.Errorf("a part without messages is claimed on at %v", asked)
		}
		pass(2 * time.Minute)
		p.reset()
		pass(time.Minute)
		if asked := p.asked("0"); len(asked) > 0 {
			t.Errorf("a part without messages is claimed on at %v", asked)
		}
	})
}

// Hundreds of parts do not answer. All are probed again and again, a bounded number by one claim, in batches that they
// share. When they answer, all comes out.
func TestManyParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts, each = 200, 3
		p := park(t, config(0))
		p.waits(parts, each, nil)
		pass(5 * time.Second)
		p.reset()
		late := p.lateness(p.prompt(300, 100*time.Millisecond))
		if most := late[len(late)-1]; most > 500*time.Millisecond {
			t.Errorf("what else comes on the lane is %v late", most)
		}
		for i := range parts {
			if asked := p.asked(fmt.Sprint(i)); len(asked) < 3 || len(asked) > 9 {
				t.Fatalf("part %d is probed at %v", i, asked)
			}
		}
		if p.most > 64 {
			t.Errorf("a claim has shares for %d parts", p.most)
		}
		p.becomes(works)
		pass(8 * time.Second)
		if n, _ := p.out(); n != parts*each {
			t.Errorf("%d of %d came out", n, parts*each)
		}
	})
}

// Beyond a thousand parts a message is put off by itself, up to half a minute each time, and comes out when its part
// answers.
func TestTooManyParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 1020
		p := park(t, config(0))
		p.waits(parts, 1, nil)
		pass(2 * time.Minute)
		at := p.at()
		if at[""] != parts-1000 || len(at) != 1001 {
			t.Errorf("%d are on the lane, and others on %d parts", at[""], len(at)-1)
		}
		p.reset()
		pass(2 * time.Minute)
		most := 0
		for _, row := range p.store.Dump() {
			if row.Part == "" {
				most = max(most, p.tries[row.ID])
			}
		}
		if most == 0 || most > 5 {
			t.Errorf("one that is not parked is tried %d times in two minutes", most)
		}
		p.becomes(works)
		pass(45 * time.Second)
		if n, _ := p.out(); n != parts {
			t.Errorf("%d of %d came out", n, parts)
		}
	})
}

// Nothing is parked under a name that a store does not take.
func TestPartNames(t *testing.T) {
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("a", node.MaxPartName+1)} {
		synctest.Test(t, func(t *testing.T) {
			p := park(t, config(0))
			p.becomes(func(string, string) error { return &node.PublishError{Kind: node.PartUnavailable, Part: name} })
			p.waits(1, 3, nil)
			p.traffic(5)
			if at := p.at(); at[""] != 3 {
				t.Errorf("named %q they are at %v", name, at)
			}
			p.becomes(works)
			pass(10 * time.Second)
			if n, _ := p.out(); n != 3 {
				t.Errorf("named %q, %d of 3 came out", name, n)
			}
		})
	}
}

// What is parked on a part belongs to another one by now: a topic has more partitions. All of it is parked there at
// once, and the old one is left.
func TestPartLosesItsMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := park(t, config(0))
		p.waits(1, 300, nil)
		p.traffic(15)
		p.becomes(func(string, string) error { return &node.PublishError{Kind: node.PartUnavailable, Part: "new"} })
		p.traffic(8)
		if at := p.at(); at["new"] != 300 {
			t.Errorf("they are at %v", at)
		}
	})
}

// A probe may fail for another reason. What is not known to come out stays parked; what is rejected does not, and is
// put off for longer.
func TestProbeFails(t *testing.T) {
	for _, c := range []struct {
		err    error
		parked bool
		tries  int // of five messages in 20 s, at most
	}{
		{errInjected, true, 30},
		{node.NotSent, true, 30},
		{node.RecordRejected, false, 30},
		{&node.PublishError{Part: "0", Err: errInjected}, true, 30},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := config(0)
				config.Routes[0].DeadLetter = ""
				p := park(t, config)
				p.traffic(1)
				p.waits(1, 5, nil)
				p.traffic(5)
				p.becomes(func(string, string) error { return c.err })
				p.reset()
				p.traffic(20)
				if at := p.at(); c.parked != (at["0"] == 5) || c.parked == (at[""] == 5) {
					t.Errorf("they are at %v", at)
				}
				if failed := seen[node.Failed](p.world); len(failed) > 0 {
					t.Errorf("%v, and no lane has failed", failed)
				}
				all := 0
				for _, i := range []int{0, 1, 2, 3, 4} {
					all += p.tries[fmt.Sprint("part-0-", i)]
				}
				if all < 5 || all > c.tries {
					t.Errorf("%d tries in 20 s", all)
				}
			})
		})
	}
}

// The whole lane has failed, and works again: its parts are probed at the next look, and not when their turn has come.
func TestPartsAfterTheirLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 30
		p := park(t, config(0))
		p.waits(parts, 1, nil)
		p.traffic(20)
		refuse := p.refuse
		down := func(node.Record) error { return errInjected }
		p.world.mu.Lock()
		p.refuse = down
		p.world.mu.Unlock()
		p.traffic(20)
		p.becomes(works)
		p.world.mu.Lock()
		p.refuse = refuse
		p.world.mu.Unlock()
		p.traffic(10)
		first := time.Time{}
		for _, d := range p.on("out") {
			if d.at.Sub(p.world.began) > 40*time.Second && first.IsZero() {
				first = d.at
			}
		}
		if n, last := p.out(); n != parts || last.Sub(first) > time.Second {
			t.Errorf("%d of %d came out, the last one %v after the first on the lane", n, parts, last.Sub(first))
		}
	})
}

// The time of what is parked has passed: all of it is ended soon after that, and not a few at each probe.
func TestParkedExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := park(t, config(0))
		p.waits(1, 500, func(m *node.Message) { m.NotAfter = m.Deadline.Add(10 * time.Second) })
		p.traffic(9)
		if at := p.at(); at["0"] != 500 {
			t.Errorf("they are at %v", at)
		}
		p.traffic(11)
		if left := p.at(); len(left) > 0 {
			t.Errorf("10 s after the last instant %v are left", left)
		}
	})
}

// What comes out of a part counts in the pace of its lane.
func TestPartKeepsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(0)
		c.Paces = []node.LanePace{{Lane: "out", PerSecond: 10}}
		p := park(t, c)
		p.waits(1, 200, nil)
		pass(30 * time.Second)
		p.becomes(works)
		pass(30 * time.Second)
		seconds, n := map[time.Duration]int{}, 0
		for _, d := range p.on("out") {
			second := d.at.Sub(p.world.began).Truncate(time.Second)
			if n, seconds[second] = n+1, seconds[second]+1; seconds[second] > 11 {
				t.Fatalf("more than 11 came out in the second of %v", second)
			}
		}
		if n < 150 {
			t.Errorf("%d of 200 came out", n)
		}
	})
}

// A lane that no route names is served while something is parked on a part of it, and nothing else waits there.
func TestFoundLaneOfAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parted{world: newWorld(t)}
		p.refuse = func(node.Record) error { return errSilent }
		n := p.run(found(), nil)
		p.stored(node.Message{ID: "x", Lane: "to.a", Deadline: time.Now().UTC()})
		pass(5 * time.Minute)
		held, _ := n.node.Held()
		if !slices.ContainsFunc(held, func(h node.Held) bool { return h.Lane == "to.a" }) || p.at()["3"] != 1 {
			t.Errorf("it serves %v, and they are at %v", held, p.at())
		}
		p.world.mu.Lock()
		p.refuse = func(r node.Record) error {
			if string(r.Value) == "value x" {
				return errSilent
			}
			return nil
		}
		p.world.mu.Unlock()
		for i := range 5 {
			pass(3 * time.Minute)
			p.stored(node.Message{ID: id(i), Lane: "to.a", Deadline: time.Now().UTC()})
			if pass(400 * time.Millisecond); len(p.on("to.a")) != i+1 {
				t.Errorf("%d of %d came out beside what is parked", len(p.on("to.a")), i+1)
			}
		}
		p.answers()
		pass(7 * time.Second)
		p.empty()
		pass(3 * time.Minute)
		held, _ = n.node.Held()
		if slices.ContainsFunc(held, func(h node.Held) bool { return h.Lane == "to.a" }) {
			t.Errorf("it still serves %v", held)
		}
	})
}

// A claim on a part that runs into its time limit is followed by one from the oldest on, as any on a part.
func TestPartClaimsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := park(t, config(0))
		p.waits(1, 2000, nil)
		p.traffic(10)
		p.becomes(works)
		p.decide = func(_ int, call string) (error, bool) {
			if at := time.Since(p.world.began); call == "claim" && at < 20*time.Second {
				pass(1500 * time.Millisecond)
				return errInjected, false
			}
			return nil, true
		}
		pass(20 * time.Second)
		if n, _ := p.out(); n != 2000 || p.late > 0 {
			t.Errorf("%d of 2000 came out, and %d claims were not from the oldest on", n, p.late)
		}
	})
}

// Thousands for a part that does not answer are parked as fast as a lane takes messages: the lane is not in doubt.
func TestPartIsParkedFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := park(t, config(0))
		p.traffic(1)
		p.waits(1, 20_000, nil)
		p.traffic(4)
		if at := p.at(); at["0"] != 20_000 {
			t.Errorf("they are at %v", at)
		}
	})
}

// A node through which nothing comes says that the lane has failed, and leaves it to its peers.
func TestPartsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := park(t, config(0))
		for i := range 100 {
			p.stored(node.Message{ID: fmt.Sprint("part-0-", i), Lane: "out", Deadline: time.Now().UTC()})
			pass(100 * time.Millisecond)
		}
		if failed := seen[node.Failed](p.world); len(failed) < 3 {
			t.Errorf("%v, and nothing comes through", failed)
		}
	})
}

// A node that stops gives back what it has claimed on a part to where it was. Method: another lane is in doubt, and its
// batches hang, so that a probe waits for its turn.
func TestParkedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := besideAnother()
		p := park(t, c)
		p.hangs = func(r node.Record) bool { return r.Topic == "out2" }
		p.waits(1, 50, nil)
		p.now("out2", "hung", 2000)
		held := 0
		for range 6000 {
			lanes, _ := p.node.node.Held()
			for _, h := range lanes {
				if h.Lane == "out" {
					held = h.Messages
				}
			}
			if held > 0 && p.at()["0"] == 50 {
				break
			}
			pass(10 * time.Millisecond)
		}
		p.node.stop()
		if at := p.at(); held == 0 || at["0"] != 50 {
			t.Errorf("%d were held, and they are at %v", held, at)
		}
	})
}

// However many parts do not answer, a lane that no route names is found.
func TestFoundLaneBesideParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := park(t, found())
		p.waits(300, 1, nil)
		pass(5 * time.Second)
		p.submit("x", 0, on("to.a"))
		pass(time.Second)
		if got := len(p.on("to.a")); got != 1 {
			t.Errorf("%d came out on a lane that was found", got)
		}
	})
}
