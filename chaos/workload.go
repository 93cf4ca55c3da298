package chaos

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/sim/check"
)

// The headers of a submission. numberHeader tells which one a record belongs to.
const (
	idHeader       = "chronosMessageId"
	deadlineHeader = "chronosDeadline"
	numberHeader   = "n"
	targetHeader   = "chronosTopic" // one of the targets of its route
)

// submitter submits messages: known bytes of all kinds, delays of all lengths, ids that are used while their message
// waits and after it has fired, and records that are no submissions. It knows nothing of the engine.
type submitter struct {
	random  *rand.Rand
	history *history
	topics  topics
	kafka   *kgo.Client
	rate    int // submissions a second

	// second is n when every n-th submission goes to the second route, and 0 for none of them.
	second int

	// keyed says that an id that is used again is submitted with the same key, so that it goes to the same partition.
	keyed bool

	// places says that the history tells of each submission where Kafka has put it.
	places bool

	// resubmit is n when every n-th message that fires is submitted again the moment it is seen, and
	// 0 for none of them. That is the moment at which a delete by id would hit the wrong message.
	resubmit int

	// instructs is n when every n-th record is an instruction, and 0 for none of them; planned are those to come, the
	// earliest first, and instructed those that were acknowledged.
	instructs  int
	planned    []*instruction
	instructed []*instruction

	// receivers are those of callbacks; nil for none: then all messages come out on topics. asks is n when every n-th
	// message is given to the nodes by their HTTP API, and 0 for none; asker is who does that.
	receivers *receivers
	asks      int
	asker     *asker

	last      atomic.Int64 // the number that was given last
	mu        sync.Mutex
	submitted []submission // those that were acknowledged
	unknown   int          // those that were not
	warm      time.Time    // when the first acknowledgement came: before, the client gets to know the brokers
	waits     sync.WaitGroup
}

// submission is a record that Kafka has acknowledged.
type submission struct {
	number   int
	id       string
	key      []byte
	deadline time.Time
	invalid  bool
	reused   bool   // another one has the same id
	unique   bool   // no other one is to get its id
	decided  bool   // an instruction decides on what becomes of it, or it is one
	route    int    // its place among the routes
	target   string // the topic that it names; "" for the output of its route

	// partition and offset are where Kafka has put it, and acknowledged is when it said so.
	partition    int32
	offset       int64
	acknowledged time.Time

	message *message // of one that comes out as a request
}

// newSubmitter returns a submitter. Its producer keeps trying while the brokers are away, and appends each record once.
func newSubmitter(c *cluster, h *history, seed uint64, rate int) (*submitter, error) {
	k, err := c.kafka.Connect(kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(2*time.Millisecond),
		kgo.RecordDeliveryTimeout(2*time.Minute), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return nil, err
	}
	return &submitter{random: rand.New(rand.NewPCG(seed, 1)), history: h, topics: c.topics, kafka: k, rate: rate}, nil
}

// run submits until ctx is done, and then waits for the acknowledgements.
func (c *submitter) run(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(c.rate))
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case n := <-c.history.seen:
			if c.resubmit > 0 && n%c.resubmit == 0 {
				c.again(ctx, c.number(), n)
			}
		case <-tick.C:
			number := c.number()
			if c.receivers != nil && c.route(number) == 0 {
				c.call(ctx, number)
				continue
			}
			c.instructions(ctx)
			if c.instructs > 0 && number%c.instructs == 0 {
				c.instruct(ctx)
			}
			s := submission{number: number, id: fmt.Sprintf("m-%d", number), route: c.route(number)}
			if many := len(c.topics.targets); many > 0 {
				s.target = c.topics.targets[number%many]
			}
			c.submit(ctx, s, c.delay())
		}
	}
	c.waits.Wait()
}

// again submits the id of a message that has just been seen to fire.
func (c *submitter) again(ctx context.Context, number, fired int) {
	c.mu.Lock()
	i := slices.IndexFunc(c.submitted, func(s submission) bool { return s.number == fired })
	if i < 0 || c.submitted[i].reused {
		c.mu.Unlock()
		return
	}
	c.submitted[i].reused = true
	before := &c.submitted[i]
	s := submission{
		number: number, id: before.id, key: before.key, reused: true, route: before.route, target: before.target,
	}
	c.mu.Unlock()
	c.submit(ctx, s, 3*time.Second)
}

// submit sends one record, due after a delay, and does not wait.
func (c *submitter) submit(ctx context.Context, s submission, delay time.Duration) {
	number, to := s.number, c.topics.routes[s.route]
	now := time.Now()
	r := &kgo.Record{Topic: to.in, Key: junk(c.random, 16), Value: junk(c.random, 300)}
	s.deadline = now.Add(delay).UTC().Truncate(time.Millisecond)
	if c.reuse(&s); s.reused && c.keyed {
		r.Key = s.key
	}
	s.key = r.Key
	headers := []kgo.RecordHeader{{Key: numberHeader, Value: []byte(strconv.Itoa(number))}}
	for range c.random.IntN(3) {
		name := []string{"a", "b", "ü"}[c.random.IntN(3)]
		headers = append(headers, kgo.RecordHeader{Key: name, Value: junk(c.random, 20)})
	}
	if s.target != "" {
		headers = append(headers, kgo.RecordHeader{Key: targetHeader, Value: []byte(s.target)})
	}
	at := kgo.RecordHeader{Key: deadlineHeader, Value: []byte(s.deadline.Format("2006-01-02T15:04:05.000Z"))}
	if !s.reused && c.random.IntN(50) == 0 {
		s.invalid = true
		at.Value = []byte("in a while")
	}
	headers = append(headers, kgo.RecordHeader{Key: idHeader, Value: []byte(s.id)}, at)
	c.random.Shuffle(len(headers), func(i, j int) { headers[i], headers[j] = headers[j], headers[i] })
	r.Headers = headers
	c.send(ctx, s, r, nil)
}

// flood submits many messages to the second route, all of them due at one instant.
func (c *submitter) flood(ctx context.Context, many int, due time.Time) {
	due = due.UTC().Truncate(time.Millisecond)
	for range many {
		number := c.number()
		s := submission{number: number, id: fmt.Sprintf("b-%d", number), deadline: due, route: 1, unique: true}
		c.send(ctx, s, &kgo.Record{
			Topic: c.topics.routes[1].in, Key: []byte(s.id), Value: []byte("one of many"),
			Headers: []kgo.RecordHeader{
				{Key: numberHeader, Value: []byte(strconv.Itoa(number))},
				{Key: idHeader, Value: []byte(s.id)},
				{Key: deadlineHeader, Value: []byte(due.Format("2006-01-02T15:04:05.000Z"))},
			},
		}, nil)
	}
}

// repeat submits the ids of messages of the second route again, by records of one key: they are in one partition.
func (c *submitter) repeat(ctx context.Context, ids []string) {
	var again []submission
	c.each(func(s *submission) {
		if s.route == 1 && slices.Contains(ids, s.id) {
			s.reused = true
			again = append(again, submission{id: s.id, deadline: s.deadline, route: 1, reused: true, unique: true})
		}
	})
	for _, s := range again {
		s.number = c.number()
		r := record(c.topics.routes[1].in, &s, s.deadline)
		r.Key = []byte("one partition")
		c.send(ctx, s, r, nil)
	}
}

// number gives a submission its number.
func (c *submitter) number() int { return int(c.last.Add(1)) }

// send sends a record, and takes note of it when it is acknowledged. Then it calls acknowledged, with mu held, if that
// is not nil.
func (c *submitter) send(ctx context.Context, s submission, r *kgo.Record, acknowledged func(*kgo.Record)) {
	e := check.Event{
		Kind: check.Submit, At: c.history.now(), Message: s.number, ID: s.id, Topic: c.topics.lane(&s),
		Deadline: s.deadline.Sub(c.history.since), Payload: payloadOf(r), Key: keyOf(r.Key),
	}
	if s.message != nil {
		e.Payload, e.Key = s.message.digest(), 0
	}
	if s.invalid {
		e.Flaw = check.Invalid
	}
	if s.decided {
		e.Flaw = check.Unacknowledged // whether it comes out is for the scenario to say
	}
	c.waits.Add(1)
	asked := time.Now()
	c.kafka.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
		defer c.waits.Done()
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.unknown++
			e.Flaw = check.Unacknowledged
		} else {
			s.partition, s.offset, s.acknowledged = r.Partition, r.Offset, time.Now()
			if c.places {
				e.Partition, e.Offset = fmt.Sprintf("%s/%d", r.Topic, r.Partition), r.Offset
			}
			c.submitted = append(c.submitted, s)
			if acknowledged != nil {
				acknowledged(r)
			}
			if c.warm.IsZero() {
				c.warm = time.Now()
			}
			if asked.After(c.warm) {
				c.history.answered("Kafka", asked, brokerLatency)
			}
		}
		c.history.add(e)
	})
}

// route tells where a submission goes, by its number.
func (c *submitter) route(number int) int {
	if c.second > 0 && number%c.second == 0 {
		return 1
	}
	return 0
}

// delay draws how long a message is to wait: some have lapsed, some are due at once, most wait for seconds.
func (c *submitter) delay() time.Duration {
	switch c.random.IntN(10) {
	case 0:
		return -time.Duration(c.random.IntN(5000)) * time.Millisecond
	case 1, 2:
		return time.Duration(c.random.IntN(300)) * time.Millisecond
	case 3, 4, 5:
		return time.Duration(c.random.IntN(2000)) * time.Millisecond
	}
	return time.Duration(c.random.IntN(6000)) * time.Millisecond
}

// reuse gives a submission an id that was used before: of one that may still wait, or of one that was seen to fire.
func (c *submitter) reuse(s *submission) {
	kind := c.random.IntN(20)
	back := 1 + c.random.IntN(200)
	if kind > 1 || s.reused {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.submitted) < back {
		return
	}
	before := &c.submitted[len(c.submitted)-back]
	if before.invalid || before.decided || before.unique || before.route != s.route ||
		kind == 0 && !c.history.hasFired(before.number) {
		return
	}
	// Either may be covered by the other: the second may overtake the first on its way through another partition.
	s.id, s.key, s.target, s.reused, before.reused = before.id, before.key, before.target, true, true
}

// open returns the acknowledged submissions of which nothing has come yet, except those whose id was used twice: they
// may be covered, and the judge sees to that.
func (c *submitter) open() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []int
	for _, s := range c.submitted {
		fired, copied := c.history.outcomes(s.number)
		if fired == 0 && copied == 0 && !s.reused && !s.decided {
			open = append(open, s.number)
		}
	}
	return open
}

// each calls do with all that was acknowledged.
func (c *submitter) each(do func(*submission)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.submitted {
		do(&c.submitted[i])
	}
}

// counts returns how many were acknowledged and how many were not.
func (c *submitter) counts() (acknowledged, unknown int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.submitted), c.unknown
}

// junk returns null, nothing, or some bytes that are hardly ever text.
func junk(random *rand.Rand, most int) []byte {
	switch random.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, 1+random.IntN(most))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// numberOf returns the number of the submission that a record belongs to; 0 for none.
func numberOf(headers []kgo.RecordHeader) int {
	for _, h := range headers {
		if h.Key == numberHeader {
			n, _ := strconv.Atoi(string(h.Value))
			return n
		}
	}
	return 0
}

// payloadOf digests what a submission and what fires of it must have in common: key, value and the headers but those of
// Chronos, in their order, with null and empty told apart.
func payloadOf(r *kgo.Record) uint64 {
	digest := fnv.New64a()
	part := func(b []byte) {
		var length [9]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(b)))
		if b == nil {
			length[8] = 1
		}
		_, _ = digest.Write(slices.Concat(length[:], b)) // never fails
	}
	part(r.Key)
	part(r.Value)
	for _, h := range r.Headers {
		if h.Key != idHeader && h.Key != deadlineHeader && h.Key != actionHeader && h.Key != targetHeader {
			part([]byte(h.Key))
			part(h.Value)
		}
	}
	return digest.Sum64()
}

// keyOf digests a key; 0 is for none.
func keyOf(key []byte) uint64 {
	if key == nil {
		return 0
	}
	digest := fnv.New64a()
	_, _ = digest.Write(bytes.Clone(key)) // never fails
	return max(digest.Sum64(), 1)
}
