package service

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// throttling is a hook of the Kafka clients of one purpose. Brokers have a client wait that has used up a quota, of its
// user or its client id; seen from here that looks like brokers that are slow or do not answer, and so it is named.
type throttling struct {
	client   string
	reporter *Reporter
}

var _ kgo.HookBrokerThrottle = (*throttling)(nil)

// longThrottle is the shortest wait that is reported. A shorter one makes no message noticeably late.
const longThrottle = 100 * time.Millisecond

// OnBrokerThrottle reports that a broker has the client wait.
func (t *throttling) OnBrokerThrottle(broker kgo.BrokerMetadata, wait time.Duration, _ bool) {
	if wait >= longThrottle {
		t.reporter.throttled(t.client, broker.NodeID, wait)
	}
}

// throttled reports, at most every reminderInterval, that a broker has a client wait.
func (r *Reporter) throttled(client string, broker int32, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lateness.throttled = time.Now()
	r.tally("throttled "+client, 1, func(count int) {
		r.say(slog.LevelWarn, "Kafka throttles this node: a quota of its user or its client id is used up",
			slog.String("client", client), slog.Int("broker", int(broker)), slog.String("wait", rounded(wait).String()),
			slog.Int("answers", count))
	})
}

// whyThrottled returns that Kafka throttles this node, if it has lately, as a reason for what is late; "" if not.
func (l *lateness) whyThrottled(now time.Time) string {
	if l.throttled.IsZero() || now.Sub(l.throttled) > causeLasts {
		return ""
	}
	return fmt.Sprintf("Kafka throttles this node, last %v ago: a quota of its user or its client id is used up",
		rounded(now.Sub(l.throttled)))
}
