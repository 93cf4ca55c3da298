package embedded_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node/broker/embedded"
)

// drawer makes requests of bytes that a fuzzer has chosen. They are well formed, and ask for odd things of few
// topics, groups and producers, so that one request finds what another has left behind.
type drawer struct {
	bytes []byte
	ids   [][16]byte // of topics
}

// draw returns a number below n.
func (d *drawer) draw(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := int(d.bytes[0])
	d.bytes = d.bytes[1:]
	return b % n
}

// request returns a request, with its size before it, in a version that exists.
func (d *drawer) request(correlation int32) []byte {
	var request kmsg.Request
	for request == nil {
		request = kmsg.RequestForKey(int16(d.draw(int(kmsg.MaxKey) + 1)))
		if request != nil && embedded.Newest(request.Key()) < 0 && len(d.bytes) > 0 {
			request = nil
		}
	}
	request.SetVersion(int16(d.draw(int(embedded.Newest(request.Key())) + 2)))
	version := request.GetVersion()
	d.fill(reflect.ValueOf(request).Elem(), 0)
	request.SetVersion(version)
	if produce, ok := request.(*kmsg.ProduceRequest); ok {
		for i := range produce.Topics {
			for j := range produce.Topics[i].Partitions {
				produce.Topics[i].Partitions[j].Records = d.batch()
			}
		}
	}
	return kmsg.NewRequestFormatter().AppendRequest(nil, request, correlation)
}

// fill sets all fields of a value.
func (d *drawer) fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "UnknownTags" {
				d.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		if d.draw(4) == 0 {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		d.fill(v.Elem(), depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(d.text()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), d.draw(4), 3))
		for i := range v.Len() {
			d.fill(v.Index(i), depth+1)
		}
	case reflect.Array: // a UUID
		if len(d.ids) > 0 && d.draw(4) > 0 {
			v.Set(reflect.ValueOf(d.ids[d.draw(len(d.ids))]).Convert(v.Type()))
		}
	case reflect.String:
		v.SetString(d.text())
	case reflect.Bool:
		v.SetBool(d.draw(2) == 1)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(d.number(v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, -1, math.NaN(), math.Inf(1)}[d.draw(5)])
	default:
	}
}

// number returns an integer, a small one mostly.
func (d *drawer) number(bits int) int64 {
	numbers := []int64{0, 0, 0, 0, 1, 1, -1, 2, 3, 7, 100, 1000, 6000, 1<<(bits-1) - 1, -1 << (bits - 1)}
	return numbers[d.draw(len(numbers))]
}

// text returns a name, an assignment, or what is none.
func (d *drawer) text() string {
	texts := []string{
		"in", "in", "in", "in", "out", "g", "g", "g", "m", "consumer", "range", "", "none", "0", "-1", "x\x00\xff",
		"cleanup.policy", "compact", "delete", "retention.ms", "max.message.bytes", "group.consumer.assignors",
		"uniform",
		"offsets.retention.minutes", "offsets.retention.check.interval.ms", "log.cleaner.backoff.ms",
		"group.share.record.lock.duration.ms", "segment.bytes", "1",
	}
	return texts[d.draw(len(texts))]
}

// batch returns a batch of records that is right in what a broker checks, mostly.
func (d *drawer) batch() []byte {
	batch := kmsg.NewRecordBatch()
	d.fill(reflect.ValueOf(&batch).Elem(), 0)
	if d.draw(8) == 0 {
		return batch.AppendTo(nil)
	}
	batch.FirstOffset, batch.Magic = 0, 2
	batch.Attributes &= 0x1f
	batch.LastOffsetDelta = batch.NumRecords - 1
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
