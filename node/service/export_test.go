package service

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
	"chronos/node/store/journal"
)

// What the tests use from outside of the package.

const ReminderInterval = reminderInterval

var (
	EditDistance = editDistance
	Cause        = cause
	CauseOn      = causeOn

	WindowForPeers = windowForPeers
)

// Shown returns all that the log at the start and the API say of the settings.
func (c *Config) Shown() string { return fmt.Sprint(c.describe(), c.effective()) }

// Throttled is a broker that has a client wait.
func (r *Reporter) Throttled(client string, broker int32, wait time.Duration) {
	(&throttling{client, r}).OnBrokerThrottle(kgo.BrokerMetadata{NodeID: broker}, wait, true)
}

func (r *Reporter) SetBehind(records int64)               { r.behind = func() int64 { return records } }
func (r *Reporter) Lived(last, now time.Time)             { r.lived(last, now) }
func (r *Reporter) Unreadable(err error)                  { r.unreadable(err) }
func (r *Reporter) Limits() (settle, quiet time.Duration) { return r.settle, r.quiet }

// Measure has a reporter ask something for how it goes with the ports.
func (r *Reporter) Measure(o observed) { r.observed = o }

// JournalProblems judges a topic that is to be a journal, of an input topic with so many partitions.
func JournalProblems(topic kafka.LedgerTopic, inputs int32) ([]JournalProblem, error) {
	store, err := (&Journal{Topic: "j", Input: "in", Kafka: kafka.Connection{Brokers: []string{"b:1"}}}).open()
	if err != nil {
		return nil, err
	}
	return store.journal.parts[0].problems(&topic, inputs), store.Close()
}

// Journal returns the journal in which the service keeps its messages.
func (s *Service) Journal() *journal.Store { return s.store.Store.(*journal.Store) }

// IsFatal reports whether an error of a partition of the journal ends the node.
func IsFatal(err error) bool { return isFatal(err) }

// Describe returns what the log at the start says.
func Describe(c *Config) []slog.Attr { return c.describe() }

// Effective returns the settings that the API shows.
func Effective(c *Config) map[string]string { return c.effective() }
