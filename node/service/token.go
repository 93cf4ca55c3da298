package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"chronos/node/credential"
)

// tokenTimeout is how long a token endpoint may take. Connections to Kafka wait for it.
const tokenTimeout = 5 * time.Second

// tokenEndpoint gets tokens by the OAuth 2 client credentials grant. It is safe for concurrent use.
type tokenEndpoint struct {
	url    string
	scopes []string
	login  *credential.Source[login]
	client *http.Client

	mu   sync.Mutex
	last *oauth2.Token // used again until shortly before it expires
	as   login         // whose it is
}

// tokenEndpoint returns the endpoint that the settings name.
func (s *Settings) tokenEndpoint(login *credential.Source[login]) (*tokenEndpoint, error) {
	v := &s.saslTokenURL
	at, err := url.Parse(v.Text)
	switch {
	case err != nil || at.Host == "" || at.User != nil:
		return nil, Usagef("%s is not the address of a token endpoint (it is not shown, there may be a password in "+
			"it): "+
			"it must be https://HOST/PATH", v.Origin)
	case at.Scheme != "https" && (at.Scheme != "http" || !isLoopback(at.Hostname())):
		return nil, v.Wrong("it must begin with https://, because the client's secret goes there")
	}
	roots := func() (*x509.CertPool, error) { return nil, nil }
	if s.tlsCA.IsSet {
		roots = s.withSystemRoots
	}
	authorities, err := credential.New(s.keeper, roots)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities.Get()}}
			return dialer.DialContext(ctx, network, address)
		},
		DisableKeepAlives: true,
	}
	return &tokenEndpoint{
		url: v.Text, scopes: s.saslScope.list(), login: login,
		client: &http.Client{
			Transport: transport, Timeout: tokenTimeout,
			// The secret goes to the address that somebody has set, and nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// withSystemRoots returns the authorities of the system and those of --tls-ca: brokers often have an authority of their
// own, and an identity provider a public one.
func (s *Settings) withSystemRoots() (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	text, err := s.tlsCA.read()
	if err != nil {
		return nil, err
	}
	roots.AppendCertsFromPEM(text)
	return roots, nil
}

// token returns a token that is still good for a while.
func (e *tokenEndpoint) token(ctx context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.login.Get()
	if e.last.Valid() && e.as == now {
		return e.last.AccessToken, nil
	}
	config := clientcredentials.Config{
		ClientID: now.user, ClientSecret: now.password, TokenURL: e.url, Scopes: e.scopes,
		AuthStyle: oauth2.AuthStyleInHeader, // as Java's clients do, and every endpoint has to accept (RFC 6749, 2.3.1)
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, e.client))
	if err != nil {
		return "", tokenError(credential.Redact(e.url), err)
	}
	e.last, e.as = token, now
	return token.AccessToken, nil
}

// tokenError says why there is no token, without what the endpoint has answered in full.
func tokenError(address string, err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil {
		code := ""
		if refused.ErrorCode != "" {
			code = ", " + refused.ErrorCode
		}
		return fmt.Errorf("get a token from %s: it answers %s%s: check --sasl-username and its secret",
			address, refused.Response.Status, code)
	}
	return fmt.Errorf("get a token from %s: %w", address, err)
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// authorities returns the certificates of the file that v names.
func (v *Value) authorities() (*x509.CertPool, error) {
	text, err := v.read()
	if err != nil {
		return nil, err
	}
	roots, err := credential.Roots(text)
	if err != nil {
		return nil, v.Wrong("it must be a file with a certificate in PEM form")
	}
	return roots, nil
}
