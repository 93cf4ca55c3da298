package callback_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/callback"
)

// Goal: a message that was never sent is not given up because others are being sent. Method: a burst on a lane that
// tries nothing again, to a host that takes one request at a time and longer than those that wait for their turn are
// patient.
func TestBurstIsNoFailure(t *testing.T) {
	begun, release := make(chan struct{}, 1), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	defer goOn()
	r := receive(t, func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-release
	})
	l := local()
	l.RetryFor, l.PerHost = 0, 1
	s := sink(t, l)
	var first sync.WaitGroup
	first.Go(func() {
		if err := publish(t, s, record(r.URL)); err != nil {
			t.Error(err)
		}
	})
	<-begun
	for range 3 {
		if one := deferred(t, publish(t, s, record(r.URL))); !node.KindOf(one).Untried() {
			t.Errorf("%v, want that nothing was sent", one)
		}
	}
	goOn()
	first.Wait()
}

// Goal: what was overdue for longer than it is tried, since its lane was paused or no node was up, is not given up
// because the first connection could not be made: nothing was sent. It is when the host has answered nobody for as long
// as a request may take. Method: nobody listens; a message is published again and again, as the engine does.
func TestOverdueIsNotGivenUpUnsent(t *testing.T) {
	dead := httptest.NewServer(nil)
	dead.Close()
	l := local()
	l.RetryFor, l.Timeout = time.Hour, 300*time.Millisecond
	s := sink(t, l)
	deadline := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339Nano)
	late := record(dead.URL, node.HeaderURL, dead.URL)
	late.Headers = append(late.Headers, node.Header{Name: node.HeaderDeadline, Value: []byte(deadline)})
	if one := deferred(t, publish(t, s, late)); !node.KindOf(one).Untried() {
		t.Errorf("the first try: %v", one)
	}
	for began := time.Now(); ; wait(t.Context(), 20*time.Millisecond) {
		err := publish(t, s, late)
		if node.KindOf(err) == node.RecordRejected {
			if took := time.Since(began); took < l.Timeout/2 {
				t.Errorf("it is given up %v after the host was seen to be away", took)
			}
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("it is never given up")
		}
	}
}

// Goal: a server that is away holds up what is for it, and not what is for another one on the same machine; and it is
// the same server however its name is written.
func TestHostIsOnePort(t *testing.T) {
	for url, want := range map[string]string{
		"http://one.example":           "one.example:80",
		"https://one.example/":         "one.example:443",
		"http://ONE.Example.:80/x":     "one.example:80",
		"http://one.example:080":       "one.example:80",
		"https://one.example.:8443/":   "one.example:8443",
		"http://[2001:DB8::1]/":        "[2001:db8::1]:80",
		"https://one.example:80/a?b=c": "one.example:80",
	} {
		if got, err := callback.HostOf(url); err != nil || got != want {
			t.Errorf("%s asks %s, %v; want %s", url, got, err, want)
		}
	}
}

// Goal: of a lane that tries nothing again, messages for a host that has only just ceased to answer are not given up
// unsent; those for one that has answered nobody for as long as a request may take are, or they would wait forever.
// Method: a host that hangs; a message is published again and again, as the engine does.
func TestAwayIsNoFailureAtFirst(t *testing.T) {
	r := receive(t, func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() })
	l := local()
	l.RetryFor, l.Timeout = 0, 300*time.Millisecond
	s := sink(t, l)
	if one := refused(t, publish(t, s, record(r.URL))); node.KindOf(one).Untried() {
		t.Errorf("the first request: %v", one)
	}
	if one := deferred(t, publish(t, s, record(r.URL))); !node.KindOf(one).Untried() {
		t.Errorf("right after it: %v", one)
	}
	for tries := 1; ; tries++ {
		if err := publish(t, s, record(r.URL)); node.KindOf(err) == node.RecordRejected {
			if part := node.FailureOf(err).Part; part == "" {
				t.Error("it is given up as if its host had answered")
			}
			break
		}
		if tries > 100 {
			t.Fatal("a message that cannot be sent is never given up")
		}
		wait(t.Context(), 20*time.Millisecond)
	}
	if got := len(r.requests()); got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
}

// Goal: when many hosts of a lane do not answer, some of its callers are kept for those that do. Method: of a lane with
// eight callers, two, which is a quarter, find out that their hosts are away; then six wait for hosts that hang. A
// seventh host is not asked, whatever it is, and one that has answered before is.
func TestCallersForHostsThatAnswer(t *testing.T) {
	var hung atomic.Int32
	release := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	defer goOn()
	r := receive(t, func(answer http.ResponseWriter, request *http.Request) {
		switch {
		case strings.HasPrefix(request.Host, "hung"):
			hung.Add(1)
			<-release
		case strings.HasPrefix(request.Host, "reset"):
			if connection, _, err := http.NewResponseController(answer).Hijack(); err == nil {
				_ = connection.Close()
			}
		}
	})
	l := callback.Default("http:test")
	l.Allowed, l.Concurrency = []string{"*.localhost"}, 8
	s := sinkByName(t, l)
	port := r.URL[strings.LastIndex(r.URL, ":"):]
	if err := publish(t, s, record("http://good.localhost"+port)); err != nil {
		t.Fatal(err)
	}
	if one := deferred(t, publish(t, s, record("http://reset.localhost"+port))); node.KindOf(one).Untried() {
		t.Errorf("a connection that is lost: %v", one)
	}
	var hanging sync.WaitGroup
	hang := func(from, to int) {
		for i := from; i < to; i++ {
			hanging.Go(func() {
				if err := publish(t, s, record(fmt.Sprintf("http://hung%d.localhost%s", i, port))); err != nil {
					t.Error(err)
				}
			})
		}
		for hung.Load() < int32(to) {
			wait(t.Context(), time.Millisecond)
		}
	}
	away := func(i int) {
		one := deferred(t, publish(t, s, record(fmt.Sprintf("http://away%d.localhost:1", i))))
		if !strings.Contains(one.Error(), "cannot be reached") {
			t.Errorf("host %d: %v", i, one)
		}
	}
	away(0)
	hang(0, 6)
	away(1) // one request without an answer is nothing to go by
	for _, host := range []string{"new", "reset"} {
		one := deferred(t, publish(t, s, record("http://"+host+".localhost"+port)))
		if !node.KindOf(one).Untried() || !strings.Contains(one.Error(), "too many requests of the lane") {
			t.Errorf("%s, while six callers wait for hosts that hang: %v", host, one)
		}
	}
	other := record("http://new.localhost" + port)
	other.Topic = "http:other"
	if err := publish(t, s, other); strings.Contains(fmt.Sprint(err), "too many") {
		t.Errorf("another lane: %v", err)
	}
	if err := publish(t, s, record("http://good.localhost"+port)); err != nil {
		t.Errorf("a host that has answered: %v", err)
	}
	goOn()
	hanging.Wait()
	if err := publish(t, s, record("http://new.localhost"+port)); err != nil {
		t.Errorf("when the callers are free again: %v", err)
	}
}

// What goes wrong with a host on one lane is nothing that another lane is to suffer from.
func TestHostOnTwoLanes(t *testing.T) {
	one, other := callback.Default("http:test"), callback.Default("http:other")
	one.Allowed, other.Allowed = []string{"*.localhost"}, []string{"*.localhost"}
	s := sinkByName(t, one, other)
	first := record("http://away.localhost:1")
	if err := publish(t, s, first); !strings.Contains(fmt.Sprint(err), "cannot be reached") {
		t.Error(err)
	}
	if err := publish(t, s, first); !strings.Contains(fmt.Sprint(err), "does not answer") {
		t.Error(err)
	}
	first.Topic = "http:other"
	if err := publish(t, s, first); !strings.Contains(fmt.Sprint(err), "cannot be reached") {
		t.Errorf("on the other lane: %v", err)
	}
}

func sinkByName(t *testing.T, lanes ...callback.Lane) *callback.Sink {
	t.Helper()
	s, err := callback.New(callback.Config{Lanes: lanes, Resolver: resolver(t, "127.0.0.1")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Nor has the node a connection open for a minute to each host that it has talked to.
func TestIdleConnectionsAreBounded(t *testing.T) {
	var open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		default:
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	l := callback.Default("http:test")
	l.Allowed = []string{"*.localhost"}
	s := sinkByName(t, l)
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	for i := range 600 {
		if err := publish(t, s, record(fmt.Sprintf("http://h%d.localhost%s", i, port))); err != nil {
			t.Fatal(err)
		}
	}
	for tries := 1; open.Load() > 260; tries++ {
		if tries > 200 {
			t.Fatalf("%d connections are open", open.Load())
		}
		wait(t.Context(), 5*time.Millisecond)
	}
}
