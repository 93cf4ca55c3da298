package service

import (
	"context"
	"errors"
	"log/slog"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// creator creates topics that targets with a * stand for, where --create-topics says so. Nobody knows their names
// before a message for one is taken in; then there is time until it is due.
type creator struct {
	service *Service
	wanted  chan wanted
}

// wanted is a topic, and whether a message could not be published for want of it.
type wanted struct {
	topic   string
	missing bool
}

// maxWanted is how many topics may wait to be created. A further one is created when a message for it cannot be
// published.
const maxWanted = 256

// newCreator returns nil if there is nothing to create.
func newCreator(s *Service) *creator {
	if !s.config.CreateTopics || !s.config.Node.Seeks() {
		return nil
	}
	return &creator{service: s, wanted: make(chan wanted, maxWanted)}
}

// observe heeds events that tell of a topic which may be missing. It never waits.
func (c *creator) observe(event node.Event) {
	switch e := event.(type) {
	case node.Enqueued:
		last := ""
		for i := range e.Messages {
			if lane := e.Messages[i].Lane; lane != last {
				c.want(lane, false)
				last = lane
			}
		}
	case node.Failed:
		if e.Port == node.PortSink && node.KindOf(e.Err) == node.TopicMissing {
			c.want(e.Lane, true)
		}
	}
}

func (c *creator) want(lane string, missing bool) {
	if node.IsCallback(lane) || !c.service.config.Node.Finds(lane) {
		return
	}
	select {
	case c.wanted <- wanted{lane, missing}:
	default:
	}
}

// run creates topics until ctx is done.
func (c *creator) run(ctx context.Context) {
	there := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-c.wanted:
			if len(there) > maxWanted {
				clear(there) // an application makes names up, and most of them never come again
			}
			if w.missing || !there[w.topic] {
				there[w.topic] = c.create(ctx, w.topic)
			}
		}
	}
}

// create reports whether a topic is there.
func (c *creator) create(ctx context.Context, name string) bool {
	limited, cancel := context.WithTimeout(ctx, laterLook)
	defer cancel()
	s := c.service
	topic := kafka.TopicSpec{Name: name, Partitions: s.config.Partitions}
	err := s.admin.EnsureTopics(limited, false, topic)
	if missing := (*kafka.MissingTopicsError)(nil); errors.As(err, &missing) {
		if err = s.admin.EnsureTopics(limited, true, topic); err == nil {
			s.log.Info("created a topic that a target stands for", slog.String("topic", name))
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("a topic that a target stands for cannot be created; messages for it wait",
			slog.String("topic", name), slog.String("error", oneLine(err)))
	}
	return err == nil
}
