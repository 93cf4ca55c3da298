package kafka

import (
	"context"

	"chronos/node"
	"chronos/node/ledger"
)

// How long Poll rests after few records, and how long it waits for some.
const (
	PollRest = pollRest
	PollWait = pollWait
)

// NewBlockCompressor returns what compresses batches that are published.
func NewBlockCompressor() *blockCompressor { return newBlockCompressor() }

// Freeze owns a partition and appends a transaction, and is stopped before it commits that. GoOn commits it.
func (l *Ledger) Freeze(
	ctx context.Context, number int32, fence ledger.Entry, transaction ledger.Transaction,
) (goOn func() error, err error) {
	owned, err := l.Own(ctx, number, fence)
	if err != nil {
		return nil, err
	}
	w := owned.(*ledgerWriter)
	if _, err := w.prepare(ctx, &transaction); err != nil {
		return nil, err
	}
	return func() error { return w.conclude(ctx) }, nil
}

// Buffered returns the bytes that are held before they are polled. Nobody else can see them.
func (s *Source) Buffered() int64 {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.member == nil {
		return 0
	}
	held := s.member.client.BufferedFetchBytes()
	for _, f := range s.member.rest {
		held += int64(f.size())
	}
	return held
}

// ErrCommitPending says that the group has not answered yet.
var ErrCommitPending = errCommitPending

// Commits returns what has places sent by that function, one request at a time; what is called when partitions are
// given up; and what waits until no request is under way.
func Commits(
	send func(context.Context) error,
) (commit func(context.Context, []node.Place) error, renew, wait func()) {
	c := &commits{send: func(ctx context.Context, _ map[topicPartition]node.Place) error { return send(ctx) }}
	return c.commit, c.renew, c.wait
}
