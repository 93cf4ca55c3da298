package admin

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// guard lets those requests through that may ask, see the package comment.
func (s *Server) guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.crossing.Check(r) != nil:
			Refuse(w, http.StatusForbidden, "a page of another site may not change anything here")
		case s.token == nil && !namesThisMachine(r.Host):
			Refuse(w, http.StatusForbidden, "ask for this listener by 127.0.0.1 or localhost, or give it a token "+
				"(admin-token-file)")
		case s.token != nil && !s.token.matches(bearer(r)):
			w.Header().Set("WWW-Authenticate", `Bearer realm="chronos"`)
			Refuse(w, http.StatusUnauthorized, "the token is missing or wrong: send the one that admin-token-file "+
				"holds, as Authorization: Bearer TOKEN")
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// Refuse answers with a sentence.
func Refuse(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, sentence, status)
}

// bearer returns the token of a request; "" for none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// namesThisMachine reports whether the Host of a request is an address or localhost: nobody can make a browser take a
// page of another site for one from there.
func namesThisMachine(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return strings.EqualFold(name, "localhost") || net.ParseIP(name) != nil
}

// lookAgain is how often a file is looked at for a change.
const lookAgain = time.Second

// changing is a set of files that are read again when one of them changes. What they held stays in force while they
// cannot be read, or hold nothing of use: whoever replaces a file may have written half of it.
type changing struct {
	names []string
	load  func() error

	mu     sync.Mutex
	looked time.Time
	stamp  string
}

// refresh reads the files, if they have changed since the last time, and says what is wrong with them.
func (c *changing) refresh(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < lookAgain && now.After(c.looked) {
		return nil
	}
	c.looked = now
	var stamps strings.Builder
	for _, name := range c.names {
		info, err := os.Stat(name)
		if err != nil {
			return readable(err)
		}
		fmt.Fprintln(&stamps, info.ModTime().UnixNano(), info.Size())
	}
	stamp := stamps.String()
	if stamp == c.stamp {
		return nil
	}
	if err := c.load(); err != nil {
		return err
	}
	c.stamp = stamp
	return nil
}

// readable makes a sentence of an error about a file.
func readable(err error) error {
	if path, is := errors.AsType[*os.PathError](err); is {
		return fmt.Errorf("it must be a file that can be read: %w", path.Err)
	}
	return err
}

// secretFile is a file with a token.
type secretFile struct {
	changing

	token []byte // guarded by mu
}

func newSecretFile(name string) (*secretFile, error) {
	f := &secretFile{}
	f.changing = changing{names: []string{name}, load: func() error {
		content, err := os.ReadFile(name)
		if err != nil {
			return readable(err)
		}
		token := strings.TrimSpace(string(content))
		if token == "" {
			return errors.New("it must be a file with a token, and it is empty")
		}
		f.token = []byte(token)
		return nil
	}}
	return f, f.refresh(time.Now())
}

// matches reports whether token is the one in the file. How long that takes tells nothing about it.
func (f *secretFile) matches(token string) bool {
	_ = f.refresh(time.Now()) // the former token stays in force
	f.mu.Lock()
	defer f.mu.Unlock()
	return subtle.ConstantTimeCompare([]byte(token), f.token) == 1
}

// keyPair is a certificate with its key.
type keyPair struct {
	changing

	pair *tls.Certificate // guarded by mu
}

func newKeyPair(certFile, keyFile string) (*keyPair, error) {
	p := &keyPair{}
	p.changing = changing{names: []string{certFile, keyFile}, load: func() error {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return readable(err)
		}
		p.pair = &pair
		return nil
	}}
	return p, p.refresh(time.Now())
}

// get returns the certificate for a connection.
func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	_ = p.refresh(time.Now()) // the former pair stays in force
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pair, nil
}
