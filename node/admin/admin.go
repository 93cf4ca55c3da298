package admin

import (
	"context"
	"log/slog"
	"net/http"

	"chronos/node/credential"
	"chronos/node/listener"
)

// Config says how to listen.
type Config struct {
	// Listen is the address, HOST:PORT. Port 0 takes a free one. An empty host is all addresses of the machine.
	Listen string

	// TokenFile is a file with the tokens that guarded handlers ask for, see ParseTokens; empty for none, and then
	// Listen must be a loopback address. The file is read again when it changes.
	TokenFile string

	// CertFile and KeyFile are PEM files with a certificate and its key, with which the listener speaks HTTPS; both or
	// none. They are read again when they change.
	CertFile, KeyFile string

	// Rights are what the API allows, besides to read.
	Rights Rights

	// Memory is that of listener.Config: it bounds the bodies of all requests under way.
	Memory int

	// Keeper tells of files that cannot be read any more; nil tells nobody. What they held before stays in force.
	Keeper *credential.Keeper

	// Log is told what goes wrong with the listener itself.
	Log *slog.Logger
}

// Access is who may ask a handler.
type Access int

const (
	// Open is for everybody who reaches the listener.
	Open Access = iota

	// Guarded is for whoever has the token, if there is one.
	Guarded
)

// Server is the listener.
type Server struct {
	*listener.Listener[Rights]

	mux *http.ServeMux
}

// New returns a listener that does not listen yet. It reads the files that config names, so that a mistake in them is
// an error at the start. A *node.ConfigError names the field that is wrong.
func New(config Config) (*Server, error) {
	l, err := listener.New(listener.Config{
		Name: "admin", Port: "8080", Listen: config.Listen, TokenFile: config.TokenFile, CertFile: config.CertFile,
		KeyFile: config.KeyFile, Memory: config.Memory, Keeper: config.Keeper, Log: config.Log,
	}, grammar())
	if err != nil {
		return nil, err
	}
	return &Server{Listener: l, mux: http.NewServeMux()}, nil
}

// Handle mounts a handler on a pattern of http.ServeMux. It is called before Run, and panics on a pattern that is
// mounted already or is none.
func (s *Server) Handle(pattern string, access Access, handler http.Handler) {
	if access == Guarded {
		handler = s.Guard(handler, nil)
	}
	s.mux.Handle(pattern, handler)
}

// ServeHTTP serves one request as the listener would, for tests and for whoever has a listener already.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	listener.Safely(s.mux).ServeHTTP(w, r)
}

// Run serves until ctx is done, then gives requests that are under way a moment to end. It opens the listener unless
// Open was called.
func (s *Server) Run(ctx context.Context) error { return s.Listener.Run(ctx, s.mux) }
