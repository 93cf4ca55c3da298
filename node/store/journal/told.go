package journal

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node/store/transfer"
)

// Told implements transfer.Store. A refusal is not among the answers: it is told once. Of a request that was answered
// in two partitions, because one name was given to two, the answer of the first is the one.
func (m *Mover) Told(ctx context.Context, after uuid.UUID, limit int) (answers []transfer.Answer, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.look(ctx); err != nil {
		return nil, err
	}
	for _, p := range m.parts {
		some, err := p.told(after, limit, p.tells(m.config.Now()))
		if err != nil {
			return nil, err
		}
		answers = append(answers, some...)
	}
	slices.SortStableFunc(answers, func(a, b transfer.Answer) int { return bytes.Compare(a.Request[:], b.Request[:]) })
	answers = slices.CompactFunc(answers, func(a, b transfer.Answer) bool { return a.Request == b.Request })
	return answers[:min(len(answers), limit)], nil
}

// told returns answers of a partition that have not expired at an instant, those of requests after one.
func (s *shard) told(after uuid.UUID, limit int, at time.Time) (answers []transfer.Answer, err error) {
	prefix := s.key(answerKind)
	err = s.scan(prefix, s.key(answerKind, after[:]), func(key, value []byte) (bool, error) {
		a, err := readAnswer(value)
		if err != nil {
			return false, err
		}
		id := uuid.UUID(key[len(prefix):])
		if id != after && a.isTold(at) {
			answers = append(answers, transfer.Answer{Request: id, Told: a.Told, Expires: a.Expires})
		}
		return len(answers) < limit, nil
	})
	return answers, err
}

// tells returns the instant at which an answer counts as expired or not. For a partition that is sealed that is the one
// of the seal: it would have fewer lines each time that it is exported, and an import that has died goes on by the
// numbers of the lines:
//
//	export   2 answers, messages a, b, c
//	import   has 4 lines: a and b; dies
//	export   once more, an hour later: messages a, b, c
//	import   goes on behind line 4: c is in no store
func (s *shard) tells(now time.Time) time.Time {
	if s.seal.Kind == transfer.Exported {
		return s.seal.Since
	}
	return now
}

// isTold reports whether somebody may ask again for an answer at an instant. A refusal is told once.
func (a *answer) isTold(at time.Time) bool { return a.Refused == "" && at.Before(a.Expires) }

// count returns how many answers of a partition have not expired at an instant.
func (s *shard) count(at time.Time) (answers int64, err error) {
	prefix := s.key(answerKind)
	err = s.scan(prefix, prefix, func(_, value []byte) (bool, error) {
		a, err := readAnswer(value)
		if err == nil && a.isTold(at) {
			answers++
		}
		return err == nil, err
	})
	return answers, err
}
