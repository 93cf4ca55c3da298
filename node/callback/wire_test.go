package callback_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"chronos/node"
	"chronos/node/callback"
)

// A receiver that closes a kept connection when the next request arrives on it, before any answer, as one does whose
// limit for idle connections has passed: the request is made again at once, and is no failure. On a connection of its
// own such an end is one.
func TestStaleConnections(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var answered, closed atomic.Int32
	var refuse atomic.Bool
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		for first := true; ; first = false {
			request, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, sent := request.Header["X-Idempotency-Key"]; sent {
				t.Error("a header is sent that says nothing")
			}
			if !first || refuse.Load() {
				closed.Add(1)
				return
			}
			answered.Add(1)
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	s := sink(t, local())
	for i := range 5 {
		if err := publish(t, s, record("http://"+listener.Addr().String())); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if answered.Load() != 5 || closed.Load() != 4 {
		t.Errorf("%d requests were answered, and %d met the end of their connection", answered.Load(), closed.Load())
	}
	refuse.Store(true)
	s.Close()
	if err := publish(t, s, record("http://"+listener.Addr().String())); err == nil {
		t.Error("a receiver that closes each connection is taken to have answered")
	}
}

// The request line is one, whatever the query of a URL has in it: what may not stand there is escaped, and what is
// escaped stays.
func TestQueries(t *testing.T) {
	var got string
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		got = request.RequestURI
	}))
	t.Cleanup(r.Close)
	s := sink(t, local())
	for query, want := range map[string]string{
		"text=hello world":     "text=hello%20world",
		"name=Jürgen":          "name=J%C3%BCrgen",
		`f={"a":1}`:            "f=%7B%22a%22:1%7D",
		"x=1|2":                "x=1%7C2",
		"a[]=1&b=^`\\<>":       "a%5B%5D=1&b=%5E%60%5C%3C%3E",
		"x=100%":               "x=100%25",
		"x=%zz&y=%2":           "x=%25zz&y=%252",
		"x=%2F%c3%bc+a;b,c":    "x=%2F%c3%bc+a;b,c",
		"~a-b_c.d!$&'()*@/?:=": "~a-b_c.d!$&'()*@/?:=",
	} {
		if err := publish(t, s, record(r.URL+"/p?"+query)); err != nil || got != "/p?"+want {
			t.Errorf("%s: requested %s, %v; want %s", query, got, err, want)
		}
	}
}

// A host whose name is not ASCII is one host in both of its forms, in allowed and in a URL; and what is mapped to an
// address is that address.
func TestNamesInUnicode(t *testing.T) {
	for _, allowed := range []string{"müller.example:8080", "MÜLLER.example.:8080", "xn--mller-kva.example:8080"} {
		l := callback.Default("http:test")
		l.Allowed = []string{allowed, "*.bücher.example:8080"}
		s := sink(t, l)
		for _, url := range []string{
			"http://müller.example:8080/x", "http://Müller.Example:8080", "http://xn--mller-kva.example:8080",
			"http://a.bücher.example:8080", "http://a.xn--bcher-kva.example:8080",
		} {
			if err := s.Check("http:test", record(url).Headers); err != nil {
				t.Errorf("%s, where %s is allowed: %v", url, allowed, err)
			}
		}
		for _, url := range []string{"http://muller.example:8080", "http://bücher.example:8080"} {
			if err := s.Check("http:test", record(url).Headers); err == nil {
				t.Errorf("%s, where %s is allowed", url, allowed)
			}
		}
	}
	s := sink(t, callback.Default("http:test"))
	for url, want := range map[string]string{
		"http://１２７.0.0.1/":            "not a public one",
		"http://\u200d\u200d.example/": "no name",
	} {
		if err := s.Check("http:test", record(url).Headers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

// Spring writes a java.net.URI as JSON: the URL and the method are those in the quotes.
func TestQuotedURL(t *testing.T) {
	var got string
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		got = request.Method + " " + request.RequestURI
	}))
	t.Cleanup(r.Close)
	quoted := record(`"` + r.URL + `/x"`)
	quoted.Headers = append(quoted.Headers, node.Header{Name: node.HeaderMethod, Value: []byte(`"PUT"`)})
	if err := publish(t, sink(t, local()), quoted); err != nil || got != "PUT /x" {
		t.Errorf("requested %q, %v", got, err)
	}
}

// What is of the service itself may be requested on the lane that is told so, on its port and on no other, without the
// credentials of the lane; other lanes do not get there.
func TestReach(t *testing.T) {
	var got http.Header
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		got = request.Header
	}))
	t.Cleanup(r.Close)
	l := callback.Default("http:named")
	l.URL, l.Headers = "http://example.com", []node.Header{{Name: "Authorization", Value: []byte("Bearer lane")}}
	s := sink(t, l)
	for _, lane := range []string{"http:named", "http:test"} {
		before := record(r.URL)
		before.Topic = lane
		if err := publish(t, s, before); err == nil {
			t.Errorf("%s gets there before it is told so", lane)
		}
		if err := s.Reach(lane, r.URL); err != nil {
			t.Fatal(err)
		}
		if err := publish(t, s, before); err != nil || got.Get("Authorization") != "" {
			t.Errorf("%s: %v, with %q", lane, err, got.Get("Authorization"))
		}
	}
	for _, other := range []string{"http://127.0.0.1:1", "http://localhost:8080"} {
		if err := s.Check("http:test", record(other).Headers); err == nil {
			t.Errorf("%s is allowed as well", other)
		}
	}
	if err := s.Check("http:other", record(r.URL).Headers); err == nil {
		t.Error("another lane gets there")
	}
	if err := s.Reach("http:test", "nowhere"); err == nil {
		t.Error("what is no URL can be reached")
	}
}
