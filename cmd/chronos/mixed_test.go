package main_test

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// previous is the release before this one: the last commit whose schema is one version older. Its source is kept here
// rather than taken from the history, because a clone may be shallow, and a test of the upgrade must not depend on how
// somebody has cloned. It is what these commands make, and when the schema gets its next version, they make the next
// one (of the last commit before it):
//
//	git archive --prefix=chronos/ 22e2cc3 go.mod go.sum cmd/chronos node migrations >previous.tar
//	tar --delete -f previous.tar --wildcards '*_test.go' '*test/*' '*/testdata/*'
//	gzip -9n <previous.tar >cmd/chronos/testdata/previous/22e2cc3.tar.gz
const previous = "22e2cc3"

// The versions of the schema: of the previous release, and of this one.
const (
	previousSchema = 7
	schema         = 8
)

// before returns the same service with the binary of the previous release.
func (s *service) before(t *testing.T) *service {
	t.Helper()
	archive, err := filepath.Abs(filepath.Join("testdata", "previous", previous+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", folder)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack the previous release: %v\n%s", err, out)
	}
	old := *s
	old.binary = filepath.Join(folder, "chronos-"+previous)
	// Without the folder's name in it, which is another one each time, what was compiled before serves again.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", old.binary, "./cmd/chronos")
	build.Dir = filepath.Join(folder, "chronos")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the previous release: %v\n%s", err, out)
	}
	return &old
}

// waves are the messages of a test, and when they are due.
type waves struct {
	s         *service
	sent      map[string]*kgo.Record
	deadlines map[string]time.Time
}

// submit sends another 200 messages, due one after the other within two seconds after delay.
func (w *waves) submit(t *testing.T, delay time.Duration) {
	t.Helper()
	var batch []*kgo.Record
	for range 200 {
		i := len(w.sent)
		id := fmt.Sprintf("m-%05d", i)
		due := time.Now().Add(delay + time.Duration(i%200)*10*time.Millisecond).Truncate(time.Millisecond)
		w.sent[id], w.deadlines[id] = w.s.record(id, due, []byte("value of "+id)), due
		batch = append(batch, w.sent[id])
	}
	w.s.submit(t, batch...)
}

// all is a condition: all messages have come, except for the first 200, which wait.
func (w *waves) all(got []arrived) bool {
	seen := map[string]bool{}
	for _, a := range got {
		if string(a.Key) >= "m-00200" {
			seen[string(a.Key)] = true
		}
	}
	return len(seen) >= len(w.sent)-200
}

// version returns the version of the schema.
func (s *service) version(t *testing.T) (version int) {
	t.Helper()
	db, err := sql.Open("pgx", s.database.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	row := db.QueryRowContext(t.Context(), "SELECT max(version_id) FROM chronos_migrations")
	if err := row.Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version
}

// TestMixedVersions runs nodes of the previous release and of this one side by side on one store, as they are during
// an upgrade, and goes back. Goal: a step of the schema leaves the release before it working. Messages are submitted
// all the time; each comes, with every byte, and none is early, while a node of this release migrates beside two old
// ones, an old one is killed, the new one is killed, the old release goes on alone, an old node is started on the new
// schema, which is the way back, and all is upgraded once more.
func TestMixedVersions(t *testing.T) {
	t.Parallel()
	s := newService(t)
	old := s.before(t)
	w := &waves{s: s, sent: map[string]*kgo.Record{}, deadlines: map[string]time.Time{}}
	step := time.Now()
	come := func(what string) {
		t.Helper()
		s.read(t, s.output, 2*patience, w.all)
		t.Logf("%s: %v", what, time.Since(step).Round(100*time.Millisecond))
		step = time.Now()
	}
	leaving, staying := old.start(t), old.start(t)
	w.submit(t, 20*time.Second) // These wait while the schema changes.
	w.submit(t, 0)
	come("the old release alone")
	if v := s.version(t); v != previousSchema {
		t.Fatalf("the previous release has schema %d, want %d", v, previousSchema)
	}

	first := s.start(t)
	first.log.await(t, `"msg":"reading partitions from`, 1)
	if v := s.version(t); v != schema {
		t.Fatalf("this release has schema %d, want %d", v, schema)
	}
	w.submit(t, 0)
	come("both")

	w.submit(t, time.Second)
	leaving.end(t, syscall.SIGKILL)
	come("an old node is killed")

	w.submit(t, time.Second)
	first.end(t, syscall.SIGKILL)
	come("the new node is killed: the old release alone")

	back := old.start(t)
	back.log.await(t, `"msg":"reading partitions from`, 1)
	if code := staying.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("an old node that is asked to stop exits with %d", code)
	}
	w.submit(t, 0)
	come("rolled back")

	second := s.start(t)
	if code := back.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("an old node that is asked to stop exits with %d", code)
	}
	w.submit(t, 0)
	got := s.read(t, s.output, 3*patience, distinct(len(w.sent)))
	t.Logf("upgraded again: %v", time.Since(step).Round(100*time.Millisecond))
	checkFidelity(t, got, w.sent, w.deadlines, s.advance)
	s.drained(t)
	if code := second.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a new node that is asked to stop exits with %d", code)
	}
	t.Logf("%d of %d came twice", len(got)-len(w.sent), len(w.sent))
}
