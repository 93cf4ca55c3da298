package embedded_test

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node/broker/embedded"
)

// FuzzCheckRequest asks that no bytes make the guard panic, and that what it lets through decodes.
func FuzzCheckRequest(f *testing.F) {
	f.Add([]byte("\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff"))
	for seed := range byte(100) {
		d := &drawer{bytes: slicesOf(seed)}
		f.Add(d.request(1)[4:])
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		if embedded.CheckRequest(request) != nil {
			return
		}
		decoded := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(request)))
		if decoded == nil {
			t.Errorf("%x passed, and is of no kind", request)
		}
	})
}

// slicesOf returns bytes that a seed determines.
func slicesOf(seed byte) []byte {
	generator := rand.New(rand.NewPCG(uint64(seed), 0))
	drawn := make([]byte, 4096)
	for i := range drawn {
		drawn[i] = byte(generator.Uint32())
	}
	return drawn
}

// FuzzBroker sends requests that are well formed and odd to a broker, and asks that it goes on answering. A panic in
// the broker ends the process, which is the finding.
func FuzzBroker(f *testing.F) {
	for seed := range byte(5) {
		f.Add(slicesOf(seed))
	}
	f.Fuzz(func(t *testing.T, drawn []byte) {
		broker := startBroker(t, "")
		d := &drawer{bytes: drawn}
		d.ids = topicIDs(t, broker.Address())
		for len(d.bytes) > 0 {
			converse(t, broker.Address(), d, new(atomic.Int64), new(atomic.Int64))
		}
		topicIDs(t, broker.Address())
	})
}

// TestBrokerSurvivesRandomRequests is FuzzBroker for machines without time to fuzz. CHRONOS_TEST_REQUESTS says for how
// long; its default is a second.
func TestBrokerSurvivesRandomRequests(t *testing.T) {
	limit := time.Second
	if text := os.Getenv("CHRONOS_TEST_REQUESTS"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		limit = time.Duration(seconds) * time.Second
	}
	broker := startBroker(t, "")
	ids := topicIDs(t, broker.Address())
	seed := uint64(time.Now().UnixNano())
	var sent, answered atomic.Int64
	var clients sync.WaitGroup
	for number := range uint64(8) {
		generator := rand.New(rand.NewPCG(seed, number))
		clients.Go(func() {
			for end := time.Now().Add(limit); time.Now().Before(end); {
				drawn := make([]byte, 10_000)
				for i := range drawn {
					drawn[i] = byte(generator.Uint32())
				}
				converse(t, broker.Address(), &drawer{bytes: drawn, ids: ids}, &sent, &answered)
			}
		})
	}
	clients.Wait()
	topicIDs(t, broker.Address())
	t.Logf("seed %d: %d requests were sent and %d answered", seed, sent.Load(), answered.Load())
	if sent.Load() == 0 || answered.Load() < sent.Load()/4 {
		t.Error("too few are answered: that tests the guard only")
	}
}

// converse sends requests on one connection, until there are no more, or one is refused or answered late.
func converse(t testing.TB, address string, d *drawer, sent, answered *atomic.Int64) {
	c := dial(t, address)
	defer func() { _ = c.Close() }() // The broker may have closed it already.
	for len(d.bytes) > 0 {
		if _, err := c.Write(d.request(int32(sent.Add(1)))); err != nil {
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // It is a TCP connection.
		if _, err := answer(c); err != nil {
			return
		}
		answered.Add(1)
	}
}

// startBroker starts a broker with the topics in and out.
func startBroker(t testing.TB, folder string) *embedded.Broker {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broker, err := embedded.Start(embedded.Config{
		Listener: listener, Topics: []string{"in", "out"}, Folder: folder,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return broker
}

// dial returns a connection.
func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{Timeout: patience}).DialContext(context.WithoutCancel(t.Context()), "tcp", address)
	if err != nil {
		panic(err) // It is called from any goroutine.
	}
	return c
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// answer returns the next answer, without its size.
func answer(c net.Conn) ([]byte, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(c, size); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size))
	_, err := io.ReadFull(c, body)
	return body, err
}

// topicIDs asks the broker for its topics.
func topicIDs(t testing.TB, address string) [][16]byte {
	t.Helper()
	c := dial(t, address)
	defer func() { _ = c.Close() }() // Nothing is left to be sent.
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(10)
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 1)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience)) // It is a TCP connection.
	body, err := answer(c)
	if err != nil {
		t.Fatalf("the broker does not answer: %v", err)
	}
	response := request.ResponseKind()
	if err := response.ReadFrom(body[5:]); err != nil {
		t.Fatal(err)
	}
	var ids [][16]byte
	for _, topic := range response.(*kmsg.MetadataResponse).Topics {
		ids = append(ids, topic.TopicID)
	}
	return ids
}
