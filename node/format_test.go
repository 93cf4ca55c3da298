package node_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"chronos/node"
)

// amnesix and etf1 are routes of the formats.
func amnesix() node.Route {
	return node.Route{
		Input: "scheduler", Output: "http:jobs", DeadLetter: "dead", Outcomes: "told", Format: node.FormatAmnesix,
	}
}

func etf1(targets ...string) node.Route {
	return node.Route{
		Input: "schedules", Output: "out", DeadLetter: "dead", Outcomes: "told", Targets: targets,
		Format: node.FormatETF1,
	}
}

func job(id, at, to any) []byte {
	text, err := json.Marshal(map[string]any{"id": id, "time": at, "url": to})
	if err != nil {
		panic(err)
	}
	return text
}

// Goal: what a job of Amnesix asks for, and that each way to write a bad one is rejected for a reason of its own,
// which is told to whoever can be named.
func TestAmnesix(t *testing.T) {
	const to = "https://example.org/do?x=1"
	good := job("j1", 1893456000, to)
	withID := func(id string) []node.Header { return []node.Header{{Name: node.HeaderID, Value: []byte(id)}} }
	const put, none = node.Replace, node.Cancel
	k, twoIDs := []byte("k"), append(withID("a"), withID("b")...)
	of := func(value []byte) node.Record { return node.Record{Key: []byte("k"), Value: value} }
	text := func(value string) node.Record { return of([]byte(value)) }
	for name, c := range map[string]struct {
		record node.Record
		id     string
		action node.Action
		reason node.Reason
	}{
		"a job":                {of(good), "k/j1", put, ""},
		"seconds as text":      {of(job("j1", "1893456000", to)), "k/j1", put, ""},
		"more fields":          {text(`{"x":[1],` + string(good[1:])), "k/j1", put, ""},
		"a slash in the key":   {node.Record{Key: []byte("a/b%"), Value: good}, "a%2Fb%25/j1", put, ""},
		"a slash in the id":    {node.Record{Key: []byte("a"), Value: job("b%/j1", 1, to)}, "a/b%/j1", put, ""},
		"a binary key":         {node.Record{Key: []byte("a\x00\xffé"), Value: good}, "a%00%FFé/j1", put, ""},
		"a replacement char":   {node.Record{Key: []byte("\uFFFD"), Value: good}, "\uFFFD/j1", put, ""},
		"a sign":               {of(job("j1", "+1893456000", to)), "k/j1", put, node.InvalidDeadline},
		"null":                 {node.Record{Key: []byte("k"), Headers: withID("j1")}, "k/j1", none, ""},
		"null without an id":   {node.Record{Key: []byte("k")}, "", none, node.MissingID},
		"null, an empty id":    {node.Record{Key: []byte("k"), Headers: withID("")}, "", none, node.EmptyID},
		"null, two ids":        {node.Record{Key: k, Headers: twoIDs}, "", none, node.RepeatedID},
		"null without a key":   {node.Record{Headers: withID("j1")}, "", none, node.MissingKey},
		"no key":               {node.Record{Value: good}, "", put, node.MissingKey},
		"an empty key":         {node.Record{Key: []byte{}, Value: good}, "", put, node.MissingKey},
		"an empty value":       {node.Record{Key: []byte("k"), Value: []byte{}}, "", put, node.InvalidJSON},
		"no JSON":              {text("{id"), "", put, node.InvalidJSON},
		"two values":           {text(string(good) + "{}"), "", put, node.InvalidJSON},
		"a list":               {text(`["id"]`), "", put, node.InvalidJSON},
		"no UTF-8":             {text("{\"id\":\"\xff\"}"), "", put, node.InvalidJSON},
		"the word null":        {text("null"), "", put, node.MissingField},
		"no id":                {text(`{"time":1,"url":"http://x"}`), "", put, node.MissingField},
		"another case":         {text(`{"ID":"a","time":1,"url":"http://x"}`), "", put, node.MissingField},
		"no time":              {text(`{"id":"a","url":"http://x"}`), "", put, node.MissingField},
		"no url":               {text(`{"id":"a","time":1}`), "", put, node.MissingField},
		"an id that is none":   {of(job(17, 1, to)), "", put, node.InvalidField},
		"an id that is empty":  {of(job("", 1, to)), "", put, node.InvalidField},
		"half a character":     {text(`{"id":"j\ud83d","time":1,"url":"http://x"}`), "", put, node.InvalidField},
		"half of it in a url":  {text(`{"id":"j1","time":1,"url":"http://x/\ude00"}`), "k/j1", put, node.InvalidField},
		"a whole character":    {text(`{"id":"j\ud83d\ude00","time":1,"url":"http://x"}`), "k/j😀", put, ""},
		"an id with NUL":       {of(job("a\x00", 1, to)), "", put, node.InvalidID},
		"an id of 127 bytes":   {of(job(strings.Repeat("x", 127), 1, to)), "", put, node.IDTooLong},
		"a fraction":           {of(job("j1", 1.5, to)), "k/j1", put, node.InvalidDeadline},
		"an exponent":          {text(`{"id":"j1","time":1e9,"url":"http://x"}`), "k/j1", put, node.InvalidDeadline},
		"no time to speak of":  {of(job("j1", nil, to)), "k/j1", put, node.InvalidDeadline},
		"a date":               {of(job("j1", "2030-01-01", to)), "k/j1", put, node.InvalidDeadline},
		"milliseconds":         {of(job("j1", 1893456000000, to)), "k/j1", put, node.InvalidDeadline},
		"a url that is none":   {of(job("j1", 1, 5)), "k/j1", put, node.InvalidField},
		"another scheme":       {of(job("j1", 1, "file:///etc")), "k/j1", put, node.InvalidField},
		"a url with a newline": {of(job("j1", 1, "http://x/\r\ny: z")), "k/j1", put, node.InvalidField},
		"too large": {node.Record{
			Key: []byte("k"), Value: job("j1", 1, "http://x/"+strings.Repeat("x", node.MaxMessageBytes)),
		}, "k/j1", put, node.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			settings := node.Default()
			got := settings.Decode(c.record, amnesix())
			if got.ID != c.id || got.Action != c.action || got.Reason != c.reason || got.Told != (c.id != "") {
				t.Fatalf("id %q, %v, reason %q (%s), told %v", got.ID, got.Action, got.Reason, got.Detail, got.Told)
			}
			if got.Reason != "" && got.Detail == "" {
				t.Error("it does not say why")
			}
			if got.Reason == "" && (got.Message.Lane != "http:jobs" || got.Message.ID != c.id) {
				t.Errorf("the message %+v", got.Message)
			}
		})
	}
}

// Goal: the request of a job is a POST of its JSON to its URL, whatever headers the record has beside it.
func TestAmnesixRequest(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	value := job("j1", 1893456000, "https://example.org/do")
	c := node.Default()
	got := c.Decode(node.Record{Key: []byte("k"), Value: value, Headers: []node.Header{
		h("traceparent", "00-1"), h(node.HeaderURL, "https://evil"), h(node.HeaderMethod, "DELETE"),
		h(node.HeaderDelay, "1s"),
	}}, amnesix()).Message
	want := []node.Header{
		h("traceparent", "00-1"), h("content-type", "application/json"), h(node.HeaderURL, "https://example.org/do"),
	}
	if !reflect.DeepEqual(got.Headers, want) || string(got.Key) != "k" || string(got.Value) != string(value) ||
		!got.Deadline.Equal(time.Unix(1893456000, 0)) {
		t.Errorf("the message is %+v, headers %q", got, got.Headers)
	}
	got = c.Decode(node.Record{Key: []byte("k"), Value: value, Headers: []node.Header{h("Content-Type", "text/x")}},
		amnesix()).Message
	if len(got.Headers) != 2 || got.Headers[0].Name != "Content-Type" {
		t.Errorf("headers %q", got.Headers)
	}
}

// Goal: what a schedule of etf1 asks for, and why a bad one is rejected.
func TestETF1(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	at := func(value string) node.Header { return h(node.HeaderETF1Epoch, value) }
	into := func(value string) node.Header { return h(node.HeaderETF1Topic, value) }
	epoch, to := at("1893456000"), into("videos")
	const put, none = node.Replace, node.Cancel
	null := node.Header{Name: node.HeaderETF1Epoch}
	value, key, large := []byte("v"), []byte("vid1-online"), make([]byte, node.MaxMessageBytes)
	for name, c := range map[string]struct {
		key     []byte
		value   []byte
		headers []node.Header
		targets []string
		lane    string
		action  node.Action
		reason  node.Reason
	}{
		"a schedule":            {key, value, []node.Header{epoch, to}, []string{"videos"}, "videos", put, ""},
		"the output":            {key, value, []node.Header{epoch, into("out")}, nil, "out", put, ""},
		"one output":            {key, value, []node.Header{epoch}, nil, "out", put, ""},
		"a pattern":             {key, value, []node.Header{epoch, to}, []string{"vid*"}, "videos", put, ""},
		"an empty value":        {key, []byte{}, []node.Header{epoch}, nil, "out", put, ""},
		"null":                  {key, nil, nil, nil, "out", none, ""},
		"null with a topic":     {key, nil, []node.Header{to}, []string{"videos"}, "videos", none, ""},
		"their tombstone":       {key, nil, []node.Header{epoch, to}, []string{"videos"}, "videos", none, ""},
		"null, several targets": {key, nil, nil, []string{"videos"}, "", none, node.MissingTopic},
		"null to nowhere":       {key, nil, []node.Header{to}, nil, "", none, node.UnknownTopic},
		"no topic":              {key, value, []node.Header{epoch}, []string{"videos"}, "", put, node.MissingTopic},
		"a topic of others":     {key, value, []node.Header{epoch, to}, []string{"other"}, "", put, node.UnknownTopic},
		"the dead letters":      {key, value, []node.Header{epoch, into("dead")}, nil, "", put, node.UnknownTopic},
		"no key":                {nil, value, []node.Header{epoch}, nil, "", put, node.MissingKey},
		"an empty key":          {[]byte{}, nil, nil, nil, "", none, node.MissingKey},
		"a binary key":          {[]byte{0xff}, value, []node.Header{epoch}, nil, "", put, node.InvalidID},
		"a long key":            {make([]byte, 129), value, []node.Header{epoch}, nil, "", put, node.IDTooLong},
		"no epoch":              {key, value, nil, nil, "", put, node.MissingDeadline},
		"a null epoch":          {key, value, []node.Header{null}, nil, "", put, node.InvalidDeadline},
		"a date":                {key, value, []node.Header{at("2030-01-01")}, nil, "", put, node.InvalidDeadline},
		"milliseconds":          {key, value, []node.Header{at("1893456000000")}, nil, "", put, node.InvalidDeadline},
		"two epochs":            {key, value, []node.Header{epoch, epoch}, nil, "", put, node.RepeatedHeader},
		"too large":             {key, large, []node.Header{epoch}, nil, "", put, node.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			settings := node.Default()
			got := settings.Decode(node.Record{Topic: "schedules", Key: c.key, Value: c.value, Headers: c.headers},
				etf1(c.targets...))
			if got.Action != c.action || got.Reason != c.reason || (got.Reason != "") != (got.Detail != "") {
				t.Fatalf("%v, reason %q (%s)", got.Action, got.Reason, got.Detail)
			}
			if got.Reason == "" && (got.Message.Lane != c.lane || got.Message.ID != string(c.key) || !got.Told) {
				t.Errorf("the message %+v, told %v", got.Message, got.Told)
			}
		})
	}
}

// Goal: what comes out of a schedule is what their code sends: the key that was asked for, or none, the value, all
// headers of the record, and the three that tell where it comes from.
func TestETF1Output(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	asked := []node.Header{
		h("customer-header", "dummy"), h(node.HeaderETF1Epoch, "1893456000"), h(node.HeaderETF1Topic, "out"),
		h(node.HeaderETF1Key, "vid1"),
	}
	c := node.Default()
	r := node.Record{
		Topic: "schedules", Key: []byte("vid1-online"), Value: []byte("video 1"), Headers: asked,
		Timestamp: time.Unix(1607918336, 999),
	}
	got := c.Decode(r, etf1()).Message
	want := append(asked[:4:4], h("scheduler-timestamp", "1607918336"), h("scheduler-key", "vid1-online"),
		h("scheduler-topic", "schedules"))
	if string(got.Key) != "vid1" || string(got.Value) != "video 1" || !reflect.DeepEqual(got.Headers, want) ||
		!got.Deadline.Equal(time.Unix(1893456000, 0)) {
		t.Errorf("the message is %+v, headers %q", got, got.Headers)
	}
	r.Headers, r.Timestamp = asked[:3], time.Time{}
	if got = c.Decode(r, etf1()).Message; got.Key != nil || len(got.Headers) != 5 {
		t.Errorf("without a key and a timestamp: key %q, headers %q", got.Key, got.Headers)
	}
}

// Goal: in a node the same job again takes the place of the first, another one does not, a null value cancels, and all
// are told of. A bad record is rejected with its reason, and stands in nobody's way.
func TestFormatsAtWork(t *testing.T) {
	for _, route := range []node.Route{amnesix(), etf1()} {
		t.Run(route.Format.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				at := time.Now().Truncate(time.Second)
				put := func(id string, in time.Duration, text string) {
					seconds := at.Add(in).Unix()
					r := node.Record{Topic: route.Input, Key: []byte(id), Value: []byte(text), Headers: []node.Header{
						{Name: node.HeaderETF1Epoch, Value: fmt.Append(nil, seconds)},
						{Name: node.HeaderETF1Key, Value: []byte("key")},
					}}
					if route.Format == node.FormatAmnesix {
						r.Key, r.Value, r.Headers = []byte("key"), job(id, seconds, "http://x/"+text), nil
					}
					w.submitRecord(r)
				}
				cancel := func(id string) {
					r := node.Record{Topic: route.Input, Key: []byte(id)}
					if route.Format == node.FormatAmnesix {
						r.Key, r.Headers = []byte("key"), []node.Header{{Name: node.HeaderID, Value: []byte(id)}}
					}
					w.submitRecord(r)
				}
				put("a", 5*time.Second, "first")
				put("b", 5*time.Second, "other")
				put("c", 5*time.Second, "never")
				put("a", 8*time.Second, "second")
				cancel("c")
				w.submitRecord(node.Record{Topic: route.Input, Key: []byte("d"), Value: []byte("bad")})
				c := config(0)
				c.Routes = []node.Route{route}
				w.run(c, nil)
				pass(20 * time.Second)
				came := w.on(route.Output)
				if len(came) != 2 {
					t.Fatalf("%d messages came: %v", len(came), came)
				}
				for i, want := range []struct {
					text  string
					after time.Duration
				}{{"other", 5 * time.Second}, {"second", 8 * time.Second}} {
					text := string(came[i].Value) + header(came[i].Record, node.HeaderURL)
					if !strings.Contains(text, want.text) || string(came[i].Key) != "key" ||
						came[i].at.Before(at.Add(want.after)) {
						t.Errorf("message %d: %+v", i, came[i])
					}
				}
				told := map[string]int{}
				for _, d := range w.on("told") {
					told[header(d.Record, node.HeaderOutcome)]++
				}
				want := map[string]int{"scheduled": 3, "replaced": 1, "cancelled": 1}
				if route.Format == node.FormatETF1 {
					want["rejected"] = 1 // its key says whose it is
				}
				if !reflect.DeepEqual(told, want) {
					t.Errorf("outcomes %v, want %v", told, want)
				}
				if dead := w.on("dead"); len(dead) != 1 || string(dead[0].Value) != "bad" {
					t.Errorf("dead letters %v", dead)
				}
				w.empty()
			})
		})
	}
}

// Goal: routes that a format makes no sense of are refused.
func TestFormatRoutes(t *testing.T) {
	topic, targets := amnesix(), amnesix()
	topic.Output, targets.Targets = "out", []string{"http:other"}
	for _, c := range []struct {
		route node.Route
		wrong string
	}{{amnesix(), ""}, {etf1("a", "b*"), ""}, {topic, "must be a callback lane"}, {targets, "must be none"}} {
		settings := config(0)
		settings.Routes = []node.Route{c.route}
		err := settings.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", c.route, err, c.wrong)
		}
	}
	for f := node.FormatChronos; f <= node.FormatETF1; f++ {
		if got, known := node.ParseFormat(f.String()); got != f || !known {
			t.Errorf("%v is read as %v", f, got)
		}
	}
	if _, known := node.ParseFormat("unknown"); known {
		t.Error("there is a format unknown")
	}
}

// FuzzFormats asks of any record that nothing panics, that what is no instruction says why, that what is one can be
// stored, and that the id of a job tells its key, so that jobs of different keys have different ids.
func FuzzFormats(f *testing.F) {
	f.Add([]byte("k"), job("j1", 1893456000, "https://example.org"), true, "1893456000", "out", "j1")
	f.Add([]byte("k/%"), []byte(`{"id":"a","time":"-1","url":"http://x"}`), true, "-1", "", "a/b")
	f.Add([]byte{0xff}, []byte(nil), false, "x", "dead", "")
	f.Fuzz(func(t *testing.T, key, value []byte, present bool, epoch, topic, id string) {
		if !present {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		headers := []node.Header{
			{Name: node.HeaderETF1Epoch, Value: []byte(epoch)},
			{Name: node.HeaderID, Value: []byte(id)},
			{Name: node.HeaderETF1Key, Value: []byte(id)},
		}
		if topic != "" {
			headers = append(headers, node.Header{Name: node.HeaderETF1Topic, Value: []byte(topic)})
		}
		r := node.Record{Topic: "in", Key: key, Value: value, Headers: headers, Timestamp: time.Unix(1, 0)}
		c := node.Default()
		for _, route := range []node.Route{amnesix(), etf1(), etf1("x*")} {
			got := c.Decode(r, route)
			switch {
			case (got.Reason == "") != (got.Detail == ""):
				t.Fatalf("%v: reason %q, detail %q", route.Format, got.Reason, got.Detail)
			case got.Told != (got.ID != ""):
				t.Fatalf("%v: told %v of id %q", route.Format, got.Told, got.ID)
			case !utf8.ValidString(got.Detail):
				t.Fatalf("%v: the sentence %q is no text", route.Format, got.Detail)
			case got.Reason != "":
				continue
			case (got.Action == node.Cancel) != (value == nil):
				t.Fatalf("%v: %v", route.Format, got.Action)
			}
			if got.Action == node.Cancel {
				got.Message.Deadline = time.Unix(0, 0)
			}
			if why := got.Message.Refusal(); why != "" {
				t.Fatalf("%v: no store would keep it: %s", route.Format, why)
			}
			before, _, found := strings.Cut(got.ID, "/")
			back, err := url.PathUnescape(before)
			if route.Format == node.FormatAmnesix && (!found || err != nil || back != string(key)) {
				t.Fatalf("the key %q became %q", key, got.ID)
			}
		}
	})
}
