package node_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// A value that is a JSON string in quotes says the string in it; everything else says itself. What AsHeader writes says
// the text that it was given.
func TestHeaderText(t *testing.T) {
	for value, want := range map[string]string{
		`"3767d5c7"`: "3767d5c7", `"a\"b"`: `a"b`, `"\u00e9"`: "é", `""`: "", `"3m"`: "3m",
		`3767d5c7`: `3767d5c7`, `"`: `"`, `"a`: `"a`, `a"`: `a"`, `"a"b"`: `"a"b"`, `"\ud800"`: `"\ud800"`,
		"\"\xff\"": "\"\xff\"", `{"a":1}`: `{"a":1}`, ` "a"`: ` "a"`, "": "",
	} {
		if got := string(node.HeaderText([]byte(value))); got != want {
			t.Errorf("%q says %q, want %q", value, got, want)
		}
		if got := string(node.HeaderText(node.AsHeader(value))); got != value {
			t.Errorf("%q is written as %q, which says %q", value, node.AsHeader(value), got)
		}
	}
	if node.HeaderText(nil) != nil {
		t.Error("a null says something")
	}
}

// Spring writes headers that are no texts as JSON: the id, the deadline, the action and the topic of such a record are
// those in the quotes, and what else the record has arrives as it was.
func TestQuotedHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
		at := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
		for _, id := range []string{"kept", "cancelled"} {
			w.submitRecord(node.Record{Value: []byte(id), Headers: []node.Header{
				h(node.HeaderID, `"`+id+`"`), h(node.HeaderDeadline, `"`+at+`"`), h("mine", `"text"`),
			}})
		}
		w.submitRecord(node.Record{Key: []byte("key cancelled"), Headers: []node.Header{
			h(node.HeaderID, "cancelled"), h(node.HeaderAction, `"cancel"`),
		}})
		w.run(controlled(), nil)
		pass(3 * time.Second)
		if got := w.values("out"); len(got) != 1 || got["kept"] != 1 {
			t.Errorf("delivered %v", got)
		}
		if got := w.on("out"); len(got) != 1 || header(got[0].Record, "mine") != `"text"` {
			t.Errorf("delivered %v", got)
		}
		if said := w.said(); len(said) != 1 || said[0] != "cancel cancelled: cancelled" {
			t.Errorf("said %v", said)
		}
	})
}

// A header of nearly the right name is named where the right one is missing, and no other is.
func TestNearlyNamed(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	id, at := h(node.HeaderID, "x"), h(node.HeaderDeadline, "2022-12-01T11:09:01")
	for want, headers := range map[string][]node.Header{
		`"chronosmessageid", which must be called chronosMessageId`:   {h("chronosmessageid", "x"), at},
		`"chronos-message-id", which must be called chronosMessageId`: {h("chronos-message-id", "x"), at},
		`"CHRONOS_MESSAGE_ID", which must be called chronosMessageId`: {h("CHRONOS_MESSAGE_ID", "x"), at},
		`"chronosMesageId", which must be called chronosMessageId`:    {h("chronosMesageId", "x"), at},
		`"chronosMessageIds", which must be called chronosMessageId`:  {h("chronosMessageIds", "x"), at},
		`"chronosDeadlien", which must be called chronosDeadline`:     {id, h("chronosDeadlien", "x")},
		`"chronos.delay", which must be called chronosDelay`:          {id, h("chronos.delay", "5s")},
		`"chronosaction", which must be called chronosAction`:         {id, h("chronosaction", "cancel")},
		`there is no header chronosDeadline`:                          {id, h("deadline", "x"), h("chronosDead", "x")},
		`there is no header chronosMessageId`:                         {h("message-id", ""), h("\xff", ""), h("", "")},
		`there is a header chronosMissed, and no header chronosRepeat; there is a header "chronosrepeat", which`: {
			id, at, h(node.HeaderMissed, "all"), h("chronosrepeat", "every 2s"),
		},
	} {
		_, err := (&node.Config{}).Read(node.Record{Timestamp: time.Now(), Headers: headers}, "out", time.Now)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", headers, err, want)
		}
		if strings.HasPrefix(want, "there is no") && err != nil && err.Error() != want {
			t.Errorf("%v: %v, want %s and no more", headers, err, want)
		}
	}
}

// Where a record has a bare number, the sentence says which setting would tell what it counts.
func TestBareNumber(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	id, at := h(node.HeaderID, "x"), h(node.HeaderDeadline, "2099-12-01T11:09:01")
	for _, headers := range [][]node.Header{
		{id, h(node.HeaderDeadline, "1795900401")},
		{id, at, h(node.HeaderNotAfter, "1795900401417")},
		{id, at, h(node.HeaderRepeat, "@daily"), h(node.HeaderRepeatUntil, "1795900401.5")},
	} {
		_, err := (&node.Config{}).Read(node.Record{Timestamp: time.Now(), Headers: headers}, "out", time.Now)
		if err == nil || !strings.HasSuffix(err.Error(), "; or let --epoch-deadlines say what they count") {
			t.Errorf("%v: %v", headers, err)
		}
	}
}
