package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// memory is the decompressor of a Source. It keeps the records that franz-go holds before they are polled within a
// bound: a broker bounds what it sends before decompression, and 4 MiB of it can be 4 GiB after. What counts is what
// the records take in memory, not their bytes alone (weigh). What was never compressed is bounded by what a broker
// sends.
//
// A batch that finds no room is refused. To franz-go that is a batch which the broker has sent in part: it hands out
// what came before it, and fetches it again. By then what came before has been polled, and a batch that has
// the memory to itself may fill all of BatchMemory.
//
// While others always come first, a large batch never has the memory to itself. So every now and then one is let in
// that does not fit: what is held is FetchMemory and one batch at most, as far as one can tell from here. (What was
// decompressed lately may be counted twice, and on a machine that is overloaded some of it not at all.)
type memory struct {
	limit, batch int

	mu       sync.Mutex
	buffered func() int64 // the bytes that wait to be polled
	fresh    int          // decompressed since the last poll: buffered may not count it yet
	former   int          // the same of the poll before: a response may be decompressed while others are polled
	refusals int          // since the last batch that was let in without room
	gzip     *gzip.Reader
	zstd     *zstd.Decoder
	lz4      *lz4.Reader
	scratch  bytes.Buffer
}

// maxRefusals is how many batches are refused before one is let in that does not fit.
const maxRefusals = 16

// errNoRoom says that a batch has to wait until others were polled.
var errNoRoom = errors.New("no memory for a batch before others were polled")

var _ kgo.Decompressor = (*memory)(nil)

func newMemory(limit, batch int) *memory {
	return &memory{limit: limit, batch: batch, buffered: func() int64 { return 0 }}
}

// watch has the memory ask how many bytes wait to be polled.
func (m *memory) watch(buffered func() int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buffered = buffered
}

// polled takes note of a poll.
func (m *memory) polled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.former, m.fresh = m.fresh, 0
}

// Decompress returns what src decompresses to, errNoRoom if there is no room for it now, or kgo.ErrMaxDecompress if
// there never will be.
func (m *memory) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return src, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	room, held := m.batch, m.fresh+m.former+int(m.buffered())
	if held > 0 && m.refusals < maxRefusals {
		room = min(room, m.limit-held)
	}
	out, err := m.inflate(src, codec, room)
	weight := len(out)
	if err == nil {
		if weight = weigh(out, room); weight > room {
			err = errLarger
		}
	}
	switch {
	case err == nil:
		m.fresh += weight
		if weight > m.limit-held { // it is the one that was let in: others, which fit, do not take its turn
			m.refusals = 0
		}
		return out, nil
	case !errors.Is(err, errLarger):
		return nil, err
	case room < m.batch:
		m.refusals++
		return nil, errNoRoom
	default:
		m.refusals = 0
		return nil, kgo.ErrMaxDecompress
	}
}

const (
	// recordCost is what franz-go keeps of a record besides its bytes, with the pointers to it, and headerCost that of
	// a header. A record of no key and no value has eight bytes, and a header without a name has two: what is bounded
	// by bytes alone would be twenty times as much in memory.
	recordCost = 200
	headerCost = 40
)

// weigh returns how many bytes a decompressed batch takes in memory, or anything above most if that is more. What can't
// be read as records is no more than its bytes: franz-go does not make records of it, or it is of a format that has
// more bytes for each.
func weigh(batch []byte, most int) int {
	weight := len(batch)
	for rest := batch; len(rest) > 0 && weight <= most; {
		length, used := binary.Varint(rest)
		if used <= 0 || length <= 0 || length > int64(len(rest)-used) {
			break
		}
		weight += recordCost + headerCost*headersOf(rest[used:used+int(length)])
		rest = rest[used+int(length):]
	}
	return weight
}

// headersOf returns how many headers a record says that it has; no more than it has bytes.
func headersOf(record []byte) int {
	at := 1 // behind its attributes
	// Its timestamp, offset, key, and value.
	for _, isLength := range []bool{false, false, true, true} {
		if at > len(record) {
			return 0
		}
		n, used := binary.Varint(record[at:])
		if used <= 0 {
			return 0
		}
		if at += used; isLength && n > 0 {
			at += int(min(n, int64(len(record))))
		}
	}
	if at > len(record) {
		return 0
	}
	n, _ := binary.Varint(record[at:])
	return int(min(max(n, 0), int64(len(record)-at)))
}

// errLarger says that something decompresses to more than it may.
var errLarger = errors.New("larger than it may be")

// inflate returns what src decompresses to if that is no more than room.
func (m *memory) inflate(src []byte, codec kgo.CompressionCodecType, room int) ([]byte, error) {
	if room <= 0 {
		return nil, errLarger
	}
	input := bytes.NewReader(src)
	switch codec {
	case kgo.CodecGzip:
		if m.gzip == nil {
			m.gzip = new(gzip.Reader)
		}
		if err := m.gzip.Reset(input); err != nil {
			return nil, err
		}
		return m.readUpTo(m.gzip, room)
	case kgo.CodecSnappy:
		return unsnappy(src, room)
	case kgo.CodecLz4:
		if m.lz4 == nil {
			m.lz4 = lz4.NewReader(input)
		}
		m.lz4.Reset(input)
		return m.readUpTo(m.lz4, room)
	case kgo.CodecZstd:
		if m.zstd == nil {
			decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxMemory(uint64(max(m.batch, zstdWindow))))
			if err != nil {
				return nil, err
			}
			m.zstd = decoder
		}
		if err := m.zstd.Reset(input); err != nil {
			return nil, err
		}
		out, err := m.readUpTo(m.zstd, room)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			err = errLarger
		}
		return out, err
	default:
		return nil, fmt.Errorf("unknown compression %d", codec)
	}
}

// zstdWindow is the largest window of zstd that is read in any case. It says nothing of how much there is: Java's
// producer writes one of 2 MiB before each batch, however small, and every decoder should know windows of 8 MiB.
const zstdWindow = 8 << 20

// maxScratch is the largest buffer that is kept for the next batch.
const maxScratch = 8 << 20

// readUpTo returns all that r has, if that is no more than room, in memory of exactly that size.
func (m *memory) readUpTo(r io.Reader, room int) ([]byte, error) {
	m.scratch.Reset()
	if _, err := m.scratch.ReadFrom(io.LimitReader(r, int64(room)+1)); err != nil {
		return nil, err
	}
	if m.scratch.Len() > room {
		return nil, errLarger
	}
	out := bytes.Clone(m.scratch.Bytes())
	if m.scratch.Cap() > maxScratch {
		m.scratch = bytes.Buffer{}
	}
	return out, nil
}

// xerial begins what Java producers make of snappy: frames of their own, each with a length before it.
const xerial = "\x82SNAPPY\x00"

// xerialHeader is its length: the mark and two versions.
const xerialHeader = 16

var errMalformedSnappy = errors.New("malformed snappy")

// unsnappy decompresses a block of snappy, or a stream of Java's frames. Blocks say before how large they become.
func unsnappy(src []byte, room int) ([]byte, error) {
	var blocks [][]byte
	if len(src) >= xerialHeader && bytes.HasPrefix(src, []byte(xerial)) {
		for rest := src[xerialHeader:]; len(rest) > 0; {
			if len(rest) < 4 {
				return nil, errMalformedSnappy
			}
			length := int(binary.BigEndian.Uint32(rest))
			if rest = rest[4:]; length > len(rest) {
				return nil, errMalformedSnappy
			}
			blocks = append(blocks, rest[:length])
			rest = rest[length:]
		}
	} else {
		blocks = [][]byte{src}
	}
	total := 0
	for _, block := range blocks {
		length, err := s2.DecodedLen(block)
		if err != nil {
			return nil, err
		}
		if total += length; total > room {
			return nil, errLarger
		}
	}
	out := make([]byte, total)
	end := 0
	for _, block := range blocks {
		length, err := s2.DecodedLen(block)
		if err != nil {
			return nil, err
		}
		if _, err := s2.Decode(out[end:end+length], block); err != nil {
			return nil, err
		}
		end += length
	}
	return out, nil
}
