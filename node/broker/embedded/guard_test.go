package embedded_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node/broker/embedded"
)

// pipes is a listener whose connections are pipes, so that time may be virtual.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// guarded returns the two ends of a connection: that of a client, and the guarded one.
func guarded(t *testing.T, log *slog.Logger) (client, server net.Conn) {
	t.Helper()
	listener := make(pipes, 1)
	client, plain := net.Pipe()
	listener <- plain
	server, err := embedded.Guard(listener, log).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(client.Close(), server.Close()) }) // They may be closed already.
	return client, server
}

// over reports whether err says no more than that the other end of a pipe is closed.
func over(err error) bool { return err == nil || errors.Is(err, io.ErrClosedPipe) }

// metadata returns a request that is right, of that many bytes without its size.
func metadata(size int) []byte {
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(1)
	request.Topics = []kmsg.MetadataRequestTopic{}
	for size > 1000 {
		name := strings.Repeat("x", min(size-1000, 30_000))
		size -= len(name) + 2
		request.Topics = append(request.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	for {
		raw := kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, request, 7)
		if missing := size - (len(raw) - 4); size <= 0 || missing <= 0 {
			return raw
		}
		size = 0
	}
}

// TestGuardLetsRequestsThrough writes requests in pieces of every size, and reads the same bytes.
func TestGuardLetsRequestsThrough(t *testing.T) {
	var want []byte
	for _, size := range []int{0, 100, 5_000, 200_000} {
		want = append(want, metadata(size)...)
	}
	for _, piece := range []int{1, 3, 4, 7, 1000, len(want)} {
		client, server := guarded(t, nil)
		go func() {
			for rest := want; len(rest) > 0; {
				n, err := client.Write(rest[:min(piece, len(rest))])
				if err != nil {
					return // The test says what is missing.
				}
				rest = rest[n:]
			}
			_ = client.Close() // It has said all.
		}()
		got, err := io.ReadAll(server)
		if !over(err) || !bytes.Equal(got, want) {
			t.Errorf("in pieces of %d: %d bytes, %v, want %d", piece, len(got), err, len(want))
		}
	}
}

// frame returns a request with its size before it.
func frame(size uint32, rest string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, size), rest...)
}

// TestGuardRefuses gives one bad request each, behind a good one, which still arrives, and asks what the log says.
func TestGuardRefuses(t *testing.T) {
	header := func(kind, version int16) string {
		raw := binary.BigEndian.AppendUint16(nil, uint16(kind))
		return string(binary.BigEndian.AppendUint16(raw, uint16(version))) + "\x00\x00\x00\x01\xff\xff"
	}
	whole := func(request string) []byte { return frame(uint32(len(request)), request) }
	create := kmsg.NewPtrCreateTopicsRequest()
	create.SetVersion(4)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1<<30, 1
	create.Topics = append(create.Topics, topic)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = append(grow.Topics, kmsg.CreatePartitionsRequestTopic{Topic: "in", Count: 1 << 30})
	format := kmsg.NewRequestFormatter()
	for _, c := range []struct {
		name string
		sent []byte
		want string
	}{
		{"size 0", frame(0, ""), "a request of 0 bytes: that is less than its header"},
		{"size 9", frame(9, ""), "a request of 9 bytes: that is less than its header"},
		{"unknown kind", whole(header(999, 0)), "a request of the unknown kind 999"},
		{"negative kind", whole(header(-1, 0)), "a request of the unknown kind -1"},
		{"no service", whole(header(78, 0)), "a request ShareFetch: the embedded broker does not serve it"},
		{"old version", whole(header(3, -1)), "a request Metadata in version -1: " +
			"the embedded broker serves versions up to 13"},
		{"new version", whole(header(0, 13)), "a request Produce in version 13: " +
			"the embedded broker serves versions up to 12"},
		{"long", frame(embedded.MaxPlain+1, header(3, 0)), "a request Metadata of 1048577 bytes: it may have 1048576"},
		{
			"long records", frame(embedded.MaxRequest+1, header(0, 3)),
			"a request Produce of 104857601 bytes: it may have 104857600",
		},
		{"client", whole(header(3, 0)[:8] + "\x00\x05abc"), "a request Metadata: its header does not decode"},
		{
			"tags of header", whole(header(3, 9) + "\xff\xff\xff\xff\x0f"),
			"a request Metadata: its header does not decode",
		},
		{
			"array", whole(header(3, 0) + "\x7f\xff\xff\xff"), "a request Metadata, version 0: " +
				"it does not decode: response did not contain enough data to be valid",
		},
		{
			"topics", whole(header(0, 3) + "\xff\xff\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00" +
				strings.Repeat("\x00", 1<<17)),
			"a request Produce: it names 65536 topics: it may name 10000",
		},
		{
			"partitions", whole(header(0, 3) + "\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01x" +
				"\x00\x01\x00\x00" + strings.Repeat("\x00", 1<<17)),
			"a request Produce: it names 65536 partitions or more: it may name 10000",
		},
		{
			"many partitions", format.AppendRequest(nil, create, 1),
			"a request CreateTopics: it asks for 1073741824 partitions: it may ask for 1000",
		},
		{
			"more partitions", format.AppendRequest(nil, grow, 1),
			"a request CreatePartitions: it asks for 1073741824 partitions: it may ask for 1000",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			client, server := guarded(t, slog.New(slog.NewTextHandler(&said, nil)))
			good := metadata(0)
			go func() { _, _ = client.Write(append(bytes.Clone(good), c.sent...)) }() // It may be cut off.
			got, err := io.ReadAll(server)
			if err == nil || err.Error() != c.want || !bytes.Equal(got, good) {
				t.Errorf("after %d bytes: %v, want %d and %s", len(got), err, len(good), c.want)
			}
			if !strings.Contains(said.String(), c.want) || strings.Count(said.String(), "\n") != 1 {
				t.Errorf("the log says %q, want %s", said.String(), c.want)
			}
		})
	}
}

// TestGuardKeepsTime has clients that stop in the middle, or say nothing, or do not read.
func TestGuardKeepsTime(t *testing.T) {
	request := metadata(200_000)
	for _, c := range []struct {
		name string
		sent int
		want time.Duration
	}{
		{"nothing", 0, embedded.IdleTime},
		{"a piece of the size", 3, embedded.RequestTime},
		{"the size", 4, embedded.RequestTime},
		{"a half", len(request) / 2, embedded.RequestTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := guarded(t, nil)
				go func() { _, _ = client.Write(request[:c.sent]) }() // The test reads it.
				began := time.Now()
				got, err := io.ReadAll(server)
				if took := time.Since(began); took != c.want || len(got) != 0 || c.sent > 0 && err == nil {
					t.Errorf("%d bytes came in %v, %v; want none in %v", len(got), took, err, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		_, server := guarded(t, nil)
		began := time.Now()
		_, err := server.Write(make([]byte, 10<<20))
		if took := time.Since(began); took != embedded.WriteTime || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a client that does not read is cut off after %v, %v; want %v", took, err, embedded.WriteTime)
		}
	})
}

// TestGuardLetsSlowReaderRead takes an answer more slowly than the time for one piece of it would allow for all.
func TestGuardLetsSlowReaderRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := guarded(t, nil)
		const size = 10 << 20
		done := make(chan error, 1)
		go func() {
			_, err := server.Write(make([]byte, size))
			done <- err
		}()
		pause := time.NewTicker(embedded.WriteTime / 3)
		defer pause.Stop()
		for range size >> 19 {
			<-pause.C
			if _, err := io.CopyN(io.Discard, client, 1<<19); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestGuardBoundsWhatIsHeld begins more long requests than may be held, and asks that a short one comes through
// meanwhile, and each long one in the end.
func TestGuardBoundsWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 9
		listener := make(pipes, clients)
		guard := embedded.Guard(listener, nil)
		long := metadata(900_000) // counts 64 times, so that four of them fit
		var began, ended sync.WaitGroup
		for range clients - 1 {
			client, plain := net.Pipe()
			listener <- plain
			server, err := guard.Accept()
			if err != nil {
				t.Fatal(err)
			}
			began.Add(1)
			go func() {
				_, _ = client.Write(long[:100_000]) // The rest tells.
				began.Done()
				if _, err := client.Write(long[100_000:]); err != nil {
					t.Error(err)
				}
				_ = client.Close() // It has said all.
			}()
			ended.Go(func() {
				if got, err := io.ReadAll(server); !over(err) || !bytes.Equal(got, long) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				_ = server.Close() // All is read.
			})
		}
		client, plain := net.Pipe()
		listener <- plain
		server, err := guard.Accept()
		if err != nil {
			t.Fatal(err)
		}
		short := metadata(0)
		go func() { _, _ = client.Write(short) }() // What is read tells.
		got := make([]byte, len(short))
		if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, short) {
			t.Errorf("short: %v", err)
		}
		_ = client.Close() // A pipe takes no deadline once its other end is closed, unlike a socket.
		began.Wait()
		ended.Wait()
	})
}

// TestGuardBoundsConnections opens one connection too many, one more after another has gone, and one too many again. In
// a bubble a connection that is not closed fails the test at once.
func TestGuardBoundsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes, 1)
		var said bytes.Buffer
		guard := embedded.Guard(listener, slog.New(slog.NewTextHandler(&said, nil)))
		accepted := make(chan net.Conn)
		go func() {
			for c, err := guard.Accept(); err == nil; c, err = guard.Accept() {
				accepted <- c
			}
		}()
		dial := func() net.Conn {
			client, plain := net.Pipe()
			listener <- plain
			return client
		}
		refused := func() {
			if _, err := dial().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("one too many reads %v", err)
			}
		}
		var last net.Conn
		for range embedded.MaxConnections {
			dial()
			last = <-accepted
		}
		refused()
		_ = errors.Join(last.Close(), last.Close()) // Twice counts once.
		dial()
		<-accepted
		refused()
		close(listener)
		want := fmt.Sprintf("there are %d connections already", embedded.MaxConnections)
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("the log says %q, want %s", said.String(), want)
		}
	})
}

// TestGuardClosesIdleConnections opens as many connections as there may be, of which all but one stay idle, and then as
// many again: those that are used get in and stay, and the one that has been idle for longest goes first.
func TestGuardClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes, 1)
		guard := embedded.Guard(listener, nil)
		open := func() (client, server net.Conn) {
			client, plain := net.Pipe()
			listener <- plain
			server, err := guard.Accept()
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, server) }() // as the broker reads
			return client, server
		}
		used, answers := open()
		var clients []net.Conn
		for range embedded.MaxConnections - 1 {
			client, _ := open()
			clients = append(clients, client)
			<-time.After(time.Millisecond)
		}
		<-time.After(embedded.IdleEnough)
		go func() { _, _ = answers.Write([]byte("x")) }()
		if _, err := io.ReadFull(used, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i, idle := range clients {
			client, server := open()
			if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Fatalf("connection %d, which has been idle for longest, is not closed: %v", i, err)
			}
			go func() { _, _ = server.Write([]byte("x")) }()
			if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
				t.Fatalf("new connection %d: %v", i, err)
			}
			defer func() { _ = errors.Join(client.Close(), server.Close()) }()
		}
		go func() { _, _ = answers.Write([]byte("x")) }()
		if _, err := io.ReadFull(used, make([]byte, 1)); err != nil {
			t.Errorf("the connection that is used is closed: %v", err)
		}
		_ = errors.Join(used.Close(), answers.Close())
	})
}

// TestGuardDoesNotFloodLog refuses many connections at a time.
func TestGuardDoesNotFloodLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		listener := make(pipes, 1)
		guard := embedded.Guard(listener, slog.New(slog.NewTextHandler(&said, nil)))
		refuse := func() {
			client, plain := net.Pipe()
			listener <- plain
			server, err := guard.Accept()
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = client.Write(frame(0, "")) }() // It is refused.
			_, _ = io.ReadAll(server)                         // The log tells.
			_ = errors.Join(client.Close(), server.Close())   // Both ends are done.
		}
		for range 100 {
			refuse()
		}
		<-time.After(time.Second)
		refuse()
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[1], "others_unsaid=99") {
			t.Errorf("the log says %q", lines)
		}
	})
}

// TestBrokerSurvivesUnknownTopicIDs sends what two producers of deleted topics would send in one request: kfake itself
// does not survive it.
func TestBrokerSurvivesUnknownTopicIDs(t *testing.T) {
	broker := startBroker(t, "")
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(13)
	for id := range byte(2) {
		topic := kmsg.NewProduceRequestTopic()
		topic.TopicID = [16]byte{1, id}
		topic.Partitions = []kmsg.ProduceRequestTopicPartition{kmsg.NewProduceRequestTopicPartition()}
		request.Topics = append(request.Topics, topic)
	}
	c := dial(t, broker.Address())
	defer func() { _ = c.Close() }() // The broker closes it.
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 1)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience)) // It is a TCP connection.
	if _, err := answer(c); !errors.Is(err, io.EOF) {
		t.Errorf("the answer is %v, want none", err)
	}
	topicIDs(t, broker.Address())
}

// TestBrokerKeepsRecords produces to a broker with a folder, and consumes from the next one.
func TestBrokerKeepsRecords(t *testing.T) {
	folder := t.TempDir()
	first := startBroker(t, folder)
	value := bytes.Repeat([]byte("x"), 900_000)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	producer := client(t, first)
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: "in", Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	first.Close()
	consumer := client(t, startBroker(t, folder), kgo.ConsumeTopics("in"))
	records := consumer.PollFetches(ctx).Records()
	if len(records) != 1 || !bytes.Equal(records[0].Value, value) {
		t.Errorf("%d records", len(records))
	}
}

// TestStartSentences asks for the errors of Start.
func TestStartSentences(t *testing.T) {
	if _, err := embedded.Start(embedded.Config{}); err == nil ||
		err.Error() != "start the embedded broker: there is no listener" {
		t.Error(err)
	}
}

// client returns a client of the broker.
func client(t testing.TB, broker *embedded.Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(options, kgo.SeedBrokers(broker.Address()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
