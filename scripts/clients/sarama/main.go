// Command sarama reads with sarama: usage: sarama BROKERS COUNT TOPIC...
//
// It reads COUNT records from the beginning of the topics, and prints their keys and values. It is a module of its own:
// what it needs is no dependency of Chronos.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// reader prints what its claims bring, until nothing is left.
type reader struct {
	mu   sync.Mutex
	left int
	done context.CancelFunc
}

// Setup implements sarama.ConsumerGroupHandler.
func (r *reader) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup implements sarama.ConsumerGroupHandler.
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim implements sarama.ConsumerGroupHandler.
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case m, open := <-claim.Messages():
			if !open {
				return nil
			}
			r.print(m)
			session.MarkMessage(m, "")
		}
	}
}

// print prints a record.
func (r *reader) print(m *sarama.ConsumerMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return
	}
	fmt.Printf("%s\t%s\n", shown(m.Key), shown(m.Value))
	if r.left--; r.left == 0 {
		r.done()
	}
}

// shown returns a key or a value.
func shown(b []byte) string {
	if b == nil {
		return "NULL"
	}
	return string(b)
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

// run reads.
func run(brokers, count string, topics []string) error {
	left, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(strings.Split(brokers, ","), fmt.Sprintf("sarama-%d", time.Now().UnixNano()),
		config)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(context.Background())
	r := &reader{left: left, done: done}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, topics, r); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return group.Close()
}
