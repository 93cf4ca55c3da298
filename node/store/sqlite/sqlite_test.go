package sqlite_test

import (
	"bufio"
	"bytes"
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/sqlite"
	"chronos/node/store/storetest"
)

// childVariable names, in the environment of a test process, the file that it is to fill instead of running tests.
const childVariable = "SQLITE_TEST_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		fmt.Fprintln(os.Stderr, fill(context.Background(), path))
		os.Exit(1)
	}
	// SQLite is Go code here, and slow under the race detector, which finds nothing in random calls, because they come
	// from one goroutine. A quarter of them will do, unless the command line says otherwise.
	if raced {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestStore runs the conformance suite.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Instance {
		clock := storetest.NewClock()
		store := open(t, file(t), sqlite.Options{Now: clock.Now, Timeout: time.Minute})
		return storetest.Instance{
			Store: store, Clock: clock,
			Dump: func(t testing.TB) []memory.Row { return dump(t, store.DB()) },
			Answers: func(t testing.TB) (n int) {
				row := store.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM answers")
				if err := row.Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			},
			Upgrade: func(t testing.TB) { execute(t, store.DB(), "UPDATE binding SET adopting = 1") },
			Trip: func(t testing.TB, id string) func() {
				execute(t, store.DB(), "CREATE TRIGGER trip BEFORE INSERT ON messages WHEN NEW.id = '"+id+
					"' BEGIN SELECT RAISE(ABORT, 'tripped'); END")
				return func() { execute(t, store.DB(), "DROP TRIGGER trip") }
			},
		}
	})
}

// TestSettings checks what the guarantees rest on.
func TestSettings(t *testing.T) {
	store := open(t, file(t), sqlite.Options{})
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "locking_mode": "exclusive", "busy_timeout": "1000",
	} {
		var got string
		if err := store.DB().QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, error %v, want %q", pragma, got, err, want)
		}
	}
}

// TestPlans checks that every call finds its rows through an index, in order, and reads no others.
func TestPlans(t *testing.T) {
	db := open(t, file(t), sqlite.Options{}).DB()
	for name, query := range sqlite.Queries() {
		t.Run(name, func(t *testing.T) {
			arguments := make([]any, strings.Count(query.Text, "?"))
			rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query.Text, arguments...)
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, rows)
			var plan []string
			for rows.Next() {
				var id, parent, unused int
				var step string
				if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(step, "messages") || strings.Contains(step, "TEMP") {
					plan = append(plan, step)
				}
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(plan, query.Plan) {
				t.Errorf("the plan is\n%s\nwant\n%s", strings.Join(plan, "\n"), strings.Join(query.Plan, "\n"))
			}
		})
	}
}

// TestUpgradeControl opens a file that the release before instructions has left: version 3, with one message that waits
// and two that may have been published. All are there with what they had, and instructions are decided on that.
func TestUpgradeControl(t *testing.T) {
	var script bytes.Buffer
	if err := migrations.Print(&script, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	old, _, found := strings.Cut(script.String(), "\n-- Version 4,")
	if !found {
		t.Fatal("the script has no version 4")
	}
	clock := storetest.NewClock()
	store, err := sqlite.Open(t.Context(), file(t), sqlite.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	execute(t, store.DB(), old)
	execute(t, store.DB(), `INSERT INTO messages (id, lane, incarnation, deadline, due_at, readied_at, readied_by,
		expires_at, attempts, message_key, message_headers) VALUES
		('attempted', 'output', x'000102030405060708090a0b0c0d0e0f', 5, 7, NULL, NULL, NULL, 2, x'6b', '[]'),
		('claimed', 'output', x'100102030405060708090a0b0c0d0e0f', 5, 5, 1, x'a00102030405060708090a0b0c0d0e0f', 2, 1,
			x'6b', '[{"a":"b"}]'),
		('waiting', 'output', x'200102030405060708090a0b0c0d0e0f', 5, 5, NULL, NULL, NULL, 0, NULL, '[]')`)
	migrate(t, store.DB())
	at := func(microseconds int64) time.Time { return time.UnixMicro(microseconds).UTC() }
	row := func(id string, first byte, due int64, attempts int) memory.Row {
		incarnation := uuid.UUID{first, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
		return memory.Row{
			Message: node.Message{ID: id, Lane: "output", Incarnation: incarnation, Deadline: at(5), Key: []byte("k")},
			Due:     at(due), Attempts: attempts,
		}
	}
	want := []memory.Row{row("attempted", 0, 7, 2), row("claimed", 0x10, 5, 1), row("waiting", 0x20, 5, 0)}
	want[1].Headers = []node.Header{{Name: "a", Value: []byte("b")}}
	want[1].ReadiedAt, want[1].ReadiedBy, want[1].Expires = at(1), want[1].Incarnation, at(2)
	want[1].ReadiedBy[0] = 0xa0
	want[2].Key = nil
	if got := dump(t, store.DB()); !reflect.DeepEqual(got, want) {
		t.Fatalf("the messages are\n%+v\nwant\n%+v", got, want)
	}

	if _, _, err := store.Positions(t.Context(), []node.Place{input}); err != nil {
		t.Fatal(err)
	}
	request := node.TakeRequest{From: []node.Place{input}}
	for i, row := range want {
		request.Items = append(request.Items, node.Item{
			Offset: int64(i), Action: node.Cancel, Message: node.Message{ID: row.ID, Lane: row.Lane},
		})
	}
	result, err := store.Take(t.Context(), request)
	outcomes := []node.ItemResult{{Outcome: node.TooLate}, {Outcome: node.TooLate}, {Outcome: node.Cancelled}}
	if err != nil || !slices.Equal(result.Results, outcomes) {
		t.Fatalf("the cancels: %+v, error %v, want %+v", result.Results, err, outcomes)
	}
	want[0].Bound, want[1].Bound = true, true
	if got := dump(t, store.DB()); !reflect.DeepEqual(got, want[:2]) {
		t.Fatalf("after the cancels the messages are\n%+v\nwant\n%+v", got, want[:2])
	}
}

// TestReopen checks that a store that was closed in good order is the same when it is opened again.
func TestReopen(t *testing.T) {
	path := file(t)
	store := open(t, path, sqlite.Options{})
	messages := []item{{message("waiting"), false}, {message("held"), true}}
	messages[0].Headers = []node.Header{{Name: "name", Value: []byte{0xff}}}
	insert(t, store, messages...)
	want := dump(t, store.DB())
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Expired(t.Context(), 1); err == nil {
		t.Error("a closed store answers")
	}
	if left, err := filepath.Glob(path + "-*"); err != nil || len(left) > 0 {
		t.Errorf("closing left %q, error %v", left, err)
	}
	if got := dump(t, open(t, path, sqlite.Options{}).DB()); len(got) != 2 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the rows are\n%v\nand were\n%v", got, want)
	}
}

// TestKill lets another process fill a file and kills it in the middle. While it lives this process cannot have the
// file; afterwards it can, and finds all that the other one was told is stored.
func TestKill(t *testing.T) {
	path := file(t)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+path)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var confirmed []node.MessageID
	for lines := bufio.NewScanner(output); lines.Scan(); {
		confirmed = append(confirmed, node.MessageID{ID: lines.Text(), Lane: "output"})
		if len(confirmed) == 20 {
			checkInUse(t, path)
		}
		if len(confirmed) == 200 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || child.ProcessState.Exited() || len(confirmed) < 200 {
		t.Fatalf("the other process ended with %v after %d messages", err, len(confirmed))
	}
	store := open(t, path, sqlite.Options{})
	var stored []node.MessageID
	for _, row := range dump(t, store.DB()) {
		stored = append(stored, node.MessageID{ID: row.ID, Lane: row.Lane})
	}
	for _, id := range confirmed {
		if !slices.Contains(stored, id) {
			t.Errorf("message %v was confirmed and is not stored", id)
		}
	}
	// The positions are those of what is stored.
	positions, _, err := store.Positions(t.Context(), []node.Place{input})
	if err != nil || positions[0].Offset != int64(len(stored)) {
		t.Errorf("%d messages are stored, but the position is %+v, error %v", len(stored), positions, err)
	}
}

// fill stores one message after another, and prints the name of each when it is stored.
func fill(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, store.DB(), migrations.SQLite); err != nil {
		return err
	}
	if _, _, err := store.Positions(ctx, []node.Place{input}); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if _, err := take(ctx, store, int64(i), item{message(fmt.Sprint(i)), false}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, i); err != nil {
			return err
		}
	}
}

func checkInUse(t *testing.T, path string) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err == nil {
		t.Fatal("two stores have the same file", store.Close())
	}
	if want := fmt.Sprintf("the file %s is in use by another process", path); err.Error() != want {
		t.Errorf("got the error\n%v\nwant\n%s", err, want)
	}
}

// TestOpenTwice checks that one process cannot open a file twice either.
func TestOpenTwice(t *testing.T) {
	path := file(t)
	open(t, path, sqlite.Options{})
	checkInUse(t, path)
}

// TestTaken has another store take the file while this one is between two connections. That is no outcome to
// guess: the call says what has happened.
func TestTaken(t *testing.T) {
	path := file(t)
	store := open(t, path, sqlite.Options{})
	connection, err := store.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := connection.Raw(func(any) error { return sqldriver.ErrBadConn }); !errors.Is(err, sqldriver.ErrBadConn) {
		t.Fatal(err)
	}
	thief := open(t, path, sqlite.Options{})
	_, err = store.Expired(t.Context(), 1)
	if want := fmt.Sprintf("the file %s is in use by another process: ", path); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error %v does not say %q", err, want)
	}
	if err := thief.Close(); err != nil {
		t.Fatal(err)
	}
	insert(t, store, item{message("a"), false})
}

// TestOpenFails checks the sentences for files that cannot be had.
func TestOpenFails(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	const closed = " cannot be opened: its folder must be there, and this user must be allowed to write in it"
	for path, want := range map[string]string{
		"":                                  `open SQLite file "": there is no such path`,
		text:                                "the file " + text + " is not a SQLite database",
		folder:                              "the file " + folder + closed,
		filepath.Join(folder, "no", "file"): "the file " + filepath.Join(folder, "no", "file") + closed,
	} {
		store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err == nil {
			t.Fatalf("%q was opened: %v", path, store.Close())
		}
		if err.Error() != want {
			t.Errorf("%q: got the error\n%v\nwant\n%s", path, err, want)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Open(done, file(t), sqlite.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v when the context is done", err)
	}
}

// TestPath checks that a path is taken for what it is, not for a URL or for options of the driver.
func TestPath(t *testing.T) {
	for _, name := range []string{"a b", "a?mode=memory", "a#b", "a%41", "file:a", "a&b;c=d", ":memory:", "é"} {
		path := filepath.Join(t.TempDir(), name)
		open(t, path, sqlite.Options{})
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	t.Chdir(t.TempDir())
	open(t, "relative.db", sqlite.Options{})
	if _, err := os.Stat("relative.db"); err != nil {
		t.Error(err)
	}
}

// TestUnmigrated checks that calls fail before there is a table, and work as soon as there is one.
func TestUnmigrated(t *testing.T) {
	store, err := sqlite.Open(t.Context(), file(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := store.Expired(t.Context(), 1); err == nil ||
		!strings.Contains(err.Error(), "no such table: messages") {
		t.Errorf("error %v before the migration", err)
	}
	migrate(t, store.DB())
	insert(t, store, item{message("a"), false})
}

// TestFull lets the disk be full in the middle of a batch. The call fails and has done nothing, other calls go on,
// and the repeated call works when there is room.
func TestFull(t *testing.T) {
	store := open(t, file(t), sqlite.Options{})
	insert(t, store, item{message("before"), false})
	before := dump(t, store.DB())
	limit := func(pages int) {
		t.Helper()
		if _, err := store.DB().ExecContext(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(50)
	var batch []item
	for i := range 100 {
		m := message(fmt.Sprint(i))
		m.Value = make([]byte, 10_000)
		batch = append(batch, item{m, false})
	}
	result, err := take(t.Context(), store, 1, batch...)
	if failure := (*driver.Error)(nil); !errors.As(err, &failure) || failure.Code() != codes.SQLITE_FULL {
		t.Fatalf("result %v, error %v, want one for a full disk", result, err)
	}
	if want := "take 100 records in: "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %q does not begin with %q", err, want)
	}
	if got := dump(t, store.DB()); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("the rows are\n%v\nand were\n%v", got, before)
	}
	deleted, err := store.Settle(t.Context(), node.Removals(before[0].Ref()))
	if err != nil || deleted[0] != node.Removed {
		t.Errorf("delete on the full disk: %v, %v", deleted, err)
	}
	limit(100_000)
	insert(t, store, batch...)
}

// TestTooLarge makes SQLite's limit on the size of a value small. What is over it is refused, and what
// came before it is taken in.
func TestTooLarge(t *testing.T) {
	store := open(t, file(t), sqlite.Options{})
	connection, err := store.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Limit(connection, codes.SQLITE_LIMIT_LENGTH, 10_000); err != nil {
		t.Fatal(err)
	}
	if err := connection.Close(); err != nil {
		t.Fatal(err)
	}
	large, small := message("large"), message("small")
	large.Value = make([]byte, 20_000)
	insert(t, store) // makes the position
	result, err := take(t.Context(), store, 0, item{small, false}, item{large, false}, item{message("next"), false})
	want := "the message is larger than SQLite allows"
	if err != nil || result.Taken != 1 || result.Refusal != want || result.Positions[0].Offset != 1 {
		t.Errorf("got %+v, error %v, want %q for the second", result, err, want)
	}
	result, err = take(t.Context(), store, 1, item{message("next"), false})
	if err != nil || result.Taken != 1 || len(dump(t, store.DB())) != 2 {
		t.Errorf("got %+v, error %v", result, err)
	}
}

// TestTimeout holds the connection. A call gives up when its time is over, and earlier when its context is done.
func TestTimeout(t *testing.T) {
	store := open(t, file(t), sqlite.Options{Timeout: time.Second})
	insert(t, store, item{message("a"), false})
	connection, err := store.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Expired(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v when the time is over", err)
	}
	if err := connection.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Expired(t.Context(), 1); err != nil {
		t.Errorf("error %v when the connection is free again", err)
	}
}

// TestCancel cancels large calls at all sorts of moments. Whatever the call answers, its batch is there as a whole or
// not at all, and the next call finds the store in order.
func TestCancel(t *testing.T) {
	store := open(t, file(t), sqlite.Options{Timeout: time.Minute})
	failed, finished := 0, 0
	limit := time.Millisecond // wanders to where about half of the calls are done in time
	insert(t, store)          // makes the position
	at := int64(0)
	for try := 0; failed < 5 || finished < 5; try++ {
		var batch []item
		for i := range 300 {
			batch = append(batch, item{message(fmt.Sprint(try, "/", i)), false})
		}
		before := len(dump(t, store.DB()))
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := take(ctx, store, at, batch...)
		cancel()
		switch {
		case err == nil:
			finished++
			limit = limit * 2 / 3
		case errors.Is(err, context.DeadlineExceeded):
			failed++
			limit = limit * 3 / 2
		default:
			t.Fatal(err)
		}
		positions, _, lookErr := store.Positions(t.Context(), []node.Place{input})
		if lookErr != nil {
			t.Fatal(lookErr)
		}
		stored, moved := len(dump(t, store.DB()))-before, positions[0].Offset-at
		if int64(stored) != moved || moved != 0 && moved != 300 || err == nil && moved == 0 {
			t.Fatalf("try %d: the call returned %v, %d messages are stored, and the position moved by %d",
				try, err, stored, moved)
		}
		at += moved
	}
}

// TestClose closes a store that is busy. The calls that run then end properly, or fail.
func TestClose(t *testing.T) {
	path := file(t)
	store := open(t, path, sqlite.Options{})
	var group sync.WaitGroup
	var confirmed [4]int
	var places [4]node.Place
	for caller := range places {
		places[caller] = input
		places[caller].Number = int32(caller)
	}
	if _, _, err := store.Positions(t.Context(), places[:]); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Add(len(confirmed))
	for caller := range confirmed {
		group.Go(func() {
			for i := 0; ; i++ {
				m := message(fmt.Sprint(caller, "/", i))
				at := places[caller]
				at.Offset += int64(i)
				_, err := store.Take(context.Background(), node.TakeRequest{From: []node.Place{at}, Items: []node.Item{{
					Offset: at.Offset, Action: node.Schedule, Message: m,
				}}})
				if i == 3 {
					running.Done()
				}
				if err != nil {
					return
				}
				confirmed[caller]++
			}
		})
	}
	running.Wait()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	want := 0
	for _, n := range confirmed {
		want += n
	}
	if got := len(dump(t, open(t, path, sqlite.Options{}).DB())); got != want {
		t.Errorf("%d messages are stored, %d were confirmed", got, want)
	}
}

// TestWallClock checks that claims are stamped by the wall clock when no other clock is given.
func TestWallClock(t *testing.T) {
	store := open(t, file(t), sqlite.Options{})
	from := time.Now().Truncate(time.Microsecond)
	results := insert(t, store, item{message("a"), true})
	if at := results[0].Claim.ReadiedAt; at.Before(from) || at.After(time.Now()) {
		t.Errorf("the claim is stamped %v, but it was made from %v to %v", at, from, time.Now())
	}
}

// TestHoldsNewFile checks that a file that does not exist yet is held from the first Open on, too.
func TestHoldsNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.db")
	first, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close() //nolint:errcheck // nothing was written
	checkInUse(t, path)
}
