package chaos_test

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/chaos"
)

// TestStall holds bytes back: they arrive when the link is mended, all of them, and not before.
func TestStall(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it only listens
	received := make(chan string, 10)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // it is only read
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			received <- lines.Text()
		}
		close(received)
	}()
	link, address, err := chaos.NewLink(t.Context(), l.Addr().(*net.TCPAddr).Port)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	send := func(text string) {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	send("before\n")
	if got := <-received; got != "before" {
		t.Fatalf("%q arrives", got)
	}
	if err := link.Stall(t.Context()); err != nil {
		t.Fatal(err)
	}
	send("held\n")
	send("back\n")
	select {
	case got := <-received:
		t.Fatalf("%q arrives although it is held back", got)
	case <-time.After(300 * time.Millisecond): // as long as a wrong stall would have taken many times over
	}
	if err := link.Mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := <-received, <-received; a != "held" || b != "back" {
		t.Errorf("%q and %q arrive", a, b)
	}
	_ = conn.Close()
	link.Cut()
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
		_ = conn.Close()
		t.Error("a link that is cut lets somebody in")
	}
}

// TestCutter loses the reply to an insert: the client gets an error, and the row is there. Statements around it pass. A
// delete is told with what it was about.
func TestCutter(t *testing.T) {
	given := os.Getenv("CHRONOS_TEST_POSTGRES")
	switch {
	case given != "":
	case testing.Short():
		t.Skip("without CHRONOS_TEST_POSTGRES there is no server to test on")
	default:
		t.Fatal("set CHRONOS_TEST_POSTGRES or run make test")
	}
	server, err := url.Parse(given)
	if err != nil {
		t.Fatal(err)
	}
	cutter, address, err := chaos.NewCutter(t.Context(), server.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer cutter.Close()
	direct, err := pgx.Connect(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(t.Context()) //nolint:errcheck // the test is over
	if _, err := direct.Exec(t.Context(), "CREATE SCHEMA cutter; CREATE TABLE cutter.messages (id int)"); err != nil {
		t.Fatal(err)
	}
	defer direct.Exec(t.Context(), "DROP SCHEMA cutter CASCADE") //nolint:errcheck // the server is of this test run
	through := *server
	through.Host = address
	query := through.Query()
	query.Set("search_path", "cutter")
	through.RawQuery = query.Encode()
	conn, err := pgx.Connect(t.Context(), through.String())
	if err != nil {
		t.Fatal(err)
	}
	insert := func(id int) error {
		_, err := conn.Exec(t.Context(), "INSERT  INTO\n messages (id) VALUES ($1)", id)
		return err
	}
	if err := insert(1); err != nil {
		t.Fatal(err)
	}
	cut := cutter.CutInsert()
	var count int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM messages").Scan(&count); err != nil || count != 1 {
		t.Fatalf("another statement is cut: %d, %v", count, err)
	}
	if err := insert(2); err == nil {
		t.Error("the reply to the insert arrives")
	}
	select {
	case <-cut:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was cut")
	}
	err = direct.QueryRow(t.Context(), "SELECT count(*) FROM cutter.messages").Scan(&count)
	if err != nil || count != 2 {
		t.Errorf("there are %d rows: the insert whose reply was lost has no effect: %v", count, err)
	}
	if conn, err = pgx.Connect(t.Context(), through.String()); err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // the test is over
	if err := insert(3); err != nil {
		t.Errorf("the next insert is cut too: %v", err)
	}
	incarnation := [16]byte{7}
	const erase = `DELETE FROM messages
WHERE id::text = ANY ($1::text[]) AND $2::text[] <> $1 AND $3::uuid[] IS NOT NULL`
	if _, err := conn.Exec(t.Context(), erase, []string{"3"}, []string{"out"}, [][16]byte{incarnation}); err != nil {
		t.Fatal(err)
	}
	select {
	case deleted := <-cutter.Deleted:
		if len(deleted) != 1 || deleted["3 out"] != incarnation {
			t.Errorf("the delete is taken for %v", deleted)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nobody is told of the delete")
	}
}

// FuzzSlot gives the reader of the replication slot messages that are cut off or nonsense: it must not panic.
func FuzzSlot(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'N', 0, 1, 't', 0, 0, 0, 1, 'x'})
	f.Add([]byte{0, 0, 0, 1, 'a', 0, 'b', 0, 'f', 0, 1, 1, 'i', 'd', 0, 0, 0, 0, 25, 255, 255, 255, 255})
	f.Add([]byte{})
	f.Add([]byte("0000"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if !chaos.DecodeSlot(message) && len(message) < 5 {
			t.Errorf("%x is taken for whole", message)
		}
	})
}
