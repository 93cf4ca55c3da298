package kafka_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// TestSlowGroup commits to a group that takes longer to answer than a commit waits. Who asks again for the same places
// learns the answer to the first request: the group does not get them a second time. Other places are sent, and so are
// the same ones once somebody knows what has become of them, or the partitions were given up.
func TestSlowGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, failure := 0, error(nil)
		commit, renew, wait := kafka.Commits(func(context.Context) error {
			sent++
			result := failure
			<-time.After(700 * time.Millisecond) // of the bubble: as long as the group takes
			return result
		})
		until := func(offset int64) (err error) {
			places := []node.Place{{Partition: node.Partition{Topic: "in"}, Position: node.Position{Offset: offset}}}
			for range 20 {
				if err = commit(t.Context(), places); !errors.Is(err, kafka.ErrCommitPending) {
					return err
				}
				<-time.After(time.Second / 10)
			}
			return err
		}
		if err := until(7); err != nil || sent != 1 {
			t.Errorf("%v, after %d requests, want 1", err, sent)
		}
		failure = errors.New("no coordinator")
		if err := until(7); !errors.Is(err, failure) || sent != 2 {
			t.Errorf("%v, after %d requests, want 2", err, sent)
		}
		failure = nil
		if err := until(8); err != nil || sent != 3 {
			t.Errorf("%v, after %d requests, want 3", err, sent)
		}
		places := []node.Place{{Partition: node.Partition{Topic: "in"}, Position: node.Position{Offset: 9}}}
		if err := commit(t.Context(), places); !errors.Is(err, kafka.ErrCommitPending) {
			t.Errorf("%v", err)
		}
		renew()
		if err := until(9); err != nil || sent != 5 {
			t.Errorf("%v, after %d requests, want 5: the partition was somebody else's meanwhile", err, sent)
		}
		wait()
	})
}
