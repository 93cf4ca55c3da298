package admin

import (
	"context"
	"crypto/subtle"
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
		case s.token == nil && !namesThisMachine(r.Host):
			Refuse(w, http.StatusForbidden, "ask for this listener by 127.0.0.1 or localhost, or give it a token "+
				"(admin-token-file)")
		case s.token != nil && !s.token.matches(bearer(r)):
			w.Header().Set("WWW-Authenticate", `Bearer realm="chronos"`)
			Refuse(w, http.StatusUnauthorized, "the token is missing or wrong: send the one that admin-token-file "+
				"holds, as Authorization: Bearer TOKEN")
		default:
			who := caller{remote: r.RemoteAddr, token: s.token != nil}
			handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
		}
	})
}

// caller is what this listener knows of whoever sends a request, whatever the request says itself.
type caller struct {
	remote string // the address at the other end of the connection: that of a proxy, if there is one
	token  bool   // it has shown the token
}

type callerKey struct{}

// authenticated says how the caller has shown who it is.
func (c caller) authenticated() string {
	if c.token {
		return "by the token of admin-token-file"
	}
	return "no: this listener asks for no token"
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

// secret is the token in a file, as it is now.
type secret struct{ source *credential.Source[[]byte] }

func newSecret(keeper *credential.Keeper, file string) (*secret, error) {
	source, err := credential.New(keeper, func() ([]byte, error) {
		text, err := credential.Secret(file)
		token := strings.TrimSpace(text)
		if err == nil && token == "" {
			err = fmt.Errorf("the file %s is empty", file)
		}
		if err != nil {
			return nil, fmt.Errorf("it must be a file with a token: %w", err)
		}
		return []byte(token), nil
	})
	return &secret{source}, err
}

// matches reports whether token is the one in the file. How long that takes tells nothing about it.
func (s *secret) matches(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), s.source.Get()) == 1
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
