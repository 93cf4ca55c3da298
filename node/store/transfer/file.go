package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/headers"
	"chronos/node/store/inspect"
)

// The file is JSON Lines: one object on each line, with one member, which says what it is.
//
//	{"export":{"version":1,"id":"…","store":"sqlite:chronos.db","lineage":2,…}}
//	{"position":{"topic":"orders.in","topicId":"…","partition":0,"epoch":3,"offset":1200}}
//	{"pause":{"lane":"orders","since":"2026-11-22T09:00:00Z","by":"anna","why":"broken"}}
//	{"answer":{"request":"…","outcome":"scheduled",…}}
//	{"message":{"id":"a","lane":"orders","incarnation":"…","deadline":"2027-01-01T00:00:00Z","value":{"text":"x"}}}
//	{"queue":{"id":"…","name":"night","kind":"sync","window":"22:00 to 04:00 every day",…}}
//	{"action":{"id":"…","content":{"uri":"https://example.org","method":"POST",…}}}
//	{"task":{"id":"…","queue":"…","status":"Pending",…}}
//	{"end":{"positions":1,"pauses":1,"answers":1,"messages":1,"sha256":"…"}}
//
// They stand in this order, and each kind in that of its key, queues in that of their names. The queue root is left out
// where it was never used, so that a release without queues reads what it can. The hash is that of all bytes of the
// lines before the last, so a file that was cut, or changed, is recognised.

// Version is that of the form of the file. A reader refuses what it does not know: to leave a member out would be to
// lose something.
const Version = 1

// Header is the first line.
type Header struct {
	Version int       `json:"version"`
	ID      uuid.UUID `json:"id"`

	// Store, Release, By and Sealed are for people: what was exported, by which program, by whom, and as of when.
	Store   string    `json:"store"`
	Release string    `json:"release"`
	By      string    `json:"by"`
	Sealed  time.Time `json:"sealed"`

	// Cluster and Group are whom the store belongs to, and Lineage is the one it was sealed in.
	Cluster string `json:"cluster,omitempty"`
	Group   string `json:"group,omitempty"`
	Lineage int64  `json:"lineage"`

	// Messages is how many there are about, for a reader that wants to show how far it is; -1 if that is not known.
	Messages int64 `json:"messages"`
}

// Counts are how many lines there are of each kind.
type Counts struct {
	Positions int64 `json:"positions"`
	Pauses    int64 `json:"pauses"`
	Answers   int64 `json:"answers"`
	Messages  int64 `json:"messages"`
	Queues    int64 `json:"queues,omitempty"`
	Actions   int64 `json:"actions,omitempty"`
	Tasks     int64 `json:"tasks,omitempty"`
}

// Lines returns how many lines there are between the first and the last.
func (c *Counts) Lines() int64 {
	return c.Positions + c.Pauses + c.Answers + c.Messages + c.Queues + c.Actions + c.Tasks
}

// end is the last line.
type end struct {
	Counts

	SHA256 string `json:"sha256"`
}

// line is one line. One member is set.
type line struct {
	Export   *Header       `json:"export,omitempty"`
	Position *positionLine `json:"position,omitempty"`
	Pause    *pauseLine    `json:"pause,omitempty"`
	Answer   *answerLine   `json:"answer,omitempty"`
	Message  *messageLine  `json:"message,omitempty"`
	Queue    *queueLine    `json:"queue,omitempty"`
	Action   *actionLine   `json:"action,omitempty"`
	Task     *taskLine     `json:"task,omitempty"`
	End      *end          `json:"end,omitempty"`
}

type positionLine struct {
	Topic     string    `json:"topic"`
	TopicID   uuid.UUID `json:"topicId"`
	Partition int32     `json:"partition"`
	Epoch     int32     `json:"epoch"`
	Offset    int64     `json:"offset"`
	Mark      *int64    `json:"mark,omitempty"`
}

type pauseLine struct {
	Lane  string    `json:"lane"`
	Since time.Time `json:"since"`
	By    string    `json:"by"`
	Why   string    `json:"why"`
}

type answerLine struct {
	Request     uuid.UUID  `json:"request"`
	Print       uuid.UUID  `json:"print"`
	Expires     time.Time  `json:"expires"`
	Outcome     string     `json:"outcome"`
	ID          string     `json:"id"`
	Lane        string     `json:"lane"`
	Incarnation *uuid.UUID `json:"incarnation,omitempty"`
	Deadline    *time.Time `json:"deadline,omitempty"`
	Former      *time.Time `json:"formerDeadline,omitempty"`
	Sequence    int64      `json:"sequence,omitempty"`
	MayAppear   bool       `json:"mayAppear,omitempty"`
	Lineage     int64      `json:"lineage"`
}

type messageLine struct {
	ID          string          `json:"id"`
	Lane        string          `json:"lane"`
	Incarnation uuid.UUID       `json:"incarnation"`
	Deadline    *time.Time      `json:"deadline"`      // nil where a line has none, which is refused
	Due         *time.Time      `json:"due,omitempty"` // where it is not the deadline
	NotAfter    *time.Time      `json:"notAfter,omitempty"`
	Attempts    int             `json:"attempts,omitempty"`
	Bound       bool            `json:"bound,omitempty"`
	Former      bool            `json:"former,omitempty"`
	Stopped     bool            `json:"stopped,omitempty"`
	Line        *uuid.UUID      `json:"line,omitempty"`
	Behind      bool            `json:"behind,omitempty"`
	Series      *seriesLine     `json:"series,omitempty"`
	Origin      *originLine     `json:"origin,omitempty"`
	Headers     json.RawMessage `json:"headers,omitempty"`
	Key         *payload        `json:"key,omitempty"`
	Value       *payload        `json:"value,omitempty"`
}

type seriesLine struct {
	Rule     string     `json:"rule"`
	Sequence int64      `json:"sequence"`
	At       *time.Time `json:"at"` // nil where a line has none, which is refused
}

type originLine struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// payload is a key or a value that is not null.
type payload struct {
	Text   *string `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

func payloadOf(content []byte) *payload {
	switch {
	case content == nil:
		return nil
	case utf8.Valid(content):
		text := string(content)
		return &payload{Text: &text}
	}
	return &payload{Base64: content}
}

func (p *payload) bytes() []byte {
	switch {
	case p == nil:
		return nil
	case p.Text != nil:
		return []byte(*p.Text)
	}
	return p.Base64
}

// some returns a pointer to a value, and nil for the zero value.
func some[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// value returns what a pointer points to, and the zero value for nil.
func value[T any](pointer *T) (v T) {
	if pointer != nil {
		v = *pointer
	}
	return v
}

func lineOfMessage(m *Message) *messageLine {
	l := &messageLine{
		ID: m.ID, Lane: m.Lane, Incarnation: m.Incarnation, Deadline: &m.Deadline, NotAfter: some(m.NotAfter),
		Attempts: m.Attempts, Bound: m.Bound, Former: m.Former, Stopped: m.Stopped, Line: some(m.Line),
		Behind: m.Behind, Key: payloadOf(m.Key), Value: payloadOf(m.Value),
	}
	if !m.Due.Equal(m.Deadline) {
		l.Due = &m.Due
	}
	if m.Recurs() {
		l.Series = &seriesLine{m.Series, m.Sequence, &m.At}
	}
	if m.Origin != (node.Origin{}) {
		l.Origin = &originLine{m.Origin.Topic, m.Origin.Partition, m.Origin.Offset}
	}
	if len(m.Headers) > 0 {
		l.Headers = headers.Encode(m.Headers)
	}
	return l
}

func (l *messageLine) message() (m Message, err error) {
	m = Message{
		Message: node.Message{
			ID: l.ID, Lane: l.Lane, Incarnation: l.Incarnation,
			Deadline: value(l.Deadline), NotAfter: value(l.NotAfter),
			Line: value(l.Line), Key: l.Key.bytes(), Value: l.Value.bytes(),
		},
		Due: value(l.Deadline), Attempts: l.Attempts,
		Bound: l.Bound, Former: l.Former, Stopped: l.Stopped, Behind: l.Behind,
	}
	if l.Due != nil {
		m.Due = *l.Due
	}
	if l.Series != nil {
		m.Recurrence = node.Recurrence{Series: l.Series.Rule, Sequence: l.Series.Sequence, At: value(l.Series.At)}
	}
	if l.Origin != nil {
		m.Origin = node.Origin{Topic: l.Origin.Topic, Partition: l.Origin.Partition, Offset: l.Origin.Offset}
	}
	if l.Headers != nil {
		if m.Headers, err = headers.Decode(l.Headers); err != nil {
			return m, err
		}
	}
	if reason := cmp.Or(m.Refusal(), m.NameRefusal()); reason != "" {
		return m, fmt.Errorf("no store takes message %q: %s", m.ID, reason)
	}
	return m, nil
}

func lineOfAnswer(a *Answer) *answerLine {
	t := &a.Told
	return &answerLine{
		Request: a.Request, Print: t.Print, Expires: a.Expires, Outcome: t.Outcome.String(), ID: t.Message.ID,
		Lane: t.Message.Lane, Incarnation: some(t.Incarnation), Deadline: some(t.Deadline), Former: some(t.Former),
		Sequence: t.Sequence, MayAppear: t.MayAppear, Lineage: t.Lineage,
	}
}

func (l *answerLine) answer() (a Answer, err error) {
	a = Answer{Request: l.Request, Expires: l.Expires, Told: node.Told{
		Message: node.MessageID{ID: l.ID, Lane: l.Lane}, Incarnation: value(l.Incarnation),
		Deadline: value(l.Deadline), Former: value(l.Former), Sequence: l.Sequence, MayAppear: l.MayAppear,
		Lineage: l.Lineage, Print: l.Print,
	}}
	a.Told.Outcome, err = node.ParseOutcome(l.Outcome)
	return a, err
}

func lineOfPlace(p *inspect.Place) *positionLine {
	l := &positionLine{
		Topic: p.Topic, TopicID: p.TopicID, Partition: p.Number, Epoch: p.Epoch, Offset: p.Offset,
	}
	if p.Mark >= 0 {
		l.Mark = &p.Mark
	}
	return l
}

func (l *positionLine) place() inspect.Place {
	p := inspect.Place{Mark: -1, Place: node.Place{
		Partition: node.Partition{Topic: l.Topic, TopicID: l.TopicID, Number: l.Partition},
		Position:  node.Position{Epoch: l.Epoch, Offset: l.Offset},
	}}
	if l.Mark != nil {
		p.Mark = *l.Mark
	}
	return p
}

// writer writes lines, and counts them.
type writer struct {
	out    io.Writer
	hash   hash.Hash
	buffer bytes.Buffer
	json   *json.Encoder
	counts Counts
}

func newWriter(out io.Writer) *writer {
	w := &writer{out: out, hash: sha256.New()}
	w.json = json.NewEncoder(&w.buffer)
	w.json.SetEscapeHTML(false)
	return w
}

func (w *writer) write(l line) error {
	w.buffer.Reset()
	if err := w.json.Encode(l); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	switch {
	case l.Position != nil:
		w.counts.Positions++
	case l.Pause != nil:
		w.counts.Pauses++
	case l.Answer != nil:
		w.counts.Answers++
	case l.Message != nil:
		w.counts.Messages++
	case l.Queue != nil:
		w.counts.Queues++
	case l.Action != nil:
		w.counts.Actions++
	case l.Task != nil:
		w.counts.Tasks++
	}
	w.hash.Write(w.buffer.Bytes())
	if _, err := w.out.Write(w.buffer.Bytes()); err != nil {
		return fmt.Errorf("write the file: %w", err)
	}
	return nil
}

// end writes the last line.
func (w *writer) end() (sum string, err error) {
	sum = hex.EncodeToString(w.hash.Sum(nil))
	return sum, w.write(line{End: &end{w.counts, sum}})
}

// reader reads lines, and checks them.
type reader struct {
	in     *bufio.Reader
	hash   hash.Hash
	header Header
	lines  int64 // behind the header
	bytes  int64 // of these lines
	counts Counts
	last   node.MessageID // of the messages read so far
}

// CutError says that a file has no end.
type CutError struct{ Lines int64 }

// Error returns the sentence for a person.
func (e *CutError) Error() string {
	return fmt.Sprintf("the file ends after %d lines, without its last one: it was cut, or its export has not ended; "+
		"export again, from the store that is sealed", e.Lines)
}

// newReader returns a reader that has read the header.
func newReader(in io.Reader) (*reader, error) {
	r := &reader{in: bufio.NewReaderSize(in, 1<<16), hash: sha256.New()}
	raw, err := r.raw()
	if err != nil {
		return nil, err
	}
	// Of another version, only the version is sure to be there.
	var version struct {
		Export *struct {
			Version int `json:"version"`
		} `json:"export"`
	}
	if err := json.Unmarshal(raw, &version); err != nil || version.Export == nil {
		return nil, errors.New("the first line is not that of an export of Chronos")
	}
	if version.Export.Version != Version {
		return nil, fmt.Errorf("the file is of version %d, and this program reads version %d: use the release that "+
			"has written it, or a later one", version.Export.Version, Version)
	}
	l, err := parse(raw)
	if err == nil {
		err = validate(&l)
	}
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	r.header = *l.Export
	r.hash.Write(raw)
	return r, nil
}

// raw returns the next line, with its end.
func (r *reader) raw() ([]byte, error) {
	var raw []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if raw = append(raw, part...); len(raw) > maxLine {
			return nil, fmt.Errorf("line %d has more than %d bytes, which no export writes", r.lines+2, maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return r.ended(raw, err)
		}
	}
}

// ended returns a line that was read, with the error that has ended it.
func (r *reader) ended(raw []byte, err error) ([]byte, error) {
	switch {
	case err == nil:
		return raw, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &CutError{Lines: r.lines}
	}
	return nil, fmt.Errorf("read the file behind line %d: %w", r.lines+1, err)
}

func parse(raw []byte) (l line, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l); err != nil {
		return l, fmt.Errorf("it can't be read: %w", err)
	}
	return l, nil
}

// next adds the next line to a batch, and reports whether that was the last one.
func (r *reader) next(to *Batch) (last bool, err error) {
	raw, err := r.raw()
	if err != nil {
		return false, err
	}
	l, err := parse(raw)
	if err == nil && l.End != nil {
		return true, r.finish(l.End)
	}
	r.lines++
	r.bytes += int64(len(raw))
	r.hash.Write(raw)
	if err == nil {
		err = validate(&l)
	}
	if err == nil {
		err = r.add(to, &l)
	}
	if err != nil {
		return false, fmt.Errorf("line %d: %w", r.lines+1, err)
	}
	to.To = r.lines
	return false, nil
}

func (r *reader) add(to *Batch, l *line) error {
	switch {
	case l.Position != nil:
		r.counts.Positions++
		to.Places = append(to.Places, l.Position.place())
	case l.Pause != nil:
		r.counts.Pauses++
		to.Pauses = append(to.Pauses, node.Pause{
			Lane: l.Pause.Lane, Since: l.Pause.Since, By: withoutNUL(l.Pause.By), Why: withoutNUL(l.Pause.Why),
		})
	case l.Answer != nil:
		r.counts.Answers++
		a, err := l.Answer.answer()
		if err != nil {
			return err
		}
		to.Answers = append(to.Answers, a)
	case l.Message != nil:
		r.counts.Messages++
		m, err := l.Message.message()
		if err != nil {
			return err
		}
		if m.ID < r.last.ID || m.ID == r.last.ID && m.Lane <= r.last.Lane {
			return fmt.Errorf("message %q comes twice, or not in its order", m.ID)
		}
		r.last = node.MessageID{ID: m.ID, Lane: m.Lane}
		to.Messages = append(to.Messages, m)
	default:
		if is, err := r.addQueues(to, l); is || err != nil {
			return err
		}
		return errors.New("it says nothing that this program knows")
	}
	return nil
}

// withoutNUL returns words for people as every store can keep them: Postgres knows no NUL in a text.
func withoutNUL(words string) string { return strings.ReplaceAll(words, "\x00", "\ufffd") }

// finish checks the last line, and that nothing comes behind it.
func (r *reader) finish(e *end) error {
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("something comes behind the last line: two exports, perhaps, in one file")
	}
	if sum := hex.EncodeToString(r.hash.Sum(nil)); e.Counts != r.counts || e.SHA256 != sum {
		return fmt.Errorf("the file was changed since it was written: its last line tells of %+v and SHA-256 %s, "+
			"and there are %+v and %s", e.Counts, e.SHA256, r.counts, sum)
	}
	return nil
}
