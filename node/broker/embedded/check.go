package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	// MaxRequest is the greatest size of a request in bytes, as Kafka's socket.request.max.bytes.
	MaxRequest = 100 << 20

	// maxPlain is the greatest size of a request that carries no records. Two bytes of it can decode to a hundred.
	maxPlain = 1 << 20

	// maxElements is the greatest number of topics, and of partitions, in a request that carries records.
	maxElements = 10_000

	// maxPartitions is the greatest number of partitions that one request may make. kfake makes them one by one.
	maxPartitions = 1_000
)

const (
	// sizeBytes is how many bytes before a request say how long it is.
	sizeBytes = 4

	// minRequest is the size of the shortest request: kind, version, correlation, and no client.
	minRequest = 2 + 2 + 4 + 2
)

// checkSize judges a request of size bytes by its kind, before it is read.
func checkSize(size uint32, kind int16) error {
	limit := uint32(maxPlain)
	if kind == int16(kmsg.Produce) {
		limit = MaxRequest
	}
	if size > limit {
		return fmt.Errorf("%s of %d bytes: it may have %d", nameOf(kind), size, limit)
	}
	return nil
}

// nameOf returns what to call a request of a kind.
func nameOf(kind int16) string {
	if kmsg.RequestForKey(kind) == nil {
		return fmt.Sprintf("a request of the unknown kind %d", kind)
	}
	return "a request " + kmsg.NameForKey(kind)
}

// checkRequest returns why kfake must not see a request, which is given without its size.
func checkRequest(request []byte, served *kversion.Versions) error {
	if len(request) < minRequest {
		return fmt.Errorf("a request of %d bytes: that is less than its header", len(request))
	}
	kind := int16(binary.BigEndian.Uint16(request))
	version := int16(binary.BigEndian.Uint16(request[2:]))
	decoded := kmsg.RequestForKey(kind)
	if decoded == nil {
		return errors.New(nameOf(kind))
	}
	newest, known := served.LookupMaxKeyVersion(kind)
	if !known {
		return fmt.Errorf("%s: the embedded broker does not serve it", nameOf(kind))
	}
	// Clients begin with ApiVersions in their own newest version, and are told which one to use.
	if version < 0 || version > newest && kind != int16(kmsg.ApiVersions) {
		return fmt.Errorf("%s in version %d: the embedded broker serves versions up to %d",
			nameOf(kind), version, newest)
	}
	decoded.SetVersion(version)
	body, err := skipHeader(request, decoded.IsFlexible())
	if err != nil {
		return fmt.Errorf("%s: %w", nameOf(kind), err)
	}
	if kind == int16(kmsg.Produce) {
		if err := checkElements(body, version); err != nil {
			return fmt.Errorf("%s: %w", nameOf(kind), err)
		}
	}
	if err := decoded.ReadFrom(body); err != nil {
		return fmt.Errorf("%s, version %d: it does not decode: %w", nameOf(kind), version, err)
	}
	if err := checkMeaning(decoded); err != nil {
		return fmt.Errorf("%s: %w", nameOf(kind), err)
	}
	return nil
}

// skipHeader returns what follows the header of a request. kfake reads the header without looking at errors, and
// counts the tags of a flexible one down from as many as it says there are.
func skipHeader(request []byte, flexible bool) ([]byte, error) {
	reader := kbin.Reader{Src: request}
	reader.Int16()          // kind
	reader.Int16()          // version
	reader.Int32()          // correlation
	reader.NullableString() // client
	if flexible {
		skipTags(&reader)
	}
	if !reader.Ok() {
		return nil, errors.New("its header does not decode")
	}
	return reader.Src, nil
}

// skipTags skips tags, and stops where they do.
func skipTags(reader *kbin.Reader) {
	for tags := reader.Uvarint(); tags > 0 && reader.Ok(); tags-- {
		reader.Uvarint()
		reader.Span(int(reader.Uvarint()))
	}
}

// checkElements counts what is in a Produce request before it is decoded: it may be long, and each topic or partition
// takes many times as much once it is decoded as the few bytes that say that it is there.
func checkElements(body []byte, version int16) error {
	const (
		flexibleFrom = 9
		namelessFrom = 13 // topics go by a UUID
	)
	flexible := version >= flexibleFrom
	reader := kbin.Reader{Src: body}
	count := func() int32 {
		if flexible {
			return reader.CompactArrayLen()
		}
		return reader.ArrayLen()
	}
	tags := func() {
		if flexible {
			skipTags(&reader)
		}
	}
	if version >= 3 { // transactional id
		skipString(&reader, flexible)
	}
	reader.Span(2 + 4) // acks, timeout
	partitions := int32(0)
	topics := count()
	if topics > maxElements {
		return fmt.Errorf("it names %d topics: it may name %d", topics, maxElements)
	}
	for ; topics > 0 && reader.Ok(); topics-- {
		if version >= namelessFrom {
			reader.Uuid()
		} else {
			skipString(&reader, flexible)
		}
		more := count()
		if partitions += more; more > maxElements || partitions > maxElements {
			return fmt.Errorf("it names %d partitions or more: it may name %d", partitions, maxElements)
		}
		for ; more > 0 && reader.Ok(); more-- {
			reader.Int32()
			if flexible {
				reader.CompactNullableBytes()
			} else {
				reader.NullableBytes()
			}
			tags()
		}
		tags()
	}
	tags()
	if !reader.Ok() {
		return errors.New("it does not decode")
	}
	return nil
}

// skipString skips a string that may be null.
func skipString(reader *kbin.Reader, flexible bool) {
	if flexible {
		reader.UnsafeCompactNullableString()
	} else {
		reader.UnsafeNullableString()
	}
}

// checkMeaning returns why kfake would not survive a request that is well formed.
func checkMeaning(request kmsg.Request) error {
	switch r := request.(type) {
	case *kmsg.CreateTopicsRequest:
		sum := int64(0)
		for _, topic := range r.Topics {
			sum += max(int64(topic.NumPartitions), int64(len(topic.ReplicaAssignment)), 1)
		}
		return checkPartitions(sum)
	case *kmsg.CreatePartitionsRequest:
		sum := int64(0)
		for _, topic := range r.Topics {
			sum += max(int64(topic.Count), 1)
		}
		return checkPartitions(sum)
	}
	return nil
}

// checkPartitions judges how many partitions a request makes.
func checkPartitions(partitions int64) error {
	if partitions > maxPartitions {
		return fmt.Errorf("it asks for %d partitions: it may ask for %d", partitions, maxPartitions)
	}
	return nil
}
