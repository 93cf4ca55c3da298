package journal

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/queue"
	"chronos/node/store/transfer"
)

// Placing says to which partition a message goes that is imported.
type Placing string

// The placings. Where the key leads and where a message came from differ if the input topic has more partitions than
// when it came, or if its producers choose partitions in another way than Java producers do. Nobody can tell which, so
// it is refused unless one of the latter two is said.
const (
	// PlaceSame: where its key leads; a message that came from elsewhere is refused.
	PlaceSame Placing = ""

	// PlaceByKey: where its key leads, as a Java producer chooses.
	PlaceByKey Placing = "key"

	// PlaceByOrigin: where the record stood that it came with, and where its key leads if that is not known.
	PlaceByOrigin Placing = "origin"
)

// Fit says what a journal can hold, and counts what it can't: Add is told of everything that is to be imported, and
// then Refusal has the sum. A Fit without partitions is that of any journal.
type Fit struct {
	// Cluster is the Kafka cluster of the journal, and Input its input topic; the number says nothing.
	Cluster string
	Input   node.Partition

	// Partitions is how many both have; 0 if it is not known yet which journal it will be.
	Partitions int32

	// Choose returns the partition that a Java producer chooses for a key.
	Choose func(key []byte) int32

	// Placing says where messages go.
	Placing Placing

	// OtherInput says that what is imported was of another input topic, cluster or group, of which nothing is taken
	// over but what waits: the journal belongs to the first group that uses it, and reads its input from the beginning.
	// Positions of its own input topic it keeps, since what stands before them would be taken in twice.
	OtherInput bool

	// MaxEntry is that of Config.
	MaxEntry int

	misfits
}

// misfits are how many things a journal can't hold. Queues and so on are counted as they are named.
type misfits struct {
	queues, tasks, actions int64
	lines, keyless, large  int64

	marks, others, elsewhere int64

	cluster string // another one
	input   node.Partition
	several string // another input topic
}

// Add counts what a journal can't hold of a batch.
func (f *Fit) Add(batch *transfer.Batch) {
	for i := range batch.Queues {
		if batch.Queues[i].ID != queue.NewRoot().ID { // which says nothing, as long as it has no tasks
			f.queues++
		}
	}
	f.tasks += int64(len(batch.Tasks))
	f.actions += int64(len(batch.Actions))
	if batch.Cluster != "" && f.Cluster != "" && batch.Cluster != f.Cluster {
		f.cluster = batch.Cluster
	}
	for i := range batch.Places {
		p := &batch.Places[i]
		switch {
		case p.Mark >= 0:
			f.marks++
		case f.Partitions > 0:
			if !f.ours(p.Partition) {
				f.others++
				f.several = p.Topic
			}
		case f.input.Topic == "":
			f.input = p.Partition
		case f.input.Topic != p.Topic:
			f.several = p.Topic
		}
	}
	for i := range batch.Messages {
		f.add(&batch.Messages[i])
	}
}

// ours reports whether a partition is one of the input topic of the journal.
func (f *Fit) ours(p node.Partition) bool {
	return p.TopicID == f.Input.TopicID && p.Number < f.Partitions
}

func (f *Fit) add(m *transfer.Message) {
	r := row{Message: m.Message, due: m.Due}
	size := len(journalKey(r.Ref())) + len(r.encode())
	switch _, placed := f.partition(m); {
	case m.Line != uuid.Nil && f.Placing == PlaceByOrigin:
		f.lines++
	case !placed:
		f.keyless++
	case size > cmp.Or(f.MaxEntry, ledger.MaxEntryBytes):
		f.large++
	case f.Placing == PlaceSame && f.Partitions > 0 && m.Key != nil && f.came(m) &&
		f.Choose(m.Key) != m.Origin.Partition:
		f.elsewhere++
	}
}

// came reports whether it is known from which partition of the input topic of the journal a message came.
func (f *Fit) came(m *transfer.Message) bool {
	return !f.OtherInput && m.Origin.Topic != "" && m.Origin.Topic == f.Input.Topic && m.Origin.Partition < f.Partitions
}

// way returns by what messages with a key are placed. Which Placing has said so makes no difference: by none of them
// messages go where their keys lead, or all are refused.
func (f *Fit) way() string {
	if f.Placing == PlaceByOrigin && !f.OtherInput {
		return string(PlaceByOrigin)
	}
	return string(PlaceByKey)
}

// partition returns where a message goes; false for nowhere. One without a key, which no instruction can name the
// partition of, goes where it was.
func (f *Fit) partition(m *transfer.Message) (number int32, placed bool) {
	switch {
	case f.Partitions == 0:
		return 0, m.Key != nil || m.Origin.Topic != ""
	case f.came(m) && (m.Key == nil || f.Placing == PlaceByOrigin):
		return m.Origin.Partition, true
	case m.Key == nil:
		return 0, false
	}
	return f.Choose(m.Key), true
}

// part is what of a batch goes to a partition: positions, answers and messages, by their places in it.
type part struct{ places, answers, messages []int }

// share returns what of a batch goes to each partition. A position of another input topic goes nowhere. An answer goes
// to where the request would be sent if it were repeated: to the partition of the id, whatever key the message has.
func (f *Fit) share(batch *transfer.Batch, partitions int32) ([]part, error) {
	parts := make([]part, partitions)
	for i := range batch.Places {
		if p := batch.Places[i].Partition; f.ours(p) {
			parts[p.Number].places = append(parts[p.Number].places, i)
		}
	}
	for i := range batch.Answers {
		to := &parts[f.Choose([]byte(batch.Answers[i].Told.Message.ID))]
		to.answers = append(to.answers, i)
	}
	for i := range batch.Messages {
		number, placed := f.partition(&batch.Messages[i])
		if !placed || number < 0 || number >= partitions {
			return nil, &transfer.RefusedError{Reason: fmt.Sprintf("it has no place for message %q",
				batch.Messages[i].ID)}
		}
		parts[number].messages = append(parts[number].messages, i)
	}
	return parts, nil
}

// Refusal returns an error with everything that a journal can't hold of what was added; nil if it can hold all of it.
func (f *Fit) Refusal() error {
	var all []string
	for _, misfit := range []struct {
		n    int64
		what string
	}{
		{f.queues, "queues"},
		{f.tasks, "tasks of queues"},
		{f.actions, "actions of queues"},
		{f.lines, "messages whose order is kept by their keys, of which those of one key have to be in one partition " +
			"(order: key of their callback lanes; --place key, or let them come out)"},
		{f.keyless, "messages without a key, of which nobody knows where they came from (by HTTP, or from another " +
			"input or through SQLite; let them come out)"},
		{f.large, "messages that are larger than an entry of a journal may be"},
		{f.marks, "positions of partitions that are being taken in again (let that end)"},
	} {
		if misfit.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", misfit.n, misfit.what))
		}
	}
	switch {
	case f.OtherInput:
	case f.cluster != "":
		all = append(all, "the Kafka cluster "+f.cluster+", which is another one (--other-input leaves that, and all "+
			"positions, behind)")
	case f.others > 0:
		all = append(all, fmt.Sprintf("%d positions of other inputs than %s with its %d partitions, such as of %q "+
			"(--other-input leaves positions behind: what those topics have beyond them is then taken in by nobody)",
			f.others, f.Input.Topic, f.Partitions, f.several))
	case f.several != "":
		all = append(all, fmt.Sprintf("positions of several input topics, such as %s and %s (--other-input of the "+
			"import leaves them behind)", f.input.Topic, f.several))
	}
	if f.elsewhere > 0 {
		all = append(all, fmt.Sprintf("%d messages that came from other partitions than their keys lead to now "+
			"(--place key if the input has got more partitions since; --place origin if its producers choose "+
			"partitions in a way of their own)", f.elsewhere))
	}
	if len(all) == 0 {
		return nil
	}
	return &transfer.RefusedError{Reason: "a journal in Kafka cannot hold " + strings.Join(all, "; nor ")}
}
