package listener

import (
	"cmp"
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
	// Name begins the names of the settings of this listener, such as admin for admin-listen, and Port is the one of an
	// example.
	Name, Port string

	// Listen is the address, HOST:PORT. Port 0 takes a free one. An empty host is all addresses of the machine.
	Listen string

	// TokenFile is a file with the tokens that guarded handlers ask for, see ParseTokens; empty for none, and then
	// Listen must be a loopback address. The file is read again when it changes.
	TokenFile string

	// Open says that whoever reaches the address may ask, without a token, wherever that is: for a protocol whose
	// clients have none. A page of another site still may not.
	Open bool

	// CertFile and KeyFile are PEM files with a certificate and its key, with which the listener speaks HTTPS; both or
	// none. They are read again when they change.
	CertFile, KeyFile string

	// Memory bounds what the bodies of all requests under way take in memory, in bytes: a byte of a body counts
	// BodyCost times. One caller of several has a quarter of it. More is answered with 429. 0 for DefaultMemory.
	Memory int

	// Keeper tells of files that cannot be read any more; nil tells nobody. What they held before stays in force.
	Keeper *credential.Keeper

	// Log is told what goes wrong with the listener itself.
	Log *slog.Logger
}

// Listener is an address on which HTTP is served. R is what a token allows.
type Listener[R any] struct {
	config   Config
	tokens   *credential.Source[[]Token[R]]       // nil for none
	pair     *credential.Source[*tls.Certificate] // nil for none
	crossing *http.CrossOriginProtection
	bodies   budget

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
func New[R any](config Config, grammar Grammar[R]) (*Listener[R], error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Keeper == nil {
		config.Keeper = new(credential.Keeper)
	}
	host, port, err := net.SplitHostPort(config.Listen)
	if err != nil || port == "" {
		return nil, &node.ConfigError{
			Setting: "Listen", Value: config.Listen,
			Allowed: "it must be HOST:PORT, such as 127.0.0.1:" + config.Port,
		}
	}
	if config.TokenFile == "" && !config.Open && !isLoopback(host) {
		return nil, &node.ConfigError{
			Setting: "Listen", Value: config.Listen,
			Allowed: "others can reach that address, so a token is needed; or listen on 127.0.0.1",
		}
	}
	l := &Listener[R]{config: config, crossing: http.NewCrossOriginProtection()}
	l.bodies.most = int64(cmp.Or(config.Memory, DefaultMemory))
	if config.TokenFile != "" {
		if l.tokens, err = newTokens(config.Keeper, config.TokenFile, grammar); err != nil {
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
		if l.pair, err = newPair(config.Keeper, config.CertFile, config.KeyFile); err != nil {
			return nil, &node.ConfigError{Setting: "CertFile", Value: config.CertFile, Allowed: err.Error()}
		}
	}
	return l, nil
}

// Tokens returns the tokens that the listener asks for now; none if it asks for none.
func (l *Listener[R]) Tokens() []Token[R] {
	if l.tokens == nil {
		return nil
	}
	return l.tokens.Get()
}

// IsLoopback reports whether only this machine reaches the listener.
func (l *Listener[R]) IsLoopback() bool {
	host, _, _ := net.SplitHostPort(l.config.Listen) // New has seen that it can be split
	return isLoopback(host)
}

// isLoopback reports whether only this machine reaches a listener on host.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Open takes the address. It is apart from Run so that a port that is taken is an error before anything else begins.
func (l *Listener[R]) Open(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.config.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &InUseError{Name: l.config.Name, Address: l.config.Listen}
	case err != nil:
		return fmt.Errorf("listen on %s: %w", l.config.Listen, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener = listener
	return nil
}

// InUseError says that the address is taken.
type InUseError struct{ Name, Address string }

// Error returns the sentence for a person.
func (e *InUseError) Error() string {
	return e.Address + " is in use by another process, another node perhaps: choose another address, " +
		"or port 0 for a free one"
}

// Address returns the address that the listener has; "" before Open.
func (l *Listener[R]) Address() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return ""
	}
	return l.listener.Addr().String()
}

// URL returns where the listener is to be found from this machine; "" before Open.
func (l *Listener[R]) URL() string {
	address := l.Address()
	if address == "" {
		return ""
	}
	if host, port, err := net.SplitHostPort(address); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			address = net.JoinHostPort("localhost", port)
		}
	}
	if l.pair != nil {
		return "https://" + address
	}
	return "http://" + address
}

// Run serves until ctx is done, then gives requests that are under way a moment to end. It opens the listener unless
// Open was called.
func (l *Listener[R]) Run(ctx context.Context, handler http.Handler) error {
	if l.Address() == "" {
		if err := l.Open(ctx); err != nil {
			return err
		}
	}
	server := &http.Server{
		Handler:           Safely(handler),
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(l.config.Log.Handler(), slog.LevelDebug),
	}
	listener := l.listener
	if l.pair != nil {
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return l.pair.Get(), nil },
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", l.Address(), err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(draining); err != nil {
		_ = server.Close() // whoever still streams is cut off
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Address(), err)
	}
	return nil
}

// Close gives the address up, for a listener that was opened and is not run.
func (l *Listener[R]) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return nil
	}
	return l.listener.Close()
}
