package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"chronos/node/admin"
	"chronos/node/service"
	"chronos/node/store/sqlite"
)

// askFlags are what the commands have in common that ask the store, or a node.
//
// They use the store directly where its settings are given: that works while no node runs, which is when somebody wants
// to look, and takes the settings that bind, rewind and migrate take. They ask a node where --admin says so: for people
// who have no password of the database, and for what only a node knows; and where no store is named, as beside
// "chronos dev", or no other process can open it. See service.Settings.Asked.
type askFlags struct {
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORM" help:"table, for people, or json."`

	askSettings
}

// open returns what to ask. The caller closes it.
func (f *askFlags) open(ctx context.Context, w *world) (*asker, error) {
	return openAsker(ctx, w, f.values)
}

// asker asks the API of a node, or that of the store in this process.
type asker struct {
	client http.Client
	base   string
	token  string
	close  func() error
}

// openAsker returns what to ask, and tells the person at the terminal which node that is, unless they have said so in
// the command. The caller closes it.
func openAsker(ctx context.Context, w *world, settings *service.Settings) (*asker, error) {
	place, err := settings.Asked()
	if err != nil {
		return nil, err
	}
	if place.Node != nil {
		return w.askNode(ctx, place.Node)
	}
	a, err := openStore(ctx, settings, &place.Store)
	if _, inUse := errors.AsType[*sqlite.InUseError](err); inUse {
		if place.Instead != nil {
			return w.askNode(ctx, place.Instead)
		}
		return nil, fmt.Errorf("%w; if a node has it, ask that: --admin http://%s", err, service.DefaultAdmin)
	}
	return a, err
}

// openStore returns the store to ask.
func openStore(ctx context.Context, settings *service.Settings, target *service.Target) (*asker, error) {
	store, err := target.OpenThere(ctx, service.AnswerTimeout)
	if err != nil {
		return nil, err
	}
	api := store.API(nil, admin.Rights{Payload: true, Control: true})
	if open := settings.Hours(); open != nil {
		api.Hours, api.Outlook = open.At, open.Outlook(api.Outlook)
	}
	return &asker{client: http.Client{Transport: local{api.Handler()}}, base: "http://store", close: store.Close}, nil
}

// nodeTimeout is how long a node may take to answer.
const nodeTimeout = 30 * time.Second

// askNode returns a node to ask.
func (w *world) askNode(ctx context.Context, node *service.AdminNode) (*asker, error) {
	if node.Guessed {
		node.URL = cmp.Or(w.beside, node.URL)
	}
	a := &asker{base: node.URL, token: node.Token, close: func() error { return nil }}
	a.client.Timeout = nodeTimeout
	var err error
	if a.client.Transport, err = trusting(node); err != nil {
		return nil, err
	}
	if node.Guessed {
		limited, cancel := context.WithTimeout(ctx, guessTimeout)
		defer cancel()
		_, err := ask[admin.Info](limited, a, http.MethodGet, "/v1/info", nil)
		if _, answered := errors.AsType[*answerError](err); err != nil && !answered {
			return nil, usagef("neither --store nor --admin is set, and no node answers at %s, where \"chronos dev\" "+
				"would: name the store, such as --store postgres://USER@HOST/DATABASE, or a node, such as --admin %s "+
				"(or set CHRONOS_STORE or CHRONOS_ADMIN, or --config)", node.URL, node.URL)
		}
	}
	if node.Because != "" {
		w.note("asking the node at %s: %s", node.URL, node.Because)
	}
	return a, nil
}

// guessTimeout is how long a node may take to answer of which nobody has said that it is there.
const guessTimeout = 2 * time.Second

// trusting returns a transport that takes a server for the right one by the files that are named; nil for those of the
// system. Where a certificate is named the server must show exactly that: it is the node's own, for the name that
// others use, and this asks for localhost.
func trusting(node *service.AdminNode) (http.RoundTripper, error) {
	switch {
	case node.CAFile != "":
		content, err := os.ReadFile(node.CAFile)
		roots := x509.NewCertPool()
		if err != nil || !roots.AppendCertsFromPEM(content) {
			return nil, usagef("--admin-ca is %s: it must be a PEM file with a certificate", shown(node.CAFile))
		}
		return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}, nil
	case node.CertFile == "":
		return nil, nil
	}
	content, err := os.ReadFile(node.CertFile)
	if err != nil {
		return nil, usagef("--admin-tls-cert is %s: it must be a file that can be read: %v",
			shown(node.CertFile), errors.Unwrap(err))
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, usagef("--admin-tls-cert is %s: it must be a PEM file with a certificate", shown(node.CertFile))
	}
	return &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // in favour of what follows
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !bytes.Equal(raw[0], block.Bytes) {
				return errors.New("the certificate is not the one in --admin-tls-cert")
			}
			return nil
		},
	}}, nil
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
	var problem struct{ Title, Detail string }
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		problem.Detail = strings.TrimSpace(string(text))
		if response.StatusCode == http.StatusNotFound {
			problem.Detail = fmt.Sprintf("what answers at %s is not the admin API of a node: the address must be that "+
				"of admin-listen", a.base)
		}
	}
	if response.StatusCode == http.StatusNotFound && problem.Title != "" {
		return result, &notFoundError{problem.Detail}
	}
	return result, &answerError{response.StatusCode, problem.Detail}
}

// notFoundError says that what a command is about is not there.
type notFoundError struct{ sentence string }

// Error returns the sentence.
func (e *notFoundError) Error() string { return e.sentence }

// notFoundf returns a notFoundError.
func notFoundf(format string, args ...any) error { return &notFoundError{fmt.Sprintf(format, args...)} }

// known returns an error for the first of some lanes that is neither served nor has anything on it, so that a name that
// is misspelt is not taken for an empty lane.
func (a *asker) known(ctx context.Context, lanes []string) error {
	if len(lanes) == 0 {
		return nil
	}
	all, err := ask[admin.Lanes](ctx, a, http.MethodGet, "/v1/lanes", nil)
	if err != nil {
		return err
	}
	names := make([]string, len(all.Lanes))
	for i := range all.Lanes {
		names[i] = all.Lanes[i].Name
	}
	for _, lane := range lanes {
		if !slices.Contains(names, lane) {
			return unknownLane(lane, names)
		}
	}
	return nil
}

// unknownLane is the error for a lane of which nothing is known, beside others.
func unknownLane(lane string, others []string) error {
	const most = 10
	if len(others) == 0 {
		return notFoundf("there is no lane %s: nothing waits anywhere", shown(lane))
	}
	text := strings.Join(others[:min(len(others), most)], ", ")
	if len(others) > most {
		text += fmt.Sprintf(" and %d more", len(others)-most)
	}
	return notFoundf("there is no lane %s, or nothing is there; there is something of %s", shown(lane), text)
}

// answerError is an answer that is an error, with the sentence of the other side.
type answerError struct {
	status int
	detail string
}

// Error returns the sentence.
func (e *answerError) Error() string {
	if e.detail == "" {
		return fmt.Sprintf("the node answers with status %d, and says nothing else", e.status)
	}
	return e.detail
}

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
