package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"

	"chronos/node/admin"
	"chronos/node/service"
)

// askFlags are what the commands have in common that ask the store, or a node.
//
// They use the store directly by default: that works while no node runs, which is when somebody wants to look, and
// takes the settings that bind, rewind and migrate take. --admin asks a node instead: for people who have no password
// of the database, for a file of SQLite, which its node holds, and for what only a node knows.
type askFlags struct {
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORM" help:"table, for people, or json."`

	nodeFlags
	askSettings
}

// open returns what to ask. The caller closes it.
func (f *askFlags) open(ctx context.Context) (*asker, error) { return f.nodeFlags.open(ctx, f.values) }

// nodeFlags say which node to ask, if it is not to be the store.
type nodeFlags struct {
	Admin     string `placeholder:"URL" group:"node" help:"Ask the node whose listener is there, and not the store."`
	TokenFile string `placeholder:"FILE" group:"node" help:"File with the token of that listener."`
	AdminCA   string `placeholder:"FILE" group:"node" help:"PEM file with the certificate that it is to be trusted by."`
}

// asker asks the API of a node, or that of the store in this process.
type asker struct {
	client http.Client
	base   string
	token  string
	close  func() error
}

// open returns what to ask. The caller closes it.
func (f *nodeFlags) open(ctx context.Context, settings *service.Settings) (*asker, error) {
	if f.Admin != "" {
		return f.node()
	}
	target, err := settings.Target()
	if err != nil {
		return nil, err
	}
	if target.IsJournal() {
		return nil, usagef("%s is a journal in Kafka, of which each node has its own part: ask a node, with --admin "+
			"http://127.0.0.1:8080", target.String())
	}
	store, err := target.Open(ctx, service.AnswerTimeout)
	if err != nil {
		if target.File() != "" {
			return nil, fmt.Errorf("%w; if a node has it, ask that: --admin http://127.0.0.1:8080", err)
		}
		return nil, err
	}
	answered, err := store.Check(ctx)
	if err != nil {
		if !answered {
			err = fmt.Errorf("reach the store %s: %s", target.String(), oneLine(err))
		}
		return nil, errors.Join(err, store.Close())
	}
	api := store.API(nil, admin.Rights{Payload: true, Control: true})
	if open := settings.Hours(); open != nil {
		api.Hours, api.Outlook = open.At, open.Outlook(api.Outlook)
	}
	return &asker{client: http.Client{Transport: local{api.Handler()}}, base: "http://store", close: store.Close}, nil
}

// node returns a node to ask.
func (f *nodeFlags) node() (*asker, error) {
	at, err := url.Parse(f.Admin)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, usagef("--admin is %s: it must be a URL such as http://127.0.0.1:8080", shown(f.Admin))
	}
	a := &asker{base: strings.TrimSuffix(f.Admin, "/"), close: func() error { return nil }}
	a.client.Timeout = 30 * time.Second
	if f.TokenFile != "" {
		content, err := os.ReadFile(f.TokenFile)
		if err != nil {
			return nil, usagef("--token-file is %s: it must be a file that can be read: %v",
				shown(f.TokenFile), errors.Unwrap(err))
		}
		if a.token = strings.TrimSpace(string(content)); strings.ContainsAny(a.token, "\r\n") {
			return nil, usagef("--token-file is %s: it must hold one token and nothing else, and has several lines: a "+
				"list of tokens is for admin-token-file of the node", shown(f.TokenFile))
		}
	}
	if f.AdminCA != "" {
		content, err := os.ReadFile(f.AdminCA)
		roots := x509.NewCertPool()
		if err != nil || !roots.AppendCertsFromPEM(content) {
			return nil, usagef("--admin-ca is %s: it must be a PEM file with a certificate", shown(f.AdminCA))
		}
		a.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	}
	return a, nil
}

// ask asks, and reads the answer. An answer that is an error is one, with the sentence of the other side.
func ask[T any](ctx context.Context, a *asker, method, path string, body any) (result T, err error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return result, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, sent)
	if err != nil {
		return result, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return result, fmt.Errorf("no node answers: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // It was read.
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return result, fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusCreated {
		if err = json.Unmarshal(text, &result); err != nil {
			err = fmt.Errorf("what answers at %s is no node of this version: %w", a.base, err)
		}
		return result, err
	}
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		problem.Detail = strings.TrimSpace(string(text))
	}
	return result, &answerError{response.StatusCode, problem.Detail}
}

// answerError is an answer that is an error, with the sentence of the other side.
type answerError struct {
	status int
	detail string
}

// Error returns the sentence.
func (e *answerError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.detail) }

// printJSON prints what a machine is to read.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// me names who sits at the terminal.
func me() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// local is a transport to a handler in this process.
type local struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (l local) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		request = request.Clone(request.Context())
		request.Body = http.NoBody
	}
	w := &written{header: http.Header{}, status: http.StatusOK}
	l.handler.ServeHTTP(w, request)
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: request,
		ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// written is an answer on its way.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *written) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *written) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *written) Write(b []byte) (int, error) { return w.body.Write(b) }

// ago shows how long ago an instant was, or in how long it comes.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d.Abs() < time.Second:
		return "just now"
	case d < 0:
		return "in " + roughly(-d)
	default:
		return roughly(d) + " ago"
	}
}

// roughly shows a duration as a person says it.
func roughly(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < 2*time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// approximately shows a count.
func approximately(c admin.Count) string {
	switch {
	case c.Unknown:
		return "?"
	case c.Estimated:
		return fmt.Sprintf("~%d", c.N)
	}
	return fmt.Sprint(c.N)
}
