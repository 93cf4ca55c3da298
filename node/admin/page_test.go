package admin_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"chronos/node/admin"
)

// Goal: the page is whole without the internet, runs nothing that is not its own file, and asks for nothing that is not
// served. Method: its files are read as a browser gets them, and what they name is asked for.
func TestPage(t *testing.T) {
	t.Parallel()
	s, err := admin.New(admin.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Mount(newService(t, admin.Rights{}).api)
	s.Page()
	get := func(path string) (string, http.Header) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Host = "127.0.0.1:8080"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", path, w.Code)
		}
		return w.Body.String(), w.Header()
	}
	index, header := get("/")
	if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'self'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("the page may run what it likes: %q", policy)
	}
	all := index
	var fetch func(path string)
	seen := map[string]bool{}
	fetch = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		text, _ := get("/page/" + path)
		all += text
		for _, found := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(text, -1) {
			fetch(found[1])
		}
	}
	for _, found := range regexp.MustCompile(`(?:src|href)="page/([^"]+)"`).FindAllStringSubmatch(index, -1) {
		fetch(found[1])
	}
	if len(seen) < 3 {
		t.Errorf("the page is of the files %v", seen)
	}
	if outside := regexp.MustCompile(`https?://[^"\s]+`).FindAllString(strings.ReplaceAll(all,
		"http://www.w3.org/2000/svg", ""), -1); len(outside) > 0 {
		t.Errorf("the page names places on the internet: %q", outside)
	}
	if strings.Contains(index, "<script>") || strings.Contains(index, " onclick") ||
		strings.Contains(all, "innerHTML") {
		t.Error("the page has code outside its file, or makes HTML of what it is told")
	}
	for _, found := range regexp.MustCompile(`read\("(v1/[a-z]+)"\)`).FindAllStringSubmatch(all, -1) {
		get("/" + found[1])
	}
	for _, id := range regexp.MustCompile(`\$\("([a-z-]+)"\)`).FindAllStringSubmatch(all, -1) {
		if !strings.Contains(index, `id="`+id[1]+`"`) {
			t.Errorf("the code looks for #%s, which the page does not have", id[1])
		}
	}
}
