package listener_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chronos/node/listener"
)

// The tokens of the tests, and a listener whose budget has room for bodies of 8 kB, of which each token may have 2.
const (
	ann, bob = "token-number-one", "token-number-two"
	unit     = 1 << 10
	memory   = 8 * unit * listener.BodyCost
)

// newGuard returns a handler that has come past the guard of a listener.
func newGuard(t *testing.T, config listener.Config, handler http.Handler) http.Handler {
	t.Helper()
	grammar := listener.Grammar[struct{}]{Parse: func(string) (struct{}, error) { return struct{}{}, nil }}
	l, err := listener.New(config, grammar)
	if err != nil {
		t.Fatal(err)
	}
	return l.Guard(handler, nil)
}

// Goal: the bodies of all requests that are under way have the memory that the listener may have, and no more, and no
// token all of it; what is over gives it back; and each token may have one body, however large. Method: requests that
// stay under way until the test ends them, of two tokens, whose bodies are announced or come in chunks.
func TestBodiesTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("ann r "+ann+"\nbob r "+bob+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	under, end := make(chan int), make(chan bool)
	config := listener.Config{Listen: "127.0.0.1:1", TokenFile: file, Memory: memory}
	handler := newGuard(t, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, done, err := listener.ReadBody(w, r, 100*unit)
		if err != nil {
			listener.RefuseBody(w, err, listener.Refuse)
			return
		}
		defer done()
		if again, err := io.ReadAll(r.Body); err != nil || string(again) != string(body) {
			t.Errorf("the body reads as %d bytes, %v; want the %d again", len(again), err, len(body))
		}
		under <- len(body)
		<-end
	}))
	answers := make(chan int, 100)
	send := func(token string, size int, chunked bool) {
		body := strings.NewReader(strings.Repeat("x", size))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", body)
		if r.Header.Set("Authorization", "Bearer "+token); chunked {
			r.ContentLength = -1
		}
		go func() {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, r)
			if again := recorder.Header().Get("Retry-After"); (again == "1") != (recorder.Code == 429) {
				t.Errorf("status %d with Retry-After %q", recorder.Code, again)
			}
			answers <- recorder.Code
		}()
	}
	taken := func(token string, size int, chunked bool) {
		t.Helper()
		send(token, size, chunked)
		select {
		case <-under:
		case code := <-answers:
			t.Fatalf("%d bytes of %s are answered with %d", size, token, code)
		}
	}
	refused := func(token string, size int) {
		t.Helper()
		for _, chunked := range []bool{false, true} {
			send(token, size, chunked)
			select {
			case <-under:
				t.Fatalf("%d bytes of %s, chunked %v, are taken", size, token, chunked)
			case code := <-answers:
				if code != http.StatusTooManyRequests {
					t.Fatalf("%d bytes of %s, chunked %v: status %d", size, token, chunked, code)
				}
			}
		}
	}
	over := func(n int) {
		for range n {
			end <- true
			if code := <-answers; code != 200 {
				t.Errorf("status %d", code)
			}
		}
	}
	taken(ann, unit, false)
	taken(ann, unit, false)
	refused(ann, unit) // its quarter is used
	taken(bob, unit, false)
	over(3)
	taken(bob, 8*unit, false) // one alone
	refused(bob, 1)
	refused(ann, unit) // nothing is left for another
	over(1)
	taken(ann, unit, true) // a chunked one takes up to twice its size
	over(1)
	for range 3 { // all has been given back
		taken(ann, 2*unit, false)
		taken(bob, 2*unit, false)
		over(2)
	}
}

// slowBody is a body of which some bytes arrive, and then none until it ends. It reports when it is waited for.
type slowBody struct {
	arrives io.Reader
	waited  chan<- bool
	end     <-chan bool
}

func (s *slowBody) Read(p []byte) (int, error) {
	if n, err := s.arrives.Read(p); err == nil {
		return n, nil
	}
	s.waited <- true
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

// Goal: what a request announces takes no memory, what has arrived does, and a body for which there is no room any more
// is refused when a part of it has been read. Method: bodies of which nothing arrives, far more of them than the budget
// has room for, beside small ones; then bodies of which a part arrives.
func TestBodiesThatWereAnnounced(t *testing.T) {
	const far = 100 * unit
	config := listener.Config{Listen: "127.0.0.1:1", Memory: memory} // all requests have one budget
	handler := newGuard(t, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, done, err := listener.ReadBody(w, r, far)
		if err != nil {
			listener.RefuseBody(w, err, listener.Refuse)
			return
		}
		done()
	}))
	send := func(body io.Reader, announced int64) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", body)
		r.Host, r.ContentLength = "127.0.0.1", announced
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		return recorder
	}
	waited, end, answers := make(chan bool), make(chan bool), make(chan int, 100)
	slow := func(size int, announced int64) {
		t.Helper()
		body := &slowBody{strings.NewReader(strings.Repeat("x", size)), waited, end}
		go func() { answers <- send(body, announced).Code }()
		select {
		case <-waited:
		case code := <-answers:
			t.Fatalf("%d bytes of %d that were announced are answered with %d", size, announced, code)
		}
	}
	whole := func(size int) *httptest.ResponseRecorder {
		return send(strings.NewReader(strings.Repeat("x", size)), int64(size))
	}
	for range 20 {
		slow(0, far)
		slow(0, -1)
	}
	if got := whole(8 * unit); got.Code != http.StatusOK {
		t.Errorf("a body beside 40 of which nothing has arrived is answered with %d: %s", got.Code, got.Body)
	}
	slow(2*unit+1, far) // it has twice as much as has arrived at most
	if got := whole(4 * unit); got.Code != http.StatusOK {
		t.Errorf("a body beside one of which 2 kB have arrived is answered with %d: %s", got.Code, got.Body)
	}
	body := strings.NewReader(strings.Repeat("x", far))
	got := send(body, far)
	if got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "1" || body.Len() == far ||
		body.Len() < far-4*unit {
		t.Errorf("a body that is too much is answered with %d and Retry-After %q, when %d bytes of %d are not read",
			got.Code, got.Header().Get("Retry-After"), body.Len(), far)
	}
	for range 41 {
		end <- true
		if code := <-answers; code != http.StatusBadRequest {
			t.Errorf("a body that does not arrive is answered with %d", code)
		}
	}
	if got := whole(far); got.Code != http.StatusOK {
		t.Errorf("a body when all are over is answered with %d: %s", got.Code, got.Body)
	}
}

// Goal: with one token there is nobody to keep anything for, and without tokens callers are told apart by their
// addresses. Method: as above, by the budget alone.
func TestBodiesOfOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(ann+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		config  listener.Config
		remotes []string
		taken   int // of bodies of 1 kB
	}{
		{"one token", listener.Config{Listen: "0.0.0.0:1", TokenFile: file}, []string{"10.0.0.1:1"}, 8},
		{"this machine", listener.Config{Listen: "127.0.0.1:1"}, []string{"127.0.0.1:1"}, 8},
		{"one address", listener.Config{Listen: "0.0.0.0:1", Open: true}, []string{"10.0.0.1:1"}, 2},
		{"three", listener.Config{Listen: ":1", Open: true}, []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}, 6},
		{"five", listener.Config{Listen: ":1", Open: true}, []string{
			"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1",
		}, 8},
	} {
		c.config.Memory = memory
		taken := 0
		handler := newGuard(t, c.config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, _, err := listener.ReadBody(w, r, unit); err == nil {
				taken++ // and never done
			}
		}))
		for range 10 {
			for _, remote := range c.remotes {
				body := strings.NewReader(strings.Repeat("x", unit))
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", body)
				r.RemoteAddr, r.Host = remote, "127.0.0.1"
				r.Header.Set("Authorization", "Bearer "+ann)
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		if taken != c.taken {
			t.Errorf("%s: %d bodies are taken, want %d", c.name, taken, c.taken)
		}
	}
}

// Goal: a body that does not arrive is the fault of whoever sends it, and is answered so. Method: raw requests.
func TestBodiesThatDoNotArrive(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, done, err := listener.ReadBody(w, r, 10)
		if err != nil {
			listener.RefuseBody(w, err, listener.Refuse)
			return
		}
		defer done()
		_, _ = w.Write(body)
	}))
	defer server.Close()
	const chunked = "Transfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		rest   string // of the request
		status int
	}{
		{"\r\n", 200},
		{"Content-Length: 10\r\n\r\n0123456789", 200},
		{"Content-Length: 11\r\n\r\n0123456789", 413}, // before it has arrived
		{chunked + "a\r\n0123456789\r\n0\r\n\r\n", 200},
		{chunked + "b\r\n0123456789x\r\n0\r\n\r\n", 413},
		{chunked + "zz\r\nabc\r\n0\r\n\r\n", 400},
		{chunked + "-1\r\nabc\r\n0\r\n\r\n", 400},
		{chunked + "3\r\nabcX", 400},
	} {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		const head = "PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
		if _, err := io.WriteString(connection, head+c.rest); err != nil {
			t.Fatal(err)
		}
		_ = connection.(*net.TCPConn).CloseWrite()
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = errors.Join(answer.Body.Close(), connection.Close())
		if answer.StatusCode != c.status {
			t.Errorf("%q: status %d, want %d", c.rest, answer.StatusCode, c.status)
		}
	}
}

// Goal: a query that cannot be read is refused: net/http leaves out what it cannot read, and what is left asks for
// more.
func TestMalformedQueries(t *testing.T) {
	handler := newGuard(t, listener.Config{Listen: "127.0.0.1:1"}, http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {}))
	for query, status := range map[string]int{
		"": 200, "key=a": 200, "key=base64:YQ==&header=a=b": 200, "key=%25": 200,
		"key=base64:%%%": 422, "key=a;b": 422, "key=%zz&state=waiting": 422, "header=%": 422,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL.RawQuery, r.Host = query, "127.0.0.1"
		recorder := httptest.NewRecorder()
		if handler.ServeHTTP(recorder, r); recorder.Code != status {
			t.Errorf("%q: status %d, want %d", query, recorder.Code, status)
		}
	}
}
