package admin

import (
	"embed"
	"io/fs"
	"net/http"

	"chronos/node/listener"
)

// page is the page of a node: it asks the API and the metrics, and is told nothing by itself.
//
//go:embed page
var page embed.FS

// Page mounts the page. It has no secrets, so everybody may have it; what it asks is guarded.
func (s *Server) Page() {
	policy := func(handler http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy",
				"default-src 'self'; img-src 'self' data:; style-src 'self'; frame-ancestors 'none'; base-uri 'none'")
			w.Header().Set("Cache-Control", "no-cache")
			handler.ServeHTTP(w, r)
		})
	}
	s.Handle("GET /page/", Open, policy(http.FileServerFS(page)))
	s.Handle("GET /{$}", Open, policy(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := fs.ReadFile(page, "page/index.html")
		if err != nil {
			listener.Refuse(w, http.StatusInternalServerError, "the page is missing in this binary")
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text)
	})))
}
