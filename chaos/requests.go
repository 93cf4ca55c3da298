package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/sim/check"
)

// asker gives messages and instructions to the nodes by their HTTP API. Each request has an Idempotency-Key, under
// which it is repeated, each time to another node, until it is answered. It knows nothing of Chronos' own client.
type asker struct {
	http  *http.Client
	nodes []string // where the APIs are
	lane  string
	turns chan struct{} // one for each request under way

	mu       sync.Mutex
	answered []*asked
	wrong    []string

	lost     int // requests that nobody has answered at first, and that were made again
	repeated int // of them, those that had taken effect at first
	twice    int // requests that were answered, and made once more
}

// request is one that can be repeated.
type request struct {
	method, path, key string
	body              any // nil for none
}

// answer is what the API says.
type answer struct {
	ID          string    `json:"id"`
	Outcome     string    `json:"outcome"`
	Deadline    time.Time `json:"deadline"`
	Incarnation string    `json:"incarnation"`
	MayAppear   bool      `json:"may_appear"`
	Repeated    bool      `json:"repeated"`
	Arrival     int64     `json:"arrival"` // of a task
}

// problem is what it says where something is wrong, or there is no such message.
type problem struct {
	Status  int     `json:"status"`
	Detail  string  `json:"detail"`
	Code    string  `json:"code"`
	Errors  any     `json:"errors"`
	Outcome *answer `json:"outcome"`
}

func (p *problem) Error() string {
	return fmt.Sprintf("%d %s: %s: %v", p.Status, p.Code, p.Detail, p.Errors)
}

// asked is an instruction, and the answer that it has had.
type asked struct {
	*instruction

	answer answer
}

func newAsker(c *cluster) *asker {
	a := &asker{lane: c.topics.routes[0].out, turns: make(chan struct{}, mostAsking)}
	for _, n := range c.nodes {
		a.nodes = append(a.nodes, n.apiURL)
	}
	// The links are reset again and again. A connection of its own for each request meets all that there is.
	a.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return a
}

// How requests are made: so many at the same time, for so long, and again after so long, twice as long each time. A
// client that asks more and more where it gets no answer keeps a busy machine from ever giving one.
const (
	mostAsking                 = 32
	firstPatience, mostPatient = time.Second, 5 * time.Second
	firstWait, mostWait        = 100 * time.Millisecond, 2 * time.Second
)

// complain notes that an answer is not as it has to be.
func (a *asker) complain(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// once makes a request when it is its turn, and returns what was decided. An error means that nobody knows, or that
// nothing was done.
func (a *asker) once(ctx context.Context, r *request, node int, patience time.Duration) (answer, error) {
	a.turns <- struct{}{}
	defer func() { <-a.turns }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return answer{}, fmt.Errorf("write the request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	at := a.nodes[node%len(a.nodes)] + r.path
	q, err := http.NewRequestWithContext(ctx, r.method, at, body)
	if err != nil {
		return answer{}, fmt.Errorf("ask a node: %w", err)
	}
	q.Header.Set("Idempotency-Key", r.key)
	q.Header.Set("Content-Type", "application/json")
	response, err := a.http.Do(q)
	if err != nil {
		return answer{}, fmt.Errorf("ask a node: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer of a node: %w", err)
	}
	if response.StatusCode < http.StatusBadRequest {
		var told answer
		if err := json.Unmarshal(text, &told); err != nil {
			return answer{}, fmt.Errorf("read the answer of a node: %w", err)
		}
		return told, nil
	}
	p := &problem{}
	if err := json.Unmarshal(text, p); err != nil {
		return answer{}, fmt.Errorf("read the answer %d of a node: %w", response.StatusCode, err)
	}
	if p.Outcome != nil {
		return *p.Outcome, nil
	}
	return answer{}, p
}

// ask makes a request until it is answered, from that node on, and then perhaps once more: it has to be answered the
// same. It returns false where there is no answer in two minutes, or the node says that the request is wrong.
func (a *asker) ask(ctx context.Context, r request, node int, more bool) (answer, bool) {
	const longest = 2 * time.Minute
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	patience, wait := firstPatience, firstWait
	for try := 0; ; try++ {
		told, err := a.once(ctx, &r, node+try, patience)
		patience = min(2*patience, mostPatient)
		if err == nil {
			a.mu.Lock()
			if try > 0 {
				a.lost++
			}
			if told.Repeated {
				a.repeated++
			}
			a.mu.Unlock()
			if more {
				a.again(ctx, r, node+try+1, told)
			}
			return told, true
		}
		var p *problem
		if errors.As(err, &p) && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests {
			a.complain("%s %s is answered %v", r.method, r.path, p)
			return answer{}, false
		}
		if !sleepUntil(ctx, time.Now().Add(wait)) {
			a.complain("%s %s was not answered in %v; the last time: %v", r.method, r.path, longest, err)
			return answer{}, false
		}
		wait = min(2*wait, mostWait)
	}
}

// again makes a request once more that was answered: the answer has to be the same. While things go wrong there may be
// none.
func (a *asker) again(ctx context.Context, r request, node int, first answer) {
	second, err := a.once(ctx, &r, node, mostPatient)
	if err != nil {
		return
	}
	a.mu.Lock()
	a.twice++
	a.mu.Unlock()
	repeated := second.Repeated
	second.Repeated, first.Repeated = false, false
	if !repeated || second != first {
		a.complain("%s %s was answered %+v, and when it was repeated under its key %+v (repeated: %v)", r.method,
			r.path, first, second, repeated)
	}
}

// path returns that of a message, or of all where id is "".
func (a *asker) path(id string) string {
	path := "/v1/lanes/" + url.PathEscape(a.lane) + "/messages"
	if id == "" {
		return path
	}
	return path + "/" + url.PathEscape(id)
}

// body returns a message as the API takes it.
func (m *message) body(deadline time.Time) map[string]any {
	var headers []map[string]any
	for _, h := range m.headers {
		headers = append(headers, map[string]any{"name": h[0], "value": h[1]})
	}
	body := map[string]any{"deadline": deadline.Format(time.RFC3339Nano), "url": m.url(), "headers": headers}
	if m.value != nil {
		body["value"] = map[string][]byte{"base64": m.value}
	}
	if m.method != "" {
		body["method"] = m.method
	}
	return body
}

// record returns a message as a record.
func (m *message) record(topic, id, deadline string) *kgo.Record {
	headers := []kgo.RecordHeader{
		{Key: idHeader, Value: []byte(id)},
		{Key: deadlineHeader, Value: []byte(deadline)},
		{Key: "chronosUrl", Value: []byte(m.url())},
	}
	if m.method != "" {
		headers = append(headers, kgo.RecordHeader{Key: "chronosMethod", Value: []byte(m.method)})
	}
	for _, h := range m.headers {
		headers = append(headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return &kgo.Record{Topic: topic, Value: m.value, Headers: headers}
}

// call submits a message that comes out as a request: by Kafka, by the API, or by the API and with an instruction to
// follow.
func (c *submitter) call(ctx context.Context, number int) {
	if c.instructs > 0 && number%c.instructs == 0 {
		c.askForMore(ctx, number)
		return
	}
	m := c.drawMessage(number)
	s := submission{number: number, id: fmt.Sprintf("m-%d", number), message: m}
	s.deadline = time.Now().Add(c.delay()).UTC().Truncate(time.Millisecond)
	if c.asks > 0 && number%c.asks == 0 {
		s.unique = true
		node, more, post := c.random.IntN(100), c.random.IntN(4) == 0, c.random.IntN(2) == 0
		if post {
			s.id = ""
		}
		c.waits.Go(func() { c.askFor(ctx, s, node, more) })
		return
	}
	c.reuse(&s)
	text := s.deadline.Format("2006-01-02T15:04:05.000Z")
	if !s.reused && c.random.IntN(50) == 0 {
		s.invalid, text = true, "in a while"
	}
	c.receivers.expect(number, s.id, s.deadline)
	c.send(ctx, s, m.record(c.topics.routes[0].in, s.id, text), nil)
}

// callOften submits many messages by Kafka, the first of them due at an instant and then one after the other.
func (c *submitter) callOften(ctx context.Context, many int, first time.Time, every time.Duration) {
	first = first.UTC().Truncate(time.Millisecond)
	for i := range many {
		number := c.number()
		m := &message{
			number: number, host: c.receivers.hosts[number%len(c.receivers.hosts)], direct: true,
			value: []byte("number " + strconv.Itoa(number)), target: "/" + strconv.Itoa(number),
		}
		m.add(numberHeader, strconv.Itoa(number))
		s := submission{
			number: number, id: "o-" + strconv.Itoa(number), message: m, unique: true,
			deadline: first.Add(time.Duration(i) * every),
		}
		c.receivers.expect(number, s.id, s.deadline)
		text := s.deadline.Format("2006-01-02T15:04:05.000Z")
		c.send(ctx, s, m.record(c.topics.routes[0].in, s.id, text), nil)
	}
}

// askFor gives a message to the nodes by the API, under an id of ours, or under one that a node makes; and reports
// whether it is stored.
func (c *submitter) askFor(ctx context.Context, s submission, node int, more bool) (stored bool) {
	r := request{http.MethodPost, c.asker.path(s.id), "put-" + strconv.Itoa(s.number), s.message.body(s.deadline)}
	if s.id != "" {
		r.method = http.MethodPut
	}
	deadline := s.deadline
	if s.decided {
		deadline = time.Time{} // an instruction may change it
	}
	c.receivers.expect(s.number, s.id, deadline)
	e := check.Event{
		Kind: check.Submit, At: c.history.now(), Message: s.number, ID: s.id, Topic: c.asker.lane,
		Deadline: s.deadline.Sub(c.history.since), Payload: s.message.digest(),
	}
	if s.decided {
		e.Flaw = check.Unacknowledged // whether it comes out is for the scenario to say
		e.Deadline = e.At             // it may come out earlier than it says
	}
	told, answered := c.asker.ask(ctx, r, node, more)
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered {
		if s.id != "" && told.ID != s.id || told.Outcome != "scheduled" {
			c.asker.complain("%s %s is answered %+v", r.method, r.path, told)
		}
		e.ID, s.id = told.ID, told.ID
		c.submitted = append(c.submitted, s)
	} else {
		c.unknown++
		e.Flaw = check.Unacknowledged
	}
	c.history.add(e)
	return answered
}

// askForMore gives a message to the nodes by the API, and then an instruction about it: at any time from when it is
// stored to shortly after it falls due.
func (c *submitter) askForMore(ctx context.Context, number int) {
	delay := 500*time.Millisecond + time.Duration(c.random.IntN(4000))*time.Millisecond
	now := time.Now()
	i := &instruction{
		number: c.number(), action: []string{"cancel", "reschedule", "replace", "fire"}[c.random.IntN(4)],
		at: now.Add(time.Duration(c.random.Int64N(int64(delay + 300*time.Millisecond)))),
	}
	i.target = submission{
		number: number, id: fmt.Sprintf("i-%d", number), deadline: now.Add(delay).UTC().Truncate(time.Millisecond),
		decided: true, unique: true, message: c.drawMessage(number),
	}
	i.due = i.target.deadline.Add(time.Duration(c.random.IntN(3000)-500) * time.Millisecond)
	in := c.drawMessage(i.number)
	node, more := c.random.IntN(100), c.random.IntN(2) == 0
	c.waits.Go(func() {
		if !c.askFor(ctx, i.target, node, false) {
			return
		}
		sleepUntil(context.WithoutCancel(ctx), i.at)
		c.instructBy(ctx, i, in, node+1, more)
	})
}

// instructBy gives an instruction to the nodes by the API. in is what is to take the place of the target.
func (c *submitter) instructBy(ctx context.Context, i *instruction, in *message, node int, more bool) {
	path := c.asker.path(i.target.id)
	r := request{http.MethodDelete, path, i.action + "-" + strconv.Itoa(i.number), nil}
	e := check.Event{
		Kind: check.Submit, At: c.history.now(), Message: i.number, ID: i.target.id, Topic: c.asker.lane,
		Deadline: i.due.Sub(c.history.since), Payload: in.digest(), Flaw: check.Unacknowledged,
	}
	switch i.action {
	case "reschedule":
		r.method, r.body = http.MethodPatch, map[string]string{"deadline": i.due.Format(time.RFC3339Nano)}
	case "fire":
		r.method, r.path = http.MethodPost, path+":fire"
	case "replace":
		r.method, r.path, r.body = http.MethodPut, path+"?on-duplicate=replace", in.body(i.due)
		c.receivers.expect(i.number, i.target.id, i.due)
		c.history.add(e)
	}
	if told, answered := c.asker.ask(ctx, r, node, more); answered {
		c.asker.mu.Lock()
		defer c.asker.mu.Unlock()
		c.asker.answered = append(c.asker.answered, &asked{i, told})
	}
}

// onceAsked demands that what the API has answered is true, that each request has one answer however often it is
// made, and that some were made again because the answer was lost. Each outcome has to occur but too_late, which takes
// an instruction within a claim.
func onceAsked(r *run, _ *Result) string {
	a := r.submitter.asker
	a.mu.Lock()
	defer a.mu.Unlock()
	r.say("%d requests to the API were repeated since nobody answered, of which %d had taken effect at first; %d were "+
		"repeated after the answer", a.lost, a.repeated, a.twice)
	if len(a.wrong) > 0 {
		return fmt.Sprintf("%s (and %d more)", a.wrong[0], len(a.wrong)-1)
	}
	if a.repeated == 0 || a.twice == 0 {
		return "no request was repeated that had taken effect: that shows nothing"
	}
	if r.scenario.Instructions == 0 {
		return ""
	}
	fires := r.fires()
	counts := map[string]int{}
	for _, i := range a.answered {
		counts[i.answer.Outcome]++
		told := outcome{i.answer.Outcome, i.answer.MayAppear}
		due := i.due.Sub(r.history.since)
		if wrong := told.untrue(fires[i.target.number], fires[i.number], i.action, due); wrong != "" {
			return fmt.Sprintf("%s %s (messages %d and %d) was answered %s, and %s", i.action, i.target.id,
				i.number, i.target.number, told.text, wrong)
		}
	}
	return r.eachSeen(counts)
}

// fires returns when each submission has come out.
func (r *run) fires() map[int][]time.Duration {
	fires := map[int][]time.Duration{}
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Fire {
			fires[e.Message] = append(fires[e.Message], e.At)
		}
	}
	return fires
}

// eachSeen demands that there was each outcome, and says how often.
func (r *run) eachSeen(counts map[string]int) string {
	var seen []string
	for text, n := range counts {
		seen = append(seen, fmt.Sprintf("%s %d", text, n))
	}
	slices.Sort(seen)
	r.say("outcomes: %v", seen)
	for _, text := range []string{"cancelled", "rescheduled", "replaced", "fired", "not_found"} {
		if counts[text] == 0 {
			return "no instruction was answered " + text + ": that shows nothing"
		}
	}
	return ""
}
