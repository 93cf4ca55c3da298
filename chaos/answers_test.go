package chaos_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"chronos/chaos"
)

// TestAnswerCutter loses what it is told to between a node and a broker that answers every request: an answer, after
// the broker has had the request, and a request, which the broker never has. All else passes, before and after. The
// node sees its connection end in both cases.
func TestAnswerCutter(t *testing.T) {
	const metadata, endTxn = 3, 26
	received := make(chan uint16, 10)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it only listens
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for {
				request := make([]byte, 12)
				if _, err := io.ReadFull(conn, request); err != nil {
					break
				}
				received <- binary.BigEndian.Uint16(request[4:])
				answer := binary.BigEndian.AppendUint32(nil, 4)
				_, _ = conn.Write(append(answer, request[8:]...)) // the connection may be cut
			}
			_ = conn.Close()
		}
	}()
	cutter, address, err := chaos.NewAnswerCutter(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer cutter.Close()
	var conn net.Conn
	ask := func(key uint16) error {
		t.Helper()
		if conn == nil {
			if conn, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err != nil {
				t.Fatal(err)
			}
		}
		request := binary.BigEndian.AppendUint32(nil, 8)
		request = binary.BigEndian.AppendUint16(request, key)
		_, _ = conn.Write(append(request, 0, 0, 0, 0, 0, 7)) // whether it arrives is seen below
		if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
			_ = conn.Close()
			conn = nil
			return err
		}
		return nil
	}
	open := func() {}
	for _, c := range []struct {
		name         string
		cut          func()
		key          uint16
		arrives, had bool // at the node, and at the broker
	}{
		{"nothing is cut", func() {}, endTxn, true, true},
		{"another request", func() { cutter.CutCommit(false, false) }, metadata, true, true},
		{"its answer is lost", func() {}, endTxn, false, true},
		{"once", func() {}, endTxn, true, true},
		{"it is lost", func() { cutter.CutCommit(true, false) }, endTxn, false, false},
		{"once again", func() {}, endTxn, true, true},
		{"taken back", func() { cutter.CutCommit(true, false)() }, endTxn, true, true},
		{"its answer and all ways", func() { open = cutter.CutCommit(false, true) }, endTxn, false, true},
		{"no way is left", func() {}, metadata, false, false},
		{"the ways are open", func() { open() }, metadata, true, true},
	} {
		c.cut()
		if err := ask(c.key); (err == nil) != c.arrives {
			t.Errorf("%s: the node gets %v", c.name, err)
		}
		had := false
		select {
		case key := <-received:
			had = key == c.key
		default: // the broker tells before it answers, and a request that is lost ends the connection without one
		}
		if had != c.had {
			t.Errorf("%s: the broker has had it: %v", c.name, had)
		}
	}
	if n := cutter.Lost(); n != 3 {
		t.Errorf("%d were lost, want 3", n)
	}
}
