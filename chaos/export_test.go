package chaos

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"chronos/chaos/servers"
	"chronos/sim/check"
)

// Schedule draws the faults of a scenario, without servers.
func Schedule(s *Scenario, seed uint64) string {
	c := &cluster{
		config: Config{HoldTime: 5 * time.Second}, scenario: s, kafka: &servers.Kafka{}, postgres: &database{},
	}
	for range s.Brokers {
		c.kafka.Brokers = append(c.kafka.Brokers, &servers.Broker{})
	}
	for i := range s.Nodes {
		c.nodes = append(c.nodes, &chronosNode{number: i + 1, log: logIn(""), postgres: &link{}, api: &link{}})
	}
	c.receivers = &receivers{}
	for i := range s.Hosts {
		c.receivers.hosts = append(c.receivers.hosts, &receiver{number: i, link: &link{}})
	}
	n := newNemesis(c, newHistory(), seed)
	s.draw(n)
	return n.schedule()
}

// Said is what a node has said of its end.
func Said(text string) string { return said(text) }

// WarmTakeovers says what is broken about the takeovers from a node that was killed, for so long, by the logs of all
// nodes in a folder.
func WarmTakeovers(dir string, node int, killed time.Time, lasts time.Duration) string {
	h := newHistory()
	n := newNemesis(nil, h, 1)
	n.counts[ownerNumber] = node
	n.marks[theKill] = killed.Sub(h.since)
	n.marks[theRevival] = n.marks[theKill] + lasts
	c := &cluster{config: Config{Say: io.Discard}, logs: logIn(dir)}
	return warmTakeovers(&run{cluster: c, history: h, nemesis: n}, nil)
}

// InTimeWithout says what is broken about messages that came due while a broker was frozen: since an instant, until
// another one, where others led what it led from a third one on; 0 for never.
func InTimeWithout(events []check.Event, loss, elected, back time.Duration) string {
	h := newHistory()
	n := newNemesis(nil, h, 1)
	n.marks[theLoss], n.marks[theReturn] = loss, back
	if elected > 0 {
		n.marks[theElections] = elected
	}
	c := &cluster{config: Config{Say: io.Discard, HoldTime: 5 * time.Second}, scenario: &Scenario{Journal: true}}
	return inTimeWithout(&run{cluster: c, history: h, nemesis: n, events: events}, &Result{})
}

// judging returns a run of a scenario that has had events, for demands.
func judging(scenario string, events []check.Event) *run {
	all := Scenarios()
	s := all[slices.IndexFunc(all, func(s *Scenario) bool { return s.Name == scenario })]
	h := newHistory()
	config := Config{Say: io.Discard, HoldTime: 5 * time.Second}
	c := &cluster{config: config, scenario: s, topics: newTopics("chaos", s)}
	return &run{cluster: c, history: h, nemesis: newNemesis(c, h, 1), events: events}
}

// DelayedByLocks returns the submissions that rows delay which are locked from an instant on, until another one.
func DelayedByLocks(events []check.Event, since, until time.Duration) (locked, behind map[int]bool) {
	r := judging("locked-rows", events)
	r.nemesis.marks[theLock], r.nemesis.marks[theUnlock] = since, until
	return r.delayedByLocks()
}

// TwiceBeside says what has come out twice although nothing explains it.
func TwiceBeside(events []check.Event, locked map[int]bool) string {
	return judging("locked-rows", events).twiceBeside(locked)
}

// FailoverTopic is the topic of the second route after a failover.
const FailoverTopic = "chaos2.out"

// HeldApart says what is broken about a failover at an instant.
func HeldApart(events []check.Event, promoted time.Duration) string {
	r := judging("failover-callbacks", events)
	r.nemesis.marks[thePromotion] = promoted
	return heldApart(r, &Result{})
}

// TheStall is what a history says of a stall of the store.
const TheStall = theStall

// OnTimeAgain says what is broken about a stall of the store where everything was mended at an instant.
func OnTimeAgain(events []check.Event, mended time.Duration) string {
	r := judging("stalled-store", events)
	r.history.machine.mended = r.history.since.Add(mended)
	return onTimeAgain(r, &Result{})
}

// Once says what is broken of exactly once.
func Once(events []check.Event) string { return once(events) }

// InTime says what is broken about a distribution of lateness.
func InTime(late []time.Duration, worst, usual time.Duration) string {
	return inTime(late, worst, usual)
}

// Link is a way through a proxy, for tests of the toxics.
type Link struct {
	*link

	all     *links
	servers *servers.Servers
}

// NewLink opens a way to an address of this machine, and returns the address that leads there.
func NewLink(ctx context.Context, upstream int) (*Link, string, error) {
	s, err := servers.Open(ctx, servers.Config{Backend: servers.Given})
	if err != nil {
		return nil, "", err
	}
	port, err := s.Port()
	if err != nil {
		return nil, "", err
	}
	all := newLinks()
	l, err := all.open("test", port, servers.Local(upstream))
	return &Link{l, all, s}, servers.Local(port), err
}

// Stall holds everything back until the link is mended.
func (l *Link) Stall(ctx context.Context) error {
	_, err := l.poison(ctx, "stall", requests, nil)
	return err
}

// Mend lets everything pass.
func (l *Link) Mend(ctx context.Context) error { return l.mend(ctx) }

// Cut refuses everything.
func (l *Link) Cut() { l.cut() }

// Close ends the proxy.
func (l *Link) Close() {
	l.all.close()
	_ = l.servers.Close() // it has only ports
}

// Cutter is a proxy that loses replies.
type Cutter struct {
	c *cutter

	// Deleted are the ids and incarnations of the deletes that were executed.
	Deleted chan map[string][16]byte
}

// NewCutter stands before a Postgres and returns its own address.
func NewCutter(ctx context.Context, upstream string) (*Cutter, string, error) {
	deleted := make(chan map[string][16]byte, 10)
	c, err := newCutter(ctx, func() string { return upstream }, func(d deletion) {
		refs := map[string][16]byte{}
		for i, id := range d.ids {
			refs[id+" "+d.topics[i]] = d.incarnations[i]
		}
		deleted <- refs
	})
	if err != nil {
		return nil, "", err
	}
	return &Cutter{c, deleted}, servers.Local(c.port()), nil
}

// CutInsert loses the reply to the next insert; the channel is closed when that has happened.
func (c *Cutter) CutInsert() <-chan struct{} { return c.c.cut(insertReply) }

// Close ends the proxy.
func (c *Cutter) Close() { c.c.close() }

// DecodeSlot reads messages of the protocol pgoutput and returns how many changes there are.
func DecodeSlot(message []byte) (broken bool) {
	r := rows{tables: map[uint32]string{}, columns: map[uint32][]string{}}
	d := decoder{rest: message}
	r.relation(&d)
	d = decoder{rest: message}
	r.change(&d)
	return d.broken
}

// Receiver is one receiver of callbacks, without a network, that expects message 1 with the id m-1.
type Receiver struct {
	*receiver

	message *message
	signer  *standardwebhooks.Webhook
}

// NewReceiver returns one that has the message expected, due at that instant.
func NewReceiver(due time.Time) (*Receiver, error) {
	secret, err := standardwebhooks.NewWebhook("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		return nil, err
	}
	all := &receivers{
		history: newHistory(), lane: "http:chaos", secret: secret, random: rand.New(rand.NewPCG(1, 1)),
		given: map[int]*called{}, moods: map[string]int{},
	}
	all.expect(1, "m-1", due)
	h := &receiver{all: all, release: make(chan struct{})}
	m := &message{number: 1, host: h, target: "/do/1", value: []byte("value"), headers: [][2]string{
		{"x-chaos-a", "1"}, {badHeader, "one\r\ntwo"}, {numberHeader, "1"},
	}}
	return &Receiver{h, m, secret}, nil
}

// Request returns the request of the message as it has to be.
func (r *Receiver) Request(ctx context.Context, due time.Time) (*http.Request, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.message.target, bytes.NewReader(r.message.value))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	signature, err := r.signer.Sign("x", now, r.message.value)
	for name, value := range map[string]string{
		"Chronos-Message-Id": "m-1", "Chronos-Deadline": due.Format(time.RFC3339Nano), "Chronos-Attempt": "1",
		"N": "1", "X-Chaos-A": "1", "Content-Type": "application/octet-stream",
		standardwebhooks.HeaderWebhookID: "x", standardwebhooks.HeaderWebhookSignature: signature,
		standardwebhooks.HeaderWebhookTimestamp: strconv.FormatInt(now.Unix(), 10),
	} {
		q.Header.Set(name, value)
	}
	return q, err
}

// Feel puts it into a mood.
func (r *Receiver) Feel(mood string) { r.feel(mood) }

// The moods that need no network.
const (
	Busy   = moodBusy
	Failed = moodFailed
)

// Seen returns what it has complained of, how often the message has fired, and how often with something else than it
// has.
func (r *Receiver) Seen() (wrong []string, fired, changed int) {
	for i := range r.all.history.events {
		if e := &r.all.history.events[i]; e.Kind == check.Fire {
			fired++
			if e.Payload != r.message.digest() {
				changed++
			}
		}
	}
	return r.all.wrong, fired, changed
}

// AnswerCutter is a proxy that loses requests to Kafka and answers.
type AnswerCutter struct{ c *answerCutter }

// NewAnswerCutter stands before a broker, and returns its own address.
func NewAnswerCutter(ctx context.Context, broker string) (*AnswerCutter, string, error) {
	c := newAnswerCutter()
	port, err := c.open(ctx, broker)
	return &AnswerCutter{c}, servers.Local(port), err
}

// CutCommit loses the next commit, or the answer to it, and all ways after that or not. It returns what takes it back.
func (c *AnswerCutter) CutCommit(never, shuts bool) (forget func()) {
	return c.c.cut(&answerIncision{request: endTxnRequest, never: never, shuts: shuts, text: "it"})
}

// Lost is how many were lost.
func (c *AnswerCutter) Lost() int { return c.c.count("it") }

// Close ends the proxy.
func (c *AnswerCutter) Close() { c.c.close() }
