package main_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHoraeAlone runs horae's own example, as docs/MOVING.md prints it, on a node that has nothing set for it but
// horae-listen: the action requests the completion URI of its task, which leads to the node itself, on loopback and on
// a port of its own, and needs no entry in allowed. To other listeners of the node no task gets so.
func TestHoraeAlone(t *testing.T) {
	admin := freeAddress(t)
	p := start(t, "run", "--migrate", "--horae-listen", "127.0.0.1:0", "--admin-listen", admin, "--store",
		"sqlite:"+filepath.Join(t.TempDir(), "chronos.db"))
	horae := p.stderr.await(t, `"msg":"serving queues by the interface of horae","url":"([^"]+)"`, 1)[1]
	p.stderr.await(t, logged("INFO", "started"), 1)
	uuid := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	put := func(kind, body string) string {
		t.Helper()
		status, text := send(t, http.MethodPut, horae+"/v1/"+kind, body)
		if status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", kind, body, status, text)
		}
		return uuid.FindString(text)
	}
	queue := put("queue", `{"name":"My First Sync Queue","queueType":"sync","windowOfOperation":"always"}`)
	action := put("action", `{"name":"My First Action","operation":"GET","uri":"<<HORAE_COMPLETION_URI>>"}`)
	task := put("task", `{"name":"My First Task","queue":"`+queue+`","execution":"`+action+`","priority":10}`)
	eventually(t, func() string {
		if _, text := send(t, http.MethodGet, horae+"/v1/task/"+task, ""); !strings.Contains(text, `"Complete"`) {
			return "the task is " + text
		}
		return ""
	})
	status, text := send(t, http.MethodPut, horae+"/v1/action", `{"operation":"POST","uri":"http://`+admin+`/v1/x"}`)
	if status != http.StatusBadRequest || !strings.Contains(text, "not allowed") {
		t.Errorf("a task may request the admin listener: %d %s", status, text)
	}
}

// send makes a request, and returns status and text of the answer.
func send(t *testing.T, method, url, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // It was read.
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}
