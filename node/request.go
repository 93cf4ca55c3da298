package node

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Request names what somebody asks for past Kafka, so that the same can be asked again. What comes from Kafka has a
// place there, by which a record that is delivered twice takes effect once; what comes past it has none. So the store
// remembers the answer under the ID, in the transaction that has the effect:
//
//	cancel x: cancelled; the reply is lost
//	                                          cancel x again, under the same ID: cancelled
//
// Without that the second answer would be not_found, which tells nobody whether x has come out.
type Request struct {
	// ID names the request. Whoever makes it sees to it that nobody else's request has the same.
	ID uuid.UUID

	// Print tells what is asked for from everything else that somebody may ask for under the same ID, by mistake. The
	// store keeps it with the answer (Told.Print), and compares nothing.
	Print uuid.UUID

	// Keep is how long the answer is kept, by the store's clock. One that is older is not given any more, and is
	// deleted some time after that, by requests that come later: a few for each.
	Keep time.Duration

	// Refused says, in a sentence, why the record that has brought the request is none that can be done; empty where it
	// can. That is the answer, then, whatever the item does instead.
	Refused string

	// Ask names the record that has brought the request: of two that repeat each other, each has its own. Zero for what
	// has come past Kafka.
	Ask uuid.UUID
}

// AnswerKept is how long the answer to a request is kept that somebody else may repeat.
const AnswerKept = 24 * time.Hour

// Told is the answer to a request: what became of it, and what is true of the message from then on, as far as the
// request was about that one (Item.Only).
type Told struct {
	Outcome Outcome

	// Message is the id and the lane that it was about.
	Message MessageID

	// Incarnation and Deadline are those of the message after it, and Former is the deadline of before, where there was
	// a message, and it is another one. They are zero where there is none.
	Incarnation      uuid.UUID
	Deadline, Former time.Time

	// Sequence is the number of the occurrence, of a series: the last one that may come, where it was stopped; the
	// first one that does not come, where it was cancelled. It is 0 otherwise.
	Sequence int64

	// MayAppear says that content which was replaced, now or before, may come out all the same.
	MayAppear bool

	// Lineage is that of the store in which this is true.
	Lineage int64

	// Print is that of the request that was answered, and Again says that this is the answer which an earlier request
	// of the same ID was given. If the prints differ, it is the answer to something else, and nothing was done.
	Print uuid.UUID
	Again bool
}

// Tell returns what whoever made the request of an item is told of a verdict on it.
func (i *Item) Tell(v Verdict, lineage int64) Told {
	told := Told{
		Outcome: v.Outcome, Message: MessageID{ID: i.ID, Lane: i.Lane}, Lineage: lineage, Print: i.Request.Print,
	}
	if v.Outcome == NotFound {
		return told // what is stored is none of what was asked about
	}
	if v.After != nil {
		told.Incarnation, told.Deadline, told.Sequence = v.After.Incarnation, v.After.Deadline, v.After.Sequence
		told.MayAppear = v.After.Former
	}
	if v.Before != nil {
		if v.After == nil || !v.After.Deadline.Equal(v.Before.Deadline) {
			told.Former = v.Before.Deadline
		}
		if v.After == nil {
			told.Sequence = v.Before.Sequence
		}
		told.MayAppear = told.MayAppear || v.Before.Former
	}
	return told
}

// HeaderRequest marks a record of an input topic that a node has sent for somebody who waits for its outcome: the
// request, the incarnation that is meant (Item.Only), and a name for the record, after a MAC of all of the record. It
// is minded where Config.Requests says so. It is never relayed.
const HeaderRequest = "chronosRequest"

// Marks signs the marks of records, and accepts what it could have signed: whoever may write to an input topic cannot
// answer what others ask, as long as the secret is known to nodes alone. NewMarks makes one.
type Marks struct{ secrets [][]byte }

// NewMarks returns Marks that sign with the first secret and accept what any of them has signed. With no secret they
// accept nothing, and cannot sign.
func NewMarks(secrets ...[]byte) *Marks { return &Marks{secrets} }

// Requesting returns the record that asks, on the input topic, for what an item asks for that Read has made of r. The
// item has a Request, and its Incarnation, which no other item has, names the record. A delay has become a deadline:
// it counts from when somebody has asked, and not from when Kafka has the record.
func (m *Marks) Requesting(r Record, item *Item) Record {
	assert(len(m.secrets) > 0, "a request for %q without a secret to sign it with", item.ID)
	headers := make([]Header, 0, len(r.Headers)+2)
	for _, h := range r.Headers {
		switch h.Name {
		case HeaderDelay:
			h = Header{HeaderDeadline, []byte(headerTime(item.Deadline))}
		case HeaderTopic, HeaderRequest:
			continue
		}
		headers = append(headers, h)
	}
	q, keep := item.Request, max(item.Request.Keep, keptLeast)
	words := []string{q.ID.String(), q.Print.String(), keep.String(), item.Only.String(), item.Incarnation.String()}
	r.Headers = append(headers, Header{HeaderTopic, []byte(item.Lane)})
	mark := strings.Join(words, " ")
	mark = hex.EncodeToString(macOf(m.secrets[0], &r, mark)) + " " + mark
	r.Headers = append(r.Headers, Header{HeaderRequest, []byte(mark)})
	return r
}

// keptLeast is how long the answer to a record is kept at least. A mark that says no time at all is none to requestOf,
// and a record with such a mark is rejected.
const keptLeast = time.Nanosecond

// macOf returns the MAC of a record and its mark: of key, value and all headers but the mark. So a mark that somebody
// copies is good for the same record only.
func macOf(secret []byte, r *Record, mark string) []byte {
	mac := hmac.New(sha256.New, secret)
	add := func(some bool, part []byte) {
		if !some {
			mac.Write([]byte{0})
			return
		}
		mac.Write(binary.BigEndian.AppendUint64([]byte{1}, uint64(len(part))))
		mac.Write(part)
	}
	add(true, []byte(HeaderRequest))
	add(true, []byte(mark))
	add(r.Key != nil, r.Key)
	add(r.Value != nil, r.Value)
	for _, h := range r.Headers {
		if h.Name != HeaderRequest {
			add(true, []byte(h.Name))
			add(true, h.Value)
		}
	}
	return mac.Sum(nil)
}

// requestOf returns the request that a record is marked with, and the incarnation that is meant; nil for none. A mark
// that no node has signed is a rejection: without its mark a record would be carried out for whatever message there is.
func (m *Marks) requestOf(r *Record) (request *Request, only uuid.UUID, rejected *rejection) {
	at := slices.IndexFunc(r.Headers, func(h Header) bool { return h.Name == HeaderRequest })
	if at < 0 {
		return nil, uuid.Nil, nil
	}
	sum, mark, _ := strings.Cut(string(r.Headers[at].Value), " ")
	given, err := hex.DecodeString(sum)
	signed := err == nil && slices.ContainsFunc(m.secrets, func(secret []byte) bool {
		return hmac.Equal(given, macOf(secret, r, mark))
	})
	if signed {
		if request, only = readMark(mark); request != nil {
			return request, only, nil
		}
	}
	return nil, uuid.Nil, &rejection{
		InvalidRequest, "no node with this secret has sent the record that says so: " +
			"leave the header out; if a node has sent it, nodes have different files in request-secret-file",
		HeaderRequest,
	}
}

// readMark reads what is signed of a mark; nil if it can't be read.
func readMark(mark string) (request *Request, only uuid.UUID) {
	words := strings.Fields(mark)
	if len(words) != 5 {
		return nil, uuid.Nil
	}
	id, first := uuid.Parse(words[0])
	shown, second := uuid.Parse(words[1])
	keep, third := time.ParseDuration(words[2])
	meant, fourth := uuid.Parse(words[3])
	ask, fifth := uuid.Parse(words[4])
	if cmp.Or(first, second, third, fourth, fifth) != nil || keep <= 0 || keep > AnswerKept {
		return nil, uuid.Nil
	}
	return &Request{ID: id, Print: shown, Keep: keep, Ask: ask}, meant
}
