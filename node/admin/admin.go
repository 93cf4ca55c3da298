package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"chronos/node"
	"chronos/node/credential"
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
	config   Config
	mux      *http.ServeMux
	tokens   *credential.Source[[]Token]          // nil for none
	pair     *credential.Source[*tls.Certificate] // nil for none
	crossing *http.CrossOriginProtection

	mu       sync.Mutex
	listener net.Listener // nil until Open
}

const (
	// readTimeout is how long a request may take to arrive, and writeTimeout how long the answer may take.
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second

	// idleTimeout is how long a connection is kept without a request. A Prometheus asks every 15 to 60 s.
	idleTimeout = 2 * time.Minute

	// maxHeaderBytes bounds the head of a request. Nothing that is meant for us comes near.
	maxHeaderBytes = 32 << 10

	// drainTimeout is how long requests that are under way may take when the listener stops.
	drainTimeout = time.Second
)

// New returns a listener that does not listen yet. It reads the files that config names, so that a mistake in them is
// an error at the start. A *node.ConfigError names the field that is wrong.
func New(config Config) (*Server, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Keeper == nil {
		config.Keeper = new(credential.Keeper)
	}
	host, port, err := net.SplitHostPort(config.Listen)
	if err != nil || port == "" {
		return nil, &node.ConfigError{
			Setting: "Listen", Value: config.Listen, Allowed: "it must be HOST:PORT, such as 127.0.0.1:8080",
		}
	}
	if config.TokenFile == "" && !isLoopback(host) {
		return nil, &node.ConfigError{
			Setting: "Listen", Value: config.Listen,
			Allowed: "others can reach that address, so a token is needed; or listen on 127.0.0.1",
		}
	}
	s := &Server{config: config, mux: http.NewServeMux(), crossing: http.NewCrossOriginProtection()}
	if config.TokenFile != "" {
		if s.tokens, err = newTokens(config.Keeper, config.TokenFile); err != nil {
			return nil, &node.ConfigError{Setting: "TokenFile", Value: config.TokenFile, Allowed: err.Error()}
		}
	}
	switch {
	case (config.CertFile == "") != (config.KeyFile == ""):
		return nil, &node.ConfigError{
			Setting: "CertFile", Value: config.CertFile,
			Allowed: "a certificate and its key are set together, or neither",
		}
	case config.CertFile != "":
		if s.pair, err = newPair(config.Keeper, config.CertFile, config.KeyFile); err != nil {
			return nil, &node.ConfigError{Setting: "CertFile", Value: config.CertFile, Allowed: err.Error()}
		}
	}
	return s, nil
}

// IsLoopback reports whether only this machine reaches the listener.
func (s *Server) IsLoopback() bool {
	host, _, _ := net.SplitHostPort(s.config.Listen) // New has seen that it can be split
	return isLoopback(host)
}

// isLoopback reports whether only this machine reaches a listener on host.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Handle mounts a handler on a pattern of http.ServeMux. It is called before Run, and panics on a pattern that is
// mounted already or is none.
func (s *Server) Handle(pattern string, access Access, handler http.Handler) {
	if access == Guarded {
		handler = s.guard(handler)
	}
	s.mux.Handle(pattern, handler)
}

// ServeHTTP serves one request as the listener would, for tests and for whoever has a listener already.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Referrer-Policy", "no-referrer")
	s.mux.ServeHTTP(w, r)
}

// Open takes the address. It is apart from Run so that a port that is taken is an error before anything else begins.
func (s *Server) Open(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &InUseError{Address: s.config.Listen}
	case err != nil:
		return fmt.Errorf("listen on %s: %w", s.config.Listen, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = listener
	return nil
}

// InUseError says that the address is taken.
type InUseError struct{ Address string }

// Error returns the sentence for a person.
func (e *InUseError) Error() string {
	return e.Address + " is in use by another process, another node perhaps: choose another address, " +
		"or port 0 for a free one"
}

// Address returns the address that the listener has; "" before Open.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// URL returns where the listener is to be found from this machine; "" before Open.
func (s *Server) URL() string {
	address := s.Address()
	if address == "" {
		return ""
	}
	if host, port, err := net.SplitHostPort(address); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			address = net.JoinHostPort("localhost", port)
		}
	}
	if s.pair != nil {
		return "https://" + address
	}
	return "http://" + address
}

// Run serves until ctx is done, then gives requests that are under way a moment to end. It opens the listener unless
// Open was called.
func (s *Server) Run(ctx context.Context) error {
	if s.Address() == "" {
		if err := s.Open(ctx); err != nil {
			return err
		}
	}
	server := &http.Server{
		Handler:           s,
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
	}
	listener := s.listener
	if s.pair != nil {
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Get(), nil },
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", s.Address(), err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(draining); err != nil {
		_ = server.Close() // whoever still streams is cut off
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", s.Address(), err)
	}
	return nil
}

// Close gives the address up, for a listener that was opened and is not run.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Close()
}
