package service_test

import (
	"log/slog"
	"testing"
	"time"

	"chronos/node/service"
)

// Goal: that a quota is used up is one line of the log each half minute for each client, with how often; a wait that
// makes nothing late is none. Method: waits as the hook of the clients gets them.
func TestThrottled(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		line := func(client, wait, answers string) string {
			return `level=WARN msg="Kafka throttles this node: a quota of its user or its client id is used up" ` +
				`client=` + client + ` broker=2 wait=` + wait + ` answers=` + answers
		}
		j.Throttled("sink", 2, 99*time.Millisecond)
		j.expect(t)
		j.Throttled("sink", 2, 1500*time.Millisecond)
		j.Throttled("source", 2, time.Second)
		j.expect(t, line("sink", "1.5s", "1"), line("source", "1s", "1"))
		for range 5 {
			j.Throttled("sink", 2, 2*time.Second)
		}
		j.expect(t)
		pass(service.ReminderInterval)
		j.expect(t, line("sink", "2s", "5"))
	})
}
