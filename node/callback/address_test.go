package callback_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"chronos/node/callback"
)

// Which addresses may be dialled: public ones; private ones of a host that is allowed by its name, though none of those
// by which clouds hand out credentials; and what is allowed as such.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		address        string
		nobody, byName bool     // whether it may be dialled
		allows         []string // by which it may
	}{
		{"93.184.215.14:80", true, true, nil},
		{"93.184.215.14:443", true, true, nil},
		{"93.184.215.14:8080", false, true, []string{"93.184.215.14"}},
		{"[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:443", true, true, nil},
		{"10.1.2.3:80", false, true, []string{"10.0.0.0/8"}},
		{"10.1.2.3:8080", false, true, []string{"10.1.2.3"}},
		{"192.168.1.1:80", false, true, []string{"192.168.0.0/16"}},
		{"172.31.255.255:80", false, true, []string{"172.16.0.0/12"}},
		{"100.64.0.1:80", false, true, []string{"100.64.0.0/10"}},
		{"127.0.0.1:5432", false, true, []string{"127.0.0.1"}},
		{"[::1]:80", false, true, []string{"::1"}},
		{"[fd12::1]:80", false, true, []string{"fd00::/8"}},
		{"[::ffff:10.1.2.3]:80", false, false, []string{"10.0.0.0/8"}},
		{"169.254.169.254:80", false, false, []string{"169.254.169.254"}},
		{"[::ffff:169.254.169.254]:80", false, false, []string{"169.254.169.254"}},
		{"[fd00:ec2::254]:80", false, false, []string{"fd00:ec2::254"}},
		{"[fe80::1]:80", false, false, []string{"fe80::/10"}},
		{"[fe80::1%eth0]:80", false, false, []string{"fe80::1"}},
		{"0.0.0.0:80", false, false, []string{"0.0.0.0"}},
		{"[::]:80", false, false, []string{"::"}},
		{"224.0.0.1:80", false, false, []string{"224.0.0.0/4"}},
		{"[64:ff9b::a9fe:a9fe]:80", false, false, []string{"64:ff9b::/96"}},
		{"[2002:a9fe:a9fe::]:80", false, false, []string{"2002::/16"}},
	} {
		address := netip.MustParseAddrPort(c.address)
		for _, named := range []bool{false, true} {
			want := named && c.byName || !named && c.nobody
			if err := callback.CheckAddress(nil, named, address); (err == nil) != want {
				t.Errorf("%s, of a host that is named: %v: %v", c.address, named, err)
			}
			if c.allows == nil {
				continue
			}
			if err := callback.CheckAddress(c.allows, named, address); err != nil {
				t.Errorf("%s, where %v is allowed: %v", c.address, c.allows, err)
			}
			if err := callback.CheckAddress([]string{"1.2.3.4", "5.6.0.0/16"}, named, address); (err == nil) != want {
				t.Errorf("%s, where others are allowed: %v", c.address, err)
			}
		}
	}
}

// A connection is used again, also where answers have a body.
func TestConnectionsAreUsedAgain(t *testing.T) {
	addresses := map[string]bool{}
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		addresses[request.RemoteAddr] = true // one at a time
		_, _ = fmt.Fprint(w, "thank you")
	}))
	t.Cleanup(r.Close)
	s := sink(t, local())
	for range 10 {
		if err := publish(t, s, record(r.URL)); err != nil {
			t.Fatal(err)
		}
	}
	if len(addresses) != 1 {
		t.Errorf("10 requests over %d connections, want 1", len(addresses))
	}
}

// What stands for hosts with a * stands for those below that name, and for no others that end so.
func TestNamesBelow(t *testing.T) {
	l := callback.Default("http:test")
	l.Allowed = []string{"*.internal", "one.example:8080"}
	s := sink(t, l)
	for _, url := range []string{
		"http://notinternal:8080", "http://internal:8080", "http://a.internal.example:8080", "http://one.example:8081",
		"http://a.one.example:8080",
	} {
		if err := refused(t, publish(t, s, record(url))); !strings.Contains(err.Error(), "is not allowed") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"http://a.internal:8080", "http://A.b.INTERNAL.:1", "http://One.example:8080"} {
		if err := s.Check("http:test", record(url).Headers); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
