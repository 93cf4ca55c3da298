package listener

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"chronos/node/credential"
)

// Guard lets those requests through that may ask, see the package comment. refuse answers the others, and nil answers
// with a sentence. A query that is malformed is refused as well: net/http would leave out what it cannot read, and a
// list without its filter is one of everything.
func (l *Listener[R]) Guard(handler http.Handler, refuse Refusal) http.Handler {
	if refuse == nil {
		refuse = Refuse
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := Caller[R]{Remote: r.RemoteAddr}
		tokens := l.Tokens()
		switch {
		case l.crossing.Check(r) != nil:
			refuse(w, http.StatusForbidden, "a page of another site may not change anything here")
			return
		case l.tokens == nil && l.IsLoopback() && !namesThisMachine(r.Host):
			refuse(w, http.StatusForbidden, "ask for this listener by 127.0.0.1 or localhost"+l.orToken())
			return
		case l.tokens == nil:
		default:
			if who.Token = find(tokens, bearer(r)); who.Token == nil {
				w.Header().Set("WWW-Authenticate", `Bearer realm="chronos"`)
				refuse(w, http.StatusUnauthorized, "the token is missing or wrong: send one that "+l.config.Name+
					"-token-file holds, as Authorization: Bearer TOKEN")
				return
			}
		}
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			refuse(w, http.StatusUnprocessableEntity, "the query of the URL is malformed: "+Cut(err.Error(), maxShown))
			return
		}
		handler.ServeHTTP(w, r.WithContext(l.part(&who, tokens).in(who.In(r.Context()))))
	})
}

// part returns what the bodies of a caller may cost. Without tokens, callers are told apart by their addresses. Where
// there is one caller only, everything is for that one.
func (l *Listener[R]) part(who *Caller[R], tokens []Token[R]) *part {
	p := &part{budget: &l.bodies, who: who.Name(), most: l.bodies.most / shares}
	switch {
	case l.tokens == nil && l.IsLoopback(), len(tokens) == 1:
		p.most = l.bodies.most
	case l.tokens == nil:
		p.who, _, _ = net.SplitHostPort(who.Remote) // "" for all whose address is none
	}
	return p
}

// orToken says what else would let a request through that does not name this machine.
func (l *Listener[R]) orToken() string {
	if l.config.Open {
		return ""
	}
	return ", or give it a token (" + l.config.Name + "-token-file)"
}

// Refusal answers a request that is not let through.
type Refusal = func(w http.ResponseWriter, status int, sentence string)

// Caller is what a listener knows of whoever sends a request, whatever the request says itself.
type Caller[R any] struct {
	Remote string    // the address at the other end of the connection: that of a proxy, if there is one
	Token  *Token[R] // what it has shown; nil where the listener asks for none
}

type callerKey struct{}

// In returns ctx with the caller.
func (c Caller[R]) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns whoever a request is from; false if it has not come past the guard.
func CallerOf[R any](ctx context.Context) (Caller[R], bool) {
	who, known := ctx.Value(callerKey{}).(Caller[R])
	return who, known
}

// Name returns the name of the caller's token; "" if it has none.
func (c Caller[R]) Name() string {
	if c.Token == nil {
		return ""
	}
	return c.Token.Name
}

// Safely sets the headers that keep a browser from taking an answer for something else.
func Safely(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Referrer-Policy", "no-referrer")
		handler.ServeHTTP(w, r)
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

// newPair returns a certificate with its key, as their files are now.
func newPair(keeper *credential.Keeper, certFile, keyFile string) (*credential.Source[*tls.Certificate], error) {
	return credential.New(keeper, func() (*tls.Certificate, error) {
		certificate, err := credential.ReadFile(certFile)
		if err != nil {
			return nil, fmt.Errorf("it must be a file that can be read: %w", err)
		}
		key, err := credential.ReadFile(keyFile)
		if err != nil {
			return nil, fmt.Errorf("it must be a file that can be read: %w", err)
		}
		pair, err := credential.Pair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s must be a certificate and its key: %w", certFile, keyFile, err)
		}
		return pair, nil
	})
}
