package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"chronos/node/credential"
	"chronos/node/listener"
)

// Config says how to listen, and what one caller may do.
type Config struct {
	// Listen, TokenFile, CertFile and KeyFile are those of listener.Config.
	Listen, TokenFile, CertFile, KeyFile string

	Limits Limits

	// Memory is that of listener.Config: it bounds the bodies of all requests under way.
	Memory int

	Keeper *credential.Keeper
	Log    *slog.Logger
}

// Server is the listener.
type Server struct {
	*listener.Listener[Scopes]

	handler http.Handler // nil until Mount
}

// New returns a listener that does not listen yet. It reads the files that config names, so that a mistake in them is
// an error at the start. A *node.ConfigError names the field that is wrong.
func New(config Config) (*Server, error) {
	l, err := listener.New(listener.Config{
		Name: "api", Port: "8081", Listen: config.Listen, TokenFile: config.TokenFile, CertFile: config.CertFile,
		KeyFile: config.KeyFile, Memory: config.Memory, Keeper: config.Keeper, Log: config.Log,
	}, grammar())
	if err != nil {
		return nil, err
	}
	return &Server{Listener: l}, nil
}

// Mount has the listener serve the API to those who have a token; and to everybody whether the node is ready, for
// balancers, and the description.
func (s *Server) Mount(a *API) error {
	a.found.tokens = s.Tokens
	mux := http.NewServeMux()
	mux.Handle("/", s.Guard(a.Handler(), refuse))
	description, err := Describe()
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(description)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if a.Ready != nil && !a.Ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	s.handler = mux
	return nil
}

// ServeHTTP serves one request as the listener would, for tests.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	listener.Safely(s.handler).ServeHTTP(w, r)
}

// Run serves until ctx is done, then gives requests that are under way a moment to end.
func (s *Server) Run(ctx context.Context) error { return s.Listener.Run(ctx, s.handler) }
