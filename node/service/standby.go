package service

import (
	"context"
	"log/slog"

	"chronos/node/store/journal"
)

// standBy keeps copies of what other nodes own of the journal, if that is wanted, until ctx is done.
func (s *Service) standBy(ctx context.Context) {
	store, is := s.store.Store.(*journal.Store)
	if !is || !s.store.journal.Standby {
		return
	}
	s.log.Info("keeps copies of the partitions of the journal that other nodes own")
	w := &standbyWatch{service: s, trouble: map[int32]string{}}
	store.Follow(ctx, w.looked)
	s.metrics.Standbys(0, 0, 0)
}

// standbyWatch tells people, and the metrics, how it goes with the copies of a standby.
type standbyWatch struct {
	service *Service
	warm    bool             // all of them, as it was said last
	trouble map[int32]string // why a copy can't be brought further, as it was said last
}

// looked notes how it goes with all copies. What is wrong with one is said once for each reason.
func (w *standbyWatch) looked(standbys []journal.Standby) {
	warm, behind := 0, int64(0)
	for _, standby := range standbys {
		behind += standby.Behind
		if standby.Warm {
			warm++
		}
		if standby.Err == nil {
			delete(w.trouble, standby.Number)
			continue
		}
		if why := oneLine(standby.Err); why != w.trouble[standby.Number] {
			w.trouble[standby.Number] = why
			w.service.log.Warn("a standby copy cannot be brought further, and takeovers by this node would take longer",
				w.service.store.journal.partition(standby.Number), slog.String("error", why))
		}
	}
	w.service.metrics.Standbys(warm, len(standbys)-warm, behind)
	if all := warm == len(standbys); all != w.warm {
		if w.warm = all; all && warm > 0 {
			w.service.log.Info("all standby copies are warm: a takeover by this node reads the last moments only",
				slog.Int("partitions", warm))
		}
	}
}
