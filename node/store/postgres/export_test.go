package postgres

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/node"
	"chronos/node/store/postgres/marks"
)

// Statements are the texts of all statements.
func Statements() map[string]string {
	return map[string]string{
		"lock_partitions": lockPartitionsStatement, "positions": positionsStatement,
		"positions_and_state": positionsAndStateStatement,
		"lock_messages":       lockMessagesStatement, "state": stateStatement, "insert": insertStatement,
		"insert_all": insertAllStatement, "reply": replyStatement,
		"change": changeStatement, "replace": replaceStatement, "remove": removeStatement,
		"rearm": rearmStatement, "end_series": endStatement, "promised": promisedStatement,
		"move": moveStatement, "forget": forgetStatement, "mark": markStatement,
		"lock_store": lockStoreStatement, "bind": bindStatement, "begin_lineage": beginStatement,
		"add_partitions": addPartitionsStatement, "add_positions": addPositionsStatement,
		"lock_all": lockAllStatement, "count": countStatement,
		"claim": claimStatement, "look": lookStatement, "idle": idleStatement, "peek": peekStatement,
		"channel": channelStatement, "notify": notifyStatement,
		"delete": deleteStatement, "expired": expiredStatement, "first_expired": firstExpiredStatement,
		"lock_free_partitions": lockFreePartitionsStatement, "lock_free_messages": lockFreeMessagesStatement,
		"read_messages": readMessagesStatement, "there": thereStatement, "held_claims": heldClaimsStatement,
		"delete_free": free(deleteStatement), "reset_free": free(resetStatement), "rearm_free": free(rearmStatement),
		"end_free": free(endStatement),
		"turn":     turnStatement, "forward": forwardStatement,
		"paused": pausedStatement, "pause": pauseStatement, "resume": resumeStatement, "pauses": pausesStatement,
		"reset": resetStatement, "claimed_count": claimedCountStatement, "coming_count": comingCountStatement,
		"find": findStatement, "waiting_slice": waitingSliceStatement, "claimed_slice": claimedSliceStatement,
		"parts": partsStatement, "places": placesStatement, "beat": beatStatement,
		"gone": goneStatement, "nodes": nodesStatement,
		"answers": answersStatement, "remember": rememberStatement, "replaced": replacedStatement,
		"sweep": sweepStatement,
		"seal":  sealStatement, "keep_seal": keepSealStatement, "forget_seal": forgetSealStatement,
		"close": closeStatement, "open": openStatement, "own": ownStatement, "used": usedStatement,
		"count_messages": countMessagesStatement, "count_answers": countAnswersStatement,
		"all_places": allPlacesStatement, "held": heldStatement, "moved": movedStatement, "told": toldStatement,
		"receive": receiveStatement, "receive_answers": receiveAnswersStatement,
		"receive_pause": receivePauseStatement,
		"overdue_count": overdueCountStatement, "deferred_count": deferredCountStatement,
		"parked_count": parkedCountStatement, "origins": originsStatement,
	}
}

// UseMarks makes s look for what is due, and for what has expired, from marks that lie at an instant, as it does once a
// look from the beginning is dear.
func UseMarks(s *Store, lanes []string, at time.Time) {
	s.waiting.use(lanes, nil, at, time.Now(), false)
	s.expired.use([]string{""}, nil, at, time.Now(), false)
}

// Unhurried gives those who ask s that long: the answers are what is tested, on a machine that has much else to do.
func Unhurried(s *Store, limit time.Duration) *Store {
	s.asked.limit, s.askedFor = askedLimit(limit), limit
	return s
}

// Look keeps the connection for those who ask, until end is called.
func Look(s *Store) (end func()) {
	if err := s.asked.begin(context.Background()); err != nil {
		panic(err)
	}
	return s.asked.end
}

// Marks returns on how many lanes, that of expired claims included, marks are used.
func Marks(s *Store) (n int) {
	for _, l := range []*looks{&s.waiting, &s.expired} {
		l.mu.Lock()
		for _, set := range l.sets {
			if set.Used() {
				n++
			}
		}
		l.mu.Unlock()
	}
	return n
}

// Run executes a statement as the calls of s do, and returns its rows, of one text each.
func Run(ctx context.Context, s *Store, statement string, arguments ...any) (list []string, err error) {
	err = s.once(ctx, func() { list = nil }, step{
		statement: statement, arguments: arguments, read: func(rows pgx.Rows) error {
			var text string
			err := rows.Scan(&text)
			list = append(list, text)
			return err
		},
	})
	return list, err
}

// TakeApart has takes of that many items and more be made of two transactions.
func TakeApart(s *Store, items int) *Store {
	s.apartFrom = items
	return s
}

// Tell has those told that rest.
func Tell(s *Store) { s.tell() }

// ForgetLooks has the next claim begin like that of a new store: from the beginning, without a look before.
func ForgetLooks(s *Store) {
	s.waiting.mu.Lock()
	defer s.waiting.mu.Unlock()
	s.waiting.doubts, s.waiting.sets = nil, nil
}

// NeverMarks keeps s from using marks, however long its looks take. With marks a claim may bring what is
// due later before what is due earlier, so that a test on a slow machine would see another order than it asks for.
func NeverMarks(s *Store) *Store {
	for _, l := range []*looks{&s.waiting, &s.expired} {
		l.mu.Lock()
		l.never = true
		l.mu.Unlock()
	}
	return s
}

// UseMark has the next claims on a lane start at the mark, below which nothing waited at that time.
func UseMark(s *Store, lane string, mark, now time.Time) {
	s.waiting.use([]string{lane}, map[string]marks.Place{lane: {Due: mark}}, now, now.Add(-time.Hour), false)
}

// Looks is looks, for tests that look themselves.
type Looks struct{ looks }

// UseMark begins to use a mark on a lane.
func (l *Looks) UseMark(lane string, mark time.Time) {
	l.use([]string{lane}, map[string]marks.Place{lane: {Due: mark}}, time.Now(), time.Now(), false)
}

// From returns where a look at a lane starts.
func (l *Looks) From(lane string) time.Time { return l.from(lane).Due }

// Sweeps reports whether the sweep has a turn now, on lanes or else on others.
func (l *Looks) Sweeps(lanes, others []string) bool {
	_, due := l.next(lanes, others)
	return due
}

// Sweep looks at the next slice of a lane, which takes so long and finds nothing, and returns where that begins.
func (l *Looks) Sweep(lane string, took time.Duration) (from time.Time) {
	s, due := l.next([]string{lane}, nil)
	if !due {
		return time.Time{}
	}
	l.swept(s, took, false, false)
	return s.slice.From[0]
}

// Turn looks at the slice that is due on lanes, or else on others, which finds nothing, and returns the lane of it; the
// empty string where none is due.
func (l *Looks) Turn(lanes, others []string, took time.Duration) string {
	s, due := l.next(lanes, others)
	if !due {
		return ""
	}
	<-time.After(took)
	l.swept(s, took, false, false)
	return s.slice.Lanes[0]
}

// Kept returns of how many lanes a doubt or a mark is kept.
func (l *Looks) Kept() int { return len(l.doubts) + len(l.sets) }

// Suspects reports whether one of lanes is to be looked at now, as prepare asks that.
func (l *Looks) Suspects(lanes ...string) bool {
	_, _, some := l.suspect(lanes)
	return some
}

// Done has a look at lanes end with an error, or none after so long.
func (l *Looks) Done(lanes []string, took time.Duration, err error) {
	l.done(lanes, nil, time.Now(), took, err)
}

// Prepare is prepare, where each look takes so long or is given up. It returns from where it looks at each lane.
func (l *Looks) Prepare(lanes []string, took time.Duration, gaveUp bool) (froms []time.Time, err error) {
	for _, d := range l.doubts {
		d.looked = time.Time{} // or it would not look twice in a second
	}
	err = l.prepare(context.Background(), lanes, time.Now(), func(
		_ context.Context, _ []string, from []time.Time, _ time.Time,
	) (map[string]marks.Place, time.Duration, bool, error) {
		froms = from
		return nil, took, gaveUp, nil
	})
	return froms, err
}

// Writes returns the statements that store a take of records where nothing is stored yet, and how many of the arguments
// of each are not nil.
func Writes(request node.TakeRequest) (list []string) {
	t := newTake(request)
	t.look()
	for i := range t.found {
		t.found[i].found, t.found[i].locked = true, true
	}
	t.decide(len(request.Items), "")
	for _, s := range t.write() {
		used := 0
		for _, argument := range s.arguments {
			if v := reflect.ValueOf(argument); v.Kind() != reflect.Slice || !v.IsNil() {
				used++
			}
		}
		for name, text := range Statements() {
			if text == s.statement {
				list = append(list, fmt.Sprint(name, " ", used))
			}
		}
	}
	return list
}

// DefineStatement has those who define queues come one after the other.
const DefineStatement = defineStatement

// QueueStatements returns those of queues by their names, except for what only inserts.
func QueueStatements() map[string]string {
	return map[string]string{
		"lock_queue": lockQueueStatement, "queue_by_id": queueByIDStatement, "queue_by_name": queueByNameStatement,
		"list_queues": listQueuesStatement + taggedQueues, "queues_at": queuesAtStatement, "inside": insideStatement,
		"lock_queues": lockQueuesStatement, "touch": touchStatement, "drop_queue": dropQueueStatement,
		"forget_paths": forgetPathsStatement, "looks": looksStatement, "task": taskStatement,
		"first_tasks": firstTasksStatement, "due_tasks": dueTasksStatement, "overdue_tasks": overdueTasksStatement,
		"soonest": soonestStatement, "longest": longestStatement, "list_tasks": listTasksStatement,
		"list_tasks_of": listTasksOfStatement, "put_task": putTaskStatement, "forget_tasks": forgetTasksStatement,
		"action": actionStatement, "list_actions": listActionsStatement, "in_use": inUseStatement,
		"drop_action": dropActionStatement, "moved_tasks": movedTasksStatement, "moved_actions": movedActionsStatement,
	}
}

// Patient returns options of a store whose calls wait for locks for as long as they may, so that a test can watch them.
func Patient(options Options) Options {
	options.LockWait = options.Timeout
	return options
}

// LockMoment is how long a call waits for a row.
const LockMoment = lockMoment
