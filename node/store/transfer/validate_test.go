package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"chronos/node/store/memory"
	"chronos/node/store/transfer"
)

// fileOf returns an export of some lines, which is complete: with their numbers and their hash.
func fileOf(header, counts string, lines ...string) []byte {
	all := header + "\n"
	for _, l := range lines {
		all += l + "\n"
	}
	sum := sha256.Sum256([]byte(all))
	return []byte(all + fmt.Sprintf(`{"end":{%s,"sha256":"%s"}}`, counts, hex.EncodeToString(sum[:])) + "\n")
}

const (
	goodHeader = `{"export":{"version":1,"id":"11111111-0000-4000-8000-000000000000","store":"s","release":"r",` +
		`"by":"b","sealed":"2026-11-22T09:00:00Z","lineage":1,"messages":1}}`
	goodMessage = `{"message":{"id":"a","lane":"orders","incarnation":"22222222-0000-4000-8000-000000000000",` +
		`"deadline":"2027-01-01T00:00:00Z","attempts":3,"series":{` +
		`"rule":"every 1h from 2026-11-22T09:00:00Z missed one","sequence":2,` +
		`"at":"2027-01-01T00:00:00Z"},"origin":{"topic":"in","partition":1,"offset":2},"value":{"text":"x"}}}`
	goodPosition = `{"position":{"topic":"in","topicId":"33333333-0000-4000-8000-000000000000","partition":0,` +
		`"epoch":3,"offset":1200}}`
	goodPause  = `{"pause":{"lane":"orders","since":"2026-11-22T09:00:00Z","by":"anna","why":"broken"}}`
	goodAnswer = `{"answer":{"request":"44444444-0000-4000-8000-000000000000",` +
		`"print":"55555555-0000-4000-8000-000000000000","expires":"2026-11-23T09:00:00Z","outcome":"cancelled",` +
		`"id":"a","lane":"orders","lineage":1}}`
	goodQueue = `{"queue":{"id":"66666666-0000-4000-8000-000000000000","name":"night","kind":"sync",` +
		`"window":"always","timeLimitMicroseconds":3600000000,"arrivals":1,"pending":0,"running":0}}`
)

// Goal: an import takes what a store could have exported, and nothing else, whoever has written the file and its hash;
// a store that was offered a file with one bad line is as it was. Method: a good line of each kind, of which one thing
// is changed.
func TestImportValidates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, from, to, want string }{
		{goodMessage, "", "", ""},
		{goodPosition, "", "", ""},
		{goodPause, "", "", ""},
		{goodPause, `"lane":"orders"`, `"lane":""`, ""},
		{goodAnswer, "", "", ""},
		{goodQueue, "", "", ""},
		{goodMessage, `"attempts":3`, `"attempts":2147483648`, "attempts is 2147483648"},
		{goodMessage, `"attempts":3`, `"attempts":-1`, "attempts is -1"},
		{goodMessage, `"rule":"every 1h from 2026-11-22T09:00:00Z missed one"`, `"rule":"sometimes"`, "the series"},
		{goodMessage, `"rule":"every 1h from 2026-11-22T09:00:00Z missed one"`, `"rule":""`, "the series"},
		{goodMessage, `"sequence":2`, `"sequence":0`, "the sequence is 0"},
		{goodMessage, `"sequence":2`, `"sequence":9223372036854775807`, "the sequence is 9223372036854775807"},
		{goodMessage, `,"at":"2027-01-01T00:00:00Z"`, ``, "without its instant"},
		{goodMessage, `,"at":"2027-01-01T00:00:00Z"`, `,"at":null`, "without its instant"},
		{goodMessage, `,"at":"2027`, `,"at":"0001`, ""}, // the first instant that intake takes, too
		{goodMessage, `"deadline":"2027`, `"deadline":"0001`, ""},
		{goodMessage, `"deadline":"2027-01-01T00:00:00Z",`, ``, "it has no deadline"},
		{goodMessage, `"deadline":"2027-01-01T00:00:00Z"`, `"deadline":null`, "it has no deadline"},
		{goodMessage, `"deadline":"2027`, `"deadline":"0000`, "the year 0"},
		{goodMessage, `"deadline":"2027-01-01T00:00:00Z"`, `"deadline":"2027-01-01T00:00:00.0000001Z"`, "microseconds"},
		{goodMessage, `"attempts":3`, `"due":"0000-01-01T00:00:00Z"`, "the year 0"},
		{goodMessage, `"attempts":3`, `"notAfter":"0000-01-01T00:00:00Z"`, "the year 0"},
		{goodMessage, `22222222-0000-4000-8000-000000000000`, `00000000-0000-0000-0000-000000000000`, "no incarnation"},
		{goodMessage, `"lane":"orders"`, `"lane":"or ders"`, "no lane"},
		{goodMessage, `"lane":"orders"`, `"lane":"\u001b[31m"`, `no lane "\x1b[31m"`},
		{goodMessage, `"id":"a"`, `"id":""`, "the id is empty"},
		{goodMessage, `"id":"a"`, `"id":"` + strings.Repeat("a", 129) + `"`, "more than 128"},
		{goodMessage, `"topic":"in"`, `"topic":"i n"`, "no topic"},
		{goodMessage, `"offset":2`, `"offset":-2`, "the offset is -2"},
		{goodMessage, `"partition":1`, `"partition":-1`, "the partition is -1"},
		{goodMessage, `"text":"x"`, `"text":"` + strings.Repeat("x", 16<<20+1) + `"`, "its size in bytes"},
		{goodPosition, `"offset":1200`, `"offset":-1`, "the offset is -1"},
		{goodPosition, `"epoch":3`, `"epoch":-2`, "the epoch is -2"},
		{goodPosition, `"topic":"in"`, `"topic":""`, "no topic"},
		{goodPause, `"lane":"orders"`, `"lane":"*"`, "no lane"},
		{goodPause, `"since":"2026`, `"since":"0000`, "the year 0"},
		{goodAnswer, `"lineage":1`, `"lineage":9223372036854775807`, "the lineage is 9223372036854775807"},
		{goodAnswer, `"lineage":1`, `"lineage":-1`, "the lineage is -1"},
		{goodAnswer, `"expires":"2026`, `"expires":"0000`, "the year 0"},
		{goodQueue, `"name":"night"`, `"name":""`, "name of a queue"},
		{goodQueue, `"window":"always"`, `"window":"sometimes"`, "window of a queue"},
		{goodQueue, `"pending":0`, `"pending":-1`, "-1 pending"},
		{goodQueue, `"timeLimitMicroseconds":3600000000`, `"timeLimitMicroseconds":-1`, "time limit of a queue"},
		{goodHeader, `"lineage":1`, `"lineage":9223372036854775807`, "the lineage is 9223372036854775807"},
		{goodHeader, `"lineage":1`, `"lineage":-1`, "the lineage is -1"},
		{goodHeader, `"store":"s"`, `"store":"\u001b]0;title\u0007"`, "control characters"},
		{goodHeader, `"by":"b"`, `"by":"` + strings.Repeat("b", 2000) + `"`, "has 2000 bytes"},
		{goodHeader, `"lineage":1`, `"cluster":"\u001b","group":"g","lineage":1`, "control characters"},
	} {
		changed := strings.Replace(c.line, c.from, c.to, 1)
		name := fmt.Sprintf("%.20s %s to %.60s", c.line, c.from, c.to)
		if c.from != "" && changed == c.line {
			t.Fatalf("%s: nothing is changed", name)
		}
		header, lines := goodHeader, []string{changed}
		if c.line == goodHeader {
			header, lines = changed, []string{goodMessage}
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(lines[0], `{"`), `"`)
		count := map[string]string{
			"message": `"messages":1`, "position": `"positions":1`, "pause": `"pauses":1`, "answer": `"answers":1`,
			"queue": `"queues":1`,
		}[kind]
		file := fileOf(header, count, lines...)
		_, _, err := transfer.Check(bytes.NewReader(file), quiet)
		if said := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(said, c.want) && err != nil ||
			len(said) > 1000 || strings.ContainsAny(said, "\x1b\x07") {
			t.Errorf("%s: %.2000q, want %q", name, said, c.want)
		}
		target := memory.New(time.Now)
		seal, err := transfer.Import(context.Background(), target, bytes.NewReader(file), "test", quiet)
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: the import says %v", name, err)
		}
		contents, seen := target.Contents(context.Background())
		if c.want != "" && (seal.Kind != transfer.Open || seen != nil || contents.Messages != 0 ||
			contents.Seal.Kind != transfer.Open) {
			t.Errorf("%s: the store has changed: %+v, %v", name, contents, seen)
		}
	}
}

// endless is a line that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += len(p)
	return len(p), nil
}

// A line that never ends is given up at a bound: 47 kB of zstd had 3 GB in memory.
func TestImportLongLine(t *testing.T) {
	t.Parallel()
	in := &endless{}
	_, _, err := transfer.Check(in, quiet)
	if err == nil || !strings.Contains(err.Error(), "which no export writes") || in.read > 200<<20 {
		t.Errorf("after %d bytes: %v", in.read, err)
	}
}
