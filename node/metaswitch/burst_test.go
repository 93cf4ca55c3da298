package metaswitch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Goal: whatever three nodes are asked for one timer at the same time, what was asked last, when all of that was
// answered, is what becomes of it. Method: whenever it pops, and so is claimed by a node, it is deleted by one node and
// set by the two others, one of these for much later, and then set for at once; each of these pops once at most. In the
// end it is deleted, and set once more.
func TestBurst(t *testing.T) {
	t.Parallel()
	c, nodes := newClient(t), cluster(t, 3)
	const timer, times, form = "/timers/00000000000000bb-2", 30, `{"timing": {"interval": %d}, "callback": {"http": ` +
		`{"uri": "%s/pop", "opaque": %q}}}`
	put := func(node, interval int, opaque string) {
		send(t, nodes[node%len(nodes)], "PUT", timer, fmt.Sprintf(form, interval, c.URL, opaque))
	}
	var pops atomic.Int32
	over := make(chan struct{})
	c.answer = func(p pop, _ int) int {
		if !strings.HasPrefix(p.body, "at once") {
			return http.StatusOK
		}
		n := int(pops.Add(1))
		if n > times {
			if n == times+1 {
				close(over)
			}
			return http.StatusOK
		}
		var asking sync.WaitGroup
		asking.Go(func() { put(n, 0, fmt.Sprintf("at once %d, perhaps", n)) })
		asking.Go(func() { put(n+1, 3600, fmt.Sprint("never ", n)) })
		asking.Go(func() { send(t, nodes[(n+2)%len(nodes)], "DELETE", timer, "") })
		asking.Wait()
		put(n, 0, fmt.Sprint("at once ", n))
		return http.StatusOK
	}
	put(0, 0, "at once")
	<-over
	send(t, nodes[0], "DELETE", timer, "")
	put(1, 1, "the last")
	c.await(t, "the last", func() bool { return c.numbers("the last") != "" })
	send(t, nodes[2], "POST", "/timers", fmt.Sprintf(form, 1, c.URL, "after it"))
	c.await(t, "what comes after it", func() bool { return c.numbers("after it") != "" })
	c.mu.Lock()
	defer c.mu.Unlock()
	for body, came := range c.came {
		if len(came) != 1 || strings.HasPrefix(body, "never") {
			t.Errorf("%q popped %d times", body, len(came))
		}
	}
}
