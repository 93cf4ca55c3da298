package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// What waiting does not mend is told apart, in a sentence that says what to do.
func TestPermanent(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		kerr.SaslAuthenticationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.UnsupportedSaslMechanism,
	} {
		if sentence, is := kafka.Permanent(fmt.Errorf("poll: %w", err)); !is || !strings.HasSuffix(sentence, ".") {
			t.Errorf("%v: %q, %v", err, sentence, is)
		}
	}
	for _, err := range []error{
		nil, errors.New("connection refused"), context.DeadlineExceeded, kerr.CoordinatorNotAvailable,
		kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition,
	} {
		if sentence, is := kafka.Permanent(err); is {
			t.Errorf("%v is permanent: %q", err, sentence)
		}
	}
}

// What commands ask of a cluster.
func TestAdmin(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 2)
	plain.Produce(t, texts(input, "before", 2)...)
	b := open(t, configFor(cluster, "group", input))
	if id, err := b.admin.ClusterID(t.Context()); err != nil || id == "" {
		t.Errorf("cluster id %q: %v", id, err)
	}
	if places, err := b.admin.Committed(t.Context(), "group", input); err != nil || len(places) > 0 {
		t.Errorf("committed %v: %v", places, err)
	}
	batch := pollBatch(t, b)
	if err := b.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	places, err := b.admin.Committed(t.Context(), "group", input)
	if err != nil || len(places) != 1 || places[0].Number != 0 || places[0].Offset != batch[len(batch)-1].Offset+1 ||
		!places[0].Kept {
		t.Errorf("committed %+v: %v", places, err)
	}
	// What another program commits, or an older version, is none of a node that keeps positions.
	others, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	var offsets kadm.Offsets
	offsets.AddOffset(input, 1, 7, -1)
	if err := kadm.NewClient(others).CommitAllOffsets(t.Context(), "others", offsets); err != nil {
		t.Fatal(err)
	}
	places, err = b.admin.Committed(t.Context(), "others", input)
	if err != nil || len(places) != 1 || places[0].Offset != 7 || places[0].Kept {
		t.Errorf("committed by others: %+v, %v", places, err)
	}
	for instant, want := range map[time.Time][]int64{
		time.Now().Add(-time.Hour): {0, 0}, time.Now().Add(time.Hour): {2, 0},
	} {
		places, err := b.admin.PlacesAt(t.Context(), instant, input)
		if err != nil || len(places) != 2 {
			t.Fatalf("places at %v: %v, %v", instant, places, err)
		}
		for i, p := range places {
			// An empty partition has no record: its end is its start.
			if p.Offset != want[i] || p.Epoch != node.UnknownEpoch || p.TopicID.String() == "" {
				t.Errorf("place at %v of partition %d: %+v, want offset %d", instant, i, p, want[i])
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var missing *kafka.MissingTopicsError
	if _, err := b.admin.Extents(ctx, "not-there"); !errors.As(err, &missing) {
		t.Errorf("extents of a topic that does not exist: %v", err)
	}
}
