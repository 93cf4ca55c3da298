package admin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"

	"chronos/node/credential"
)

// guard lets those requests through that may ask, see the package comment.
func (s *Server) guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.crossing.Check(r) != nil:
			Refuse(w, http.StatusForbidden, "a page of another site may not change anything here")
		case s.tokens == nil && !namesThisMachine(r.Host):
			Refuse(w, http.StatusForbidden, "ask for this listener by 127.0.0.1 or localhost, or give it a token "+
				"(admin-token-file)")
		case s.tokens == nil:
			serve(handler, w, r, caller{remote: r.RemoteAddr})
		default:
			token := find(s.tokens.Get(), bearer(r))
			if token == nil {
				w.Header().Set("WWW-Authenticate", `Bearer realm="chronos"`)
				Refuse(w, http.StatusUnauthorized, "the token is missing or wrong: send one that admin-token-file "+
					"holds, as Authorization: Bearer TOKEN")
				return
			}
			serve(handler, w, r, caller{remote: r.RemoteAddr, token: token})
		}
	})
}

// caller is what this listener knows of whoever sends a request, whatever the request says itself.
type caller struct {
	remote string // the address at the other end of the connection: that of a proxy, if there is one
	token  *Token // what it has shown; nil where the listener asks for none
}

type callerKey struct{}

// serve has a handler answer a caller.
func serve(handler http.Handler, w http.ResponseWriter, r *http.Request, who caller) {
	handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
}

// callerOf returns whoever a request is from.
func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller)
	return who
}

// authenticated says how the caller has shown who it is.
func (c caller) authenticated() string {
	switch {
	case c.token == nil:
		return "no: this listener asks for no token"
	case c.token.Name == "":
		return "by the token of admin-token-file"
	}
	return "by the token " + c.token.Name
}

// name returns the name of the caller's token; "" if it has none.
func (c caller) name() string {
	if c.token == nil {
		return ""
	}
	return c.token.Name
}

// may returns what the caller may do where rights are allowed at all.
func (c caller) may(allowed Rights) Rights {
	if c.token == nil {
		return allowed
	}
	return Rights{
		Payload: allowed.Payload && c.token.Rights.Payload, Control: allowed.Control && c.token.Rights.Control,
	}
}

// lacks says why a caller may not do what needs a right: because nobody may, or because of its token.
func (c caller) lacks(allowed bool, right string) string {
	if !allowed {
		return "nobody may do that here: admin-allow would have to name " + right
	}
	return fmt.Sprintf("the token %s may not do that: its rights in admin-token-file are %s, and would have to name %s",
		c.name(), c.token.Rights, right)
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
