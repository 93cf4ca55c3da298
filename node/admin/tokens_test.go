package admin_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"chronos/node/admin"
)

// The tokens of the tests.
const (
	s1, s2, s3 = "secret-number-1.", "secret-number-2.", "secret-number-3."
	s4, s7, s9 = "secret-number-4.", "secret-number-7.", "secret-number-9."
)

// Goal: a file of tokens is read as a person means it, and what is no such file is told by its line, without a token in
// the sentence. Method: files of both forms, and with one mistake each.
func TestParseTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"secret-number-1.\n":                          " read,payload,control",
		" secret-number-1.\r\n\n":                     " read,payload,control",
		"a read secret-number-1.\n":                   "a read",
		"a\tread,payload  secret-number-1.\r\n":       "a read,payload",
		"# who what\n\n a control secret-number-1.\n": "a read,control",
		"a read secret-number-1.\n# b\nb.c@d-e_1 payload,write secret-number-2.\n": "a read; b.c@d-e_1 " +
			"read,payload,control",
	} {
		tokens, err := admin.ParseTokens(text)
		var got []string
		for _, token := range tokens {
			got = append(got, token.Name+" "+token.Rights.String())
		}
		if err != nil || strings.Join(got, "; ") != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"":                        "it is empty",
		" \n ":                    "it is empty",
		"# nothing\n":             "no token in it",
		"SECRET\nSECRET\n":        "line 1: it must have a name, rights and a token",
		"a read SECRET\nb read\n": "line 2: it must have a name, rights and a token",
		"a read SECRET more\n":    "line 1: it must have a name, rights and a token",
		"a SECRET read\n":         "line 1: the rights of a: there is no such right",
		"a read, SECRET\n":        "line 1: the rights of a: there is no such right",
		"\na;b read SECRET\n":     "line 2: the name must be",
		strings.Repeat("a", 65) + " read SECRET\n": "line 1: the name must be",
		"a read SECRET\na read SECRET2\n":          "line 2: there is a token named a above",
		"a read SECRET\nb read SECRET\n":           "line 2: b has the same token as a",

		// A file that is cut, or lacks a column.
		"a read SECRET\nb read SECRET2": "its last line has no end",
		"SECRET":                        "its last line has no end",
		"ann\n":                         "fewer than 16 characters",
		"SECRET two\n":                  "line 1: it must have a name, rights and a token",
		"grafana  read\n":               "line 1: it must have a name, rights and a token",
		"a read s3cret-15-bytes\n":      "line 1: the token of a: it has fewer than 16 characters",
	} {
		tokens, err := admin.ParseTokens(strings.ReplaceAll(text, "SECRET", "s3cret-number-1."))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, %v; want an error with %q", text, tokens, err, says)
		}
	}
}

// Goal: each token lets its holder do what its line says and no more, and never more than the listener allows; who may
// not is told why; the audit names the token; and a file that is changed counts from the next request on, unless it is
// broken. Method: three tokens, each with three requests; then the file is changed.
func TestTokenRights(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "reader read "+s1+"\nviewer payload "+s2+"\nann read,payload,control "+s3+"\n")
	for _, allowed := range []admin.Rights{{Payload: true, Control: true}, {Payload: true}, {}} {
		s := newService(t, allowed)
		server := newServer(t, admin.Config{Listen: "0.0.0.0:0", TokenFile: file})
		server.Mount(s.api)
		ask := func(token, method, path, body string) (int, string) {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		for token, has := range map[string]admin.Rights{
			s1: {}, s2: {Payload: true}, s3: {Payload: true, Control: true},
		} {
			check := func(what string, may, nobody bool, code int, text string) {
				t.Helper()
				want, says := http.StatusOK, ""
				switch {
				case nobody:
					want, says = http.StatusForbidden, "nobody may do that here"
				case !may:
					want = http.StatusForbidden
					says = "may not do that: its rights in admin-token-file are " + has.String()
				}
				if code != want || !strings.Contains(text, says) {
					t.Errorf("allowed %v, token with %v, %s: status %d %s, want %d with %q", allowed, has, what, code,
						text, want, says)
				}
			}
			code, text := ask(token, "GET", "/v1/info", "")
			check("read", true, false, code, text)
			code, text = ask(token, "GET", "/v1/messages/b?payload=true", "")
			check("payload", has.Payload, !allowed.Payload, code, text)
			code, text = ask(token, "PUT", "/v1/pauses/lanes/out", `{}`)
			check("control", has.Control, !allowed.Control, code, text)
		}
		if code, _ := ask(s4, "GET", "/v1/info", ""); code != http.StatusUnauthorized {
			t.Errorf("a token that nobody has: status %d", code)
		}
		if audited := strings.Contains(s.log.String(), `authenticated="by the token ann"`); audited != allowed.Control {
			t.Errorf("the audit names the token: %v, in\n%s", audited, &s.log)
		}
	}
	s := newService(t, admin.Rights{Control: true})
	server := newServer(t, admin.Config{Listen: "0.0.0.0:0", TokenFile: file})
	server.Mount(s.api)
	for _, step := range []struct {
		file   string
		status map[string]int
	}{
		{"reader read " + s1 + "\nann control " + s9 + "\n", map[string]int{s1: 403, s3: 401, s9: 200}},
		{"reader control " + s1 + "\nann control secret-number-9", map[string]int{s1: 403, s9: 200}}, // half written
		{s7 + "\n", map[string]int{s7: 401, s9: 200}},                                                // no names
		{"reader  read\n", map[string]int{"reader": 401, "read": 401, s9: 200}},                      // a column less
		{"reader control " + s1, map[string]int{s1: 403}},                                            // no end
		{"reader control " + s1 + "\n", map[string]int{s1: 200, s9: 401}},
	} {
		if err := os.WriteFile(file, []byte(step.file), 0o600); err != nil {
			t.Fatal(err)
		}
		for token, want := range step.status {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v1/pauses/intake",
				strings.NewReader("{}"))
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("with %q, %s: status %d, want %d", step.file, token, w.Code, want)
			}
		}
	}
}
