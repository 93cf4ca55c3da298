package kafka_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
)

// Batches are compressed in frames as Kafka's own producer makes them, whatever their size, and are what they were.
func TestCompressInBlocks(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 200_000)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(r.Uint32())
	}
	compressor := kafka.NewBlockCompressor()
	var all sync.WaitGroup
	for name, batch := range map[string][]byte{
		"nothing":                {},
		"small":                  []byte("a record"),
		"a block":                bytes.Repeat([]byte("data"), 1<<16/4),
		"what does not compress": noise,
		"large":                  []byte(strings.Repeat("a record of many that are alike; ", 4<<20/33)),
	} {
		all.Go(func() {
			for range 3 { // by a writer that was used before
				var dst bytes.Buffer
				frame, codec := compressor.Compress(&dst, batch)
				if codec != kgo.CodecLz4 {
					t.Errorf("%s: codec %d, want LZ4", name, codec)
					return
				}
				// Version 1, independent blocks, no check sums, no size of the content; blocks of 64 KiB.
				if flags, blocks := frame[4], frame[5]; flags != 0x60 || blocks != 0x40 {
					t.Errorf("%s: a frame with flags %#x and block sizes %#x, want 0x60 and 0x40", name, flags, blocks)
				}
				got, err := io.ReadAll(lz4.NewReader(bytes.NewReader(frame)))
				if err != nil || !bytes.Equal(got, batch) {
					t.Errorf("%s: %d bytes, error %v; want the %d that it was", name, len(got), err, len(batch))
				}
			}
		})
	}
	all.Wait()
}

// How fast a batch is compressed, and in how many bytes: in our blocks, and in franz-go's.
func BenchmarkCompress(b *testing.B) {
	theirs, err := kgo.DefaultCompressor(kgo.Lz4Compression())
	if err != nil {
		b.Fatal(err)
	}
	batch, random := []byte(nil), rand.New(rand.NewPCG(1, 2))
	for len(batch) < 120_000 {
		batch = append(batch, "message-000000 chronosDeadline 2026-11-24T00:00:00Z"...)
		for range 150 {
			batch = append(batch, byte(random.Uint32()))
		}
	}
	for name, c := range map[string]kgo.Compressor{"ours": kafka.NewBlockCompressor(), "theirs": theirs} {
		b.Run(name, func(b *testing.B) {
			var dst bytes.Buffer
			b.SetBytes(int64(len(batch)))
			length := 0
			for b.Loop() {
				dst.Reset()
				frame, _ := c.Compress(&dst, batch)
				length = len(frame)
			}
			b.ReportMetric(float64(length)/float64(len(batch)), "compressed/plain")
		})
	}
}
