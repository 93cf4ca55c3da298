package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node/calendar"
)

// The headers by which a record asks for something. Their names are compared byte for byte. Each comes at most once;
// all but HeaderID may be absent.
const (
	HeaderID       = "chronosMessageId"
	HeaderDeadline = "chronosDeadline" // an instant, see ParseDeadline
	HeaderDelay    = "chronosDelay"    // in place of a deadline: from the record's timestamp on; calendar.ParseDelay
	HeaderNotAfter = "chronosNotAfter" // an instant after which the message is not published any more
	HeaderAction   = "chronosAction"   // an Action; schedule if absent
	HeaderTopic    = "chronosTopic"    // the output topic, out of the targets of the route
	HeaderConfirm  = "chronosConfirm"  // true: there is an outcome for schedule, too

	HeaderRepeat      = "chronosRepeat"      // an interval or a cron expression, see package calendar
	HeaderRepeatZone  = "chronosRepeatZone"  // of a cron expression; UTC if absent
	HeaderRepeatCount = "chronosRepeatCount" // how many occurrences there are
	HeaderRepeatUntil = "chronosRepeatUntil" // the last instant at which there may be one
	HeaderMissed      = "chronosMissed"      // what becomes of occurrences that were missed: one, all or skip
)

// HeaderSequence is the header of each occurrence of a series: its number, from 1. In an outcome it is the last one
// that may come, where the series was stopped, and the first one that does not come, where it was cancelled.
const HeaderSequence = "chronosSequence"

// The headers of messages on callback lanes. The first two say what to request; they are relayed wherever a message
// comes out. HeaderAttempt says how many requests there may have been of this message, this one included: what the sink
// is handed has it, beside HeaderID, HeaderDeadline and HeaderSequence.
const (
	HeaderURL     = "chronosUrl"
	HeaderMethod  = "chronosMethod"
	HeaderAttempt = "chronosAttempt"
)

// The headers of an outcome, beside HeaderID, HeaderAction and HeaderDeadline, and those that tell of its record.
// Their values are text.
const (
	HeaderOutcome        = "chronosOutcome"        // an Outcome, or OutcomeRejected
	HeaderOutcomeAt      = "chronosOutcomeAt"      // when the record was taken in, by the node's clock
	HeaderFormerDeadline = "chronosFormerDeadline" // the deadline of before, where it is another one
	HeaderFormer         = "chronosFormer"         // content that was replaced may appear all the same
	HeaderLineage        = "chronosLineage"        // of the store: the higher one counts
	HeaderOpens          = "chronosOpens"          // when the lane opens, which is closed by its window
)

// The headers that are added to a copy on a dead-letter topic, after all that the record had. Their values are
// text.
const (
	HeaderReason          = "chronosReason" // a Reason
	HeaderError           = "chronosError"  // a sentence
	HeaderSourceTopic     = "chronosSourceTopic"
	HeaderSourcePartition = "chronosSourcePartition"
	HeaderSourceOffset    = "chronosSourceOffset"
	HeaderCut             = "chronosCut" // what is missing of a copy that would not have fitted

	// Those of a callback that was given up.
	HeaderStatus    = "chronosStatus"    // of the last answer
	HeaderAnswer    = "chronosAnswer"    // how that answer began
	HeaderSourceURL = "chronosSourceUrl" // what was to be requested, where the copy is a request itself
)

// MaxIDLength is the greatest length of a message id in bytes.
const MaxIDLength = 128

// rejection says why a record is no valid submission.
type rejection struct {
	reason Reason
	detail string
	header string // the one that is to blame; "" if none is
}

// wrong rejects the value of a header.
func wrong(reason Reason, header string, value []byte, why any) *rejection {
	return &rejection{reason, fmt.Sprintf("the header %s is %s: %v", header, quoted(value), why), header}
}

// instruction is what a record asks for.
type instruction struct {
	action  Action
	message Message // without an incarnation; it shares the record's bytes

	// id and word are the message id and the action as the record has them, as far as they can be told.
	id, word string

	// task says that it brings a task, or completes one.
	task bool

	// told says that there is to be an outcome.
	told bool

	// rejected says why the record is no valid instruction, if it is none; then there is no message.
	rejected *rejection
}

// decode reads a record of the input topic of route, in the format of that route.
func (c *Config) decode(r Record, route Route) instruction {
	var in instruction
	if route.Format == FormatChronos {
		in = c.decodeHeaders(r, route)
	} else if in = c.foreign(r, route); in.id != "" {
		if reason, why := CheckID(in.id); why != "" {
			in.id, in.rejected = "", &rejection{reason, fmt.Sprintf("the id %s %s", quoted([]byte(in.id)), why), ""}
		}
	}
	if in.rejected == nil {
		in.rejected = c.checkNames(&in, route.Format)
	}
	in.told = in.told && in.id != "" // or nobody would know what is told
	if in.rejected != nil {
		return in
	}
	if in.message.ID == "" {
		in.message.ID = in.id
	}
	in.message.Origin = origin(r)
	if !in.action.Stores() {
		return in
	}
	in.message.Line = c.line(in.message.Lane, in.message.Key)
	if size := in.message.Size(); size > MaxMessageBytes {
		in.rejected = &rejection{TooLarge, fmt.Sprintf(
			"key, value and headers have %d bytes, more than %d", size, MaxMessageBytes), ""}
	}
	return in
}

// checkNames rejects an instruction that names a message, or for a task the topic on which it comes out, that no
// submission may name.
func (c *Config) checkNames(in *instruction, format Format) *rejection {
	lane := in.message.Lane
	if in.task {
		lane = in.message.taskHeader(HeaderTaskTopic) // none, if it completes one
	}
	reason, why := c.CheckName(in.id, lane)
	switch {
	case why == "":
		return nil
	case reason == UnknownTopic:
		return &rejection{reason, why, format.topicHeader()}
	case format == FormatChronos:
		return &rejection{reason, why, HeaderID}
	}
	return &rejection{reason, why, ""}
}

// decodeHeaders reads a record of our own format.
func (c *Config) decodeHeaders(r Record, route Route) instruction {
	in := instruction{action: Schedule, word: Schedule.String()}
	h, repeated := requestHeaders(r.Headers)
	if word, _ := h.get(HeaderAction); string(word) == ActionComplete {
		return c.decodeCompletion(&h, repeated, r)
	}
	if in.rejected = checkID(&h, r.Headers); in.rejected != nil {
		return in
	}
	id, _ := h.get(HeaderID)
	in.id = string(id)
	confirm, _ := h.get(HeaderConfirm)
	in.told = h.count(HeaderAction) > 0 || string(confirm) == "true" // whatever else is wrong with the record
	unknown := in.decodeAction(&h)
	if in.rejected = cmp.Or(repeated, unknown, checkConfirm(&h)); in.rejected == nil {
		in.rejected = in.decodeTopic(&h, route)
	}
	task, twice := taskHeaders(r.Headers)
	switch {
	case in.rejected != nil:
	case task[HeaderQueue] != nil && twice != nil:
		in.rejected = twice
	case task[HeaderQueue] != nil:
		in.rejected = in.decodeArrival(c, &h, r, task)
		return in
	default:
		in.rejected = in.decodeInstants(c, &h, r)
	}
	if in.rejected == nil && in.action.Stores() {
		in.message.Key, in.message.Value, in.message.Headers = r.Key, r.Value, c.relayed(r.Headers)
	}
	return in
}

// requested are the values of the headers by which a record asks for something, in the order of requestNames: the first
// of each, and how many there are.
type requested [12]struct {
	value []byte
	count int
}

// requestNames returns the names of the headers by which a record asks for something.
func requestNames() [12]string {
	return [...]string{
		HeaderID, HeaderDeadline, HeaderDelay, HeaderNotAfter, HeaderAction, HeaderTopic, HeaderConfirm,
		HeaderRepeat, HeaderRepeatZone, HeaderRepeatCount, HeaderRepeatUntil, HeaderMissed,
	}
}

// requestPlace returns the place of a header in requestNames, or -1.
func requestPlace(name string) int {
	if !strings.HasPrefix(name, "chronos") {
		return -1 // nearly all of them
	}
	names := requestNames()
	return slices.Index(names[:], name)
}

// get returns the value of a header and whether there is one.
func (h *requested) get(name string) (value []byte, found bool) {
	one := &h[requestPlace(name)]
	return one.value, one.count > 0
}

func (h *requested) count(name string) int { return h[requestPlace(name)].count }

// requestHeaders sorts out the headers of a record, and rejects one that has any of them twice, the id aside.
func requestHeaders(headers []Header) (h requested, rejected *rejection) {
	for i := range headers {
		at := requestPlace(headers[i].Name)
		if at < 0 {
			continue
		}
		if h[at].count++; h[at].count == 1 {
			h[at].value = HeaderText(headers[i].Value)
		}
	}
	for at, name := range requestNames() {
		if name == HeaderID || h[at].count <= 1 {
			continue
		}
		reason := RepeatedHeader
		if name == HeaderDeadline {
			reason = RepeatedDeadline
		}
		return h, &rejection{reason, fmt.Sprintf("there are %d headers %s", h[at].count, name), name}
	}
	return h, nil
}

// RequestHeaders returns the names of the headers by which a record asks for something.
func RequestHeaders() []string {
	names := requestNames()
	return names[:]
}

// IsRequest reports whether a header is one by which a record asks for something. These are not relayed, except for
// those that Config.RelayHeaders names.
func IsRequest(name string) bool { return requestPlace(name) >= 0 }

func (in *instruction) decodeAction(h *requested) *rejection {
	value, found := h.get(HeaderAction)
	if !found {
		return nil
	}
	in.word = string(value)
	for action := Schedule; action <= FireNow; action++ {
		if action.String() == in.word {
			in.action = action
			return nil
		}
	}
	in.word = quoted(value)
	return wrong(UnknownAction, HeaderAction, value, "it must be schedule, replace, reschedule, cancel, fire "+
		"or "+ActionComplete)
}

func checkConfirm(h *requested) *rejection {
	value, found := h.get(HeaderConfirm)
	if !found || string(value) == "true" || string(value) == "false" {
		return nil
	}
	return wrong(InvalidConfirm, HeaderConfirm, value, "it must be true or false")
}

func (in *instruction) decodeTopic(h *requested, route Route) *rejection {
	in.message.Lane = route.Output
	value, found := h.get(HeaderTopic)
	if !found {
		return nil
	}
	if in.message.Lane = string(value); !route.serves(in.message.Lane) {
		return noTarget(HeaderTopic, in.message.Lane, route)
	}
	return nil
}

// noTarget is for a record that names a topic that its route does not have.
func noTarget(header, lane string, route Route) *rejection {
	return &rejection{UnknownTopic, fmt.Sprintf("the header %s is %s, which is no target of input topic %s",
		header, quoted([]byte(lane)), route.Input), header}
}

// tooManyTargets is for a record that names a topic that a target with a * stands for, of which there are too many.
func tooManyTargets(header, lane string) *rejection {
	return &rejection{TooManyTargets, fmt.Sprintf("the header %s is %s, and messages for %d other topics wait already "+
		"that no route names", header, quoted([]byte(lane)), mostFound), header}
}

// decodeInstants reads the deadline of an action that needs one, and until when the message may be published.
func (in *instruction) decodeInstants(c *Config, h *requested, r Record) *rejection {
	if !in.action.Stores() && in.action != Reschedule {
		return in.decodeSeries(c, h, r, time.Time{})
	}
	var rejected *rejection
	switch delay, found := h.get(HeaderDelay); {
	case found && h.count(HeaderDeadline) > 0:
		return &rejection{DeadlineAndDelay, fmt.Sprintf(
			"there are both headers %s and %s: one of them says when", HeaderDeadline, HeaderDelay), HeaderDelay}
	case found:
		in.message.Deadline, rejected = delayed(delay, r)
	case h.count(HeaderDeadline) == 0 && h.count(HeaderRepeat) > 0: // the first match
	default:
		in.message.Deadline, rejected = c.checkDeadline(h, r.Headers)
	}
	if rejected == nil {
		rejected = in.decodeSeries(c, h, r, in.message.Deadline)
	}
	value, found := h.get(HeaderNotAfter)
	switch {
	case rejected != nil || !found:
		return rejected
	case in.action == Reschedule:
		return &rejection{InvalidNotAfter, fmt.Sprintf(
			"there is a header %s, which %s does not take: it moves the deadline and nothing else", HeaderNotAfter,
			in.action), HeaderNotAfter}
	}
	last, err := c.instant(value)
	if err == nil && last.Before(in.message.Deadline) {
		err = fmt.Errorf("it is before the deadline, %s", headerTime(in.message.Deadline))
	}
	if err != nil {
		return wrong(InvalidNotAfter, HeaderNotAfter, value, err)
	}
	in.message.NotAfter = last
	return nil
}

// delayed returns the deadline of a record that asks for a delay. It counts from the record's timestamp, so that it is
// the same however often and whenever the record is delivered.
func delayed(value []byte, r Record) (time.Time, *rejection) {
	delay, err := calendar.ParseDelay(string(value))
	if err == nil {
		err = noBase(&r)
	}
	var deadline time.Time
	if err == nil {
		deadline, err = inRange(r.Timestamp.UTC().Add(delay))
	}
	if err != nil {
		return time.Time{}, wrong(InvalidDelay, HeaderDelay, value, err)
	}
	return deadline, nil
}

// noBase returns why nothing counts from the timestamp of a record, and nil if something may. No record is older than
// the year 2000: a producer has written 0, or seconds in place of milliseconds, and what counts from there is due at
// once.
func noBase(r *Record) error {
	switch first := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); {
	case r.Timestamp.IsZero():
		return errors.New("the record has no timestamp that it could count from")
	case r.Timestamp.Before(first):
		return fmt.Errorf("it counts from the timestamp of the record, which is %s: a producer that writes timestamps "+
			"itself has to write milliseconds since 1970", headerTime(r.Timestamp))
	}
	return nil
}

// instant reads a header that is an instant.
func (c *Config) instant(value []byte) (time.Time, error) {
	at, err := ParseDeadline(value, c.EpochDeadlines)
	if errors.Is(err, errBareNumber) {
		err = fmt.Errorf("%w; or let --epoch-deadlines say what they count", err)
	}
	return at, err
}

func checkID(h *requested, headers []Header) *rejection {
	id, found := h.get(HeaderID)
	switch {
	case !found:
		return missing(MissingID, headers, HeaderID)
	case h.count(HeaderID) > 1:
		return &rejection{RepeatedID, fmt.Sprintf("there are %d headers %s", h.count(HeaderID), HeaderID), HeaderID}
	}
	if reason, why := CheckID(string(id)); why != "" {
		return &rejection{reason, "the header " + HeaderID + " " + why, HeaderID}
	}
	return nil
}

func (c *Config) checkDeadline(h *requested, headers []Header) (time.Time, *rejection) {
	value, found := h.get(HeaderDeadline)
	if !found {
		return time.Time{}, missing(MissingDeadline, headers, HeaderDeadline, HeaderDelay, HeaderRepeat, HeaderAction)
	}
	deadline, err := c.instant(value)
	if err != nil {
		return time.Time{}, wrong(InvalidDeadline, HeaderDeadline, value, err)
	}
	return deadline, nil
}

// quoted shows at most 40 bytes of a value to a person.
func quoted(value []byte) string {
	const limit = 40
	if len(value) > limit {
		return strconv.QuoteToASCII(string(value[:limit])) + " and more"
	}
	return strconv.QuoteToASCII(string(value))
}

// relayed returns the headers without those of Chronos, except for those that the configuration relays. Order,
// repetition, nulls and bytes stay as they are.
func (c *Config) relayed(headers []Header) []Header {
	kept := make([]Header, 0, len(headers))
	for _, h := range headers {
		if !IsRequest(h.Name) && h.Name != HeaderRequest || slices.Contains(c.RelayHeaders, h.Name) {
			kept = append(kept, h)
		}
	}
	return kept
}

// origin returns where a record comes from.
func origin(r Record) Origin { return Origin{r.Topic, r.Partition, r.Offset} }

// sourceHeaders tell where a message comes from.
func sourceHeaders(o Origin) []Header {
	if o.Topic == "" {
		return nil
	}
	return []Header{
		{HeaderSourceTopic, []byte(o.Topic)},
		{HeaderSourcePartition, strconv.AppendInt(nil, int64(o.Partition), 10)},
		{HeaderSourceOffset, strconv.AppendInt(nil, o.Offset, 10)},
	}
}

// deadLetterOfRecord returns the copy of a rejected record as a message that has lapsed: it takes the same way
// to its topic as any other message, through the store.
func deadLetterOfRecord(p Partition, r Record, rejected *rejection, topic string, now time.Time) Message {
	headers := append(slices.Clip(r.Headers),
		Header{HeaderReason, []byte(rejected.reason)},
		Header{HeaderError, []byte(rejected.detail)},
	)
	m := Message{
		ID:       derivedID("rejected", p, r),
		Lane:     topic,
		Deadline: now.UTC().Truncate(time.Microsecond),
		Origin:   origin(r),
		Key:      r.Key,
		Value:    r.Value,
		Headers:  append(headers, sourceHeaders(origin(r))...),
	}
	if size := m.Size(); size > MaxMessageBytes {
		short := cutRecord(record(&m), 1, size-MaxMessageBytes)
		if m.Key, m.Value, m.Headers = short.Key, short.Value, short.Headers; m.Size() > MaxMessageBytes {
			short = cutRecord(record(&m), cuts, 0)
			m.Key, m.Value, m.Headers = short.Key, short.Value, short.Headers
		}
	}
	return m
}

// deadLetterOfMessage returns the copy of a message that its output topic rejects for good, or that was not to be
// published any more. The headers that made it a submission are there again, so that it can be submitted anew once the
// cause is gone.
func deadLetterOfMessage(m *Message, cause error, topic string) Record {
	reason, why := PublishRejected, cause.Error()
	if IsCallback(m.Lane) {
		reason = CallbackFailed
	}
	if errors.Is(cause, errExpired) {
		reason, why = Expired, "it was not to be published after "+headerTime(m.NotAfter)
	}
	headers := record(m).Headers // with its number, if it is an occurrence: the series goes on without it
	headers = slices.DeleteFunc(slices.Clone(headers), func(h Header) bool { return IsRequest(h.Name) })
	if part := m.taskPart(); part != "" {
		headers = m.taskRecord(part, headers)
	} else {
		headers = append(headers,
			Header{HeaderID, AsHeader(strings.TrimPrefix(m.ID, InternalPrefix))}, // of a record that a task is, perhaps
			Header{HeaderDeadline, []byte(headerTime(m.Deadline))},
		)
	}
	if reason != Expired && !m.NotAfter.IsZero() {
		headers = append(headers, Header{HeaderNotAfter, []byte(headerTime(m.NotAfter))})
	}
	headers = append(headers, Header{HeaderReason, []byte(reason)}, Header{HeaderError, []byte(why)})
	if refused := FailureOf(cause); refused.Status != 0 {
		headers = append(headers, Header{HeaderStatus, strconv.AppendInt(nil, int64(refused.Status), 10)},
			Header{HeaderAnswer, refused.Answer})
	}
	return Record{Topic: topic, Key: m.Key, Value: m.Value, Headers: append(headers, sourceHeaders(m.Origin)...)}
}

const (
	// cuts is how much a copy can be cut: the end of the value, all of it, and then the key and the headers too,
	// except for those of Chronos.
	cuts = 3

	// cutBytes is how much of the value goes first: more than the headers that a copy has on top of its record.
	cutBytes = 4 << 10
)

// cutRecord returns a copy of a record that is smaller, and says so in a header. The first cut takes at least bytes off
// the value. No cut is the record itself.
func cutRecord(r Record, cut, bytes int) Record {
	if cut == 0 {
		return r
	}
	whole := len(r.Value)
	switch keep := whole - max(cutBytes, bytes+cutBytes/4); {
	case r.Value == nil:
	case cut == 1 && keep > 0:
		r.Value = r.Value[:keep]
	default:
		r.Value = []byte{}
	}
	note := fmt.Sprintf("value: %d of %d bytes", len(r.Value), whole)
	headers := slices.DeleteFunc(slices.Clone(r.Headers), func(h Header) bool { return h.Name == HeaderCut })
	if cut >= cuts {
		note += "; key and headers: none"
		r.Key = nil
		headers = slices.DeleteFunc(headers, func(h Header) bool { return !isOurs(h.Name) })
	}
	r.Headers = append(headers, Header{HeaderCut, []byte(note)})
	return r
}

// isOurs reports whether a header is one that Chronos reads or writes.
func isOurs(name string) bool {
	switch name {
	case HeaderReason, HeaderError, HeaderSourceTopic, HeaderSourcePartition, HeaderSourceOffset, HeaderCut,
		HeaderOutcome, HeaderOutcomeAt, HeaderFormerDeadline, HeaderFormer, HeaderLineage, HeaderSequence,
		HeaderURL, HeaderMethod, HeaderStatus, HeaderAnswer, HeaderSourceURL, HeaderOpens, HeaderQueue, HeaderPriority,
		HeaderTask, HeaderTaskRun, HeaderTaskStatus, HeaderTaskPart, HeaderTaskTopic, HeaderTaskWhen:
		return true
	}
	return IsRequest(name)
}
