package listener_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"chronos/node/listener"
)

// Goal: who may ask, as the package comment has it. Method: each kind of request is sent through the guard of a
// listener with a token, of one without, and of one whose clients have none.
func TestGuard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("s3cr3t-s3cr3t-s3cr3t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	grammar := listener.Grammar[struct{}]{Parse: func(string) (struct{}, error) { return struct{}{}, nil }}
	for name, config := range map[string]listener.Config{
		"token": {Listen: "10.0.0.1:1", TokenFile: file}, "none": {Listen: "127.0.0.1:1"},
		"open": {Listen: "10.0.0.1:1", Open: true}, "open here": {Listen: "127.0.0.1:1", Open: true},
	} {
		l, err := listener.New(config, grammar)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		handler := l.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
		for _, c := range []struct {
			host, header, value string

			want map[string]int // by listener; 200 where it says nothing
		}{
			{"127.0.0.1:1", "", "", map[string]int{"token": 401}},
			{"localhost", "", "", map[string]int{"token": 401}},
			{"[::1]:1", "", "", map[string]int{"token": 401}},
			{"evil.example", "", "", map[string]int{"token": 401, "none": 403, "open here": 403}},
			{"evil.example:1", "", "", map[string]int{"token": 401, "none": 403, "open here": 403}},
			{"127.0.0.1", "Authorization", "Bearer s3cr3t-s3cr3t-s3cr3t", nil},
			{"127.0.0.1", "Authorization", "bearer  s3cr3t-s3cr3t-s3cr3t ", nil},
			{"127.0.0.1", "Authorization", "Bearer s3cr3t", map[string]int{"token": 401}},
			{"127.0.0.1", "Authorization", "Basic s3cr3t-s3cr3t-s3cr3t", map[string]int{"token": 401}},
			{
				"127.0.0.1", "Sec-Fetch-Site", "cross-site",
				map[string]int{"token": 403, "none": 403, "open": 403, "open here": 403},
			},
			{
				"127.0.0.1", "Origin", "http://evil.example",
				map[string]int{"token": 403, "none": 403, "open": 403, "open here": 403},
			},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			if r.Host = c.host; c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, r)
			want := c.want[name]
			if want == 0 {
				want = http.StatusOK
			}
			if recorder.Code != want {
				t.Errorf("%s: Host %s, %s %q: %d, want %d", name, c.host, c.header, c.value, recorder.Code, want)
			}
		}
	}
	if _, err := listener.New(listener.Config{Listen: "10.0.0.1:1"}, grammar); err == nil {
		t.Error("others may reach a listener that asks for no token")
	}
}
