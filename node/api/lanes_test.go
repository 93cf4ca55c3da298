package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/api"
)

// Goal: one tenant does not take all lanes that nobody has named from another, or from the routes; each goes on with
// those that it has; and they are free again when nothing waits there. Method: a token that makes up lanes until it is
// refused, and then another.
func TestLanesAreShared(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "a write:http:a-* "+s1+"\nb write:http:*,write:mails.* "+s2+"\n"+
		"c read "+s3+"\n")
	_, w := newServer(t, api.Config{Listen: "0.0.0.0:0", TokenFile: file}, nil)
	put := func(token, lane string) *reply {
		t.Helper()
		return w.ask(t, "PUT", "/v1/lanes/"+lane+"/messages/x", `{"delay":"1h","url":"http://a.example/"}`,
			"Authorization", "Bearer "+token)
	}
	fill := func(token, lane string) (taken int) {
		t.Helper()
		for taken = range 2 * node.MostFound {
			got := put(token, fmt.Sprint(lane, taken))
			if got.code == http.StatusTooManyRequests {
				if got.Code != "too_many_targets" || got.field() != "path.lane" || got.header.Get("Retry-After") == "" {
					t.Errorf("refused: %v %s", got.header, got.text)
				}
				return taken
			}
			got.want(t, 201, "scheduled")
		}
		return taken
	}
	own := node.MostFound / 2 / 3 // of a, b and the route
	if got, want := fill(s1, "http:a-"), node.MostFound-2*own; got != want {
		t.Errorf("a takes %d lanes, want %d: what is common, and its own", got, want)
	}
	if got := fill(s2, "http:b-"); got != own {
		t.Errorf("b takes %d lanes behind a, want %d", got, own)
	}
	put(s1, "http:a-0").want(t, 200, "ignored")
	put(s2, "http:b-0").want(t, 200, "ignored")
	if got := put(s1, "http:a-more"); got.code != http.StatusTooManyRequests {
		t.Errorf("a takes a lane more: %d %s", got.code, got.text)
	}
	later := time.Now().Add(time.Minute)
	if !w.api.Full(t.Context(), "a", "http:a-more", later) {
		t.Error("a may take a lane more, and all that it has hold something")
	}
	w.ask(t, "DELETE", "/v1/lanes/http:a-0/messages/x", "", "Authorization", "Bearer "+s1).want(t, 200, "cancelled")
	later = later.Add(time.Minute)
	if w.api.Full(t.Context(), "a", "http:a-more", later) || !w.api.Full(t.Context(), "a", "http:a-2nd", later) {
		t.Error("a may take one lane, in place of the one on which nothing waits")
	}
}
