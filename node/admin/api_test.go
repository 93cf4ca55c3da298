package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/store/inspect"
	"chronos/node/store/memory"
)

// service is an API over a store with three messages: one that waits, one that is claimed, and one on another lane.
type service struct {
	*memory.Store

	api     *admin.API
	handler http.Handler
	log     bytes.Buffer
	node    uuid.UUID
}

func newService(t *testing.T, rights admin.Rights) *service {
	t.Helper()
	s := &service{Store: memory.New(time.Now), node: uuid.New()}
	s.api = &admin.API{
		Store: s.Store, Outlook: s.Store, Taker: s.Store, Lanes: []string{"out", "idle"}, Rights: rights,
		Troubles: admin.NewTroubles(nil),
		Log:      slog.New(slog.NewTextHandler(&s.log, nil)),
		Info:     func() admin.Info { return admin.Info{Node: "me", Settings: map[string]string{"hold-time": "5s"}} },
	}
	s.handler = s.api.Handler()
	place := node.Place{Partition: node.Partition{Topic: "in", TopicID: uuid.New()}}
	if _, _, err := s.Positions(t.Context(), []node.Place{place}); err != nil {
		t.Fatal(err)
	}
	request := node.TakeRequest{Node: s.node, Hold: time.Hour, From: []node.Place{place}}
	for i, m := range []struct {
		id, lane string
		due      time.Duration
		claim    bool
	}{{"a/1 ü", "out", time.Hour, false}, {"b", "out", 0, true}, {"c", "elsewhere", -time.Minute, false}} {
		request.Items = append(request.Items, node.Item{
			Offset: int64(i), Action: node.Schedule, Claim: m.claim,
			Message: node.Message{
				ID: m.id, Lane: m.lane, Incarnation: uuid.New(), Deadline: time.Now().Add(m.due), Key: []byte{0xff},
				Value: []byte("secret payload"), Headers: []node.Header{{Name: "n"}, {Name: "t", Value: []byte("v")}},
			},
		})
	}
	if _, err := s.Take(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask makes a request, and reads the answer into result.
func (s *service) ask(t *testing.T, status int, method, path, body string, result any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	if kind := w.Header().Get("Content-Type"); status >= 400 && kind != "application/problem+json" {
		t.Errorf("%s %s: an error as %s", method, path, kind)
	}
	if result != nil {
		reflect.ValueOf(result).Elem().SetZero()
		if err := json.Unmarshal(w.Body.Bytes(), result); err != nil {
			t.Fatal(err)
		}
	}
}

// Goal: a message is shown with all that the store knows, its value only to those who may see it.
func TestAPIShowsMessages(t *testing.T) {
	t.Parallel()
	for _, payload := range []bool{false, true} {
		s := newService(t, admin.Rights{Payload: payload})
		var found admin.Messages
		path := "/v1/messages/" + url.PathEscape("a/1 ü")
		s.ask(t, 200, "GET", path, "", &found)
		if len(found.Messages) != 1 {
			t.Fatalf("found %+v", found)
		}
		m := found.Messages[0]
		if m.ID != "a/1 ü" || m.State != "waiting" || m.Claim != nil || m.Value != nil || m.Bytes != 18 ||
			m.Key.String() != "base64:/w==" || len(m.Headers) != 2 || m.Headers[0].Value != nil ||
			m.Headers[1].Value.String() != "v" {
			t.Errorf("it is %+v", m)
		}
		if !payload {
			s.ask(t, 403, "GET", path+"?payload=true", "", nil)
			continue
		}
		s.ask(t, 200, "GET", path+"?payload=true", "", &found)
		if found.Messages[0].Value.String() != "secret payload" {
			t.Errorf("its value is %v", found.Messages[0].Value)
		}
		s.ask(t, 200, "GET", "/v1/messages/b", "", &found)
		if m := found.Messages[0]; m.State != "claimed" || m.Claim == nil || m.Claim.Node != s.node.String() {
			t.Errorf("it is %+v", m)
		}
		s.ask(t, 200, "GET", "/v1/messages?state=overdue", "", &found)
		if len(found.Messages) != 1 || found.Messages[0].ID != "c" || found.Messages[0].Value != nil {
			t.Errorf("overdue: %+v", found)
		}
		s.ask(t, 200, "GET", "/v1/messages?key=base64:%2Fw%3D%3D&header=t%3Dv&limit=1", "", &found)
		if len(found.Messages) != 1 || found.Next == "" {
			t.Errorf("a page of one: %+v", found)
		}
		s.ask(t, 200, "GET", "/v1/messages?limit=1&key=base64:%2Fw%3D%3D&header=t%3Dv&cursor="+found.Next, "", &found)
		if len(found.Messages) != 1 {
			t.Errorf("the next page: %+v", found)
		}
	}
}

// Goal: what is parked is in the state parked, with the part that does not answer, in a list of that state, and among
// what is counted on its lane; what is overdue lists it, too. Method: one message of lane out is parked.
func TestAPIParked(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	m := s.put(t, "late", func(m *node.Message) { m.Deadline = m.Deadline.Add(-2 * time.Hour) })
	got, err := s.Claim(t.Context(), node.ClaimRequest{
		Node: s.node, Hold: time.Hour, Until: time.Now(),
		Lanes: []node.Share{{Lane: "out", Limit: 100, Bytes: 1 << 20}},
	})
	if err != nil || len(got.Messages) != 1 || got.Messages[0].Incarnation != m {
		t.Fatalf("claimed %+v, %v", got.Messages, err)
	}
	release := node.Release{Claim: got.Messages[0].Claim, Part: "3", Unsent: true}
	if _, err := s.Reset(t.Context(), []node.Release{release}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/v1/messages?state=parked", "/v1/messages/late", "/v1/messages?state=overdue&lane=out",
	} {
		var found admin.Messages
		s.ask(t, 200, "GET", path, "", &found)
		if len(found.Messages) != 1 || found.Messages[0].State != "parked" || found.Messages[0].Part != "3" {
			t.Errorf("%s: %+v", path, found.Messages)
		}
	}
	var lanes admin.Lanes
	s.ask(t, 200, "GET", "/v1/lanes", "", &lanes)
	i := slices.IndexFunc(lanes.Lanes, func(l admin.Lane) bool { return l.Name == "out" })
	lane := lanes.Lanes[i]
	if len(lane.Parked) != 1 || lane.Parked[0].Part != "3" || lane.Parked[0].Waiting.N != 1 ||
		lane.Parked[0].Oldest == nil || lane.Overdue.N < 1 {
		t.Errorf("the lane is %+v", lane)
	}
}

// Goal: what makes no sense is refused by a sentence. Method: one mistake each.
func TestAPIRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	for _, path := range []string{
		"state=lost", "limit=0", "limit=501", "cursor=x", "from=yesterday", "key=base64:%25", "header=a%3Dbase64:!",
	} {
		s.ask(t, 422, "GET", "/v1/messages?"+path, "", nil)
	}
	s.ask(t, 404, "PUT", "/v1/pauses/lanes/nobodys", `{}`, nil)
	s.ask(t, 422, "PUT", "/v1/pauses/lanes/out", `{"colour": "red"}`, nil)
}

// Goal: a pause works in the store, is shown everywhere, and leaves an audit line; nobody pauses who may not.
func TestAPIPauses(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	var p admin.Pause
	s.ask(t, 200, "PUT", "/v1/pauses/lanes/out", `{"by": "me", "reason": "a test"}`, &p)
	s.ask(t, 200, "PUT", "/v1/pauses/intake", `{"by": "me"}`, &p)
	pauses, err := s.Pauses(t.Context())
	if err != nil || len(pauses) != 2 || pauses[0].Lane != node.Intake || pauses[1].Why != "a test" {
		t.Fatalf("pauses %+v, %v", pauses, err)
	}
	var lanes admin.Lanes
	s.ask(t, 200, "GET", "/v1/lanes", "", &lanes)
	if lanes.Intake.Paused == nil || len(lanes.Lanes) != 3 {
		t.Fatalf("lanes %+v", lanes)
	}
	for _, l := range lanes.Lanes {
		if paused := l.Paused != nil; paused != (l.Name == "out") || l.Served != (l.Name != "elsewhere") {
			t.Errorf("lane %+v", l)
		}
	}
	var resumed admin.Resumed
	for _, was := range []bool{true, false} {
		s.ask(t, 200, "DELETE", "/v1/pauses/lanes/out?by=me", "", &resumed)
		if resumed.Was != was {
			t.Errorf("it was paused: %v, want %v", resumed.Was, was)
		}
	}
	for _, line := range []string{
		`action=pause what="lane out" claimed_by=me authenticated="no: this listener asks for no token" ` +
			`remote=192.0.2.1:1234 reason="a test"`,
		`what="the intake"`, `action=resume`,
	} {
		if !strings.Contains(s.log.String(), line) {
			t.Errorf("no audit of %s in %s", line, &s.log)
		}
	}
	guarded := newServer(t, admin.Config{Listen: "127.0.0.1:0", TokenFile: write(t, "token", "one-long-token..\n")})
	guarded.Mount(s.api)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/pauses/intake?by=%0Aroot", nil)
	r.Header.Set("Authorization", "Bearer one-long-token..")
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	guarded.ServeHTTP(httptest.NewRecorder(), r)
	if want := `action=resume what="the intake" claimed_by="\nroot" authenticated="by the token of admin-token-file" ` +
		`remote=192.0.2.1:1234`; !strings.Contains(s.log.String(), want) {
		t.Errorf("no audit of %s in %s", want, &s.log)
	}
	reader := newService(t, admin.Rights{})
	for _, path := range []string{"/v1/pauses/lanes/out", "/v1/pauses/intake"} {
		reader.ask(t, 403, "PUT", path, `{}`, nil)
		reader.ask(t, 403, "DELETE", path, "", nil)
	}
	if pauses, _ := reader.Pauses(context.Background()); len(pauses) > 0 || reader.log.Len() > 0 {
		t.Errorf("paused by somebody who may only read: %v", pauses)
	}
}

// Goal: nodes that differ where they should not are told apart, and those that have died do not count.
func TestAPINodes(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	for i, settings := range []string{
		`{"hold-time": "5s", "lookahead": "1s", "admin-listen": "a"}`, `{"hold-time": "6s", "lookahead": "1s"}`,
	} {
		err := s.Beat(t.Context(), inspect.Node{
			ID: uuid.New(), Host: fmt.Sprint("host-", i), Version: "v1", Settings: []byte(settings),
			Status: []byte(`{}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var nodes admin.Nodes
	s.ask(t, 200, "GET", "/v1/nodes", "", &nodes)
	if len(nodes.Nodes) != 2 || nodes.Nodes[0].Silent || len(nodes.Differences) != 1 ||
		nodes.Differences[0].Setting != "hold-time" || len(nodes.Differences[0].Values) != 2 {
		t.Errorf("nodes %+v", nodes)
	}
}

// Goal: the last error of a message and of a lane is told until something comes through.
func TestTroubles(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	found, err := s.Find(t.Context(), "b", inspect.Parts{})
	if err != nil {
		t.Fatal(err)
	}
	m := found[0].Message
	for range 2 {
		s.api.Troubles.Observe(node.Unpublished{
			Messages: []node.Message{m}, Err: errors.New("no\nway"),
			Permanent: true,
		})
	}
	var shown admin.Messages
	var lanes admin.Lanes
	s.ask(t, 200, "GET", "/v1/messages/b", "", &shown)
	s.ask(t, 200, "GET", "/v1/lanes", "", &lanes)
	if trouble := shown.Messages[0].Trouble; trouble == nil || trouble.Error != "no way" || trouble.Tries != 2 {
		t.Errorf("the trouble is %+v", trouble)
	}
	if trouble := lanes.Lanes[2].Trouble; trouble == nil || !trouble.Permanent {
		t.Errorf("the trouble of %s is %+v", lanes.Lanes[2].Name, trouble)
	}
	s.api.Troubles.Observe(node.Fired{Messages: []node.Message{m}})
	if left := s.api.Troubles.Lanes(); len(left) > 0 {
		t.Errorf("trouble is left: %v", left)
	}
	for range 3000 {
		m.Incarnation = uuid.New()
		s.api.Troubles.Observe(node.Unpublished{Messages: []node.Message{m}, Err: errors.New("x")})
	}
}

// Goal: a lane that this node could not publish on, and another one has taken over, does not stay red. Method: a clock
// that is set on; a lane that is tried again keeps its trouble, and so does a topic that rejects a message, which is
// tried again every few minutes.
func TestTroubleEnds(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	now := time.Now()
	s.api.Troubles.SetNow(func() time.Time { return now })
	fail := func(lane string, err error) {
		s.api.Troubles.Observe(node.Unpublished{Messages: []node.Message{{Lane: lane}}, Err: err})
	}
	look := func(want ...bool) {
		t.Helper()
		var lanes admin.Lanes
		s.ask(t, 200, "GET", "/v1/lanes", "", &lanes)
		for i, lane := range lanes.Lanes {
			_, beats := s.api.Troubles.Lanes()[lane.Name]
			if has := lane.Trouble != nil; has != want[i] || beats != want[i] {
				t.Errorf("%s has a trouble: %v, and says so to others: %v; want %v", lane.Name, has, beats, want[i])
			}
		}
	}
	fail("elsewhere", errors.New("hangs")) // lanes are in the order of their names
	fail("idle", fmt.Errorf("too large: %w", node.RecordRejected))
	fail("out", node.TopicMissing)
	look(true, true, true)
	now = now.Add(20 * time.Second)
	fail("out", node.TopicMissing)
	now = now.Add(20 * time.Second)
	look(false, true, true)
	now = now.Add(20 * time.Second)
	look(false, true, false)
	now = now.Add(6 * time.Minute)
	look(false, false, false)
	for i := range 100_000 { // names that somebody makes up
		now = now.Add(100 * time.Millisecond)
		fail(fmt.Sprint("made up ", i), node.TopicMissing)
	}
	if known := s.api.Troubles.Known(); known > 1001 {
		t.Errorf("the troubles of %d lanes are kept, nearly all of which are over", known)
	}
}

// Goal: what a broker says in an error gets into the heartbeat of the node, whatever it is. Method: an error with a
// zero byte, which Postgres takes in no text of JSON, and with a letter that is cut in two.
func TestTroubleIsText(t *testing.T) {
	t.Parallel()
	troubles := admin.NewTroubles(nil)
	troubles.Observe(node.Unpublished{
		Messages: []node.Message{{Lane: "out"}}, Err: errors.New("no\x00way\x1b\xff" + strings.Repeat("ü", 400)),
	})
	text := troubles.Lanes()["out"].Error
	if !strings.HasPrefix(text, "no way ") || !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) ||
		len(text) > 510 {
		t.Errorf("the trouble is %q", text)
	}
}

// away is a store that does not answer.
type away struct {
	*memory.Store

	err error
}

// Lanes implements inspect.Source.
func (a away) Parts(context.Context) ([]node.Part, error) { return nil, a.err }

// Goal: who asks a node while its store is away reads what is out and what still works, and no error of a library; who
// asks the store at a terminal of their own reads the error. Method: a store that fails, behind both.
func TestAPIOutage(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	s.api.Store = away{s.Store, errors.New("look for lanes: dial tcp 10.0.0.5:5432: connection refused")}
	var problem struct{ Detail string }
	s.ask(t, 503, "GET", "/v1/lanes", "", &problem)
	if !strings.Contains(problem.Detail, "10.0.0.5") {
		t.Errorf("it says %q", problem.Detail)
	}
	out := admin.Problem{
		What: "store", Fault: admin.FaultStore, Says: "The store has not answered", Since: time.Now(),
		Cause: "it is asleep", Effect: "Nothing works.",
	}
	s.api.Problems = func() []admin.Problem { return []admin.Problem{out} }
	s.api.Explain = func(error) string { return out.Sentence(time.Now()) }
	s.ask(t, 503, "GET", "/v1/lanes", "", &problem)
	if !strings.HasPrefix(problem.Detail, "The store has not answered since ") ||
		!strings.HasSuffix(problem.Detail, " UTC (0s): it is asleep. Nothing works.") {
		t.Errorf("it says %q", problem.Detail)
	}
	var info admin.Info
	s.ask(t, 200, "GET", "/v1/info", "", &info)
	if len(info.Problems) != 1 || info.Problems[0].Cause != out.Cause || info.Problems[0].Fault != "the store" {
		t.Errorf("info %+v", info)
	}
	s.api.Store = away{s.Store, fmt.Errorf("look for lanes: %w", inspect.ErrTooLong)}
	s.ask(t, 503, "GET", "/v1/lanes", "", &problem)
	if !strings.Contains(problem.Detail, "took too long") {
		t.Errorf("it says %q", problem.Detail)
	}
}

// Goal: every path is described. Method: the description is read, and has what is mounted.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	var spec struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}
	s.ask(t, 200, "GET", "/openapi.json", "", &spec)
	if !strings.HasPrefix(spec.OpenAPI, "3.1") || len(spec.Paths) != 26 {
		t.Errorf("OpenAPI %s with %d paths", spec.OpenAPI, len(spec.Paths))
	}
	for path, methods := range spec.Paths {
		for method := range methods {
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), strings.ToUpper(method), path, nil))
			problem := w.Header().Get("Content-Type") == "application/problem+json"
			if w.Code == http.StatusMethodNotAllowed || w.Code == http.StatusNotFound && !problem {
				t.Errorf("%s %s is described, and not there: %d", method, path, w.Code)
			}
		}
	}
	var info admin.Info
	s.ask(t, 200, "GET", "/v1/info", "", &info)
	if info.Node != "me" || info.Settings["hold-time"] != "5s" || info.Control {
		t.Errorf("info %+v", info)
	}
}

// aged is a store whose nodes were last seen some time ago.
type aged struct {
	inspect.Store

	by time.Duration
}

func (a aged) Nodes(ctx context.Context) ([]inspect.Node, time.Time, error) {
	nodes, now, err := a.Store.Nodes(ctx)
	return nodes, now.Add(a.by), err
}

// Goal: what nodes have of their own does not differ, and a node that has died is forgotten when an operator says so, a
// node that lives not. Method: two nodes of one host, of which one has died.
func TestAPINodesAreForgotten(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	id := uuid.New()
	for i, one := range []uuid.UUID{id, uuid.New()} {
		settings := fmt.Sprintf(`{"api-listen": "127.0.0.1:%d", "horae-listen": ":%d", "metaswitch-listen": ":%d",
			"api-tls-cert": "%d.pem", "api-token-file": "%d", "data-dir": "/var/%d", "hold-time": "5s"}`,
			i, i, i, i, i, i)
		if err := s.Beat(t.Context(), inspect.Node{
			ID: one, Host: "a", Version: "v1", Settings: []byte(settings), Status: []byte(`{"pid": 17}`),
		}); err != nil {
			t.Fatal(err)
		}
	}
	var nodes admin.Nodes
	s.ask(t, 200, "GET", "/v1/nodes", "", &nodes)
	if len(nodes.Differences) != 0 || nodes.Nodes[0].Status.PID != 17 {
		t.Errorf("nodes %+v", nodes)
	}
	s.ask(t, 409, "DELETE", "/v1/nodes/"+id.String(), "", nil)
	s.api.Store = aged{s.Store, time.Minute}
	s.ask(t, 404, "DELETE", "/v1/nodes/"+uuid.NewString(), "", nil)
	var gone admin.Forgotten
	s.ask(t, 200, "DELETE", "/v1/nodes/"+id.String(), "", &gone)
	s.ask(t, 200, "GET", "/v1/nodes", "", &nodes)
	if gone.Host != "a" || len(nodes.Nodes) != 1 || nodes.Nodes[0].ID == id.String() {
		t.Errorf("forgotten is %+v, left are %+v", gone, nodes.Nodes)
	}
}
