package callback_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"chronos/node"
	"chronos/node/callback"
)

// receiver is a server that remembers what it was asked.
type receiver struct {
	*httptest.Server

	mu    sync.Mutex
	asked []asked
}

type asked struct {
	*http.Request

	body string
}

// receive starts one that answers by answer, after it has taken note; nil for 200.
func receive(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		r.asked = append(r.asked, asked{request, string(body)})
		r.mu.Unlock()
		if answer != nil {
			answer(w, request)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

// local is a lane that may reach servers on this machine.
func local() callback.Lane {
	l := callback.Default("http:test")
	l.Allowed = []string{"127.0.0.1"}
	return l
}

func sink(t *testing.T, lanes ...callback.Lane) *callback.Sink {
	t.Helper()
	s, err := callback.New(callback.Config{Lanes: lanes, Agent: "Chronos/test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// record returns what the engine hands over for a message that is due now.
func record(url string, more ...string) node.Record {
	r := node.Record{Topic: "http:test", Value: []byte("hello")}
	all := append([]string{node.HeaderURL, url}, more...)
	all = append(all, node.HeaderID, "order 17", node.HeaderDeadline, time.Now().UTC().Format(time.RFC3339Nano),
		node.HeaderAttempt, "1")
	for i := 0; i < len(all); i += 2 {
		r.Headers = append(r.Headers, node.Header{Name: all[i], Value: []byte(all[i+1])})
	}
	return r
}

// publish makes one request.
func publish(t *testing.T, s *callback.Sink, r node.Record) error {
	t.Helper()
	errs := s.Publish(t.Context(), []node.Record{r})
	if len(errs) != 1 {
		t.Fatalf("%d results for one record", len(errs))
	}
	return errs[0]
}

// deferred returns the error as one that asks for another try.
func deferred(t *testing.T, err error) *node.PublishError {
	t.Helper()
	one, ok := errors.AsType[*node.PublishError](err)
	if !ok || node.KindOf(err) == node.RecordRejected {
		t.Fatalf("the result is %v, want that it is tried again", err)
	}
	return one
}

// refused returns the error as one that asks for no other try.
func refused(t *testing.T, err error) *node.PublishError {
	t.Helper()
	one, ok := errors.AsType[*node.PublishError](err)
	if !ok || node.KindOf(err) != node.RecordRejected {
		t.Fatalf("the result is %v, want that it is not tried again", err)
	}
	return one
}

// A request has the message's value, its headers as far as they are HTTP's, and those that tell of the message.
func TestRequest(t *testing.T) {
	r := receive(t, nil)
	l := local()
	l.Headers = []node.Header{{Name: "Authorization", Value: []byte("Bearer lane")}}
	s := sink(t, l)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	err := publish(t, s, record(r.URL+"/orders?x=1", "traceparent", trace,
		"Authorization", "Bearer message", node.HeaderSequence, "3", node.HeaderMethod, "PUT"))
	if err != nil {
		t.Fatal(err)
	}
	got := r.requests()[0]
	if got.Method != http.MethodPut || got.RequestURI != "/orders?x=1" || got.body != "hello" {
		t.Errorf("%s %s %q", got.Method, got.RequestURI, got.body)
	}
	for name, want := range map[string]string{
		"Chronos-Message-Id": "order 17", "Chronos-Attempt": "1", "Chronos-Sequence": "3", "X-Sequence-Number": "3",
		"Traceparent": trace, "Authorization": "Bearer lane",
		"Content-Type": "application/octet-stream", "User-Agent": "Chronos/test", "Webhook-Signature": "",
		"Accept-Encoding": "",
	} {
		if got := strings.Join(got.Header.Values(name), ", "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got.Header.Get("Chronos-Deadline") == "" {
		t.Error("there is no deadline")
	}
}

// A message that names no URL goes to that of its lane; one of a lane that has none is refused.
func TestURLOfLane(t *testing.T) {
	r := receive(t, nil)
	l := local()
	l.URL = r.URL + "/lane"
	s := sink(t, l)
	one := record("")
	one.Headers = one.Headers[1:]
	if err := publish(t, s, one); err != nil {
		t.Fatal(err)
	}
	if got := r.requests()[0]; got.RequestURI != "/lane" || got.Method != http.MethodPost {
		t.Errorf("%s %s", got.Method, got.RequestURI)
	}
	one.Topic = "http:another"
	if err := refused(t, publish(t, s, one)); !strings.Contains(err.Error(), "there is no header chronosUrl") {
		t.Error(err)
	}
}

// What answers mean.
func TestAnswers(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, request *http.Request) {
		var status int
		_, _ = fmt.Sscanf(request.URL.Path, "/%d", &status)
		if after := request.URL.Query().Get("after"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.Header().Set("Location", "/200")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("why ", 1000))
	})
	s := sink(t, local())
	for _, status := range []int{200, 201, 202, 299} {
		if err := publish(t, s, record(fmt.Sprintf("%s/%d", r.URL, status))); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
	for _, status := range []int{301, 302, 307, 308, 400, 401, 404, 429, 500, 503} {
		one := deferred(t, publish(t, s, record(fmt.Sprintf("%s/%d", r.URL, status))))
		if one.After != 0 || !strings.Contains(one.Error(), fmt.Sprint("answered ", status)) ||
			node.KindOf(one).Untried() {
			t.Errorf("%d: %v, after %v", status, one, one.After)
		}
	}
	if got := len(r.requests()); got != 14 {
		t.Errorf("%d requests, want 14: redirects are not followed", got)
	}
	gone := refused(t, publish(t, s, record(r.URL+"/410")))
	if gone.Status != 410 || len(gone.Answer) != 1024 || !strings.HasPrefix(string(gone.Answer), "why why") {
		t.Errorf("410: %v, status %d, %d bytes", gone, gone.Status, len(gone.Answer))
	}
	for after, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "-3": 0, "x": 0, "99999999": 24 * time.Hour,
		"9999999999": 24 * time.Hour, "99999999999999999999": 24 * time.Hour, "-99999999999999999999": 0,
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat):  time.Hour,
		time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): 0,
	} {
		one := deferred(t, publish(t, s, record(r.URL+"/503?after="+strings.ReplaceAll(after, " ", "%20"))))
		if one.After > want || one.After < want-5*time.Second {
			t.Errorf("Retry-After: %s is %v, want %v", after, one.After, want)
		}
	}
}

// When retry-for is over the next failure is the last, and tells what the receiver has said.
func TestRetryFor(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	})
	l := local()
	l.RetryFor = time.Hour
	s := sink(t, l)
	late := func(by time.Duration) node.Record {
		one := record(r.URL)
		deadline := time.Now().Add(-by).UTC().Format(time.RFC3339Nano)
		one.Headers = append(one.Headers, node.Header{Name: node.HeaderDeadline, Value: []byte(deadline)})
		return one
	}
	_ = deferred(t, publish(t, s, late(59*time.Minute)))
	over := refused(t, publish(t, s, late(61*time.Minute)))
	if over.Status != 503 || string(over.Answer) != "overloaded\n" || !strings.Contains(over.Error(), "1h0m0s") {
		t.Errorf("%v, status %d, answer %q", over, over.Status, over.Answer)
	}
	if got := len(r.requests()); got != 2 {
		t.Errorf("%d requests, want 2: it is tried once more before it is given up", got)
	}
}

// Requests are signed with every secret of the file, so that receivers that have either can tell; a file that was
// replaced counts. The id is the same for each attempt, and another one for another occurrence, and for a message that
// has come in the place of one with another content: receivers drop what has an id that they have seen.
func TestSignature(t *testing.T) {
	const first, second = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	r := receive(t, nil)
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first + " " + second + "\n")
	l := local()
	l.SecretFile = file
	s := sink(t, l)
	for _, more := range [][]string{
		nil,
		{node.HeaderAttempt, "2"},
		{node.HeaderSequence, "2"},
		{"value", "another"},
		{node.HeaderURL, r.URL + "/other"},
		{"tenant", "t1"},
	} {
		one := record(r.URL)
		if len(more) > 0 && more[0] == "value" {
			one.Value, more = []byte(more[1]), nil
		}
		one.Headers[2].Value = []byte("2030-01-01T00:00:00Z")
		for i := 0; i < len(more); i += 2 {
			one.Headers = append(one.Headers, node.Header{Name: more[i], Value: []byte(more[i+1])})
		}
		if err := publish(t, s, one); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]int{}
	for _, got := range r.requests() {
		ids[got.Header.Get("Webhook-Id")]++
		for _, secret := range []string{first, second} {
			w, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Verify([]byte(got.body), got.Header); err != nil {
				t.Errorf("%v", err)
			}
			if err := w.Verify([]byte("any"), got.Header); err == nil {
				t.Error("the signature is of any body")
			}
		}
	}
	if len(ids) != 5 {
		t.Errorf("the ids are %v, want the same for two attempts, and another one for each of the rest", ids)
	}
	for _, text := range []string{"", "whsec_short", "not base64!", "whsec_MfKQ"} {
		write(text)
		if _, err := callback.New(callback.Config{Lanes: []callback.Lane{l}}, nil); err == nil ||
			text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("secret %q: %v, want an error that does not show it", text, err)
		}
	}
}

// What is not allowed of a lane, in one sentence that names the key.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*callback.Lane){
		"name of lane orders":                 func(l *callback.Lane) { l.Name = "orders" },
		"timeout of lane http:test is 1ms":    func(l *callback.Lane) { l.Timeout = time.Millisecond },
		"retry-for of lane http:test is -1s":  func(l *callback.Lane) { l.RetryFor = -time.Second },
		"per-host of lane http:test is 0":     func(l *callback.Lane) { l.PerHost = 0 },
		"allowed of lane http:test is 10.0/8": func(l *callback.Lane) { l.Allowed = []string{"10.0/8"} },
		"allowed of lane http:test is *":      func(l *callback.Lane) { l.Allowed = []string{"*"} },
		"allowed of lane http:test is https:": func(l *callback.Lane) { l.Allowed = []string{"https://a"} },
		"headers of lane http:test is X-A":    func(l *callback.Lane) { l.Headers = header("X-A", "a\r\nX-B: b") },
		"headers of lane http:test is a b":    func(l *callback.Lane) { l.Headers = header("a b", "") },
		"headers of lane http:test is Host":   func(l *callback.Lane) { l.Headers = header("Host", "a") },
		"url of lane http:test is ftp://a":    func(l *callback.Lane) { l.URL = "ftp://a" },
		"secret-file of lane http:test is /n": func(l *callback.Lane) { l.SecretFile = "/nowhere" },
	} {
		l := callback.Default("http:test")
		change(&l)
		if _, err := callback.New(callback.Config{Lanes: []callback.Lane{l}}, nil); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s...", err, want)
		}
	}
	if got := (&callback.Config{}).Longest(false); got != 16*time.Second {
		t.Errorf("the longest request takes %v", got)
	}
}

func header(name, value string) []node.Header {
	return []node.Header{{Name: name, Value: []byte(value)}}
}

// Each request is told of, with what came of it.
func TestCalls(t *testing.T) {
	release := make(chan struct{})
	r := receive(t, func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/hang":
			<-release
		}
	})
	l := local()
	l.Timeout = 100 * time.Millisecond
	var mu sync.Mutex
	classes := map[string]int{}
	s, err := callback.New(callback.Config{Lanes: []callback.Lane{l}}, func(c callback.Call) {
		mu.Lock()
		defer mu.Unlock()
		classes[fmt.Sprint(c.Lane, " ", c.Class, " ", c.Attempt)]++
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/404", "/hang"} {
		_ = publish(t, s, record(r.URL+path))
	}
	close(release)
	dead := httptest.NewServer(nil)
	dead.Close()
	one := deferred(t, publish(t, s, record(dead.URL)))
	if strings.Contains(one.Error(), "dial tcp") || !node.KindOf(one).Untried() {
		t.Errorf("%v: want that nothing was sent, and nothing about the network", one)
	}
	_ = publish(t, s, record("https://user@example.com"))
	want := map[string]int{"http:test 2xx 1": 1, "http:test 4xx 1": 1, "http:test timeout 1": 1, "http:test error 1": 1}
	if !maps.Equal(classes, want) {
		t.Errorf("%v, want %v", classes, want)
	}
}

// One of ten hosts hangs: four requests to it are under way, as many as may be, and the others of that host are put off
// without being sent. All requests to the other hosts come through before any of the four has run into its time limit.
func TestHostHangs(t *testing.T) {
	release := make(chan struct{})
	var hung atomic.Int32
	r := receive(t, func(_ http.ResponseWriter, request *http.Request) {
		if strings.HasPrefix(request.Host, "hung.") {
			hung.Add(1)
			<-release
		}
	})
	s, port := byName(t, r, 20*time.Second)
	var ended atomic.Int32
	var hanging, others sync.WaitGroup
	for range 4 {
		hanging.Go(func() {
			_ = publish(t, s, record("http://hung.localhost"+port))
			ended.Add(1)
		})
	}
	for hung.Load() < 4 {
		wait(t.Context(), time.Millisecond)
	}
	for range 20 {
		others.Go(func() {
			if err := publish(t, s, record("http://hung.localhost"+port)); !node.KindOf(err).Untried() {
				t.Errorf("a fifth request to the host that hangs: %v", err)
			}
		})
	}
	for i := range 9 {
		others.Go(func() {
			for range 20 {
				if err := publish(t, s, record(fmt.Sprintf("http://host%d.localhost%s", i, port))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	others.Wait()
	if got := ended.Load(); got > 0 {
		t.Errorf("the other hosts had to wait until %d of the requests that hang had ended", got)
	}
	close(release)
	hanging.Wait()
}

// Many messages for one host at the same instant wait for their turn while it moves: none is put off.
func TestHostBusy(t *testing.T) {
	var running, most atomic.Int32
	r := receive(t, func(http.ResponseWriter, *http.Request) {
		now := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
	})
	s, port := byName(t, r, 20*time.Second)
	records := make([]node.Record, 64)
	for i := range records {
		records[i] = record("http://busy.localhost" + port)
	}
	for i, err := range s.Publish(t.Context(), records) {
		if err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d requests to one host at the same time, want 4", most.Load())
	}
}

// byName returns a sink that reaches a receiver by many names, and the port.
func byName(t *testing.T, r *receiver, timeout time.Duration) (*callback.Sink, string) {
	t.Helper()
	l := callback.Default("http:test")
	l.Allowed, l.Timeout, l.PerHost = []string{"*.localhost"}, timeout, 4
	s, err := callback.New(callback.Config{Lanes: []callback.Lane{l}, Resolver: resolver(t, "127.0.0.1")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, r.URL[strings.LastIndex(r.URL, ":"):]
}

// A host that does not answer stands back: nothing is sent to it for a while, and then one request at a time. It is
// back as soon as it answers.
func TestHostStandsBack(t *testing.T) {
	var hangs atomic.Bool
	hangs.Store(true)
	r := receive(t, func(_ http.ResponseWriter, request *http.Request) {
		if hangs.Load() {
			<-request.Context().Done()
		}
	})
	s, port := byName(t, r, 200*time.Millisecond)
	target := "http://hung.localhost" + port
	if one := deferred(t, publish(t, s, record(target))); node.KindOf(one).Untried() || one.After != 0 {
		t.Errorf("the first request: %v, after %v", one, one.After)
	}
	one := deferred(t, publish(t, s, record(target)))
	if !node.KindOf(one).Untried() || one.After < 500*time.Millisecond || one.After > 3*time.Second {
		t.Errorf("%v, after %v: want that nothing is sent for a second or two", one, one.After)
	}
	if got := len(r.requests()); got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
	hangs.Store(false)
	for tries := 1; publish(t, s, record(target)) != nil; tries++ {
		if tries > 400 {
			t.Fatal("the host answers again, and is asked nothing")
		}
		wait(t.Context(), 50*time.Millisecond)
	}
	if err := publish(t, s, record(target)); err != nil {
		t.Error(err)
	}
}

// wait lets some time pass between two tries.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
