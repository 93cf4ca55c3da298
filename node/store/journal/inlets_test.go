package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// inlet is an input topic of a world, with its journal. A world numbers the partitions of all of them together, from
// first on; a process numbers them as ledger.Several does, by the order in which it names the topics.
type inlet struct {
	topic, journal    string
	id                uuid.UUID
	first, partitions int32
}

// further is the second input topic of worlds that have two, and the only one that leads to the lane second.
const further = "further"

// drawInlets returns the input topics of a world.
func drawInlets(several bool) inlets {
	first := inlet{"input", topicName, uuid.UUID{9}, 0, inputPartitions}
	if !several {
		return inlets{first}
	}
	first.partitions--
	return inlets{first, {further, topicName + "." + further, uuid.UUID{8}, first.partitions, 1}}
}

// inlets are all of them, in the order in which somebody names them.
type inlets []inlet

// turned returns them the other way round, if so.
func (all inlets) turned(so bool) inlets {
	if all = slices.Clone(all); so {
		slices.Reverse(all)
	}
	return all
}

// names returns the names of the topics, none if there is one, and ids what they are.
func (all inlets) names() (names []string, ids []uuid.UUID) {
	for _, one := range all {
		names, ids = append(names, one.topic), append(ids, one.id)
	}
	if len(all) == 1 {
		return nil, nil
	}
	return names, ids
}

// ledger returns the journals of a world.
func (all inlets) ledger(w *engines) ledger.Ledger {
	var several ledger.Several
	for _, one := range all {
		several = append(several, &dimLedger{w.cluster.Ledger(one.journal, one.journal), w, one.topic})
	}
	if len(several) == 1 {
		return several[0]
	}
	return several
}

// number returns the number in the world of a partition by that of a process.
func (all inlets) number(of int32) int32 {
	at, there := ledger.Split(of)
	return all[at].first + there
}

// at returns the number that a process has for a partition of the world.
func (all inlets) at(number int32) int32 {
	for i, one := range all {
		if there := number - one.first; there >= 0 && there < one.partitions {
			return ledger.Number(i, there)
		}
	}
	panic(fmt.Sprint("the world has no partition ", number))
}

// where returns the topic of a partition, and its number there.
func (all inlets) where(number int32) (one inlet, there int32) {
	at, there := ledger.Split(all.at(number))
	return all[at], there
}

// partition returns a partition of the input.
func (all inlets) partition(number int32) node.Partition {
	one, there := all.where(number)
	return node.Partition{Topic: one.topic, TopicID: one.id, Number: there}
}

// called returns the number in the world of a partition of a topic, an input or a journal; -1 of another topic.
func (all inlets) called(topic string, there int32) int32 {
	for _, one := range all {
		if one.topic == topic || one.journal == topic {
			return one.first + there
		}
	}
	return -1
}

// identified returns the number in the world of a partition of which an entry of a journal has the identity.
func (all inlets) identified(p *node.Partition) int32 {
	at := slices.IndexFunc(all, func(one inlet) bool { return one.id == p.TopicID })
	return all[at].first + p.Number
}

// poster puts wishes on the journals.
type inletPoster struct {
	cluster *simulated.Cluster
	inlets  inlets
}

var _ journal.Poster = inletPoster{}

// Send implements journal.Poster.
func (p inletPoster) Send(_ context.Context, number int32, record node.Record) error {
	one, there := p.inlets.where(p.inlets.number(number))
	p.cluster.Append(one.journal, there, record)
	return nil
}

// dimLedger is a journal that nobody can see for a while: a broker that has just started knows of no partition.
type dimLedger struct {
	ledger.Ledger

	world *engines
	topic string
}

var errDim = errors.New("nobody knows of this topic just now")

// Extents implements ledger.Ledger.
func (l *dimLedger) Extents(ctx context.Context) ([]node.Extent, error) {
	l.world.mu.Lock()
	until := l.world.dim[l.topic]
	l.world.mu.Unlock()
	if time.Now().Before(until) {
		return nil, errDim
	}
	return l.Ledger.Extents(ctx) //nolint:wrapcheck // a decorator
}

// dims has nobody see one of the journals for a while.
func (w *engines) dims() {
	one := w.inlets[w.intN(len(w.inlets))]
	until := time.Now().Add(w.between(time.Second, groupSession))
	w.wrong("nobody sees the journal of " + one.topic)
	w.mu.Lock()
	w.dim[one.topic] = until
	w.mu.Unlock()
}

// keyOf returns the key of the records about an id: the id, or where callbacks are in order one that it shares.
func (w *engines) keyOf(id string) string {
	if w.ordered && w.lane(id) == hook {
		return fmt.Sprint("k", numberOf(id[1:])/4%lineCount)
	}
	return id
}

// lineCount is how many keys callbacks that are in order have.
const lineCount = 8

// home returns the partition of an id. All records about one go through one input topic: through two they would be
// about two messages. To second only further leads, and where callbacks are in order only the first topic to hook.
func (w *engines) home(id string) int32 {
	sum := 0
	for _, b := range []byte(w.keyOf(id)) {
		sum += int(b)
	}
	last := w.inlets[len(w.inlets)-1]
	switch lane := w.lane(id); {
	case len(w.inlets) == 1:
	case lane == second:
		return last.first + int32(sum)%last.partitions
	case lane == hook && w.ordered:
		return int32(sum) % last.first
	}
	return int32(sum % inputPartitions)
}

// desked reports whether what is asked by HTTP about an id goes through the input topic that its records go through:
// the first one that leads to its lane.
func (w *engines) desked(id string) bool {
	first, _ := w.inlets.where(w.home(id))
	return first.first == 0 || w.lane(id) == second
}

// inputName returns what histories call a partition of the input.
func (w *engines) inputName(number int32) string {
	one, there := w.inlets.where(number)
	return strings.Join([]string{one.topic, fmt.Sprint(there)}, "/")
}

// routes returns the routes of a life that names the input topics in that order.
func (w *engines) routes(order inlets) (routes []node.Route) {
	for _, one := range order {
		r := node.Route{Input: one.topic, Output: output, DeadLetter: deadLetters, Outcomes: outcomes}
		if len(order) == 1 || one.topic == further {
			r.Targets = append(r.Targets, second)
		}
		if w.calls && (!w.ordered || one.first == 0) {
			r.Targets = append(r.Targets, hook)
		}
		routes = append(routes, r)
	}
	return routes
}
