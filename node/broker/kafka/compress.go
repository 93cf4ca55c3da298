package kafka

import (
	"bytes"
	"slices"
	"sync"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Compression is how the batches of a topic are compressed.
type Compression int

// The ways that Kafka knows. Every client can read Uncompressed and, with what its language brings, Gzip. For the
// others some clients need a codec that has to be installed beside them.
const (
	Uncompressed Compression = iota
	Gzip
	Snappy
	LZ4
	Zstd

	compressions = iota
)

// CompressionNames returns the words for all of them, which are those of Kafka's own settings.
func CompressionNames() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

// String returns the word for it.
func (c Compression) String() string { return CompressionNames()[c] }

// ParseCompression returns the one of which a word is the String, and whether there is one.
func ParseCompression(word string) (c Compression, known bool) {
	i := slices.Index(CompressionNames(), word)
	return Compression(max(i, 0)), i >= 0
}

// option returns the option of a client that compresses so. A batch that gets no smaller is sent as it is.
func (c Compression) option() kgo.Opt {
	switch c {
	case Gzip:
		return kgo.ProducerBatchCompression(kgo.GzipCompression())
	case Snappy:
		return kgo.ProducerBatchCompression(kgo.SnappyCompression())
	case LZ4:
		return kgo.WithCompressor(newBlockCompressor())
	case Zstd:
		return kgo.ProducerBatchCompression(kgo.ZstdCompression())
	default:
		return kgo.ProducerBatchCompression(kgo.NoCompression())
	}
}

// densest returns how a record is compressed that a topic refuses for its size: as well as all who read the topic can
// be expected to read.
func (c Compression) densest() Compression {
	if c == Zstd {
		return Zstd
	}
	return Gzip
}

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
