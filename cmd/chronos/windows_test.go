package main_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/store/sqlite"
)

// What is wrong with a window is one sentence, which names the line and says what to write instead.
func TestWindowSentences(t *testing.T) {
	const routes = "routes:\n  - {input: a, output: b, targets: 'b.x, c.*', dead-letter: d, outcomes: o%s}\n"
	for _, c := range []struct{ route, lanes, want string }{
		{
			", window: 9 to 5 every weekday", "",
			"FILE:2: window is \"9 to 5 every weekday\", which is no window: \"9 to 5\" at character 1: is this in " +
				"the morning or in the afternoon? Write 9am to 5pm, or 09:00 to 05:00",
		},
		{
			", window: 9am to 5pm on saturday", "",
			"FILE:2: window is \"9am to 5pm on saturday\", which is no window: \"on saturday\" at character 12: ",
		},
		{
			", window: weekdays", "lanes:\n  - {name: b, window: weekends}\n",
			"FILE:2: window is weekdays: lane b has another window already, by FILE:4: window: a lane has one",
		},
		{
			", window: weekdays", "  - {input: a2, output: b, dead-letter: d, window: weekends}\n",
			"FILE:3: window is weekends: lane b has another window already, by FILE:2: window: a lane has one",
		},
		{
			"", "lanes:\n  - {name: bb, window: weekends}\n",
			"FILE:4: name is bb: no route has that topic as its output, a target or its outcomes",
		},
		{"", "lanes:\n  - {name: b}\n", "FILE:4: window is not set: an entry of a topic says when it is open, or "},
		{
			"", "lanes:\n  - {name: b, window: weekends, timeout: 3s}\n",
			"FILE:4: timeout is 3s: only a callback lane has it, whose name begins with http:",
		},
		{
			"", "lanes:\n  - {name: b, window: weekends, headers: {A: b}}\n",
			"FILE:4: headers: only a callback lane has them, whose name begins with http:",
		},
		{
			"", "lanes:\n  - {name: b, window: weekends}\n  - {name: b, window: weekends}\n",
			"FILE:5: name is b: a lane is listed once",
		},
		{
			"", "lanes:\n  - {name: 'b*c', window: weekends}\n",
			"FILE:4: name is \"b*c\": the name of a topic has 1 to 249 letters, digits, dots, underscores and hyphens",
		},
		{
			"", "lanes:\n  - {name: d, window: weekends}\n",
			"FILE:3: lanes has a window of the dead-letter topic d: it has none, because what is rejected is copied " +
				"there at once",
		},
		{
			"", "lanes:\n  - {name: b, max-per-second: 0}\n",
			"FILE:4: max-per-second is 0: it must be a number from 1 to 1000000",
		},
		{
			"", "lanes:\n  - {name: b, max-per-second: 10/s}\n",
			"FILE:4: max-per-second is 10/s: it must be a number from 1 to 1000000",
		},
		{
			"", "lanes:\n  - {name: bb, max-per-second: 5}\n",
			"FILE:4: name is bb: no route has that topic as its output, a target or its outcomes",
		},
		{
			"", "lanes:\n  - {name: d, max-per-second: 5}\n",
			"FILE:3: lanes has a pace of the dead-letter topic d: it has none, because what is rejected is copied " +
				"there at once",
		},
	} {
		file := writeFile(t, "c.yaml", fmt.Sprintf(routes, c.route)+c.lanes)
		got := run(t, "", "run", "--store", aStore, "--config", file)
		want := "chronos: " + strings.ReplaceAll(c.want, "FILE", file)
		if first, _, _ := strings.Cut(got.stderr, "\n"); got.code != 2 || !strings.HasPrefix(first, want) {
			t.Errorf("%s%s\nexits with %d and says\n%s\nwant\n%s", c.route, c.lanes, got.code, first, want)
		}
	}
}

// The windows in force are in the first line of the log, in their normal form.
func TestWindowsInForce(t *testing.T) {
	file := writeFile(t, "c.yaml", `
routes:
  - {input: a, output: b, targets: "b.x, c.*", window: 8am to 8pm every day in Europe/London}
  - {input: a2, output: b}
  - {input: a3, output: "http:b"}
lanes:
  - {name: b.x, window: never}
  - {name: c.*, window: 10 - 4am saturdays}
  - {name: "http:*", window: weekdays}
  - {name: "http:b", timeout: 3s}
  - {name: a.*, max-per-second: 7}
  - {name: "http:c", max-per-second: 50}
`)
	got := settings(t, "--store", aStore, "--config", file)
	for key, want := range map[string]any{
		"window b": "08:00 to 20:00 every day in Europe/London", "window b.x": "never",
		"window c.*": "22:00 to 04:00 every saturday in UTC", "window http:*": "all day every weekday in UTC",
		"window http:b": nil, "max-per-second a.*": "7", "max-per-second http:c": "50", "max-per-second c.*": nil,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}

// Commands that ask the store without a node know the windows of the file that they are given.
func TestAskStoreWithWindows(t *testing.T) {
	t.Parallel()
	file := keeps(t, 10)
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	late := node.Message{ID: "late", Lane: "out", Incarnation: uuid.New(), Deadline: time.Now().UTC().Add(-time.Hour)}
	_, err = control.Instruct(t.Context(), store, []node.Item{{Action: node.Schedule, Message: late}})
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	for window, shown := range map[string]string{"always": "1 shown", "never": "There are none"} {
		config := writeFile(t, "c.yaml", "routes:\n  - {input: in, output: out, window: "+window+"}\n")
		says(t, 0, shown, "list", "--state", "overdue", "--store", "sqlite:"+file, "--config", config)
	}
}

// TestEndToEndWindow has messages fall due while their topic is closed, on two nodes of which one is killed. None comes
// out, none is overdue, and one is cancelled. When the topic opens the others come out, each once, within moments. A
// window has minutes, so that this takes one or two; other tests run meanwhile.
func TestEndToEndWindow(t *testing.T) {
	t.Parallel()
	s := newService(t)
	opens := time.Now().Add(25 * time.Second).Truncate(time.Minute).Add(time.Minute).UTC()
	file := writeFile(t, "c.yaml", fmt.Sprintf("lanes:\n  - {name: %s, window: %s to %s every day}\n", s.output,
		opens.Format("15:04"), opens.Add(10*time.Minute).Format("15:04")))
	l := &listener{freeAddress(t)}
	s.start(t, "--config", file, "--admin-listen", l.address)
	killed := s.start(t, "--config", file)
	killed.log.await(t, `"msg":"started"`, 1)
	const count = 300
	var batch []*kgo.Record
	for i := range count {
		due := time.Now().Add(time.Duration(i) * 10 * time.Millisecond)
		batch = append(batch, s.record(fmt.Sprint(i), due, []byte("x")))
	}
	gone := s.record("gone", time.Now().Add(time.Second), []byte("x"))
	gone.Key = []byte("gone")
	s.submit(t, append(batch, gone)...)
	eventually(t, func() string {
		if n := s.stored(t); n != count+1 {
			return fmt.Sprintf("%d messages are stored", n)
		}
		return ""
	})
	killed.end(t, syscall.SIGKILL)
	s.submit(t, &kgo.Record{Topic: s.input, Key: []byte("gone"), Headers: []kgo.RecordHeader{
		{Key: node.HeaderID, Value: []byte("gone")}, {Key: node.HeaderAction, Value: []byte("cancel")},
	}})
	eventually(t, func() string {
		if n := s.stored(t); n != count {
			return fmt.Sprintf("%d messages are stored after a cancel", n)
		}
		return ""
	})
	if time.Now().Before(opens) {
		l.awaitStatus(t, "/v1/lanes", http.StatusOK, `"closed":true,"changes":"`+opens.Format(time.RFC3339)+`"`)
		if _, text := l.get(t, "/v1/lanes"); !strings.Contains(text, `"overdue":{"n":0}`) {
			t.Errorf("something is overdue: %s", text)
		}
		if got := run(t, "", "top", "--once", "--admin", "http://"+l.address); !strings.Contains(got.stdout,
			"closed until "+opens.Format("Mon 2006-01-02 15:04 UTC")) {
			t.Errorf("top says %s%s", got.stdout, got.stderr)
		}
		if families := l.scrape(t); sum(families, "chronos_lane_open", "lane="+s.output) != 0 {
			t.Error("the lane is open by its metric")
		}
	}
	came := map[string]int{}
	for _, r := range s.read(t, s.output, 90*time.Second+patience, distinct(count)) {
		came[string(r.Key)]++
		if late := r.Timestamp.Sub(opens); late < -20*time.Millisecond || late > 10*time.Second {
			t.Errorf("a message came out %v after the opening", late)
		}
	}
	s.drained(t)
	for key, times := range came {
		if times != 1 || key == "gone" {
			t.Errorf("%s came out %d times", key, times)
		}
	}
	if sum(l.scrape(t), "chronos_lane_open", "lane="+s.output) != 1 {
		t.Error("the lane is closed by its metric")
	}
	if sum(l.scrape(t), "chronos_overdue", "lane="+s.output) != 0 {
		t.Error("something was overdue")
	}
}
