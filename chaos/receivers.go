package chaos

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"chronos/chaos/servers"
	"chronos/sim/check"
)

// callTimeout is the time limit of a callback. By it the hold time of callbacks is five seconds, as long as that of
// topics is: two and a half times the limit and a second.
const callTimeout = time.Second

// What a receiver does with a request, beside what is asked of it and saying so.
const (
	moodBusy   = "answers 503"                                  // and does nothing; every third time with Retry-After
	moodFailed = "answers 500 when it has done what is asked"   //
	moodGone   = "dies when it has done what is asked"          // the connection does
	moodSlow   = "answers too late, and has done what is asked" //
	moodHangs  = "hangs"                                        // it takes requests, does nothing and answers none
)

// What is said in moodBusy.
const (
	statusBusy = http.StatusServiceUnavailable
	busyAnswer = "not today"
)

// receivers are what the nodes make callbacks to: servers of the suite itself, each behind a proxy, on ports of their
// own and so for the nodes hosts of their own. To do what is asked is to write it down.
type receivers struct {
	history *history
	lane    string
	hosts   []*receiver
	secret  *standardwebhooks.Webhook
	file    string // with the secret, for the nodes

	mu     sync.Mutex
	random *mathrand.Rand
	given  map[int]*called
	moods  map[string]int // how often each was met
	wrong  []string       // what was not as it has to be
	last   time.Time      // when the last request came
	all    int            // requests
}

// receiver is one host.
type receiver struct {
	all    *receivers
	number int
	port   int // its own; the link stands in front of it
	way    int // the port of the link
	link   *link

	mu      sync.Mutex
	server  *http.Server
	moods   []string // those that it is in, one drawn for each request; none for doing what is asked
	release chan struct{}
}

// called is what is known of a message that comes out as a request.
type called struct {
	id       string    // "" where a node gives it one
	deadline time.Time // zero where it may change
	ids      []string  // those that it came by
	attempts int       // the highest that it came by
}

// newReceivers starts the servers.
func newReceivers(c *cluster, lane string) (*receivers, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	encoded := base64.StdEncoding.EncodeToString(secret)
	r := &receivers{
		lane: lane, given: map[int]*called{}, moods: map[string]int{}, file: c.logs("callback.secret"),
		random: mathrand.New(mathrand.NewPCG(c.config.Seed, 3)),
	}
	var err error
	if r.secret, err = standardwebhooks.NewWebhook(encoded); err != nil {
		return nil, fmt.Errorf("make a secret for callbacks: %w", err)
	}
	if err := os.WriteFile(r.file, []byte("whsec_"+encoded+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write the secret of callbacks: %w", err)
	}
	for number := range c.scenario.Hosts {
		h := &receiver{all: r, number: number, release: make(chan struct{})}
		for _, port := range []*int{&h.port, &h.way} {
			if *port, err = c.servers.Port(); err != nil {
				return nil, err
			}
		}
		if h.link, err = c.links.open(fmt.Sprintf("host-%d", number), h.way, servers.Local(h.port)); err != nil {
			return nil, err
		}
		if err := h.start(); err != nil {
			return nil, err
		}
		r.hosts = append(r.hosts, h)
	}
	return r, nil
}

// heal makes all of them do what they are asked.
func (r *receivers) heal(ctx context.Context) error {
	if r == nil {
		return nil
	}
	for _, h := range r.hosts {
		h.feel()
		if err := h.link.mend(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *receivers) close() {
	if r == nil {
		return
	}
	for _, h := range r.hosts {
		h.kill()
	}
}

// expect says of a message that it is going to come.
func (r *receivers) expect(number int, id string, deadline time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given[number] = &called{id: id, deadline: deadline}
}

// complain notes that something is not as it has to be.
func (r *receivers) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// start begins to listen.
func (h *receiver) start() error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", servers.Local(h.port))
	if err != nil {
		return fmt.Errorf("start receiver %d: %w", h.number, err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	h.mu.Lock()
	h.server = server
	h.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // until it is killed
	return nil
}

// kill ends the server as it is: all its connections die.
func (h *receiver) kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		_ = h.server.Close() // nobody minds how it goes
	}
	h.server = nil
}

// feel puts a receiver into a mood, or some of which one is drawn for each request.
func (h *receiver) feel(moods ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moods = moods
	if len(moods) == 0 {
		close(h.release) // whatever hangs
		h.release = make(chan struct{})
	}
}

// draw draws the mood for a request, and how long to wait where it answers 503; 0 to say nothing of that.
func (h *receiver) draw() (mood string, after int, release chan struct{}) {
	h.mu.Lock()
	moods, release := h.moods, h.release
	h.mu.Unlock()
	r := h.all
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(moods) > 0 {
		mood = moods[r.random.IntN(len(moods))]
	}
	r.moods[mood]++
	if mood == moodBusy && r.random.IntN(3) == 0 {
		after = 1 + r.random.IntN(3)
	}
	return mood, after, release
}

// ServeHTTP takes a request.
func (h *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(io.LimitReader(q.Body, 1<<20))
	if err != nil {
		return // the connection has died
	}
	number, err := strconv.Atoi(q.Header.Get(numberHeader))
	if err != nil {
		h.all.complain("a request came for %s that nobody has asked for", q.URL.Path)
		return
	}
	h.all.look(number, q, body)
	mood, after, release := h.draw()
	switch mood {
	case moodBusy:
		if after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(after))
		}
		w.WriteHeader(statusBusy)
		_, _ = io.WriteString(w, busyAnswer) // the connection may have died
		return
	case moodHangs:
		select {
		case <-release: // it does what is asked after all
		case <-q.Context().Done():
			return
		}
	}
	h.all.do(number, q, body)
	switch mood {
	case moodFailed:
		w.WriteHeader(http.StatusInternalServerError)
	case moodGone:
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = connection.Close() // it dies
		}
	case moodSlow:
		timer := time.NewTimer(callTimeout * 3 / 2)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-q.Context().Done():
		}
	}
}

// do does what a request asks.
func (r *receivers) do(number int, q *http.Request, body []byte) {
	h := r.history
	h.add(check.Event{
		Kind: check.Fire, Message: number, Topic: r.lane, Payload: requestDigest(q.Method, q.URL.RequestURI(),
			q.Header, body),
	})
	h.mu.Lock()
	h.fired[number]++
	h.mu.Unlock()
}

// look looks whether a request has what it has to have: a good signature, the deadline and the id of its message, and
// the number of the attempt.
func (r *receivers) look(number int, q *http.Request, body []byte) {
	id := q.Header.Get("Chronos-Message-Id")
	deadline, deadlineErr := time.Parse(time.RFC3339Nano, q.Header.Get("Chronos-Deadline"))
	attempt, attemptErr := strconv.Atoi(q.Header.Get("Chronos-Attempt"))
	signed := r.secret.Verify(body, q.Header)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = now
	r.all++
	wrong := func(format string, args ...any) {
		r.wrong = append(r.wrong, fmt.Sprintf("message %d: ", number)+fmt.Sprintf(format, args...))
	}
	m := r.given[number]
	if m == nil {
		wrong("nobody has asked for it")
		return
	}
	if err := cmp.Or(signed, deadlineErr, attemptErr); err != nil {
		wrong("its request is not as it has to be: %v", err)
	}
	if m.id != "" && m.id != id {
		wrong("its id is %q, and not %q", id, m.id)
	}
	if !slices.Contains(m.ids, id) {
		m.ids = append(m.ids, id)
	}
	if !m.deadline.IsZero() && !m.deadline.Equal(deadline) {
		wrong("its deadline is %v, and not %v", deadline, m.deadline)
	}
	if attempt < 1 {
		wrong("it is attempt %d", attempt)
	}
	m.attempts = max(m.attempts, attempt)
}

// relayedHeaders are those that a message of this suite may have beside its number. The last one is always given with
// a value that no request may have.
func relayedHeaders() []string {
	return []string{"Content-Type", "Traceparent", "X-Chaos-A", "X-Chaos-B", badHeader}
}

// badHeader has an end of a line in its value, and so must not be sent.
const badHeader = "X-Chaos-Bad"

// requestDigest digests what a message and its request must have in common.
func requestDigest(method, target string, headers http.Header, body []byte) uint64 {
	digest := fnv.New64a()
	_, _ = fmt.Fprintf(digest, "%s %s %q", method, target, body) // it never fails
	for _, name := range relayedHeaders() {
		_, _ = fmt.Fprintf(digest, " %q", headers.Values(name))
	}
	return digest.Sum64()
}

// message is one that is to come out as a request.
type message struct {
	number  int
	host    *receiver
	method  string
	target  string // path and query
	headers [][2]string
	value   []byte
	direct  bool // past the proxy
}

// drawMessage draws a message, for a host by its number.
func (c *submitter) drawMessage(number int) *message {
	m := &message{
		number: number, host: c.receivers.hosts[number%len(c.receivers.hosts)], value: junk(c.random, 300),
		method: []string{"", http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}[c.random.IntN(5)],
		target: fmt.Sprintf("/do/%d?a=%%20b", number),
	}
	for range c.random.IntN(3) {
		m.add([]string{"x-chaos-a", "X-Chaos-B"}[c.random.IntN(2)], fmt.Sprintf("%x", junk(c.random, 20)))
	}
	switch c.random.IntN(4) {
	case 0:
		m.add("content-type", "text/plain; charset=utf-8")
	case 1:
		m.add("traceparent", fmt.Sprintf("00-%032x-%016x-01", number+1, number+1))
	case 2:
		m.add(badHeader, "one\r\nX-Chaos-A: two")
	}
	m.add(numberHeader, strconv.Itoa(number))
	return m
}

func (m *message) add(name, value string) {
	if value != "" {
		m.headers = append(m.headers, [2]string{name, value})
	}
}

// url is where the message is to go.
func (m *message) url() string {
	port := m.host.way
	if m.direct {
		port = m.host.port
	}
	return "http://" + servers.Local(port) + m.target
}

// digest is what the request has to have.
func (m *message) digest() uint64 {
	headers := http.Header{}
	for _, h := range m.headers {
		if http.CanonicalHeaderKey(h[0]) != badHeader {
			headers.Add(h[0], h[1])
		}
	}
	if len(headers.Values("Content-Type")) == 0 && len(m.value) > 0 {
		headers.Set("Content-Type", "application/octet-stream")
	}
	return requestDigest(cmp.Or(m.method, http.MethodPost), m.target, headers, bytes.Clone(m.value))
}

// asGiven demands that each request was as its message asks, and that no message has come under two ids.
func asGiven(r *run, _ *Result) string {
	all := r.receivers
	all.mu.Lock()
	defer all.mu.Unlock()
	r.say("%d requests for callbacks; receivers: %v", all.all, all.moods)
	if len(all.wrong) > 0 {
		return fmt.Sprintf("%s (and %d more)", all.wrong[0], len(all.wrong)-1)
	}
	for number, m := range all.given {
		if len(m.ids) > 1 {
			return fmt.Sprintf("message %d came under the ids %q: it was stored more than once", number, m.ids)
		}
	}
	return ""
}

// goneQuiet waits when all is drained, for longer than a claim may be published, and says if a request comes after
// that: what was answered with 2xx and is settled is not asked for again.
func (r *receivers) goneQuiet(ctx context.Context, young time.Duration) error {
	if !sleepUntil(ctx, time.Now().Add(young+callTimeout)) {
		return ctx.Err()
	}
	since := time.Now()
	if !sleepUntil(ctx, since.Add(3*time.Second)) {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.After(since) {
		r.wrong = append(r.wrong, "requests go on when every message has come out and is settled")
	}
	return nil
}
