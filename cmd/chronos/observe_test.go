package main_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/metrics"
	"chronos/scripts/observe"
)

// listener is the listener of a node under test.
type listener struct{ address string }

// get returns the status and the text of an answer; 0 if nobody answers.
func (l *listener) get(t *testing.T, path string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }() // It was read.
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// scrape returns the metrics by name.
func (l *listener) scrape(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	status, text := l.get(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: status %d: %s", status, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// sum adds up the series of a metric that have all these labels, "name=value".
func sum(families map[string]*dto.MetricFamily, name string, labels ...string) (total float64) {
	for _, one := range families[name].GetMetric() {
		have := 0
		for _, pair := range one.GetLabel() {
			if slices.Contains(labels, pair.GetName()+"="+pair.GetValue()) {
				have++
			}
		}
		if have == len(labels) {
			total += one.GetCounter().GetValue() + one.GetGauge().GetValue() +
				float64(one.GetHistogram().GetSampleCount())
		}
	}
	return total
}

// eventually waits until condition returns "", and fails with what it returned last if that never comes.
func eventually(t *testing.T, condition func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond) // scrapes are dear under the race detector
	defer ticker.Stop()
	for {
		last := condition()
		if last == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatal(last)
		}
	}
}

// awaitStatus waits until a probe has a status and says something.
func (l *listener) awaitStatus(t *testing.T, path string, want int, says string) {
	t.Helper()
	eventually(t, func() string {
		if status, text := l.get(t, path); status != want || !strings.Contains(text, says) {
			return fmt.Sprintf("%s: status %d, want %d with %q:\n%s", path, status, want, says, text)
		}
		return ""
	})
}

// awaitMetric waits until a metric is above zero.
func (l *listener) awaitMetric(t *testing.T, name string, labels ...string) {
	t.Helper()
	eventually(t, func() string {
		if sum(l.scrape(t), name, labels...) > 0 {
			return ""
		}
		return fmt.Sprintf("%s%v stays at zero", name, labels)
	})
}

// Goal: whoever prefers OpenMetrics gets a format that all metrics are allowed in. Method: a node is asked as such a
// client asks, and what it answers is parsed as what it says that it is.
func TestMetricsWithoutOpenMetrics(t *testing.T) {
	p, _ := dev(t)
	at := p.stdout.await(t, `A page, metrics and health: (http://\S+)`, 1)[1]
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // It was read.
	if format := expfmt.ResponseFormat(response.Header); format.FormatType() != expfmt.TypeTextPlain {
		t.Fatalf("the metrics come as %s", format)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if families, err := parser.TextToMetricFamilies(response.Body); err != nil || len(families) < 50 {
		t.Errorf("%d metrics are read, error %v", len(families), err)
	}
}

// Goal: probes and metrics tell what happens to a node, and every metric of alerts and dashboard is there and moves.
// Method: a node on a real Postgres that is cut off twice, with messages that come too late, twice, or are none, with a
// topic that is deleted, and with the claim of a node that has died.
func TestObserved(t *testing.T) {
	database := database(t)
	if got := run(t, "", "migrate", "up", "--store", database.String()); got.code != 0 {
		t.Fatal(got.stderr)
	}
	conn, err := pgx.Connect(t.Context(), database.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }() // The test is over.
	if _, err := conn.Exec(t.Context(), `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at,
  message_size, message_headers)
SELECT 'waiting ' || i, 'a.out', gen_random_uuid(), due, due, claimed, gen_random_uuid(), claimed + interval '7 s',
  0, '[]'
FROM (SELECT i, now() + interval '30 minutes' AS due, now() - interval '1 minute' AS claimed
  FROM generate_series(1, 5) AS i) AS s;
UPDATE messages SET readied_at = NULL, readied_by = NULL, expires_at = NULL WHERE id <> 'waiting 1'`); err != nil {
		t.Fatal(err)
	}
	g := newGate(t, database.Host)
	store, password := through(t, g, database)
	c, address := cluster(t, "")
	file := writeFile(t, "chronos.yaml", `
brokers: `+address+`
hold-time: 2500ms
create-topics: true
routes:
  - {input: a.in, output: a.out, dead-letter: dead, window: always except 1 january 2199}
  - {input: b.in, output: b.out}
lanes:
  - {name: "http:hooks", allowed: [127.0.0.1], dead-letter: hooks.dead}
`)
	l := &listener{freeAddress(t)}
	api, timers := &listener{freeAddress(t)}, &listener{freeAddress(t)}
	p := start(t, "run", "--config", file, "--store", store, "--store-password-file", password,
		"--admin-listen", l.address, "--admin-allow", "control", "--api-listen", api.address,
		"--metaswitch-listen", timers.address)

	// It waits for its store: it lives, and is not ready.
	l.awaitStatus(t, "/livez?verbose", http.StatusOK, "it waits for the store")
	l.awaitStatus(t, "/readyz", http.StatusServiceUnavailable, "[-] schema: ")
	if got := run(t, "", "health", "--admin-listen", l.address); got.code != 1 ||
		!strings.Contains(got.stdout, "not ready") {
		t.Errorf("health: exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if got := run(t, "", "health", "--live", "--admin-listen", l.address); got.code != 0 {
		t.Errorf("health --live: exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	g.unlock(t)
	l.awaitStatus(t, "/readyz?verbose", http.StatusOK, "[+] group: joined group chronos")
	l.awaitStatus(t, "/readyz?verbose", http.StatusOK, "[+] store: it answered")
	if got := run(t, "", "health", "--config", writeFile(t, "h.yaml", "admin-listen: "+l.address)); got.code != 0 ||
		!strings.Contains(got.stdout, "[+] store: it answered") {
		t.Errorf("health: exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}

	soon := time.Now().Add(300 * time.Millisecond)
	long := time.Now().Add(time.Hour)
	records := []*kgo.Record{
		submission("1", soon, nil), submission("2", soon, nil), submission("late", soon.Add(-time.Hour), nil),
		submission("twice", long, nil), submission("twice", long, nil),
		{},
	}
	for _, r := range records {
		r.Topic = "a.in"
	}
	produce(t, address, records...)
	consume(t, address, "a.out", 3)
	consume(t, address, "dead", 1)
	ended, cancel := submission("ended", soon.Add(-time.Hour), nil), submission("nobody", soon, nil)
	ended.Topic, cancel.Topic = "a.in", "a.in"
	ended.Headers = append(ended.Headers, kgo.RecordHeader{
		Key: node.HeaderNotAfter, Value: []byte(soon.Add(-time.Minute).UTC().Format(time.RFC3339)),
	})
	cancel.Headers = append(cancel.Headers, kgo.RecordHeader{Key: node.HeaderAction, Value: []byte("cancel")})
	missed := submission("missed", soon.Add(-5*time.Hour), nil)
	missed.Topic = "a.in"
	for name, value := range map[string]string{
		node.HeaderRepeat: "every 1h", node.HeaderRepeatCount: "3", node.HeaderMissed: "skip",
	} {
		missed.Headers = append(missed.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	produce(t, address, ended, cancel, missed)
	l.awaitMetric(t, "chronos_expired_total", "lane=a.out")
	l.awaitMetric(t, "chronos_passed_over_total", "lane=a.out")
	l.awaitMetric(t, "chronos_instructions_total", "action=cancel", "outcome=not_found")
	nobody := map[string]any{"lane": "a.out", "incarnation": uuid.New()}
	status, text := l.call(t, "", http.MethodPost, "/v1/messages/nobody/cancel", nobody, nil)
	if status != http.StatusOK {
		t.Errorf("cancel: %d %s", status, text)
	}
	l.awaitMetric(t, "chronos_operator_instructions_total", "action=cancel", "outcome=not_found")
	api.callBack(t, l)
	timer := map[string]any{
		"timing":     map[string]any{"interval": 3600},
		"callback":   map[string]any{"http": map[string]any{"uri": "https://example.org/", "opaque": ""}},
		"statistics": map[string]any{"tag-info": []any{map[string]any{"type": "CALL"}}},
	}
	if status, text := timers.call(t, "", http.MethodPost, "/timers", timer, nil); status != http.StatusOK {
		t.Errorf("timer: %d %s", status, text)
	}
	l.awaitMetric(t, "chronos_metaswitch_tags", "tag=CALL")
	if err := c.DeleteTopic("b.out"); err != nil {
		t.Fatal(err)
	}
	lost := submission("lost", time.Now(), nil)
	lost.Topic = "b.in"
	produce(t, address, lost)
	l.awaitMetric(t, "chronos_unpublished_total", "lane=b.out", "permanent=true")

	// The store goes: it lives, is not ready, and says why; and is back.
	g.shut()
	l.awaitMetric(t, "chronos_operation_failing_seconds", "port=store")
	l.awaitStatus(t, "/readyz", http.StatusServiceUnavailable, "[-] store: no call has gone well for ")
	l.awaitStatus(t, "/livez", http.StatusOK, "ok")
	l.awaitStatus(t, "/v1/lanes", http.StatusServiceUnavailable, "The store has not answered since ")
	if _, text := l.get(t, "/v1/lanes"); strings.Contains(text, "dial") || strings.Contains(text, "user=") {
		t.Errorf("the API shows an error as a library makes it: %s", text)
	}
	l.awaitStatus(t, "/v1/info", http.StatusOK, "What waits stays in the store")
	g.unlock(t)
	l.awaitStatus(t, "/readyz", http.StatusOK, "ok")
	// Not while the store was away; nor does the node hear before it has connected again, and proved it.
	for _, sampled := range []string{"chronos_waiting", "chronos_sample_age_seconds", "chronos_hears"} {
		l.awaitMetric(t, sampled)
	}
	eventually(t, func() string {
		if l.scrape(t)["chronos_clock_offset_seconds"] == nil {
			return "nobody has compared the clocks since the store is back"
		}
		return ""
	})
	checkMoved(t, l.scrape(t))
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if status, _ := l.get(t, "/livez"); status != 0 {
		t.Error("the listener outlives the node")
	}
}

// callBack has messages come out as requests: one is answered well, one at the second try, and one is refused.
func (l *listener) callBack(t *testing.T, watched *listener) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/gone":
			w.WriteHeader(http.StatusGone)
		case r.URL.Path == "/busy" && r.Header.Get("Chronos-Attempt") == "1":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(receiver.Close)
	for _, path := range []string{"/fine", "/busy", "/gone"} {
		body := map[string]any{"delay": "0s", "url": receiver.URL + path}
		status, text := l.call(t, "", http.MethodPost, "/v1/lanes/http:hooks/messages", body, nil)
		if status != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	watched.awaitMetric(t, "chronos_callbacks_total", "lane=http:hooks")
	watched.awaitMetric(t, "chronos_callback_retries_total", "lane=http:hooks")
	watched.awaitMetric(t, "chronos_callbacks_given_up_total", "lane=http:hooks")
}

// checkMoved asks that all metrics of alerts and dashboard are there, and that what was to be counted was.
func checkMoved(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	expressions, err := observe.Expressions()
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range expressions {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if selector, is := n.(*parser.VectorSelector); is {
				name := strings.TrimSuffix(selector.Name, "_bucket")
				if families[name] == nil {
					t.Errorf("%s: the node has no %s", where, name)
				}
			}
			return nil
		})
	}
	// What this node has not met, or what is zero while all is well: tests of package metrics move these.
	still := map[string]bool{
		"chronos_records_lost_total": true, "chronos_skipped_total": true, "chronos_abandoned_total": true,
		"chronos_released_total": true, "chronos_group_left_total": true, "chronos_publishes_in_flight": true,
		"chronos_claimed": true, "chronos_paused": true, "chronos_intake_paused": true,
		"chronos_overdue": true, "chronos_oldest_overdue_seconds": true,
		"chronos_counts_estimated": true, "chronos_sample_errors_total": true, "chronos_catching_up": true,
		"chronos_schedule_messages": true, "chronos_schedule_fill_ratio": true, "chronos_timing_advance_seconds": true,
		"chronos_operation_failing_seconds": true, "chronos_intake_waiting_seconds": true,
		"chronos_lag_records": true, "chronos_store_pool_waits_total": true,
		"chronos_store_pool_wait_seconds_total": true, "chronos_clock_offset_seconds": true,
		"chronos_loop_overruns_total": true, "chronos_callbacks_in_flight": true,
		"chronos_journal_takeovers_total": true, "chronos_journal_replay_left": true,
		"chronos_journal_standby_copies": true, "chronos_journal_standby_behind": true,
		"chronos_journal_unreadable": true, "chronos_locked_total": true, "chronos_throttled_seconds_total": true,
		"chronos_parked_messages": true,
	}
	for _, row := range metrics.Table() {
		if families[row.Name] == nil {
			t.Errorf("the node has no %s", row.Name)
		} else if got := sum(families, row.Name); got <= 0 && !still[row.Name] {
			t.Errorf("%s is %v", row.Name, got)
		}
	}
	for _, want := range []struct {
		name   string
		labels []string
		value  float64
	}{
		{"chronos_fired_total", []string{"lane=a.out"}, 3},
		{"chronos_late_arrivals_total", []string{"lane=a.out"}, 3},
		{"chronos_intake_total", []string{"result=duplicate"}, 1},
		{"chronos_rejected_total", []string{"topic=a.in", "reason=missing_id"}, 1},
		{"chronos_dead_lettered_total", []string{"lane=dead"}, 1},
		{"chronos_upcoming", []string{"lane=a.out", "within=1h"}, 4},
		{"chronos_suspicions_total", nil, 1},
		{"chronos_recovered_total", []string{"lane=a.out"}, 1},
		{"chronos_settings_differ_total", []string{"setting=HoldTime"}, 1},
	} {
		got := sum(families, want.name, want.labels...)
		if want.name == "chronos_upcoming" && got >= want.value { // the fifth is claimed, or not any more
			continue
		}
		if got != want.value {
			t.Errorf("%s%v is %v, want %v", want.name, want.labels, got, want.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(still)) {
		if !slices.ContainsFunc(metrics.Table(), func(row metrics.Metric) bool { return row.Name == name }) {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// Goal: a node whose listener has a token and a certificate is asked for its health like any other, by the certificate
// that the probe is given and by no other; metrics and probes need no token; and mistakes are one sentence. Method: a
// node on SQLite, and commands beside it.
func TestHealthOverTLS(t *testing.T) {
	_, address := cluster(t, "")
	certificate, key := newAuthority(t).issue(t)
	cert, keyFile := writeFile(t, "cert.pem", certificate), writeFile(t, "key.pem", key)
	other, _ := newAuthority(t).issue(t)
	listen := freeAddress(t)
	file := writeFile(t, "chronos.yaml", `
store: sqlite:`+filepath.Join(t.TempDir(), "chronos.db")+`
brokers: `+address+`
migrate: true
create-topics: true
admin-listen: `+listen+`
admin-tls-cert: `+cert+`
admin-tls-key: `+keyFile+`
admin-token-file: `+writeFile(t, "token", "a-secret-of-mine\n")+`
`)
	p := start(t, "run", "--config", file)
	p.stderr.await(t, logged("INFO", "serving metrics and health")+`,"url":"https://`+listen, 1)
	p.stderr.await(t, logged("INFO", "started"), 1)
	eventually(t, func() string {
		if got := run(t, "", "health", "--config", file); got.code != 0 || !strings.HasSuffix(got.stdout, "\nok\n") {
			return fmt.Sprintf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
		}
		return ""
	})
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--admin-tls-cert", writeFile(t, "other.pem", other)}, 1, "is not the one in --admin-tls-cert"},
		{[]string{"--admin-tls-cert", writeFile(t, "none.pem", "none")}, 2, "a PEM file with a certificate"},
		{[]string{"--admin-listen", "off"}, 2, "--admin-listen is off: name the address that the node listens on"},
		{[]string{"--admin-listen", "127.0.0.1:0"}, 2, "it must be the HOST:PORT that the node listens on"},
		{[]string{"--admin-listen", freeAddress(t)}, 1, "no node answers at https://"},
	} {
		got := run(t, "", append([]string{"health", "--config", file}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.stderr, c.says) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("health %q: exit code %d, want %d with %q: %s", c.args, got.code, c.code, c.says, got.stderr)
		}
	}
	// A second node with the same settings has no port to listen on.
	got := run(t, "", "run", "--config", file, "--store", "sqlite:"+filepath.Join(t.TempDir(), "second.db"))
	if got.code != 1 || !strings.Contains(got.stderr, "--admin-listen: "+listen+" is in use by another process") {
		t.Errorf("a second node: exit code %d: %s", got.code, got.stderr)
	}
}
