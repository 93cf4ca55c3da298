package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos/bench"
)

// anyCode is the exit code of a run that may find something wrong, because the machine is slow, or not.
const anyCode = -1

// measured runs "chronos bench", which prints JSON, and reads that.
func measured[T any](t *testing.T, code int, args ...string) (report T) {
	t.Helper()
	r := run(t, "", append([]string{"bench", "-o", "json", "--max-time", "25s"}, args...)...)
	if r.code != code && code != anyCode {
		t.Fatalf("the exit code is %d, want %d\n%s%s", r.code, code, r.stdout, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	return report
}

// TestBench measures "chronos dev": a steady load, a burst, and a search.
func TestBench(t *testing.T) {
	t.Parallel()
	_, address := dev(t)
	at := []string{"--brokers", address, "--route", "chronos.in=chronos.out", "--group", "chronos"}
	page := filepath.Join(t.TempDir(), "bench.html")
	self := fmt.Sprintf("test=%d", os.Getpid())
	r := measured[bench.Result](t, 0, append(at, "--rate", "200", "--duration", "2s", "--delay", "3s..4s",
		"--twice", "10%", "--size", "40..2000", "--keys", "20", "--key-skew", "1.3", "--pid", self, "--html", page)...)
	switch {
	case r.Integrity.Came != 400 || r.Fired.Messages < 310 || !r.Passed():
		t.Errorf("%+v, faults %q; want 400 that came, of which 320 are measured, and none", r.Integrity, r.Faults)
	case r.Intake == nil || r.Intake.Taken != int64(400+r.Sent.Twice) || r.Sent.Twice < 10:
		t.Errorf("taken in %+v, sent %+v; want all of them", r.Intake, r.Sent)
	case r.Stamped.Clock != "service" || len(r.Clocks) != 0:
		t.Errorf("timestamps of the %s, clocks %+v; want the service's, and none", r.Stamped.Clock, r.Clocks)
	case r.Received.AfterDue.Min < 0 || r.Received.AfterDue.Count != int64(r.Fired.Messages):
		t.Errorf("lateness %+v of %d", *r.Received.AfterDue, r.Fired.Messages)
	case len(r.Processes) != 2 || r.Processes[0].CPU <= 0 || r.Processes[0].Memory < 1e6:
		t.Errorf("processes %+v, want those of the test, which has done something", r.Processes)
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte(r.Load.Run)) {
		t.Errorf("the page is not about %s: %v", r.Load.Run, err)
	}
	r = measured[bench.Result](t, 0, append(at, "--burst", "1000", "--in", "2s")...)
	if r.Integrity.Came != 1000 || r.Fired.PerSecond <= 0 || r.Intake.PerSecond < 0 {
		t.Errorf("%+v, %+v, %+v; want 1000 that came", r.Integrity, r.Fired, r.Intake)
	}
	// On a machine that is busy the load itself may be late, so that no rate is held.
	found := measured[bench.Found](t, anyCode, append(at, "--find-max", "--rate", "20", "--max-rate", "40",
		"--duration", "1s", "--delay", "100ms", "--p999-under", "20s", "--max-messages", "100")...)
	if len(found.Steps) == 0 {
		t.Errorf("%+v, want at least one try", found)
	}
	for _, s := range found.Steps {
		if in := s.Result.Intake; in.Taken != int64(s.Result.Sent.Messages) {
			t.Errorf("at %v/s %d of %d were taken in", s.Rate, in.Taken, s.Result.Sent.Messages)
		}
		if s.Held != (s.Why == "") || s.Held && s.Rate > found.Rate {
			t.Errorf("held at %v/s is %v, because of %q, and the highest is %v/s", s.Rate, s.Held, s.Why, found.Rate)
		}
	}
}

// TestBenchOther measures another service, which passes on at once what it gets and makes one mistake of each kind:
// each is reported, and the exit code says that something is wrong. Records of others don't disturb.
func TestBenchOther(t *testing.T) {
	t.Parallel()
	_, address := dev(t)
	c := client(t, address)
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopics(t.Context(), 1, 1, nil, "other.in", "other.out"); err != nil {
		t.Fatal(err)
	}
	relay := client(t, address, kgo.ConsumeTopics("other.in"))
	done := make(chan struct{})
	t.Cleanup(func() {
		relay.Close()
		<-done
	})
	go func() {
		defer close(done)
		for seen := 0; ; {
			fetches := relay.PollFetches(t.Context())
			if fetches.IsClientClosed() || t.Context().Err() != nil {
				return
			}
			for _, r := range fetches.Records() {
				out := &kgo.Record{Topic: "other.out", Key: r.Key, Value: bytes.Clone(r.Value), Headers: r.Headers[2:]}
				all := []*kgo.Record{out}
				switch seen++; seen {
				case 10:
					all = nil // lost
				case 20:
					all = append(all, out, &kgo.Record{Topic: "other.out", Value: []byte("of somebody else")})
				case 30:
					out.Value[100] ^= 1
				case 40:
					out.Key = nil
				case 50:
					out.Headers = nil
				}
				for _, one := range all {
					relay.Produce(t.Context(), one, nil) // in this order; what fails is missing
				}
			}
		}
	}()
	r := measured[bench.Result](t, 1, "--brokers", address, "--route", "other.in=other.out", "--rate", "100",
		"--duration", "1s", "--warm-up", "0s", "--delay", "4s", "--patience", "5s")
	in, early := r.Integrity, r.Integrity.Early
	in.Samples, in.Early = nil, 0
	if want := (bench.Integrity{
		Came: 99, Missing: 1, Doubled: 1, Value: 1, Key: 1, Header: 1, Foreign: 1,
	}); fmt.Sprintf("%+v", in) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v, want %+v", in, want)
	}
	if len(r.Faults) != 6 || early == 0 || r.Received.AfterDue.Min >= 0 {
		t.Errorf("the faults are %q, and %d were early; want six, and most", r.Faults, early)
	}
}

// TestBenchOnServers measures a node on the real Kafka, whose brokers make the timestamps: their clock is this
// machine's, and the tool finds that.
func TestBenchOnServers(t *testing.T) {
	t.Parallel()
	s := newService(t)
	timestamps(t, s.brokers, s.input, s.output)
	node := s.start(t)
	node.log.await(t, `"msg":"started"`, 1)
	pid := fmt.Sprintf("node=%d", node.command.Process.Pid)
	r := measured[bench.Result](t, 0, "--brokers", s.brokers, "--route", s.input+"="+s.output, "--group", s.input,
		"--rate", "200", "--duration", "2s", "--delay", "1s..2s", "--pid", pid)
	switch {
	case r.Integrity.Came != 400 || r.Intake == nil || r.Intake.Taken != 400:
		t.Errorf("%+v, %+v; want 400 taken in, and 400 that came", r.Integrity, r.Intake)
	case r.Stamped.Clock != "broker" || len(r.Clocks) != 1 || r.Clocks[0].Low > 0 || r.Clocks[0].High < 0:
		t.Errorf("timestamps of the %s, clocks %+v; want the broker's, which is ours", r.Stamped.Clock, r.Clocks)
	case r.Processes[0].Name != "node" || r.Processes[0].CPU <= 0 || r.Processes[0].Peak < 1e7:
		t.Errorf("processes %+v, want a node that did something", r.Processes)
	}
}

// timestamps has the broker make the timestamps of topics.
func timestamps(t *testing.T, address string, topics ...string) {
	t.Helper()
	c := client(t, address)
	defer c.Close()
	altered, err := kadm.NewClient(c).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "message.timestamp.type", Value: new("LogAppendTime")},
	}, topics...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range altered {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// TestBenchAsksWhere makes one mistake after the other: nothing is sent anywhere.
func TestBenchAsksWhere(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--route a=b --rate 1":                                                 "--brokers is not set",
		"--brokers localhost:1 --rate 1":                                       "--route is not set",
		"--brokers localhost:1 --route a --rate 1":                             "--route is a",
		"--brokers localhost:1 --route a=a --rate 1":                           "topic a twice",
		"--brokers localhost:1 --route a=b --route a=c --rate 1":               "topic a twice",
		"--brokers localhost:1 --route a=b":                                    "there is no load",
		"--brokers localhost:1 --route a=b --rate 0":                           "--rate is 0",
		"--brokers localhost:1 --route a=b --rate 1 --ramp 1..2":               "exclude each other",
		"--brokers localhost:1 --route a=b --burst 1 --find-max":               "exclude each other",
		"--brokers localhost:1 --route a=b --ramp 1":                           "--ramp is 1",
		"--brokers localhost:1 --route a=b --rate 1 --delay 3..6":              "--delay is 3..6",
		"--brokers localhost:1 --route a=b --rate 1 --size 10":                 "--size must be from 40",
		"--brokers localhost:1 --route a=b --rate 1 --twice 3":                 "--twice is 3",
		"--brokers localhost:1 --route a=b --rate 1 --key-skew 2":              "--key-skew is 2",
		"--brokers localhost:1 --route a=b --rate 20000 --twice 1%":            "of up to 1200000 messages",
		"--brokers localhost:1 --route a=b --rate 100000":                      "--max-messages allows 1000000",
		"--brokers localhost:1 --route a=b --burst 5 --warm-up 1s":             "a burst has none",
		"--brokers localhost:1 --route a=b --rate 1 --pid node":                "--pid is node",
		"--brokers localhost:1 --route a=b --rate 1 --pid node=999999999":      "does not run",
		"--brokers localhost:1 --route a=b --find-max --max-rate 10":           "--max-rate is 10",
		"--brokers localhost:1 --route a=b --find-max --p999-under 0s":         "--p999-under is 0s",
		"--brokers localhost:1 --route a=b --find-max --within x":              "--within is x",
		"--brokers localhost:1 --route a=b --find-max --only-send":             "exclude each other",
		"--brokers localhost:1 --route a=b --rate 1 --max-messages 0":          "--max-messages is 0",
		"--brokers localhost:1 --route a=b --rate 1 --duration 0s":             "--duration is 0s",
		"--brokers localhost:1 --route a=b --rate 1 --duration 1s --seed none": "--seed",
	} {
		if r := run(t, "", append([]string{"bench"}, strings.Fields(args)...)...); r.code != 2 ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit code %d, %s; want 2 and %q", args, r.code, r.stderr, want)
		}
	}
	r := run(t, "", "bench", "--brokers", "127.0.0.1:1", "--route", "a=b", "--rate", "1")
	if r.code != 1 || !strings.Contains(r.stderr, "no Kafka broker answers") {
		t.Errorf("without Kafka: exit code %d, %s", r.code, r.stderr)
	}
	_, address := dev(t)
	r = run(t, "", "bench", "--brokers", address, "--route", "chronos.in=nowhere", "--rate", "1")
	if r.code != 1 || !strings.Contains(r.stderr, "topic nowhere does not exist") {
		t.Errorf("without the output topic: exit code %d, %s", r.code, r.stderr)
	}
}

// TestBenchInterrupted stops a run: it prints what was measured so far.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	_, address := dev(t)
	began := time.Now()
	p := start(t, "bench", "--brokers", address, "--route", "chronos.in=chronos.out", "--rate", "50",
		"--duration", "10m", "--delay", "100ms", "--warm-up", "0s", "--max-messages", "100000")
	p.stderr.await(t, `, [1-9]\d* came`, 1) // it says so every ten seconds
	p.stop()
	p.code(t)
	out := p.stdout.String()
	if !strings.Contains(out, "The run was interrupted") || !strings.Contains(out, "lateness in ms") {
		t.Errorf("after %v it prints %q", time.Since(began), out)
	}
}
