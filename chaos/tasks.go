package chaos

import (
	"cmp"
	"context"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/chaos/servers"
)

// tasksInTurn is how many tasks one scenario is about.
const tasksInTurn = 1000

// taskScenarios are about queues.
func taskScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{{
		Name: "tasks-in-turn",
		About: fmt.Sprintf("A queue runs %d tasks one at a time while nodes are killed and Postgres is restarted. "+
			"Each is executed, after the one before it is completed, in the order of priority and arrival.",
			tasksInTurn),
		Hosts: 1, Asks: 1, Rate: 1, Tasks: tasksInTurn, Outside: true, Servers: true, Lasts: 36 * s,
		draw: func(n *nemesis) {
			at := s
			for _, i := range n.random.Perm(3) {
				n.killNode(at, n.between(1*s, 3*s), n.cluster.nodes[i])
				at += n.between(4*s, 6*s)
			}
			n.takeAway(10*s, 2*s, thePostgres, byStop, n.database)
			n.takeAway(26*s, 2*s, thePostgres, byKill, n.database)
		},
		demands: []demand{inTurn},
	}}
}

// tasker brings tasks to a queue by the HTTP API, executes them, and completes them.
type tasker struct {
	asker *asker
	queue uuid.UUID
	wants int

	// trouble reports whether anything may still go wrong.
	trouble func() bool

	mu       sync.Mutex
	order    []string // the tasks in the order in which they were asked for first
	troubled int      // how many of them while things went wrong
	times    int      // how often any was asked for
	finished map[string]bool
	begun    map[string]bool // a completion of it was sent
	wrong    []string
	random   *mathrand.Rand
	under    int      // how many completions are under way
	wanted   []string // the order that is demanded
}

// newTasker listens for executions.
func newTasker(c *cluster, a *asker, trouble func() bool) (*tasker, string, error) {
	t := &tasker{
		trouble: trouble,
		asker:   a, wants: c.scenario.Tasks, queue: uuid.New(), finished: map[string]bool{}, begun: map[string]bool{},
		random: mathrand.New(mathrand.NewPCG(c.config.Seed, 5)),
	}
	port, err := c.servers.Port()
	if err != nil {
		return nil, "", err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", servers.Local(port))
	if err != nil {
		return nil, "", fmt.Errorf("listen for tasks: %w", err)
	}
	server := &http.Server{Handler: t, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	c.cleanUp = append(c.cleanUp, server.Close)
	return t, "http://" + servers.Local(port) + "/", nil
}

// ServeHTTP executes a task: it is written down, and completed a moment later, at some node.
func (t *tasker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id := string(body)
	if err != nil || uuid.Validate(id) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times++
	if !t.begun[id] {
		if n := len(t.order); n > 0 && !t.begun[t.order[n-1]] && t.order[n-1] != id {
			t.wrong = append(t.wrong, fmt.Sprintf("task %s is executed before anybody has completed %s, the one "+
				"before it", id, t.order[n-1]))
		}
		if len(t.order) == 0 || t.order[len(t.order)-1] != id {
			t.order = append(t.order, id)
			if t.trouble() {
				t.troubled++
			}
		}
	}
	node, wait := t.random.IntN(len(t.asker.nodes)), time.Duration(t.random.IntN(20))*time.Millisecond
	twice := t.random.IntN(10) == 0
	t.under++
	time.AfterFunc(wait, func() {
		t.complete(id, node)
		if twice {
			t.complete(id, node+1)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.under--
	})
}

// complete has a task completed.
func (t *tasker) complete(id string, node int) {
	t.mu.Lock()
	t.begun[id] = true
	t.mu.Unlock()
	_, told := t.asker.ask(context.Background(), request{
		method: http.MethodPost, path: "/v1/tasks/" + id + "/complete", key: uuid.NewString(), body: struct{}{},
	}, node, false)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finished[id] = t.finished[id] || told
}

// run brings the tasks while the queue is closed, and then opens it.
func (t *tasker) run(ctx context.Context, address string) {
	put := func(path string, body any) bool {
		_, told := t.asker.ask(ctx, request{method: http.MethodPut, path: path, key: uuid.NewString(), body: body},
			t.asks(), false)
		return told
	}
	type fields = map[string]any
	action := uuid.New()
	ok := put("/v1/actions/"+action.String(), fields{
		"uri": address, "method": http.MethodPost, "payload": "<<CHRONOS_TASK_UUID>>",
	}) && put("/v1/queues/"+t.queue.String(), fields{"name": "in-turn", "kind": "sync", "window": "never"})
	if !ok {
		return // the asker has complained
	}
	var group sync.WaitGroup
	brought := make([]broughtTask, t.wants)
	for n := range brought {
		brought[n] = broughtTask{id: uuid.NewString(), priority: n % 3}
		group.Go(func() {
			told, _ := t.asker.ask(ctx, request{
				method: http.MethodPut, path: "/v1/tasks/" + brought[n].id, key: uuid.NewString(), body: fields{
					"queue": t.queue.String(), "execution": action.String(), "priority": brought[n].priority,
				},
			}, t.asks(), false)
			brought[n].arrival = told.Arrival
		})
	}
	group.Wait()
	slices.SortFunc(brought, func(a, b broughtTask) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.arrival, b.arrival))
	})
	t.mu.Lock()
	for _, b := range brought {
		t.wanted = append(t.wanted, b.id)
	}
	t.mu.Unlock()
	_ = put("/v1/queues/"+t.queue.String(), fields{"window": "always"}) // what is wrong, the asker complains of
}

// broughtTask is a task that was brought to the queue, and its place among those that came.
type broughtTask struct {
	id       string
	priority int
	arrival  int64
}

func (t *tasker) asks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(len(t.asker.nodes))
}

// await waits until all tasks are completed, but not forever.
func (t *tasker) await(ctx context.Context) error {
	if t == nil {
		return nil
	}
	const longest = 10 * time.Minute
	end := time.Now().Add(longest)
	for time.Now().Before(end) && ctx.Err() == nil {
		t.mu.Lock()
		done := len(t.finished) >= t.wants && t.under == 0
		t.mu.Unlock()
		if done {
			return nil
		}
		sleepUntil(ctx, time.Now().Add(200*time.Millisecond))
	}
	return ctx.Err() // inTurn says what is missing
}

// inTurn demands that each task was executed, when the one before it was completed, in the order that is demanded.
func inTurn(r *run, _ *Result) string {
	t := r.tasker
	t.mu.Lock()
	defer t.mu.Unlock()
	r.say("%d of %d tasks are completed, %d of them while things went wrong; executions were asked for %d times",
		len(t.finished), t.wants, t.troubled, t.times)
	switch {
	case len(t.finished) != t.wants:
		return fmt.Sprintf("%d of %d tasks are completed", len(t.finished), t.wants)
	case len(t.wrong) > 0:
		return fmt.Sprintf("%s; %d are wrong in all", t.wrong[0], len(t.wrong))
	case t.troubled < t.wants/20:
		return fmt.Sprintf("only %d tasks were executed while things went wrong: that shows nothing", t.troubled)
	case len(t.order) != t.wants:
		return fmt.Sprintf("%d tasks were executed in turn, of %d", len(t.order), t.wants)
	}
	for i, id := range t.wanted {
		if t.order[i] != id {
			return fmt.Sprintf("task %s is executed as number %d: it is the turn of %s", t.order[i], i+1, id)
		}
	}
	return ""
}
