package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// timerClient is a server as clients of Metaswitch's Chronos have them: it counts the pops of each timer by its opaque
// text and X-Sequence-Number.
type timerClient struct {
	*httptest.Server

	mu       sync.Mutex
	pops     map[string]int
	failed   map[string]int // requests that were answered with 503
	late     time.Duration  // the greatest time between a pop and when it was due
	due      map[string]time.Time
	interval map[string]time.Duration
	over     map[string]time.Duration // those that were later than an interval, and how late
	busy     time.Duration            // the longest that an answer to a request has taken, or a pause of this process
}

func newTimerClient(t *testing.T) *timerClient {
	t.Helper()
	c := &timerClient{
		pops: map[string]int{}, failed: map[string]int{}, due: map[string]time.Time{},
		interval: map[string]time.Duration{}, over: map[string]time.Duration{},
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name := string(body) + " " + strings.Join(r.Header["X-Sequence-Number"], ",")
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.URL.Path == "/pop-with-errors" && c.failed[name] == 0 {
			c.failed[name]++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		c.pops[name]++
		due, known := c.due[name]
		if late := time.Since(due); known && late < 0 {
			t.Errorf("%s popped %v too early", name, -late)
		} else if known {
			c.late = max(c.late, late)
			if c.pops[name] == 1 && late > c.interval[name] {
				c.over[name] = late
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// set sets a timer on a node, and notes when it is due. It returns the timer's Location.
func (c *timerClient) set(t *testing.T, node, path, opaque string, interval, pops int) string {
	t.Helper()
	text := fmt.Sprintf(`{"timing": {"interval": %d, "repeat-for": %d}, "callback": {"http": {"uri": %q, "opaque": %q}},
		"reliability": {"replication-factor": 3}}`, interval, interval*pops, c.URL+path, opaque)
	began := time.Now()
	c.mu.Lock()
	for n := range pops {
		due := began.Add(time.Duration((n+1)*interval) * time.Second).Truncate(time.Millisecond)
		name := fmt.Sprint(opaque, " ", n+1)
		c.due[name], c.interval[name] = due, time.Duration(interval)*time.Second
	}
	c.mu.Unlock()
	location := request(t, http.MethodPost, node+"/timers", text)
	c.took(time.Since(began))
	return location
}

// took notes how long something has taken that takes milliseconds where nothing else is to be done.
func (c *timerClient) took(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = max(c.busy, d)
}

// inTime checks that all timers whose names begin so have popped within twice their interval, each time. What the
// machine has taken for something else is none of theirs.
func (c *timerClient) inTime(t *testing.T, prefixes ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, late := range c.over {
		is := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if is && late > c.interval[name]+c.busy {
			t.Errorf("%s popped %v after it was due, its interval is %v, and the machine was busy for %v", name, late,
				c.interval[name], c.busy)
		}
	}
}

// request makes a request that is to be answered with 200, and returns the Location of the answer.
func request(t *testing.T, method, url, body string) string {
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer answer.Body.Close() //nolint:errcheck // nothing was written
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s %s: %d %s", method, url, answer.StatusCode, text)
	}
	return answer.Header.Get("Location")
}

// awaitSome waits until timers begin to pop.
func (c *timerClient) awaitSome(t *testing.T, prefix string) {
	t.Helper()
	for tooLate := time.Now().Add(2 * patience); c.count(prefix) == 0; pause(t) {
		if time.Now().After(tooLate) {
			t.Fatalf("no pop of %s has come", prefix)
		}
	}
}

// count returns how many different pops have come.
func (c *timerClient) count(prefix string) (got int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.pops {
		if strings.HasPrefix(name, prefix) {
			got++
		}
	}
	return got
}

// await waits until so many different pops of some timers have come, and fails for those that have not.
func (c *timerClient) await(t *testing.T, prefix string, want int) {
	t.Helper()
	tooLate := time.Now().Add(2 * patience)
	for {
		switch got := c.count(prefix); {
		case got == want:
			return
		case got > want || time.Now().After(tooLate):
			t.Fatalf("%d different pops of %s have come, want %d", got, prefix, want)
		}
		began := time.Now()
		pause(t)
		c.took(time.Since(began) - aPause)
	}
}

// aPause is the time between two looks.
const aPause = 100 * time.Millisecond

// pause lets some time pass between two looks.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(aPause):
	case <-t.Context().Done():
		t.FailNow()
	}
}

// TestE2EMetaswitch runs the system tests of Metaswitch's Chronos (scripts/*.py, by their names) on nodes with a
// database and no Kafka: 100 timers each, set on the first node. Goal: what was deleted on other nodes does not pop; a
// callback that is answered with 503 is made again, once; and nothing is lost, or early, or later than twice its
// interval, when nodes come, go and are killed, with 5,000 timers under way, and timers that repeat. What a killed node
// had claimed pops when its hold time is over, which is 5 s here: so of the kill that is asked of timers of 12 s and
// more.
func TestE2EMetaswitch(t *testing.T) {
	t.Parallel()
	const timers = 100
	config := filepath.Join(t.TempDir(), "chronos.yaml")
	lane := "lanes: [{name: http:metaswitch, timeout: 1s, allowed: [127.0.0.0/8]}]\n"
	if err := os.WriteFile(config, []byte(lane), 0o600); err != nil {
		t.Fatal(err)
	}
	s, c := newService(t), newTimerClient(t)
	launch := func() (*nodeProcess, string) {
		p := s.launch(t, "--config", config, "--metaswitch-listen", "127.0.0.1:0")
		url := p.log.await(t, `"msg":"taking timers in by the interface of Metaswitch's Chronos","url":"([^"]+)"`, 1)[1]
		p.log.await(t, `"msg":"started"`, 1)
		return p, url
	}
	killed, first := launch()
	leaving, second := launch()
	_, third := launch()
	if got := request(t, http.MethodGet, third+"/ping", ""); got != "" {
		t.Errorf("a ping has a Location: %s", got)
	}

	// test_deletes. That they do not pop is seen at the end, long after they were due.
	for i := range timers {
		location := c.set(t, first, "/pop", fmt.Sprintf("deleted-%d", i), 3, 2)
		request(t, http.MethodDelete, []string{second, third}[i%2]+location, "")
	}
	// test_503_errors
	for i := range timers {
		c.set(t, first, "/pop-with-errors", fmt.Sprintf("error-%d", i), 2, 1)
	}
	// test_scale_up, test_scale_down, test_scale_up_and_kill
	var setting sync.WaitGroup
	for worker := range 10 {
		setting.Go(func() {
			for i := worker; i < 5000; i += 10 {
				c.set(t, []string{first, second, third}[i%3], "/pop", fmt.Sprintf("single-%d", i), 12+i%4, 1)
			}
		})
	}
	setting.Wait()
	for i := range timers {
		c.set(t, first, "/pop", fmt.Sprintf("repeated-%d", i), 4, 2)
	}
	c.await(t, "error-", timers)
	_, fourth := launch()
	for i := range timers {
		c.set(t, fourth, "/pop", fmt.Sprintf("new-%d", i), 2, 2)
	}
	if code := leaving.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a node that is asked to stop exits with %d", code)
	}
	c.await(t, "repeated-", 2*timers)
	c.await(t, "new-", 2*timers)
	c.inTime(t, "repeated-", "new-")
	c.awaitSome(t, "single-")
	killed.end(t, syscall.SIGKILL)
	c.await(t, "single-", 5000)
	c.inTime(t, "single-")
	s.drained(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	twice := 0
	for name, n := range c.pops {
		if twice += n - 1; strings.HasPrefix(name, "deleted-") {
			t.Errorf("%s was deleted, and has popped", name)
		}
	}
	if len(c.failed) != timers {
		t.Errorf("%d callbacks were answered with 503, want %d", len(c.failed), timers)
	}
	t.Logf("%d pops, %d of them twice, the last %v after it was due; the machine was busy for %v", len(c.pops), twice,
		c.late, c.busy)
}
