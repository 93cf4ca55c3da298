package main_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"chronos/node"
)

// deployment is a node's settings, and what a person does by hand with the same ones.
type deployment struct{ settings []string }

// fires runs a node until that many records have come in all, and stops it.
func (d *deployment) fires(t *testing.T, address string, count int) {
	t.Helper()
	p := startProcess(t, append([]string{"run"}, append(d.settings, "--migrate")...)...)
	p.stderr.await(t, `"msg":"started"`, 1)
	consume(t, address, "chronos.out", count)
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Fatalf("the node exits with %d:\n%s", code, p.stderr)
	}
}

// does runs a command with the deployment's settings and asks for its exit code and what it says: a pattern for its
// standard output if the code is 0, and for the other one if not.
func (d *deployment) does(t *testing.T, code int, pattern, command string, more ...string) {
	t.Helper()
	args := append(append([]string{}, strings.Fields(command)...), append(d.settings, more...)...)
	got := run(t, "", args...)
	said := got.stdout
	if code != 0 {
		said = got.stderr
	}
	if got.code != code || !regexp.MustCompile(pattern).MatchString(said) {
		t.Errorf("chronos %s %q exits with %d, want %d; it says\n%s%s\nwant %s",
			command, more, got.code, code, got.stdout, got.stderr, pattern)
	}
}

// clusterWithTopics starts a broker that has the topics of a node that is not told any.
func clusterWithTopics(t *testing.T) (address string) {
	t.Helper()
	_, address = brokerWithTopics(t)
	return address
}

// brokerWithTopics does the same, and returns the broker.
func brokerWithTopics(t *testing.T) (broker *kfake.Cluster, address string) {
	t.Helper()
	broker, address = cluster(t, "")
	c := client(t, address)
	defer c.Close()
	created, err := kadm.NewClient(c).CreateTopics(t.Context(), 1, 1, nil, "chronos.in", "chronos.out")
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		t.Fatalf("create topics: %v", err)
	}
	return broker, address
}

// TestOperate binds and rewinds by hand, in the way that the errors of a node and docs/OPERATIONS.md name.
func TestOperate(t *testing.T) {
	t.Parallel()
	address := clusterWithTopics(t)
	store := "sqlite:" + filepath.Join(t.TempDir(), "chronos.db")
	d := &deployment{[]string{"--brokers", address, "--store", store}}
	other := &deployment{append([]string{"--group", "other"}, d.settings...)}
	d.does(t, 1, `^chronos: there is no store sqlite:\S+: no such file or directory; "chronos migrate up"`, "bind")
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 {
		t.Fatal(got.stderr)
	}
	d.does(t, 0, `^The store sqlite:\S+ belongs to nobody yet\.\n`+
		`It would belong to consumer group chronos of Kafka cluster \S+\.\n`, "bind")
	produce(t, address, submission("gone", time.Now(), []byte("gone")),
		submission("waits", time.Now().Add(time.Hour), []byte("waits")))
	d.fires(t, address, 1)
	d.does(t, 0, `belongs to consumer group chronos of Kafka cluster \S+, and has positions of 1 partition\.\n`+
		`There is nothing to change\.\n$`, "bind")

	// Another group is refused, until somebody says that it takes over.
	refusal := `the store belongs to consumer group chronos of Kafka cluster \S+, and this is group other of cluster ` +
		`\S+: give this deployment a store of its own or, if the other one is gone for good, run ` +
		`\\?"chronos bind --yes\\?" with the settings of this one`
	other.does(t, 1, `"msg":"the node can't go on","error":"`+refusal, "run")
	other.does(t, 1, `^chronos: `+refusal, "rewind --topic chronos.in --to-earliest")
	other.does(t, 0, `It would belong to consumer group other of .*\n.*\nNothing was changed\. `, "bind")
	other.does(t, 1, refusal, "run")
	other.does(t, 0, `Done: the store belongs to consumer group other of `, "bind --yes")
	d.does(t, 1, `the store belongs to consumer group other of `, "run")
	d.does(t, 0, `Done: the store belongs to consumer group chronos of `, "bind --yes")

	// What has fired fires again, what waits is not doubled, and nothing of that happens without --yes.
	plan := `^  topic       partition  position now  goes to  records again, at most\s*\n` +
		`  chronos\.in  0          2             0        2\s*\n\n` +
		`Up to 2 records are taken in again\. .*\n` +
		`Nothing fires, on any topic, for 2\.5s and until .*\n`
	rewind := "rewind --hold-time 2500ms --topic chronos.in --to-earliest"
	for range 2 {
		d.does(t, 0, plan+`Nothing was changed\. The same command with --yes does it\.\n$`, rewind)
	}
	d.does(t, 0, plan+`Done: lineage 3 of the store has begun\.\n$`, rewind+" --yes")
	d.fires(t, address, 2)
	var values []string
	for _, r := range consume(t, address, "chronos.out", 2) {
		values = append(values, string(r.Value))
	}
	if got := fmt.Sprint(values); got != "[gone gone]" {
		t.Errorf("%s came, want what had fired twice", got)
	}
	d.does(t, 0, `^There is nothing to rewind: no partition has been taken in beyond that\.\n$`,
		"rewind --topic chronos.in --to-offset 2")
}

// TestRewindNamesTheEpoch rewinds to offsets that other leaders have written than the last one. The position that is
// stored has the epoch of the record before it, so that a node notices if Kafka loses that one. Where Kafka has lost
// the end of the log that the position is in, and nothing of what has taken its place was taken in, it goes back to
// where that log has ended.
func TestRewindNamesTheEpoch(t *testing.T) {
	t.Parallel()
	broker, address := brokerWithTopics(t)
	file := filepath.Join(t.TempDir(), "chronos.db")
	d := &deployment{[]string{"--brokers", address, "--store", "sqlite:" + file}}
	for i := range 3 { // at the epochs 0 to 2
		id := fmt.Sprint("m", i)
		produce(t, address, submission(id, time.Now(), []byte(id)))
		if i < 2 {
			if err := broker.MoveTopicPartition("chronos.in", 0, broker.LeaderFor("chronos.in", 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.fires(t, address, 3)
	position := func() (epoch, next int64) {
		inFile(t, file, func(db *sql.DB) error {
			query := "SELECT epoch, next_offset FROM positions"
			return db.QueryRowContext(t.Context(), query).Scan(&epoch, &next)
		})
		return epoch, next
	}
	if epoch, next := position(); epoch != 2 || next != 3 {
		t.Fatalf("the position is %d of epoch %d", next, epoch)
	}
	for i, want := range []int64{1, 0, node.UnknownEpoch} {
		to := 2 - i
		d.does(t, 0, `Done: `, fmt.Sprintf("rewind --topic chronos.in --to-offset %d --yes", to))
		if epoch, next := position(); epoch != want || next != int64(to) {
			t.Errorf("rewound to %d, the position is %d of epoch %d, want %d", to, next, epoch, want)
		}
	}
	// As if all three had been of epoch 0, and two of them had been lost.
	inFile(t, file, func(db *sql.DB) error {
		_, err := db.ExecContext(t.Context(), "UPDATE positions SET epoch = 0, next_offset = 3")
		return err
	})
	d.does(t, 0, `Done: `, "rewind --topic chronos.in --to-offset 2 --yes")
	if epoch, next := position(); epoch != 0 || next != 1 {
		t.Errorf("rewound from a lost end, the position is %d of epoch %d, want 1 of epoch 0", next, epoch)
	}
}

// inFile does something in the file of a store, which belongs to nobody meanwhile.
func inFile(t *testing.T, file string, do func(*sql.DB) error) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLostStore starts a node whose group has come far on a store that knows nothing of it.
func TestLostStore(t *testing.T) {
	t.Parallel()
	address := clusterWithTopics(t)
	folder := t.TempDir()
	first := &deployment{[]string{"--brokers", address, "--store", "sqlite:" + filepath.Join(folder, "lost.db")}}
	produce(t, address, submission("1", time.Now(), []byte("1")))
	first.fires(t, address, 1)

	fresh := &deployment{[]string{"--brokers", address, "--store", "sqlite:" + filepath.Join(folder, "fresh.db")}}
	refusal := `consumer group chronos has committed offsets on 1 partition, and the store has never taken in anything`
	fresh.does(t, 1, refusal+`: if it is the wrong store, name the right one; if it is a new one on purpose, `+
		`\\"chronos bind --adopt --yes\\" goes on from the committed offsets, and `+
		`\\"chronos bind --from-earliest --yes\\" begins with everything that Kafka has`, "run --migrate")
	fresh.does(t, 2, `^chronos: say where to begin: with --adopt or with --from-earliest\n$`, "bind --yes")
	fresh.does(t, 0, `begin here:\n\n  topic       partition  begins at\s*\n  chronos\.in  0          0\s*\n\n`+
		`Nothing was changed`, "bind --from-earliest")
	fresh.does(t, 0, `begin here:\n\n.*\n  chronos\.in  0          1\s*\n\nDone: .* has positions of 1 partition\.\n$`,
		"bind --adopt --yes")
	produce(t, address, submission("2", time.Now(), []byte("2")))
	fresh.fires(t, address, 2)
	if got := consume(t, address, "chronos.out", 2); string(got[1].Value) != "2" {
		t.Errorf("%q came, and it was before the committed offset", got[1].Value)
	}
}

// TestOperateSentences asks for a sentence and exit code 2 for each mistake that can be seen before anything is asked.
func TestOperateSentences(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "chronos.db")
	d := &deployment{[]string{"--store", store}}
	one := `one of --to-offset, --to-time and --to-earliest must say where to go back to`
	for command, sentence := range map[string]string{
		"bind --adopt --from-earliest":                  `--adopt and --from-earliest exclude each other`,
		"rewind --to-earliest":                          `missing flags: --topic=TOPIC`,
		"rewind --topic a":                              one,
		"rewind --topic a --to-offset 1 --to-earliest":  one,
		"rewind --topic a --to-offset=-1":               `--to-offset is -1: it must be 0 or more`,
		"rewind --topic a --to-time yesterday":          `--to-time is yesterday: `,
		"rewind --topic a --to-earliest --hold-time 1s": `--hold-time is 1s: it must be 2\.5s or more`,
	} {
		d.does(t, 2, `^chronos: `+sentence+`.*\n$`, command)
	}
}

// TestOperateOnWrongTarget asks for a sentence for each target that a rewind can't have, and that Kafka's absence is
// one too.
func TestOperateOnWrongTarget(t *testing.T) {
	t.Parallel()
	address := clusterWithTopics(t)
	store := "sqlite:" + filepath.Join(t.TempDir(), "chronos.db")
	d := &deployment{[]string{"--brokers", address, "--store", store}}
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 {
		t.Fatal(got.stderr)
	}
	d.does(t, 1, `^chronos: the store has no positions yet, so there is nothing to rewind`,
		"rewind --topic chronos.in --to-earliest")
	produce(t, address, submission("1", time.Now(), []byte("1")))
	d.fires(t, address, 1)
	d.does(t, 2, `^chronos: --topic is b: it must be an input topic of this deployment, which reads chronos\.in\n$`,
		"rewind --topic b --to-earliest")
	d.does(t, 2, `^chronos: --partition is 7: topic chronos\.in has no such partition\n$`,
		"rewind --topic chronos.in --partition 7 --to-earliest")
	d.does(t, 2, `^chronos: partition 0 of chronos\.in is at 1: a rewind to 5 would skip records, and only goes back`,
		"rewind --topic chronos.in --to-offset 5")
	d.does(t, 1, `^chronos: reach Kafka at 127\.0\.0\.1:1: it refuses connections: .*\n$`,
		"bind", "--brokers", "127.0.0.1:1")
}
