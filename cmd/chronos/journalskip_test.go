package main_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Goal: a stray record in the topic of a journal is reported where an operator looks, before and after the takeover
// that it keeps from happening, with its partition, offset and key; "chronos journal skip" shows it, and gets past it
// when it is told to. Method: chronos dev, whose node goes on while it owns the partition, and is started again.
func TestJournalSkip(t *testing.T) {
	t.Parallel()
	const journal = "chronos.journal"
	folder := t.TempDir()
	begin := func() (p *program, address, node string) {
		p, address = dev(t, "--data-dir", folder, "--store", "journal:"+journal, "--admin-listen", "127.0.0.1:0")
		return p, address, p.stdout.await(t, `A page, metrics and health: (\S+)`, 1)[1]
	}
	get := func(url string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }() // it was read
		body, _ := io.ReadAll(response.Body)
		return response.Status[:3] + " " + string(body)
	}
	shows := func(url, want string) {
		t.Helper()
		said := ""
		within(t, func() bool {
			said = get(url)
			return regexp.MustCompile(want).MatchString(said)
		}, func() string { return url + " says\n" + said + "\nwant " + want })
	}
	p, address, node := begin()
	produce(t, address, submission("now", time.Now(), []byte("now")))
	p.stdout.await(t, firedLine, 1)
	shows(node+"/readyz?verbose", `^200 (?s).*\[\+\] journal: every partition`)
	stray := &kgo.Record{Topic: journal, Key: []byte("hello"), Value: []byte("\x1b[31mstray")}
	c := client(t, address)
	defer c.Close()
	if err := c.ProduceSync(t.Context(), stray).FirstErr(); err != nil {
		t.Fatal(err)
	}
	const entry = `partition 0, offset \d+: key \\?"hello\\?" \(5 bytes\), value \\?"\\+x1b\[31mstray\\?" \(10 bytes\)`
	shows(node+"/readyz?verbose", `^200 (?s).*\[\+\] journal: the next owner .*`+entry)
	shows(node+"/v1/nodes", `"journal":\["the next owner will not be able to read an entry: `+entry)
	shows(node+"/metrics", `\nchronos_journal_unreadable 1\n`)
	p.stderr.await(t, `level=ERROR msg="an entry has appeared in the journal.*offset=\d+ key=.*hello`, 1)
	settings := []string{"--store", "journal:" + journal, "--brokers", address, "--input-topic", "chronos.in"}
	says := func(code int, want string, words ...string) {
		t.Helper()
		got := run(t, "", append(words, settings...)...)
		if said := got.stdout + got.stderr; got.code != code || !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("%s: exit code %d, want %d:\n%s\nwant %s", words, got.code, code, said, want)
		}
	}
	says(1, `ERROR  journal chronos.journal: has an entry that cannot be read: `+entry, "doctor")
	p.stop()
	if code := p.code(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr)
	}

	p, address, node = begin()
	settings[3] = address
	shows(node+"/readyz?verbose", `^503 (?s).*\[-\] journal: partition 0 is not served: .*`+entry)
	shows(node+"/metrics", `\nchronos_journal_unreadable 1\n`)
	p.stderr.await(t, `level=ERROR msg="a partition of the journal is not served.*offset=\d+ key=.*hello`, 1)
	produce(t, address, submission("later", time.Now(), []byte("later")))
	says(0, `^chronos.journal, `+entry+`.*\n\nNothing was changed`, "journal", "skip")
	at := []string{"journal", "skip", "--partition", "0", "--offset"}
	found := regexp.MustCompile(`offset (\d+)`).FindStringSubmatch(run(t, "", append(at[:2:2], settings...)...).stdout)
	if found == nil {
		t.Fatal("it finds nothing")
	}
	at = append(at, found[1])
	says(0, entry+`.*\n\nNothing was changed. The same command with --yes`, at...)
	says(1, `at offset 0 of partition 0 nothing is to be skipped`, "journal", "skip", "--partition", "0", "--offset",
		"0")
	says(1, `the journal has no partition 7: `, "journal", "skip", "--partition", "7", "--offset", "3")
	says(1, `partition 0 of the journal chronos.journal has no offset 1000000: it begins at 0, and ends before \d+`,
		"journal", "skip", "--partition", "0", "--offset", "1000000")
	says(2, `--partition and --offset belong together`, "journal", "skip", "--offset", "0")
	says(2, `--all and --offset exclude each other`, append(at, "--all")...)
	if strings.Contains(p.stdout.String(), "later") {
		t.Error("it fires before the entry is skipped")
	}
	says(0, entry+`(?s).*Done: skipped`, append(at, "--yes")...)
	if got := p.stdout.await(t, firedLine, 1); got[1] != "later" {
		t.Errorf("%q fired, want later", got[1])
	}
	shows(node+"/readyz?verbose", `^200 (?s).*\[\+\] journal: every partition`)
	shows(node+"/metrics", `\nchronos_journal_unreadable 0\n`)
	says(1, `nothing is to be skipped: the entry can be read, or was skipped`, at...)
	says(0, `^1 partition searched: there is nothing to skip`, "journal", "skip")
	if got := run(t, "", append([]string{"doctor"}, settings...)...); strings.Contains(got.stdout, "cannot be read") {
		t.Errorf("doctor: %s", got.stdout)
	}
}
