// Package deadletter shows the dead letters of a node to whoever operates it, and puts them back on the input topics
// that they came from. It reads the dead-letter topics beside the node, with a client of its own for each question, and
// commits nothing.
package deadletter

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// Letter is a record of a dead-letter topic.
type Letter struct {
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Written   time.Time `json:"written"`
	ID        string    `json:"id"`
	Reason    string    `json:"reason"` // empty for what is no dead letter of Chronos
	Error     string    `json:"error"`
	Source    string    `json:"source"`        // the input topic that it came from; empty if that is not known
	Cut       string    `json:"cut,omitempty"` // what is missing of it; empty for nothing
	Key       []byte    `json:"-"`

	notAfter time.Time
}

// Filter says which dead letters are meant: all that have what its fields name, if they are not empty.
type Filter struct {
	Topic  string // one of Config.Topics
	Reason string
	ID     string
}

func (f *Filter) matches(l *Letter) bool {
	return (f.Reason == "" || l.Reason == f.Reason) && (f.ID == "" || l.ID == f.ID)
}

// Read reads the headers of a dead letter. The last header of a name counts: the copy has ours at its end.
func Read(r *kgo.Record) Letter {
	l := Letter{Partition: r.Partition, Offset: r.Offset, Written: r.Timestamp.UTC(), Key: r.Key}
	for _, h := range r.Headers {
		switch h.Key {
		case node.HeaderID:
			l.ID = string(node.HeaderText(h.Value))
		case node.HeaderReason:
			l.Reason = string(h.Value)
		case node.HeaderError:
			l.Error = string(h.Value)
		case node.HeaderSourceTopic:
			l.Source = string(h.Value)
		case node.HeaderCut:
			l.Cut = string(h.Value)
		case node.HeaderNotAfter:
			if at, err := node.ParseDeadline(node.HeaderText(h.Value), node.EpochRejected); err == nil {
				l.notAfter = at
			}
		}
	}
	return l
}

// Original returns the headers of a record without those that its copy got.
func Original(headers []kgo.RecordHeader) (own []kgo.RecordHeader) {
	for _, h := range headers {
		switch h.Key {
		case node.HeaderReason, node.HeaderError, node.HeaderSourceTopic, node.HeaderSourcePartition,
			node.HeaderSourceOffset, node.HeaderCut, node.HeaderStatus, node.HeaderAnswer:
			continue
		}
		own = append(own, h)
	}
	return own
}

// Repairable reports whether what was refused for a reason may come out when it is put back, because the reason lay in
// a topic, a receiver or the time. All else was refused for what the record says, and is refused again unless the
// settings have changed.
func Repairable(reason string) bool {
	switch node.Reason(reason) {
	case node.StoreRefused, node.PublishRejected, node.CallbackFailed, node.Expired:
		return true
	default:
		return false
	}
}
