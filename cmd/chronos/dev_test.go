package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	chronos "chronos/cmd/chronos"
)

// firedLine is what "chronos dev" prints for a message. Its submatches are id and lateness.
const firedLine = `(?m)^\d\d:\d\d:\d\d\.\d{3}Z  fired  (\S+)  (\S+ (?:ms )?(?:late|early))$`

// dev starts "chronos dev" on a free port and returns it and its address.
func dev(t *testing.T, args ...string) (*program, string) {
	t.Helper()
	p := start(t, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...)...)
	return p, p.address(t)
}

// address returns the address of the broker of "chronos dev".
func (p *program) address(t *testing.T) string {
	t.Helper()
	p.stdout.await(t, `Ctrl-C stops`, 1)
	return p.stdout.await(t, `Kafka broker on (\S+) `, 1)[1]
}

// client returns a plain Kafka client. The caller closes it.
func client(t *testing.T, address string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(options, kgo.SeedBrokers(address), kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// consume returns the first count records of a topic.
func consume(t *testing.T, address, topic string, count int) []*kgo.Record {
	t.Helper()
	c := client(t, address, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var records []*kgo.Record
	for len(records) < count {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d records came on %s in %v, want %d", len(records), topic, patience, count)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// submission returns a record of the input topic.
func submission(id string, deadline time.Time, value []byte, headers ...kgo.RecordHeader) *kgo.Record {
	return &kgo.Record{
		Topic: "chronos.in", Key: []byte("k"), Value: value,
		Headers: append([]kgo.RecordHeader{
			{Key: "chronosMessageId", Value: []byte(id)},
			{Key: "chronosDeadline", Value: []byte(deadline.UTC().Format("2006-01-02T15:04:05.000Z"))},
		}, headers...),
	}
}

// produce sends records.
func produce(t *testing.T, address string, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := client(t, address)
	defer c.Close()
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestDev sends messages with a plain client and looks at the screen and the output topic.
func TestDev(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	p, address := dev(t)
	deadline := time.Now().Add(300 * time.Millisecond)
	record := submission("m-1", deadline, []byte{0, 0xff},
		kgo.RecordHeader{Key: "h"}, kgo.RecordHeader{Key: "h", Value: []byte{}})
	produce(t, address, record)
	if got := p.stdout.await(t, firedLine, 1); got[1] != "m-1" {
		t.Errorf("%q fired, want m-1", got[1])
	}
	got := consume(t, address, "chronos.out", 1)[0]
	if !bytes.Equal(got.Key, record.Key) || !bytes.Equal(got.Value, record.Value) || len(got.Headers) != 4 {
		t.Errorf("key %q, value %q, headers %v", got.Key, got.Value, got.Headers)
	}
	if early := deadline.Truncate(time.Millisecond).Sub(got.Timestamp); early > 50*time.Millisecond {
		t.Errorf("the message was published %v before its deadline", early)
	}

	produce(t, address, &kgo.Record{Topic: "chronos.in", Value: []byte("no headers")})
	p.stderr.await(t, `rejected a record.* topic=chronos.in partition=0 offset=1 reason=missing_id`, 1)
	if got := consume(t, address, "chronos.dead", 1)[0]; string(got.Value) != "no headers" {
		t.Errorf("the dead letter is %q", got.Value)
	}

	if left := files(t, temporary); len(left) != 1 {
		t.Errorf("it keeps %q in the folder for temporary files, want one folder", left)
	}
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
	if left := files(t, temporary); len(left) != 0 {
		t.Errorf("it leaves %q behind", left)
	}
}

// files returns what is in a folder.
func files(t *testing.T, folder string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestDevBanner asks that the lines it prints are commands that name this program and this broker.
func TestDevBanner(t *testing.T) {
	p, address := dev(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`  ` + regexp.QuoteMeta(self) + ` send --brokers ` + address + ` --in 5s --key order-1 '\{"order":1\}'`,
		`  ` + regexp.QuoteMeta(self) + ` tail --brokers ` + address,
		`  echo '\{"order":1\}' \| kcat -P -b ` + address + ` -t chronos.in .*` +
			`-H chronosMessageId=\$\(.*\) -H chronosDeadline=\$\(.*\)`,
		`  kcat -C -u -b ` + address + ` -t chronos.out -o beginning -f '.*'`,
	} {
		p.stdout.await(t, `(?m)^`+line+`$`, 1)
	}
}

// TestDevBannerKcatLine runs what the banner says in a shell, with a kcat that shows its arguments.
func TestDevBannerKcatLine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the line for this system uses its own date and uuidgen")
	}
	p, address := dev(t)
	line := p.stdout.await(t, `(?m)^  (echo .*)$`, 1)[1]
	folder := t.TempDir()
	script := "#!/bin/sh\nfor a in \"$@\"; do echo \"$a\"; done\n"
	if err := os.WriteFile(filepath.Join(folder, "kcat"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Truncate(time.Millisecond)
	out := shell(t, folder, line)
	after := time.Now()
	arguments := strings.Split(strings.TrimSpace(out), "\n")
	id := regexp.MustCompile(`(?m)^chronosMessageId=[0-9a-f-]{36}$`)
	when := regexp.MustCompile(`(?m)^chronosDeadline=(\S+)$`).FindStringSubmatch(out)
	if !slices.Contains(arguments, address) || !id.MatchString(out) || when == nil {
		t.Fatalf("kcat is called with %q", arguments)
	}
	deadline, err := time.Parse(time.RFC3339Nano, when[1])
	if err != nil || deadline.Before(before.Add(5*time.Second)) || deadline.After(after.Add(5*time.Second)) {
		t.Errorf("the deadline is %s (%v), five seconds from now are %v", when[1], err, after.Add(5*time.Second))
	}
}

// shell runs a line with folder first in the search path, and returns its output.
func shell(t *testing.T, folder, line string) string {
	t.Helper()
	var out bytes.Buffer
	command := commandContext(t, "sh", "-c", line)
	command.Env = append(os.Environ(), "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out.String())
	}
	return out.String()
}

func TestDevPortInUse(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // It was only there.
	address := listener.Addr().String()
	got := run(t, "", "dev", "--listen", address)
	want := "chronos: " + address + " is in use, by another Kafka perhaps: " +
		"choose another address with --listen, such as --listen 127.0.0.1:9093\n"
	if got.code != 1 || got.stderr != want || got.stdout != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q, want %q", got.code, got.stdout, got.stderr, want)
	}
}

func TestDevListenSentences(t *testing.T) {
	for _, address := range []string{"9092", ":9092", "0.0.0.0:9092", "[::]:9092", "127.0.0.1:"} {
		got := run(t, "", "dev", "--listen", address)
		if got.code != 2 || !strings.HasSuffix(got.stderr,
			": it must be HOST:PORT, the address that clients reach the broker at\n") {
			t.Errorf("--listen %s: exit code %d, %q", address, got.code, got.stderr)
		}
	}
}

func TestDevFolderInUse(t *testing.T) {
	folder := t.TempDir()
	dev(t, "--data-dir", folder)
	got := run(t, "", "dev", "--listen", "127.0.0.1:0", "--data-dir", folder)
	want := "chronos: the file " + filepath.Join(folder, "chronos.db") + " is in use by another process\n"
	if got.code != 1 || got.stderr != want {
		t.Errorf("exit code %d, %q, want %q", got.code, got.stderr, want)
	}
}

// TestDevSurvives ends "chronos dev" in both ways while messages wait, and asks that the next one fires all of them:
// each once if it was stopped cleanly.
func TestDevSurvives(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"kill -9": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "new", "folder")
			args := []string{"dev", "--listen", "127.0.0.1:0", "--data-dir", folder}
			first := startProcess(t, args...)
			address := first.address(t)
			produce(t, address, submission("before", time.Now(), []byte("before")))
			first.stdout.await(t, `fired  before `, 1)
			want := map[string]bool{"before": true}
			records := make([]*kgo.Record, 30)
			for i := range records {
				id := fmt.Sprintf("after-%d", i)
				records[i] = submission(id, time.Now().Add(3*time.Second), []byte(id))
				want[id] = true
			}
			produce(t, address, records...)
			first.signal(t, signal)
			if code := first.code(t); signal == syscall.SIGTERM && code != 0 {
				t.Errorf("exit code %d: %s", code, first.stderr)
			}

			second := startProcess(t, args...)
			address = second.address(t)
			second.stdout.await(t, `fired  after-`, 1)
			got := map[string]int{}
			for _, r := range consume(t, address, "chronos.out", len(want)) {
				got[string(r.Value)]++
			}
			for id := range want {
				if got[id] == 0 || got[id] > 1 && signal == syscall.SIGTERM {
					t.Errorf("%s arrived %d times", id, got[id])
				}
			}
			second.stop()
			if code := second.code(t); code != 0 || second.stderr.String() != "" {
				t.Errorf("exit code %d: %s", code, second.stderr)
			}
		})
	}
}

// TestDevSurvivesWhatIsNoKafka sends what is no request to a process of its own, and asks that it still delivers.
func TestDevSurvivesWhatIsNoKafka(t *testing.T) {
	p := startProcess(t, "dev", "--listen", "127.0.0.1:0")
	address := p.address(t)
	for name, bytes := range map[string]string{
		"unknown kind":      "\x00\x00\x00\x0a\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
		"negative kind":     "\x00\x00\x00\x0a\xff\xff\x00\x00\x00\x00\x00\x01\xff\xff",
		"nothing":           "\x00\x00\x00\x00",
		"four gigabytes":    "\xff\xff\xff\xff\x00\x00\x00\x03\x00\x00\x00\x01\xff\xff",
		"a browser":         "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"TLS to plain text": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00",
	} {
		c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("after %s: %v\n%s", name, err, p.stderr)
		}
		_ = c.SetDeadline(time.Now().Add(patience)) // It is a TCP connection, which can do that.
		if _, err := c.Write([]byte(bytes)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n, err := io.Copy(io.Discard, c); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d bytes for an answer, %v", name, n, err)
		}
		_ = c.Close() // The other end has closed it.
	}
	p.stderr.await(t, `closed a connection to the embedded broker" client=\S+ error=`, 1)
	produce(t, address, submission("after", time.Now(), []byte("after")))
	p.stdout.await(t, `fired  after `, 1)
}

// TestDevEpochs sends what JavaScript and a shell print as a deadline: dev takes it where it is told to, and says how
// where it is not.
func TestDevEpochs(t *testing.T) {
	epoch := func(value string) *kgo.Record {
		r := submission("epoch", time.Now(), []byte("x"))
		r.Headers[1].Value = []byte(value)
		return r
	}
	now := time.Now().Unix()
	p, address := dev(t, "--epoch-deadlines", "seconds")
	produce(t, address, epoch(fmt.Sprintf("%d.417558879", now)))
	p.stdout.await(t, `fired  epoch `, 1)
	p, address = dev(t)
	produce(t, address, epoch(fmt.Sprint(now)))
	p.stderr.await(t, `reason=invalid_deadline detail=.*; or let --epoch-deadlines say what they count`, 1)
}

func TestDevFolderSentence(t *testing.T) {
	got := run(t, "", "dev", "--listen", "127.0.0.1:0", "--data-dir", "")
	want := "chronos: --data-dir is \"\": it must name a folder; without --data-dir, messages are kept nowhere\n"
	if got.code != 2 || got.stderr != want || got.stdout != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q, want %q", got.code, got.stdout, got.stderr, want)
	}
}

// TestTyped asks what "chronos dev" tells people to type.
func TestTyped(t *testing.T) {
	for path, want := range map[string]string{
		"/tmp/go-build1234/b001/exe/chronos":                "go run ./cmd/chronos",
		"/ho" + "me/me/.cache/go-build/ab/abcdef-d/chronos": "go run ./cmd/chronos",
		`C:/Temp/go-build1234/b001/exe/chronos.exe`:         "go run ./cmd/chronos",
		"/tmp/go-build1234/b001/chronos.test":               "/tmp/go-build1234/b001/chronos.test",
		"/opt/chronos":                                      "/opt/chronos",
		"/opt/it's here/chronos":                            `'/opt/it'\''s here/chronos'`,
	} {
		if got := chronos.Typed(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
