package callback_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chronos/node"
	"chronos/node/callback"
)

// portOf returns the port of a receiver, with a colon before it.
func portOf(r *receiver) string { return r.URL[strings.LastIndex(r.URL, ":"):] }

// Goal: the headers of a lane and its signature go only to hosts that the lane names, whatever a message asks for.
// Method: each host is one receiver, which looks at what came. That an address is reached by a name that the lane does
// not name makes no difference, nor does the same host by another scheme or port.
func TestCredentialsGoWhereTheLaneSays(t *testing.T) {
	r := receive(t, nil)
	port := portOf(r)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const named, other = "http://named.example", "http://other.example"
	for _, c := range []struct {
		url     string
		allowed []string
		target  string // "" for the URL of the lane
		want    bool
	}{
		{named + port + "/a", []string{"127.0.0.1"}, "", true},
		{named + port + "/a", []string{"127.0.0.1"}, named + port + "/b", true},
		{named + port, []string{"127.0.0.1"}, "http://NAMED.example." + port, true},
		{named + port, []string{"127.0.0.1"}, other + port, false},
		{"https://named.example" + port, []string{"127.0.0.1"}, named + port, false},
		{named, []string{"127.0.0.1"}, named + port, false},
		{"", []string{"127.0.0.1"}, "http://127.0.0.1" + port, true},
		{"", []string{"127.0.0.0/8"}, "http://127.0.0.1" + port, true},
		{"", []string{"127.0.0.1" + port}, "http://127.0.0.1" + port, true},
		{"", []string{"127.0.0.1"}, other + port, false},
		{"", []string{"*.example"}, other + port, true},
		{"", []string{"named.example", "127.0.0.1"}, other + port, false},
		{"", []string{"other.example" + port}, other + port, true},
		{"", []string{"other.example:81", "127.0.0.1"}, other + port, false},
	} {
		l := callback.Default("http:test")
		l.URL, l.Allowed, l.SecretFile = c.url, c.allowed, secret
		l.Headers = []node.Header{{Name: "Authorization", Value: []byte("Bearer lane")}}
		s, err := callback.New(callback.Config{Lanes: []callback.Lane{l}, Resolver: resolver(t, "127.0.0.1")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := publish(t, s, record(c.target, "authorization", "Bearer message", "x-mine", "1")); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		s.Close()
		all := r.requests()
		h := all[len(all)-1].Header
		got := h.Get("Authorization") == "Bearer lane" && h.Get("Webhook-Signature") != ""
		none := h.Get("Authorization") == "" && h.Get("Webhook-Signature") == "" && h.Get("Webhook-Id") == ""
		if got != c.want || none == c.want || h.Get("X-Mine") != "1" {
			t.Errorf("%+v: it came with %v", c, h)
		}
	}
}

// Goal: a lane that allows one port of a host trusts that port and no other, and its own URL one port with one scheme;
// a host that is allowed without a port is trusted on all. Method: as above, of hosts that no test can ask.
func TestCredentialsByPort(t *testing.T) {
	for _, c := range []struct {
		own, allowed, target string
		want                 bool
	}{
		{"", "192.0.2.1:80", "http://192.0.2.1/", true},
		{"", "192.0.2.1:80", "http://192.0.2.1:080/", true},
		{"", "192.0.2.1:80", "http://192.0.2.1:8080/", false},
		{"", "192.0.2.1:80", "https://192.0.2.1/", false},
		{"", "192.0.2.1:8080", "http://192.0.2.1/", false},
		{"", "192.0.2.1:8080", "http://192.0.2.1:8080/", true},
		{"", "192.0.2.1", "http://192.0.2.1:8080/", true},
		{"", "192.0.2.0/24", "https://192.0.2.1/", true},
		{"", "[2001:db8::1]:443", "https://[2001:db8::1]/", true},
		{"", "[2001:db8::1]:443", "https://[2001:db8::1]:8080/", false},
		{"", "named.example:443", "https://named.example/", true},
		{"", "named.example:443", "http://named.example/", false},
		{"", "named.example:443", "https://named.example:8080/", false},
		{"", "named.example:8080", "https://named.example/", false},
		{"", "*.example:443", "https://named.example:8080/", false},
		{"", "named.example", "https://named.example:8080/", true},
		{"http://own.example/", "named.example:80", "http://own.example:80/x", true},
		{"http://own.example/", "named.example:80", "http://own.example:8080/", false},
		{"http://own.example/", "named.example:80", "https://own.example:80/", false},
		{"http://own.example:8080/", "named.example:80", "http://own.example/", false},
		{"http://own.example:8080/", "named.example:80", "http://named.example:8080/", false},
	} {
		got, err := callback.Names(c.own, []string{c.allowed}, c.target)
		if err != nil || got != c.want {
			t.Errorf("%+v: trusted %v, %v", c, got, err)
		}
	}
}

// Goal: a lane that is limited to its own URL requests no other, and says so to whoever brings a message.
func TestOwnURLOnly(t *testing.T) {
	r := receive(t, nil)
	l := local()
	l.URL, l.URLOnly = r.URL+"/own", true
	s := sink(t, l)
	for target, may := range map[string]bool{
		"": true, r.URL + "/own": true, r.URL + "/other": false, r.URL + "/own?x": false, "http://example.com/": false,
	} {
		one := record(target)
		if err := s.Check("http:test", one.Headers); (err == nil) != may ||
			!may && !strings.Contains(err.Error(), "its own URL only (url-only): leave the header chronosUrl out") {
			t.Errorf("%q when it is brought: %v", target, err)
		}
		if err := publish(t, s, one); (err == nil) != may {
			t.Errorf("%q when it is due: %v", target, err)
		}
	}
	for _, got := range r.requests() {
		if got.RequestURI != "/own" {
			t.Errorf("%s was requested", got.RequestURI)
		}
	}
}

// Goal: a lane with a credential that may go anywhere is refused, with what to add.
func TestCredentialsForNobody(t *testing.T) {
	for want, change := range map[string]func(*callback.Lane){
		"headers of lane http:test is Authorization: the lane has neither url nor allowed": func(l *callback.Lane) {
			l.Headers = header("Authorization", "Bearer x")
		},
		"secret-file of lane http:test is /nowhere: the lane has neither url nor allowed": func(l *callback.Lane) {
			l.SecretFile = "/nowhere"
		},
		"url-only of lane http:test is true: the lane has no url": func(l *callback.Lane) { l.URLOnly = true },
	} {
		l := callback.Default("http:test")
		change(&l)
		if err := l.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) ||
			!strings.Contains(err.Error(), "add ") {
			t.Errorf("%v, want %s...", err, want)
		}
		l.URL = "https://named.example/"
		if err := l.Validate(); err != nil {
			t.Errorf("with a URL: %v", err)
		}
		if l.URL, l.Allowed = "", []string{"named.example"}; l.URLOnly {
			continue
		}
		if err := l.Validate(); err != nil {
			t.Errorf("with a host that is allowed: %v", err)
		}
	}
}

// Goal: no header of a message is taken for one of the lane, or of Chronos, by a receiver that reads names without
// case and takes underscores for hyphens, as CGI and WSGI do.
func TestHeadersThatReadAlike(t *testing.T) {
	r := receive(t, nil)
	l := local()
	l.Headers = header("X-Tenant", "blue")
	s := sink(t, l)
	if err := publish(t, s, record(r.URL, "X_Tenant", "admin", "x_tenant", "admin", "x-TENANT", "admin",
		"Chronos_Message_Id", "x", "X-Tenants", "own")); err != nil {
		t.Fatal(err)
	}
	asked := r.requests()[0]
	var read []string
	for name, values := range asked.Header {
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "x-tenant") {
			read = append(read, values...)
		}
	}
	if len(read) != 1 || read[0] != "blue" || asked.Header.Get("X-Tenants") != "own" ||
		asked.Header.Get("Chronos_Message_Id") != "" {
		t.Errorf("a receiver reads X-Tenant %v of %v", read, asked.Header)
	}
}

// Goal: an address or a host that is allowed with a port is allowed on that port, and on no other.
func TestAllowedWithPort(t *testing.T) {
	r := receive(t, nil)
	port := portOf(r)
	for _, c := range []struct {
		allowed, target string
		want            bool
	}{
		{"127.0.0.1" + port, "http://127.0.0.1" + port, true},
		{"127.0.0.1" + port, "http://127.0.0.1:0" + port[1:], true},
		{"127.0.0.1" + port, "http://named.example" + port, true},
		{"127.0.0.1:1", "http://127.0.0.1" + port, false},
		{"127.0.0.1:1", "http://named.example" + port, false},
		{"named.example" + port, "http://named.example" + port, true},
		{"named.example:0" + port[1:], "http://named.example" + port, true},
		{"named.example:1", "http://named.example" + port, false},
		{"[::ffff:127.0.0.1]" + port, "http://127.0.0.1" + port, true},
	} {
		l := callback.Default("http:test")
		l.Allowed = []string{c.allowed}
		s, err := callback.New(callback.Config{Lanes: []callback.Lane{l}, Resolver: resolver(t, "127.0.0.1")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := publish(t, s, record(c.target)); (err == nil) != c.want {
			t.Errorf("%s with %s allowed: %v", c.target, c.allowed, err)
		}
		s.Close()
	}
	for _, allowed := range []string{
		"127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:+80", "10.0.0.0/8:80", "named:0",
		"named:-1", "named:", "named:http",
	} {
		l := callback.Default("http:test")
		l.Allowed = []string{allowed}
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "must be a host") {
			t.Errorf("%s: %v", allowed, err)
		}
	}
}
