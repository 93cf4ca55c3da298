// Package embedded is a Kafka broker inside this process, for "chronos dev" and for tests.
//
// The broker itself is kfake, which comes with the Kafka client that we use. It is made for tests of a client that
// behaves, and trusts what it reads: a request of a kind that does not exist makes it follow a nil pointer, in a
// goroutine of its own where nobody can recover, and four bytes make it allocate 4 GiB. A process that listens on a
// socket must not be ended by what arrives there: a port scanner, a browser, or a client that speaks TLS to a plain
// port is enough. So there is a guard on the way:
//
//	client ---- socket ---- guard ---- kfake
//	                          |
//	                          +-- a bad request: this connection is closed, and the log says why
//
// The guard is no proxy: kfake reads from connections that the guard hands to it, and whose Read returns whole
// requests that have been checked, and nothing else. That costs one more copy and one more decoding of a request and
// no way through the kernel. What it asks of a request:
//
//   - Its size is bounded, MaxRequest as in Kafka for what carries records, and maxPlain for all else, which is small
//     on the wire and grows when it is decoded.
//   - It is of a kind and version that we serve; served.go lists these.
//   - It decodes as the kind and version that it says it is. The decoder is the one that kfake uses,
//     so that kfake meets no error that the guard has not met.
//   - It asks for nothing that kfake cannot survive although it is well formed; checkMeaning lists that.
//
// What it asks of connections: there are at most maxConnections of them, of which one that is idle makes
// room for a new one; a request that has begun arrives
// within requestTime and a second for each MiB; who does not read an answer for writeTime, or says nothing for
// idleTime, is cut off. Requests that are on their way hold maxHeld bytes in all; those beyond it wait, small ones
// excepted, so that heartbeats are not held up by bulk.
//
// What is left: a request that lies about the number of its tags keeps the decoder counting, for a minute or two at the
// worst, before it is refused. That costs a processor and ends nothing. And who may produce may fill the memory, or
// the disk, with records, as in any Kafka.
package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Config says what the broker is.
type Config struct {
	// Listener is where clients connect. The broker closes it.
	Listener net.Listener

	// Topics exist from the beginning, with one partition each.
	Topics []string

	// Folder keeps everything that has been acknowledged, on the disk. Empty keeps it in memory.
	Folder string

	// Log is told, at warn and at most once a second, which connections were closed and why. Nil tells nobody.
	Log *slog.Logger
}

// Broker is a broker that runs. Start makes it.
type Broker struct{ cluster *kfake.Cluster }

// Start starts a broker. It runs until Close.
func Start(config Config) (*Broker, error) {
	if config.Listener == nil {
		return nil, errors.New("start the embedded broker: there is no listener")
	}
	kinds := served()
	guarded := newListener(config.Listener, kinds, config.Log)
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.MaxVersions(kinds),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return guarded, nil }),
		kfake.SeedTopics(1, config.Topics...),
		kfake.DefaultNumPartitions(1),
	}
	if config.Folder != "" {
		options = append(options, kfake.DataDir(config.Folder), kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	return &Broker{cluster}, nil
}

// Address returns where clients reach the broker.
func (b *Broker) Address() string { return b.cluster.ListenAddrs()[0] }

// Close stops the broker and closes its listener and its connections.
func (b *Broker) Close() { b.cluster.Close() }
