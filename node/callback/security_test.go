package callback_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"chronos/node"
	"chronos/node/callback"
)

// resolver returns one that answers every question with the next of addresses, again and again. It asks a name server
// of this test.
func resolver(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for turn := 0; ; {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addresses[turn%len(addresses)]).As4()},
				}}
				turn++
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// What can be told from a URL alone is refused at once, whoever has written it, and nobody is asked.
func TestRefusedURLs(t *testing.T) {
	r := receive(t, nil)
	s := sink(t, callback.Default("http:test"))
	port := r.URL[strings.LastIndex(r.URL, ":")+1:]
	for url, want := range map[string]string{
		"":                               "there is no header",
		"example.com/path":               "must be http:// or https://",
		"http:///path":                   "must be http:// or https://",
		"ftp://example.com":              "begins with",
		"file:///etc/passwd":             "must be http:// or https://",
		"gopher://example.com":           "begins with",
		"javascript:alert(1)":            "must be http:// or https://",
		"http://user:secret@example.com": "user name",
		"http://example.com:22/":         "port 22",
		"https://example.com:6379/":      "port 6379",
		"http://example.com:99999/":      "from 1 to 65535",
		"http://example.com:0/":          "from 1 to 65535",
		"http://" + strings.Repeat("a.", 130) + "com/":    "263 bytes",
		"http://[2002:7f00:1::]/":                         "not a public one",
		"http://[2001::7f00:1]/":                          "not a public one",
		"http://[::7f00:1]/":                              "not a public one",
		"http://127.0.0.1/":                               "not a public one",
		"http://127.0.0.1:" + port:                        "ports 80 and 443",
		"http://[::1]/":                                   "not a public one",
		"http://[::ffff:127.0.0.1]/":                      "not a public one",
		"http://10.1.2.3/":                                "not a public one",
		"http://192.168.1.1/":                             "not a public one",
		"http://172.16.0.1/":                              "not a public one",
		"http://100.64.0.1/":                              "not a public one",
		"http://0.0.0.0/":                                 "not a public one",
		"http://169.254.169.254/latest/":                  "not a public one",
		"http://[fd00:ec2::254]/latest/":                  "not a public one",
		"http://[fe80::1%25eth0]/":                        "not a public one",
		"http://[64:ff9b::7f00:1]/":                       "not a public one",
		"http://255.255.255.255/":                         "not a public one",
		"http://example.com/\r\nX-Injected: 1":            "must be http:// or https://",
		"http://exa mple.com/":                            "must be http:// or https://",
		"http://example.com/" + strings.Repeat("a", 9000): "more than 8192",
	} {
		if err := refused(t, publish(t, s, record(url))); !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want something about %q", url, err, want)
		}
	}
	for _, method := range []string{"CONNECT", "TRACE", "OPTIONS", "post", "GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET"} {
		err := refused(t, publish(t, s, record("http://example.com", node.HeaderMethod, method)))
		if !strings.Contains(err.Error(), "it must be one of POST") {
			t.Errorf("method %q: %v", method, err)
		}
	}
	if got := len(r.requests()); got != 0 {
		t.Errorf("%d requests", got)
	}
}

// A name is looked up when it is dialled, once, and what it stands for then is what counts: a name that stood for a
// public address a moment ago, or stands for one beside it, leads nowhere else.
func TestNamesThatTurn(t *testing.T) {
	r := receive(t, nil)
	port := r.URL[strings.LastIndex(r.URL, ":"):]
	for _, c := range []struct {
		allowed, addresses []string
		port               string
	}{
		{nil, []string{"127.0.0.1"}, ":80"},
		{nil, []string{"10.0.0.1"}, ":443"},
		{nil, []string{"169.254.169.254"}, ":80"},
		{[]string{"turning.example"}, []string{"169.254.169.254"}, port}, // not even by an allowed name
		{[]string{"other.example"}, []string{"127.0.0.1"}, ":80"},
		{[]string{"turning.example:81"}, []string{"127.0.0.1"}, ":80"},
		{[]string{"10.0.0.0/8"}, []string{"127.0.0.1"}, port},
	} {
		l := callback.Default("http:test")
		l.Allowed, l.Timeout = c.allowed, 5*time.Second
		s, err := callback.New(
			callback.Config{Lanes: []callback.Lane{l}, Resolver: resolver(t, c.addresses...)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		// It is tried again, since the name may come to stand for another address; the address is not told.
		one := deferred(t, publish(t, s, record("http://turning.example"+c.port+"/")))
		if !strings.Contains(one.Error(), "not allowed") || strings.Contains(one.Error(), c.addresses[0]) {
			t.Errorf("allowed %v, %v: %v", c.allowed, c.addresses, one)
		}
	}
	if got := len(r.requests()); got != 0 {
		t.Errorf("%d requests came through", got)
	}
	// The same name, allowed in each of the ways there are.
	for _, allowed := range []string{
		"turning.example", "*.example", "turning.example" + port, "127.0.0.0/8", "127.0.0.1",
	} {
		l := callback.Default("http:test")
		l.Allowed = []string{allowed}
		s, err := callback.New(callback.Config{Lanes: []callback.Lane{l}, Resolver: resolver(t, "127.0.0.1")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := publish(t, s, record("http://Turning.Example."+port+"/")); err != nil {
			t.Errorf("%s is allowed, and %v", allowed, err)
		}
		s.Close()
	}
	// It is allowed, and then turns away.
	l := callback.Default("http:test")
	l.Allowed = []string{"127.0.0.1"}
	s, err := callback.New(
		callback.Config{Lanes: []callback.Lane{l}, Resolver: resolver(t, "127.0.0.1", "10.0.0.1")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := publish(t, s, record("http://turning.example"+port+"/")); err != nil {
		t.Error(err)
	}
	s.Close() // its connection, which would be used again
	_ = deferred(t, publish(t, s, record("http://turning.example"+port+"/")))
}

// An answer that leads elsewhere is not followed, wherever it leads.
func TestNoRedirects(t *testing.T) {
	inner := receive(t, nil)
	r := receive(t, func(w http.ResponseWriter, request *http.Request) {
		http.Redirect(w, request, inner.URL, http.StatusTemporaryRedirect)
	})
	if one := deferred(t, publish(t, sink(t, local()), record(r.URL))); !strings.Contains(one.Error(), "307") {
		t.Error(one)
	}
	if got := len(inner.requests()); got != 0 {
		t.Error("the redirect was followed")
	}
}

// No proxy is used, whatever the environment says: the address that is looked at would be the proxy's. (To try it with
// a server here would show nothing: net/http asks no proxy for one on this machine.)
func TestNoProxy(t *testing.T) {
	if sink(t, local()).Proxied() {
		t.Error("requests may go through a proxy")
	}
}

// Answers that never end, in their headers or in their bodies, take no more than the time limit, and little memory.
func TestEndlessAnswers(t *testing.T) {
	var sent atomic.Int64
	r := receive(t, func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/headers":
			for range 2000 {
				w.Header().Add("X-Filler", strings.Repeat("x", 100))
			}
		case "/body", "/error":
			if request.URL.Path == "/error" {
				w.WriteHeader(http.StatusInternalServerError)
			}
			chunk := []byte(strings.Repeat("x", 64<<10))
			for request.Context().Err() == nil {
				n, err := w.Write(chunk)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		case "/slow":
			w.WriteHeader(http.StatusInternalServerError)
			for request.Context().Err() == nil {
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				wait(request.Context(), 10*time.Millisecond)
			}
		}
	})
	l := local()
	l.Timeout = 300 * time.Millisecond
	s := sink(t, l)
	began := time.Now()
	_ = deferred(t, publish(t, s, record(r.URL+"/headers")))
	if err := publish(t, s, record(r.URL+"/body")); err != nil {
		t.Errorf("a good answer is good, however long: %v", err)
	}
	_ = deferred(t, publish(t, s, record(r.URL+"/error")))
	slow := deferred(t, publish(t, s, record(r.URL+"/slow")))
	if !strings.Contains(slow.Error(), "answered 500") {
		t.Error(slow)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	r.CloseClientConnections()
	if got := sent.Load(); got > 64<<20 {
		t.Errorf("%d bytes were sent", got)
	}
}

// A receiver that switches to another protocol gets nothing and keeps nobody: net/http hands its connection over, so
// that no time limit ends what is read from it. The connection is closed.
func TestSwitchedProtocol(t *testing.T) {
	closed := make(chan struct{})
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close() //nolint:errcheck // the other end is what counts
		_, _ = io.WriteString(connection,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: anything\r\n\r\n")
		_, _ = io.Copy(io.Discard, connection) // until it is closed
		close(closed)
	})
	l := local()
	l.Timeout = 300 * time.Millisecond
	s := sink(t, l)
	ended := make(chan error, 1)
	go func() { ended <- publish(t, s, record(r.URL)) }()
	select {
	case err := <-ended:
		if one := deferred(t, err); !strings.Contains(one.Error(), "answered 101") {
			t.Error(one)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the request has a time limit of 300 ms, and has not ended after 10 s")
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is kept")
	}
}

// A host that takes connections and says nothing to the greeting of an encrypted one does not keep them: net/http goes
// on with a connection when the request that wanted it has ended.
func TestGreetingsUnanswered(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		connection, err := listener.Accept()
		if err != nil {
			return // the test is over
		}
		defer connection.Close()               //nolint:errcheck // the other end is what counts
		_, _ = io.Copy(io.Discard, connection) // until it is closed
	}()
	l := local()
	l.Timeout = 300 * time.Millisecond
	one := deferred(t, publish(t, sink(t, l), record("https://"+listener.Addr().String())))
	if !node.KindOf(one).Untried() {
		t.Errorf("%v: want that nothing was sent", one)
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is kept when its request has ended")
	}
}

// Nor does a host that does not even take a connection keep the attempt to make one. Method: a server that accepts
// nothing, and whose queue is full.
func TestConnectionsUnanswered(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nothing was asked of it
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	for full := false; !full; {
		dialer := net.Dialer{Timeout: time.Second}
		connection, err := dialer.DialContext(t.Context(), "tcp", address)
		if full = err != nil; !full {
			defer connection.Close() //nolint:errcheck // it was only there to be one
		}
	}
	l := callback.Default("http:*")
	l.Allowed, l.Timeout = []string{"127.0.0.1"}, 300*time.Millisecond
	s, err := callback.New(callback.Config{Others: l}, nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := s.Dial(address); err == nil {
		t.Error("there is a connection")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it was given up after %v, and the time limit is %v", took, l.Timeout)
	}
}

// Who has said what he thinks of a message and hangs then, in the middle of the answer, keeps no caller until the time
// limit: what was said counts, with when to come again.
func TestAnswersThatStop(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Header().Set("Retry-After", "7")
		if request.URL.Path == "/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "we are")
		_ = http.NewResponseController(w).Flush()
		<-request.Context().Done()
	})
	l := local()
	l.Timeout = 15 * time.Second
	s := sink(t, l)
	began := time.Now()
	if err := publish(t, s, record(r.URL+"/well")); err != nil {
		t.Error(err)
	}
	one := deferred(t, publish(t, s, record(r.URL+"/busy")))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("two answers that stop have kept their callers for %v", took)
	}
	if one.After != 7*time.Second || !strings.Contains(one.Error(), "answered 503") {
		t.Errorf("%v, after %v", one, one.After)
	}
	l.RetryFor = 0
	over := refused(t, publish(t, sink(t, l), record(r.URL+"/busy")))
	if over.Status != 503 || string(over.Answer) != "we are" {
		t.Errorf("status %d, answer %q", over.Status, over.Answer)
	}
}

// A good answer is good whatever comes behind its head, and nothing of a long one is read: to use the connection again
// is not worth it.
func TestLongGoodAnswer(t *testing.T) {
	const length = 64 << 20
	sent := make(chan bool, 1)
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(length))
		_, err := w.Write(make([]byte, length))
		sent <- err == nil
	})
	if err := publish(t, sink(t, local()), record(r.URL)); err != nil {
		t.Error(err)
	}
	if <-sent {
		t.Errorf("all of the %d bytes were read", length)
	}
}

// Nothing in a message makes up a header, an end of the headers, or another request.
func TestHeaderInjection(t *testing.T) {
	r := receive(t, nil)
	s := sink(t, local())
	one := record(r.URL,
		"X-Good", "yes", "X-Bad", "a\r\nX-Injected: 1", "X-Bad2", "a\nX-Injected: 1", "X-Bad3\r\nX-Injected", "1",
		"X Bad", "1", "", "1", "X-Nul", "a\x00b", "Host", "evil.example", "Content-Length", "0",
		"Transfer-Encoding", "chunked", "Connection", "X-Good", "Upgrade", "websocket",
		"Proxy-Authorization", "Basic x",
		"Chronos-Message-Id", "forged", "chronos-attempt", "forged", "Webhook-Signature", "forged",
		"x-sequence-number", "forged", "chronosSourceTopic", "in",
		"Webhook_Signature", "forged", "X_Sequence_Number", "forged", "chronos_message_id", "forged")
	one.Headers = append(one.Headers, node.Header{Name: node.HeaderID, Value: []byte("17\r\nX-Injected: é%")},
		node.Header{Name: "X-Null"})
	if err := publish(t, s, one); err != nil {
		t.Fatal(err)
	}
	got := r.requests()
	if len(got) != 1 || got[0].body != "hello" {
		t.Fatalf("%d requests", len(got))
	}
	for name, want := range map[string]string{
		"X-Good": "yes", "Chronos-Message-Id": "17%0D%0AX-Injected: %C3%A9%25", "Chronos-Attempt": "1",
	} {
		if got := strings.Join(got[0].Header.Values(name), ", "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got[0].Host == "evil.example" {
		t.Error("the message has named the host")
	}
	for name, values := range got[0].Header {
		if strings.Contains(name, "Injected") || strings.Contains(name, "Bad") || strings.Contains(name, "Source") ||
			strings.Contains(strings.Join(values, ""), "forged") || name == "Upgrade" ||
			name == "Proxy-Authorization" || name == "X-Null" || name == "X-Nul" {
			t.Errorf("%s: %q was sent", name, values)
		}
	}
}

// The text of no failure tells more of the network than the name that the message has.
func TestErrorsTellLittle(t *testing.T) {
	l := callback.Default("http:test")
	l.Allowed, l.Timeout = []string{"*.example"}, time.Second
	s, err := callback.New(callback.Config{Lanes: []callback.Lane{l}, Resolver: resolver(t, "127.0.0.1")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := deferred(t, publish(t, s, record("http://inner.example:1/secret?token=x")))
	if strings.Contains(one.Error(), "127.0.0.1") || strings.Contains(one.Error(), "token") {
		t.Error(one)
	}
	if !node.KindOf(one).Untried() {
		t.Error("there was no connection, and it counts as an attempt")
	}
}
