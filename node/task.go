package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// TasksLane is the callback lane on which the tasks of queues are requested, and on which records that bring a task, or
// complete one, wait for the moment that it takes to tell the store: package queue has the rest. Nothing else may name
// it.
const TasksLane = CallbackPrefix + "tasks"

// The headers of tasks. An application sets the first two on a record that is a task, and HeaderTask, and perhaps the
// two after it, on one that completes a task; it finds HeaderTask and HeaderTaskRun on what comes out. The last three
// are on messages of TasksLane only.
const (
	HeaderQueue      = "chronosQueue"      // the name or the UUID of a queue
	HeaderPriority   = "chronosPriority"   // a whole number, the higher the sooner
	HeaderTask       = "chronosTask"       // the UUID of the task
	HeaderTaskRun    = "chronosTaskRun"    // the UUID of its run
	HeaderTaskStatus = "chronosTaskStatus" // success or failure; on a promise a status of package queue
	HeaderTaskPart   = "chronosTaskPart"   // what the message is to its task: TaskArrives, TaskEnds, ...
	HeaderTaskTopic  = "chronosTaskTopic"  // with TaskArrives: where the record comes out
	HeaderTaskWhen   = "chronosTaskWhen"   // with TaskArrives: not before this instant, in an async queue
)

// The values of HeaderTaskPart on what records become.
const (
	TaskArrives = "arrive" // the task itself: it comes out on the topic that HeaderTaskTopic names
	TaskEnds    = "end"    // its completion
)

// ActionComplete is the value of HeaderAction on a record that completes a task. It is no Action: the store decides on
// it as on any message that is to come out.
const ActionComplete = "complete"

// TaskSuccess and TaskFailure are the values of HeaderTaskStatus on such a record.
const (
	TaskSuccess = "success"
	TaskFailure = "failure"
)

// arrivePrefix is what the ids of messages that bring a task have before those of their records.
const arrivePrefix = InternalPrefix + TaskArrives + "/"

// taskHeaders are the headers of tasks that a record has, by their names.
func taskHeaders(headers []Header) (found map[string][]byte, rejected *rejection) {
	for i := range headers {
		switch name := headers[i].Name; name {
		case HeaderQueue, HeaderPriority, HeaderTask, HeaderTaskRun, HeaderTaskStatus:
			if found == nil {
				found = map[string][]byte{}
			}
			if _, twice := found[name]; twice && rejected == nil {
				rejected = &rejection{RepeatedHeader, "there are several headers " + name, name}
			}
			found[name] = HeaderText(headers[i].Value)
		}
	}
	return found, rejected
}

// withoutTask returns headers without those by which a message of TasksLane says what it is: nobody else may say it.
func withoutTask(headers []Header) []Header {
	kept := make([]Header, 0, len(headers))
	for _, h := range headers {
		switch h.Name {
		case HeaderTask, HeaderTaskRun, HeaderTaskStatus, HeaderTaskPart, HeaderTaskTopic, HeaderTaskWhen:
		default:
			kept = append(kept, h)
		}
	}
	return kept
}

// decodeArrival reads a record that is a task of a queue. What it becomes is a message that is due at once: its publish
// has the task arrive. So a record that is delivered twice is one task, as one message (S17), and the engine knows of
// queues nothing but this file. Its lane is known.
func (in *instruction) decodeArrival(c *Config, h *requested, r Record, task map[string][]byte) *rejection {
	queue, lane := task[HeaderQueue], in.message.Lane
	switch {
	case !c.Serves(TasksLane):
		return wrong(InvalidQueue, HeaderQueue, queue, "no queues are served here: a node serves them that has "+
			"api-listen or horae-listen set, or an entry "+TasksLane+" in lanes")
	case in.action != Schedule:
		return wrong(InvalidQueue, HeaderQueue, queue, fmt.Sprintf("there is an action %s as well, and a task in a "+
			"queue is changed through the API", in.action))
	case IsCallback(lane):
		return wrong(InvalidQueue, HeaderQueue, queue, "the record would come out as a request, on lane "+lane+
			": a task that is a request has an action, and is brought through the API")
	}
	if _, why := CheckID(string(queue)); why != "" {
		return &rejection{InvalidQueue, "the header " + HeaderQueue + " " + why, HeaderQueue}
	}
	for _, name := range []string{
		HeaderNotAfter, HeaderRepeat, HeaderRepeatZone, HeaderRepeatCount, HeaderRepeatUntil, HeaderMissed,
	} {
		if h.count(name) > 0 {
			return &rejection{InvalidQueue, fmt.Sprintf("there is a header %s, which a task of a queue does not take",
				name), name}
		}
	}
	if priority, has := task[HeaderPriority]; has {
		if _, err := strconv.ParseInt(string(priority), 10, 32); err != nil {
			return wrong(InvalidQueue, HeaderPriority, priority, "it must be a whole number")
		}
	}
	var when []Header
	if h.count(HeaderDeadline)+h.count(HeaderDelay) > 0 {
		if rejected := in.decodeInstants(c, h, r); rejected != nil {
			return rejected
		}
		when = []Header{{HeaderTaskWhen, []byte(headerTime(in.message.Deadline))}}
	}
	in.message.ID = arrivePrefix + in.id
	if len(in.message.ID) > MaxIDLength {
		in.message.ID = arrivePrefix + taskOf(in.id).String()
	}
	in.task, in.message.Lane, in.message.Deadline = true, TasksLane, arrivedAt(r)
	in.message.Key, in.message.Value = r.Key, r.Value
	in.message.Headers = append(withoutTask(c.relayed(r.Headers)), append(when,
		Header{HeaderTaskPart, []byte(TaskArrives)},
		Header{HeaderTask, []byte(taskOf(in.id).String())},
		Header{HeaderTaskTopic, []byte(lane)})...)
	return nil
}

// taskPart returns TaskArrives or TaskEnds for a message that a record which brings a task, or completes one, has
// become, and "" for all others.
func (m *Message) taskPart() string {
	if part := m.taskHeader(HeaderTaskPart); m.Lane == TasksLane && (part == TaskArrives || part == TaskEnds) {
		return part
	}
	return ""
}

// taskHeader returns the last header of a name: ours come after those of an application.
func (m *Message) taskHeader(name string) string {
	for _, h := range slices.Backward(m.Headers) {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// taskRecord returns the headers of the record that a message was which brings a task, or completes one, so that its
// dead letter may be put back: read again it is the same task, at its time and with its topic, or the same completion.
func (m *Message) taskRecord(part string, headers []Header) []Header {
	id := strings.TrimPrefix(strings.TrimPrefix(m.ID, arrivePrefix), InternalPrefix)
	headers = append(withoutTask(headers), Header{HeaderID, AsHeader(id)})
	again := [][2]string{{HeaderTopic, HeaderTaskTopic}, {HeaderDeadline, HeaderTaskWhen}}
	if part == TaskEnds {
		headers = append(headers, Header{HeaderAction, []byte(ActionComplete)})
		again = [][2]string{
			{HeaderTask, HeaderTask}, {HeaderTaskRun, HeaderTaskRun}, {HeaderTaskStatus, HeaderTaskStatus},
		}
	}
	for _, name := range again {
		if value := m.taskHeader(name[1]); value != "" {
			headers = append(headers, Header{name[0], []byte(value)})
		}
	}
	return headers
}

// decodeCompletion reads a record that completes a task. It needs no id of its own: of two that complete the same run,
// and wait at the same time, one is enough.
func (c *Config) decodeCompletion(h *requested, repeated *rejection, r Record) instruction {
	in := instruction{action: Schedule, word: ActionComplete, task: true, told: true, rejected: repeated}
	task, twice := taskHeaders(r.Headers)
	if id, _ := h.get(HeaderID); len(id) > 0 {
		if _, why := CheckID(string(id)); why == "" {
			in.id = string(id)
		}
	}
	if in.rejected == nil {
		in.rejected = twice
	}
	if in.rejected == nil && !c.Serves(TasksLane) {
		in.rejected = wrong(InvalidQueue, HeaderAction, []byte(ActionComplete), "no queues are served here: a node "+
			"serves them that has api-listen or horae-listen set, or an entry "+TasksLane+" in lanes")
	}
	run, hasRun := task[HeaderTaskRun]
	status, hasStatus := task[HeaderTaskStatus]
	id, err := uuid.ParseBytes(task[HeaderTask])
	switch {
	case in.rejected != nil:
		return in
	case len(task[HeaderTask]) == 0:
		in.rejected = missing(InvalidTask, r.Headers, HeaderTask)
		in.rejected.detail += ": it says what is complete"
	case err != nil:
		in.rejected = wrong(InvalidTask, HeaderTask, task[HeaderTask], "it must be the UUID of a task")
	case hasRun && uuid.Validate(string(run)) != nil:
		in.rejected = wrong(InvalidTask, HeaderTaskRun, run, "it must be the UUID of a run")
	case hasStatus && string(status) != TaskSuccess && string(status) != TaskFailure:
		in.rejected = wrong(InvalidTask, HeaderTaskStatus, status, "it must be "+TaskSuccess+" or "+TaskFailure)
	}
	if in.rejected != nil {
		return in
	}
	if in.id == "" {
		in.id = id.String()
	}
	if !hasRun {
		run = []byte("any")
	}
	if !hasStatus {
		status = []byte(TaskSuccess)
	}
	in.message = Message{
		ID:   InternalPrefix + id.String() + "/" + string(run) + "/" + TaskEnds,
		Lane: TasksLane, Deadline: arrivedAt(r), Value: r.Value,
		Headers: []Header{
			{HeaderTaskPart, []byte(TaskEnds)}, {HeaderTask, []byte(id.String())}, {HeaderTaskStatus, status},
		},
	}
	if hasRun {
		in.message.Headers = append(in.message.Headers, Header{HeaderTaskRun, run})
	}
	return in
}

// taskOf returns the id of the task that a record with a message id is: that id, if it is a UUID.
func taskOf(id string) uuid.UUID {
	if given, err := uuid.Parse(id); err == nil && given.String() == id {
		return given
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("chronos:task/"+id))
}

// arrivedAt returns when a record that is due at once is due: the same instant each time that it is delivered. Its
// producer may have written any timestamp, and no store takes a message of the year 300000.
func arrivedAt(r Record) time.Time {
	at := r.Timestamp.UTC().Truncate(time.Microsecond)
	if at.IsZero() || at.Year() < 1 || at.Year() > 9999 {
		return time.Unix(0, 0).UTC()
	}
	return at
}
