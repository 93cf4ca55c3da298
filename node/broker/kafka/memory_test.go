package kafka_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node/broker/kafka"
)

// tiny returns a batch as Kafka has it before it is compressed: of so many records without a key or a value, each with
// so many headers without a name or a value.
func tiny(records, headers int) []byte {
	var batch []byte
	for i := range records {
		record := binary.AppendVarint([]byte{0, 0}, int64(i))
		record = append(record, 1, 1) // null, and null
		record = append(binary.AppendVarint(record, int64(headers)), make([]byte, 2*headers)...)
		batch = append(binary.AppendVarint(batch, int64(len(record))), record...)
	}
	return batch
}

// Records of a few bytes, and headers of two, take twenty times as much memory as they have bytes, and whoever sends
// them compresses them to nearly nothing. They count as what they take: otherwise a batch of 256 MiB, which is read by
// default, would be one of 5 GiB, and the end of each node that fetches it.
func TestTinyRecords(t *testing.T) {
	t.Parallel()
	const limit, batch = 4 << 20, 8 << 20
	for name, test := range map[string]struct {
		records, headers int
		want             error
		polls            int // until the next one has room
	}{
		"many records":         {50_000, 0, kgo.ErrMaxDecompress, 0},
		"many headers":         {1, 300_000, kgo.ErrMaxDecompress, 0},
		"records with headers": {10_000, 20, kgo.ErrMaxDecompress, 0},
		"few records":          {100, 2, nil, 0},
		"half of the memory":   {15_000, 0, nil, 2},
	} {
		memory, polled := kafka.NewMemory(limit, batch)
		sent := s2.EncodeSnappy(nil, tiny(test.records, test.headers))
		if _, err := memory.Decompress(sent, kgo.CodecSnappy); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
			continue
		}
		if test.want != nil {
			continue
		}
		polls := 0
		for ; polls < 5; polls++ {
			if _, err := memory.Decompress(sent, kgo.CodecSnappy); err == nil {
				break
			} else if !errors.Is(err, kafka.ErrNoRoom) {
				t.Fatalf("%s: %v, want that there is no room", name, err)
			}
			polled()
		}
		if polls != test.polls {
			t.Errorf("%s: the next one has room after %d polls, want %d", name, polls, test.polls)
		}
	}
}

// A large batch is let in after some time also if small ones always come first: they do not take its turn.
func TestLargeBatchHasItsTurn(t *testing.T) {
	t.Parallel()
	memory, polled := kafka.NewMemory(4<<20, 8<<20)
	small, large := s2.EncodeSnappy(nil, tiny(1000, 0)), s2.EncodeSnappy(nil, tiny(25_000, 0))
	let := func(batch []byte) error {
		_, err := memory.Decompress(batch, kgo.CodecSnappy)
		return err
	}
	for refusals := 0; ; refusals++ {
		if err := let(small); err != nil {
			t.Fatalf("a small batch: %v", err)
		}
		err := let(large)
		if err == nil {
			break
		}
		if !errors.Is(err, kafka.ErrNoRoom) || refusals == 100 {
			t.Fatalf("the large batch, after %d refusals: %v", refusals, err)
		}
		polled()
	}
	if err := let(large); !errors.Is(err, kafka.ErrNoRoom) {
		t.Errorf("the next one, at once: %v, want that there is no room", err)
	}
}

// TestWeigh compares what batches are said to take in memory with what franz-go makes of them.
func TestWeigh(t *testing.T) { //nolint:paralleltest // what others keep counts as well
	for name, batch := range map[string][]byte{
		"records": tiny(100_000, 0), "a few headers": tiny(60_000, 3), "headers": tiny(10, 50_000),
	} {
		response := &kmsg.FetchResponseTopicPartition{RecordBatches: stored(t, batch)}
		memory, _ := kafka.NewMemory(1<<30, 1<<30)
		held := func() int {
			runtime.GC()
			runtime.GC() // and what was in pools
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := held()
		fetched, _ := kgo.ProcessFetchPartition(
			kgo.ProcessFetchPartitionOpts{DisableCRCValidation: true, Topic: "in"}, response, memory, nil)
		after := held()
		if fetched.Err != nil || len(fetched.Records) == 0 {
			t.Fatalf("%s: %d records, %v", name, len(fetched.Records), fetched.Err)
		}
		weight, took := kafka.Weigh(batch), after-before
		t.Logf("%s: %d bytes take %d, and are said to take %d", name, len(batch), took, weight)
		if took > weight+weight/4 || weight > 2*took {
			t.Errorf("%s: %d bytes take %d, and are said to take %d", name, len(batch), took, weight)
		}
		runtime.KeepAlive(fetched)
	}
}

// stored returns a batch of so many records as Kafka keeps it.
func stored(t *testing.T, records []byte) []byte {
	t.Helper()
	n := 0
	for rest := records; len(rest) > 0; n++ {
		length, used := binary.Varint(rest)
		rest = rest[used+int(length):]
	}
	batch := kmsg.RecordBatch{
		Magic: 2, Attributes: int16(kgo.CodecSnappy), NumRecords: int32(n), LastOffsetDelta: int32(n - 1),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, Records: s2.EncodeSnappy(nil, records),
	}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	return batch.AppendTo(nil)
}

// What is no batch of records in today's format counts as its bytes, whatever it says of lengths, and is handed on:
// franz-go says what is wrong with it.
func TestWeighNonsense(t *testing.T) {
	t.Parallel()
	good := tiny(3, 2)
	for _, batch := range [][]byte{
		{},
		{0},
		{0, 0, 0, 0, 0, 0, 0, 1},
		{1},
		{0xff},
		bytes.Repeat([]byte{0xff}, 20),
		{2},
		{2, 0},
		{4, 0, 0x80},
		{12, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f},
		{8, 0, 0, 0, 1},
		{20, 0, 0, 0, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x10}, // a record that says it has 2 Gi headers
		good[:len(good)-1],
	} {
		memory, _ := kafka.NewMemory(1<<20, 1<<20)
		out, err := memory.Decompress(s2.EncodeSnappy(nil, batch), kgo.CodecSnappy)
		if err != nil || !bytes.Equal(out, batch) {
			t.Errorf("%x becomes %x, %v", batch, out, err)
		}
		if weight := kafka.Weigh(batch); weight > len(batch)+3*(200+3*40) {
			t.Errorf("%x is said to take %d bytes", batch, weight)
		}
	}
}

// A batch of zstd may come with a window that is larger than any batch that is read, as that of a Java producer is
// which sends a few bytes: how much there is decides.
func TestZstdWindow(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1000, 2 << 20} {
		var sent bytes.Buffer
		encoder, err := zstd.NewWriter(&sent, zstd.WithWindowSize(8<<20))
		if err != nil {
			t.Fatal(err)
		}
		value := make([]byte, size)
		for _, part := range [][]byte{value[:size/2], value[size/2:]} {
			if _, err := encoder.Write(part); err != nil {
				t.Fatal(err)
			}
			if err := encoder.Flush(); err != nil { // so that the encoder does not know how much there is
				t.Fatal(err)
			}
		}
		if err := encoder.Close(); err != nil {
			t.Fatal(err)
		}
		memory, _ := kafka.NewMemory(1<<20, 1<<20)
		out, err := memory.Decompress(sent.Bytes(), kgo.CodecZstd)
		if size > 1<<20 && !errors.Is(err, kgo.ErrMaxDecompress) || size < 1<<20 && !bytes.Equal(out, value) {
			t.Errorf("of %d bytes, %d come out, %v", size, len(out), err)
		}
	}
}

// What is not compressed is bounded by what a broker sends at a time, and so that is no more than what may be held.
func TestFetchMaxBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		config kafka.SourceConfig
		want   int32
	}{
		{kafka.SourceConfig{}, 4 << 20},
		{kafka.SourceConfig{FetchMemory: 1 << 20}, 1 << 20},
		{kafka.SourceConfig{FetchMemory: 1 << 30}, 4 << 20},
		{kafka.SourceConfig{FetchMemory: 1 << 20, FetchMaxBytes: 2 << 20}, 2 << 20},
	} {
		if got := kafka.FetchMaxBytes(test.config); got != test.want {
			t.Errorf("with %d of memory and %d, a broker sends %d bytes, want %d", test.config.FetchMemory,
				test.config.FetchMaxBytes, got, test.want)
		}
	}
}
