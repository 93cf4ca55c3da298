package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What is wrong with the callback lanes of a file is one sentence, which names the line.
func TestLaneSentences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, want string }{
		{"lanes: x", "FILE:1: lanes is not a list: it must have an entry for each lane, with the key name, " +
			"and any of url, url-only, timeout, retry-for, concurrency, per-host, allowed, secret-file, headers, " +
			"order, dead-letter, window and max-per-second"},
		{"lanes:\n  - timeout: 1s", "FILE:2: name is not set: every lane has a name, such as http:orders"},
		{
			"lanes:\n  - name: orders",
			"FILE:2: window is not set: an entry of a topic says when it is open, or how fast messages come out " +
				"there (max-per-second)",
		},
		{"lanes:\n  - name: http:a\n  - name: http:a", "FILE:3: name is http:a: a lane is listed once"},
		{"lanes:\n  - name: http:*\n  - name: http:*", "FILE:3: name is \"http:*\": a lane is listed once"},
		{"lanes:\n  - name: http:a\n    timeout: 1h", "FILE:3: timeout is 1h: it must be from 100ms to 10m0s"},
		{
			"lanes:\n  - name: http:a\n    timeout: soon",
			"FILE:3: timeout is soon: it must be a time such as 100ms, 1m30s or 1d12h",
		},
		{
			"lanes:\n  - name: http:a\n    retry-for: 31d",
			"FILE:3: retry-for is 31d: it must be from 0s to 720h, which is 30 days",
		},
		{
			"lanes:\n  - name: http:a\n    concurrency: 65",
			"FILE:3: concurrency is 65: it must be a number from 1 to 64",
		},
		{
			"lanes:\n  - name: http:a\n    per-host: 0",
			"FILE:3: per-host is 0: it must be a number from 1 to 64",
		},
		{
			"lanes:\n  - name: http:a\n    allowed: [10.0.0.0/8, 'http://b']",
			"FILE:3: allowed is 10.0.0.0/8,http://b: http://b must be a host (orders.internal, *.internal, " +
				"orders.internal:8080), an address (10.1.2.3, 10.1.2.3:8080) or a prefix of " +
				"addresses (10.0.0.0/8)",
		},
		{
			"lanes:\n  - name: http:a\n    order: deadline",
			"FILE:3: order is deadline: it must be key or none",
		},
		{
			"lanes:\n  - name: http:a\n    secret-file: /nowhere/secret\n    url: https://b",
			"FILE:3: secret-file is /nowhere/secret: no such file or directory",
		},
		{
			"lanes:\n  - name: http:a\n    headers: {Authorization: b}",
			"FILE:3: headers has Authorization: the lane has neither url nor allowed, so a message may name any URL, " +
				"and they are sent only to hosts that the lane names: add url, or allowed with the hosts that they " +
				"are for",
		},
		{
			"lanes:\n  - name: http:*\n    secret-file: /nowhere/secret",
			"FILE:3: secret-file is /nowhere/secret: the lane has neither url nor allowed, so a message may name any " +
				"URL, and signatures are sent only to hosts that the lane names: add url, or allowed with the hosts " +
				"that they are for",
		},
		{"lanes:\n  - name: http:a\n    url-only: true", "FILE:3: url-only is true: the lane has no url: add it"},
		{
			"lanes:\n  - name: http:a\n    url: https://b\n    url-only: yes please",
			"FILE:4: url-only is \"yes please\": it must be true or false",
		},
		{
			"lanes:\n  - name: http:a\n    headers: [a]",
			"FILE:3: headers is not a mapping: it must have a line \"NAME: VALUE\" for each header",
		},
		{
			"lanes:\n  - name: http:a\n    headers: {Host: b}",
			"FILE:3: headers has Host: it must be a header that a request may have, with a value of one line, and " +
				"none of those that are set for each request",
		},
		{
			"lanes:\n  - name: http:a\n    url: ftp://b",
			"FILE:3: url is ftp://b: the URL begins with \"ftp:\": it must begin with http:// or https://",
		},
		{
			"lanes:\n  - name: http:a\n    dead-letter: http:b",
			"FILE:1: lanes has dead letters of lane http:a to http:b: a callback lane for dead letters must be " +
				"listed too",
		},
		{
			"lanes:\n  - name: http:a\n    dead-letter: http:b\n  - name: http:b",
			"FILE:3: dead-letter is http:b: that lane needs a url, because dead letters go where it says",
		},
		{
			"lanes:\n  - name: http:a\n    dead-letter: chronos.in",
			"FILE:1: lanes has dead letters of lane http:a to chronos.in: dead letters need a topic of their own",
		},
		{"lanes:\n  - name: http:a\n    retries: 3", "FILE:3: there is no setting \"retries\""},
		{"routes:\n  - {input: http:a, output: b}", "FILE:2: input is http:a: the name of a topic has 1 to 249 " +
			"letters, digits, dots, underscores and hyphens"},
		{"routes:\n  - {input: a, output: b, dead-letter: http:c}", "FILE:2: dead-letter is http:c: the name of a " +
			"topic has 1 to 249 letters, digits, dots, underscores and hyphens"},
	} {
		file := writeFile(t, "c.yaml", c.file+"\n")
		got := run(t, "", "run", "--store", aStore, "--config", file)
		want := "chronos: " + strings.ReplaceAll(c.want, "FILE", file)
		if first, _, _ := strings.Cut(got.stderr, "\n"); got.code != 2 || !strings.HasPrefix(first, want) {
			t.Errorf("%s\nexits with %d and says\n%s\nwant\n%s", c.file, got.code, first, want)
		}
	}
}

// The lanes in force are in the first line of the log, without a secret.
func TestLanesInForce(t *testing.T) {
	secret := writeFile(t, "secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	file := writeFile(t, "c.yaml", `
routes:
  - {input: in, output: http:orders, targets: [out, "http:*"]}
lanes:
  - name: http:orders
    url: https://orders.internal/
    url-only: true
    timeout: 5s
    retry-for: 1h
    concurrency: 8
    per-host: 4
    allowed: [orders.internal, 10.0.0.0/8]
    secret-file: `+secret+`
    headers: {Authorization: Bearer abc}
    dead-letter: orders.failed
`)
	got := settings(t, "--store", aStore, "--config", file)
	for key, want := range map[string]string{
		"lane http:orders": "timeout 5s, retry for 1h0m0s, 4 per host, 8 at the same time, its own URL only, also " +
			"to orders.internal 10.0.0.0/8, signed, failed -> orders.failed",
		"lane http:*": "timeout 15s, retry for 24h0m0s, 16 per host",
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %s", key, got[key], want)
		}
	}
}

// chronos dev makes callbacks to servers on this machine: what is answered well has come out, what is refused is a dead
// letter, and what fails is tried again.
func TestDevCallback(t *testing.T) {
	type asked struct{ path, id, attempt, body string }
	requests := make(chan asked, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		one := asked{r.URL.Path, r.Header.Get("Chronos-Message-Id"), r.Header.Get("Chronos-Attempt"), string(body)}
		requests <- one
		switch {
		case one.path == "/gone":
			http.Error(w, "no such order", http.StatusGone)
		case one.path == "/busy" && one.attempt == "1":
			http.Error(w, "later", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	p, address := dev(t)
	for _, path := range []string{"/good", "/gone", "/busy"} {
		sent := run(t, "",
			"send", "--brokers", address, "--in", "0s", "--id", path[1:], "--url", server.URL+path, "hello")
		if sent.code != 0 {
			t.Fatalf("send: %s", sent.stderr)
		}
	}
	want := map[asked]bool{
		{"/good", "good", "1", "hello"}: true, {"/gone", "gone", "1", "hello"}: true,
		{"/busy", "busy", "1", "hello"}: true, {"/busy", "busy", "2", "hello"}: true,
	}
	for late := time.After(patience); len(want) > 0; {
		select {
		case got := <-requests:
			if !want[got] {
				t.Errorf("a request that should not be: %+v", got)
			}
			delete(want, got)
		case <-late:
			t.Fatalf("these did not come: %v", want)
		}
	}
	p.stdout.await(t, `fired  busy  .* on http:default`, 1)
	letter := consume(t, address, "chronos.dead", 1)[0]
	headers := map[string]string{}
	for _, h := range letter.Headers {
		headers[h.Key] = string(h.Value)
	}
	for name, want := range map[string]string{
		"chronosMessageId": "gone", "chronosReason": "callback_failed", "chronosStatus": "410",
		"chronosAnswer": "no such order\n", "chronosUrl": server.URL + "/gone", "chronosTopic": "http:default",
	} {
		if headers[name] != want {
			t.Errorf("%s of the dead letter is %q, want %q", name, headers[name], want)
		}
	}
	if strings.Contains(p.stderr.String(), "created") {
		t.Errorf("it takes a callback lane for a topic: %s", p.stderr)
	}
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}

// What is wrong with the flags of a callback.
func TestSendCallbackSentences(t *testing.T) {
	for args, want := range map[string]string{
		"--url example.com":       "--url is example.com: it must begin with http:// or https://",
		"--url ftp://example.com": "--url is ftp://example.com: it must begin with http:// or https://",
		"--method PUT":            "--method is set, and --url is not: it must say what to request",
		"--url http://example.com --topic-out a": "--topic-out is a, and --url is set: a callback has a lane such as " +
			"http:orders",
	} {
		got := run(t, "", append(append([]string{"send", "--in", "1s"}, strings.Fields(args)...), "hello")...)
		if got.code != 2 || !strings.HasPrefix(got.stderr, "chronos: "+want) {
			t.Errorf("%s exits with %d: %s, want %s", args, got.code, got.stderr, want)
		}
	}
}
