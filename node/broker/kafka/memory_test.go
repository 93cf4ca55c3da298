package kafka_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
)

// A batch of zstd may come with a window that is larger than any batch that is read, as that of a Java producer is which
// sends a few bytes: how much there is decides.
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
