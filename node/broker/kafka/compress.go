package kafka

import (
	"bytes"
	"sync"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// blockCompressor compresses batches as Kafka's own producer does: LZ4 in blocks of 64 KiB, without a checksum of the
// content, since a batch has one of its own. The compressor of franz-go has blocks of 4 MiB, for which it holds two
// buffers each time that it compresses: most of what a node had on its heap, and, with the race detector, most of the
// processor time of tests that connect to a broker.
//
// It is safe for concurrent use, and implements kgo.Compressor.
type blockCompressor struct {
	writers sync.Pool // of *lz4.Writer
}

// newBlockCompressor returns one that has no writers yet: each is made when it is first needed.
func newBlockCompressor() *blockCompressor {
	return &blockCompressor{writers: sync.Pool{New: newBlockWriter}}
}

// newBlockWriter returns a *lz4.Writer that has to be reset before it is used.
func newBlockWriter() any {
	w := lz4.NewWriter(nil)
	err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1))
	if err != nil {
		panic(err) // all of them are options of writers, with values that they have
	}
	return w
}

// Compress implements kgo.Compressor. It can't fail, as nothing that it writes to does; if it did, the records of the
// batch would fail with the error of franz-go for that.
func (c *blockCompressor) Compress(dst *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) (
	[]byte, kgo.CompressionCodecType,
) {
	w := c.writers.Get().(*lz4.Writer)
	defer c.writers.Put(w)
	w.Reset(dst)
	if _, err := w.Write(src); err != nil {
		return nil, kgo.CodecError
	}
	if err := w.Close(); err != nil {
		return nil, kgo.CodecError
	}
	return dst.Bytes(), kgo.CodecLz4
}
