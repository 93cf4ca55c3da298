package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestMoveJournal moves from SQLite into a journal, on to one with more partitions, and back to SQLite. Records come in
// before, between and after. Goal: the sentences and exit codes at each step; each message comes out once; no node
// starts on what was left.
func TestMoveJournal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	address := clusterWithTopics(t)
	brokers := []string{"--brokers", address}
	deployed := func(store string) *deployment { return &deployment{append([]string{"--store", store}, brokers...)} }
	file, small, large := deployed("sqlite:"+at("a.db")), deployed("journal:small"), deployed("journal:large")
	fires := func(d *deployment, count int) {
		t.Helper()
		if strings.HasPrefix(d.settings[1], "journal:") {
			d = &deployment{append([]string{"--data-dir", at(d.settings[1][8:])}, d.settings...)}
		}
		d.fires(t, address, count)
	}
	file.does(t, 0, "applied", "migrate up")
	produce(t, address, submission("first", time.Now(), []byte("first")),
		submission("late", time.Now().Add(time.Hour), []byte("x")),
		submission("again", time.Now().Add(time.Hour), nil, kgo.RecordHeader{
			Key: "chronosRepeat", Value: []byte("every 1h"),
		}))
	fires(file, 1)

	small.does(t, 0, "applied", "migrate up")
	file.does(t, 0, `It would be sealed`, "export --for-journal --to "+at("1"))
	file.does(t, 0, `Done: \S+ has 2 messages, 1 position`, "export --yes --for-journal --to "+at("1"))
	small.does(t, 0, `would belong to consumer group chronos of .*\nNothing was changed`, "import "+at("1"))
	small.does(t, 0, `The store journal:small belongs to nobody, and has 0 messages`, "export --to "+at("x"))
	small.does(t, 0, `Done: lineage 3 of the store journal:small has begun`, "import --yes "+at("1"))
	small.does(t, 0, `there is nothing to do`, "import --yes "+at("1"))
	produce(t, address, submission("from here", time.Now().Add(time.Hour), nil),
		submission("second", time.Now(), []byte("second")))
	fires(small, 2)

	// The input topic grows.
	c := client(t, address)
	if _, err := kadm.NewClient(c).CreatePartitions(t.Context(), 4, "chronos.in"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	(&deployment{append([]string{"--data-dir", at("small")}, small.settings...)}).does(t, 1,
		`has 1 partitions, and its input topic chronos.in has 5`, "run")
	small.does(t, 0, `has 3 messages, positions of 1 partition(?s:.*)It would be sealed.*\nNodes that run on it end `+
		`when`, "export --to "+at("2"))
	small.does(t, 0, `Sealed, as export \S+, in lineage 3\.\nDone: \S+ has 3 messages, 1 position`,
		"export --yes --to "+at("2"))
	small.does(t, 0, `It stays sealed, and is written once more`, "export --yes --to "+at("3"))
	large.does(t, 0, "applied", "migrate up")
	large.does(t, 1, `nothing was changed in the store journal:large: a journal in Kafka cannot hold 1 messages that `+
		`came from other partitions`, "import --yes "+at("3"))
	large.does(t, 0, `Done: lineage 4 of the store journal:large has begun`, "import --yes --place key "+at("3"))
	small.does(t, 1, `the journal small has 1 partitions`, "import --yes "+at("3"))
	produce(t, address, submission("third", time.Now(), []byte("third")))
	fires(large, 3)

	// The sealed one, as long as its input topic would let nodes start.
	other := clusterWithTopics(t)
	o := &deployment{[]string{"--store", "journal:j", "--brokers", other}}
	o.does(t, 0, "applied", "migrate up")
	o.does(t, 1, `cannot hold 1 positions of other inputs than chronos.in`, "import --yes "+at("1"))
	o.does(t, 0, `Positions of other topics stay behind(?s:.*)Done: `, "import --yes --other-input "+at("1"))
	o.does(t, 0, `Done: \S+ has 2 messages, 0 positions`, "export --yes --to "+at("4"))
	(&deployment{append([]string{"--data-dir", at("other")}, o.settings...)}).does(t, 1,
		`the store was sealed by \\?"chronos export\\?" at `, "run")
	o.does(t, 0, `Done: lineage 3 of the store has begun\. Nodes may start on it`, "export --undo --yes")
	produce(t, other, submission("new", time.Now(), []byte("new")))
	(&deployment{append([]string{"--data-dir", at("other")}, o.settings...)}).fires(t, other, 1)

	// Back into a file, with something that no journal holds.
	back := deployed("sqlite:" + at("b.db"))
	back.does(t, 0, "applied", "migrate up")
	large.does(t, 0, `Done: \S+ has 3 messages, 5 positions`, "export --yes --to "+at("5"))
	back.does(t, 0, `Done: lineage 5 of`, "import --yes "+at("5"))
	fourth := submission("fourth", time.Now(), []byte("fourth"))
	keyless := submission("keyless", time.Now().Add(time.Hour), []byte("keyless"))
	fourth.Key, keyless.Key = nil, nil // and so on one partition, since they are sent together
	produce(t, address, keyless, fourth)
	fires(back, 4)
	back.does(t, 1, `cannot hold 1 messages without a key`, "export --for-journal --yes --to "+at("6"))
	if _, err := os.Stat(at("6")); err == nil {
		t.Error("what is refused has left a file")
	}
	var came []string
	for _, r := range consume(t, address, "chronos.out", 4) {
		came = append(came, string(r.Value))
	}
	if got := strings.Join(came, " "); got != "first second third fourth" {
		t.Errorf("came out: %s", got)
	}
}
