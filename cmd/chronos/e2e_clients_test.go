package main_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// foreigners are the Kafka clients of others, as scripts/setup installs them.
type foreigners struct{ root, java, kafka string }

// foreign is one of them. Its command reads so many records from the beginning of topics, and prints their keys and
// values.
type foreign struct {
	name    string
	needs   string // the program or file that is missing where it is not installed
	command func(brokers string, count int, topics []string) []string
	env     string
}

// newForeigners finds what scripts/setup has installed.
func newForeigners(t *testing.T) *foreigners {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ask := exec.CommandContext(t.Context(), "bash", "-c",
		`source scripts/lib.sh; printf '%s\n' "$(find_java)" "$kafka_home" "$kafka_version"`)
	ask.Dir = root
	out, err := ask.Output()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) < 3 {
		t.Fatalf("the scripts do not say where Java and Kafka are: %v, %q", err, out)
	}
	return &foreigners{root: root, java: lines[0], kafka: lines[1]}
}

// path returns the path of a file that scripts/setup has installed.
func (f *foreigners) path(parts ...string) string {
	return filepath.Join(append([]string{f.root, ".cache/clients"}, parts...)...)
}

// script returns the path of a client of ours that reads by a library of others.
func (f *foreigners) script(name string) string {
	return filepath.Join(f.root, "scripts/clients", name)
}

// tool returns the command of a tool of Kafka, without the codecs that Kafka brings: with nothing but what Java has.
func (f *foreigners) tool(main string, args ...string) []string {
	var jars []string
	for _, pattern := range []string{f.path("java/*.jar"), filepath.Join(f.kafka, "libs/*.jar")} {
		found, _ := filepath.Glob(pattern) // the pattern is well formed
		jars = append(jars, slices.DeleteFunc(found, func(jar string) bool {
			return regexp.MustCompile(`/(lz4|snappy|zstd)-[^/]*$`).MatchString(jar)
		})...)
	}
	return append([]string{
		f.java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx128m",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", strings.Join(jars, ":"),
		"org.apache.kafka.tools." + main,
	}, args...)
}

// readers returns the clients.
func (f *foreigners) readers() []foreign {
	group := func() string { return "g-" + strconv.FormatInt(time.Now().UnixNano(), 36) }
	python := func(script string) func(string, int, []string) []string {
		return func(brokers string, count int, topics []string) []string {
			// -S: without what else is installed there, which may be a codec.
			return append([]string{"python3", "-S", f.script(script), brokers, strconv.Itoa(count)}, topics...)
		}
	}
	return []foreign{
		{name: "kcat", needs: "kcat", command: func(brokers string, count int, topics []string) []string {
			return append([]string{
				"kcat", "-q", "-G", group(), "-b", brokers, "-c", strconv.Itoa(count), "-Z",
				"-X", "auto.offset.reset=earliest", "-f", `%k\t%s\n`,
			}, topics...)
		}},
		{
			name: "confluent-kafka", needs: f.path("python/confluent_kafka"), command: python("confluent.py"),
			env: "PYTHONPATH=" + f.path("python"),
		},
		{
			name: "kafka-python", needs: f.path("python/kafka"), command: python("kafkapython.py"),
			env: "PYTHONPATH=" + f.path("python"),
		},
		{
			name: "kafkajs", needs: f.path("kafkajs/node_modules/kafkajs"),
			command: func(brokers string, count int, topics []string) []string {
				return append([]string{"node", f.script("kafkajs.js"), brokers, strconv.Itoa(count)}, topics...)
			},
			env: "NODE_PATH=" + f.path("kafkajs/node_modules"),
		},
		{name: "sarama", needs: f.path("sarama"), command: func(brokers string, count int, topics []string) []string {
			return append([]string{f.path("sarama"), brokers, strconv.Itoa(count)}, topics...)
		}},
		{name: "java", needs: f.path("java"), command: func(brokers string, count int, topics []string) []string {
			return f.tool("consumer.ConsoleConsumer", "--bootstrap-server", brokers, "--group", group(),
				"--from-beginning", "--include", strings.Join(topics, "|"), "--max-messages", strconv.Itoa(count),
				"--formatter-property", "print.key=true", "--formatter-property", "null.literal=NULL")
		}},
	}
}

// installed ends a test that needs a client which is not there: as a failure where CI runs, which is to have them all.
func (f *foreigners) installed(t *testing.T, needs string) {
	t.Helper()
	_, err := exec.LookPath(needs)
	if filepath.IsAbs(needs) {
		_, err = os.Stat(needs)
	}
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("this client is not installed (%v), and CI has to have it: scripts/setup clients says why", err)
	default:
		t.Skipf("this client is not installed (%v): scripts/setup clients says why", err)
	}
}

// call runs a command of others and returns what it prints.
func call(t *testing.T, command []string, env, stdin string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	if env != "" {
		c.Env = append(c.Environ(), env)
	}
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v (%v)\n%s\n%d lines are printed", command[0], err, context.Cause(ctx), &errs,
			strings.Count(out.String(), "\n"))
	}
	return out.String()
}

// burst is how many messages, outcomes and dead letters there are of each.
const burst = 200

// submitBurst has that many messages fall due at once, with an outcome each, and as many records be rejected. When all
// has come out on the topics, it returns the line that a client prints for each record there: a message may come twice.
func submitBurst(t *testing.T, brokers, input string, topics ...string) (lines []string) {
	t.Helper()
	c := client(t, brokers, kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	due := time.Now().Add(2 * time.Second)
	var records []*kgo.Record
	awaited := map[string]bool{}
	for i := range burst {
		value := fmt.Sprintf(`{"order":%d,"state":"waiting, like all the others that fall due at this very moment"}`, i)
		good := submission(fmt.Sprintf("m-%d", i), due, []byte(value),
			kgo.RecordHeader{Key: "chronosConfirm", Value: []byte("true")})
		good.Topic, good.Key = input, fmt.Append(nil, "good-", i)
		bad := &kgo.Record{Topic: input, Key: fmt.Append(nil, "bad-", i), Value: []byte(value)}
		records = append(records, good, bad)
		awaited[fmt.Sprintf("good-%d\t%s", i, value)], awaited[fmt.Sprintf("good-%d\tNULL", i)] = true, true
		awaited[fmt.Sprintf("bad-%d\t%s", i, value)] = true
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for len(awaited) > 0 {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records have not come in %v", len(awaited), 3*burst, patience)
		}
		for _, r := range fetches.Records() {
			value := string(r.Value)
			if r.Value == nil {
				value = "NULL"
			}
			lines = append(lines, string(r.Key)+"\t"+value)
			delete(awaited, lines[len(lines)-1])
		}
	}
	slices.Sort(lines)
	return lines
}

// kcatOf returns the commands of kcat that pages show, for the broker at an address, of which none waits for more
// records or for long.
func kcatOf(t *testing.T, address string, pages ...string) (commands []string) {
	t.Helper()
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.SplitSeq(strings.ReplaceAll(found[1], "\\\n", " "), "\n") {
				if strings.Contains(line, "kcat ") {
					commands = append(commands, strings.NewReplacer(
						"127.0.0.1:9092", address, "kcat -C", "kcat -C -e", "+5 sec", "+1 sec").Replace(line))
				}
			}
		}
	}
	if len(commands) < 4 {
		t.Errorf("%q are the commands of kcat: are they written otherwise now?", commands)
	}
	return commands
}

// readBy has every client read topics, and asks that each prints these lines.
func (f *foreigners) readBy(t *testing.T, brokers string, topics, want []string) {
	t.Helper()
	for _, reader := range f.readers() {
		t.Run(reader.name, func(t *testing.T) {
			t.Parallel()
			f.installed(t, reader.needs)
			out := call(t, reader.command(brokers, len(want), topics), reader.env, "")
			got := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("it reads %d records that are not the %d that came out:\n%s", len(got), len(want), out)
			}
		})
	}
}

// Goal: what Chronos publishes can be read by clients of others as they are installed, with no codec beside them.
// Method: a burst of messages, outcomes and dead letters, so that batches have many records, is read by each client.
func TestClientsOfKafka(t *testing.T) {
	f := newForeigners(t)
	s := newTopics(t)
	outcomes := s.input + ".outcomes"
	s.cluster.CreateTopic(t, outcomes, 4)
	s.process(t, append([]string{
		"--store", "sqlite:" + filepath.Join(t.TempDir(), "chronos.db"), "--brokers", s.brokers, "--group", s.input,
		"--input-topic", s.input, "--output-topic", s.output, "--dead-letter-topic", s.dead,
		"--outcome-topic", outcomes,
	}, unhurried...)...)
	topics := []string{s.output, outcomes, s.dead}
	f.readBy(t, s.brokers, topics, submitBurst(t, s.brokers, s.input, topics...))
}

// Goal: the same clients, and Kafka's own tools, work with chronos dev as with Kafka.
func TestClientsOfDev(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes clients that scripts/setup installs")
	}
	f := newForeigners(t)
	p, address := dev(t)
	t.Run("tools", func(t *testing.T) {
		f.installed(t, f.path("java"))
		const groups = "consumer.group.ConsumerGroupCommand"
		at := []string{"--bootstrap-server", address}
		produce := f.tool("ConsoleProducer", append(slices.Clone(at), "--topic", "chronos.in",
			"--reader-property", "parse.headers=true", "--reader-property", "parse.key=true")...)
		call(t, produce, "", "chronosMessageId:by-java,chronosDelay:0s\tjava\tvalue\n")
		p.stdout.await(t, `fired  by-java`, 1)
		for _, c := range []struct {
			main string
			args []string
			want string
		}{
			{"TopicCommand", []string{"--describe"}, `Topic: chronos.out\s.*PartitionCount: 1\s`},
			{"TopicCommand", []string{"--describe", "--topic", "chronos.in"}, `Partition: 0\s+Leader: 0\s+Replicas: 0`},
			{"TopicCommand", []string{"--list"}, `(?m)^chronos.outcomes$`},
			{"TopicCommand", []string{"--create", "--topic", "new", "--partitions", "3"}, `Created topic new`},
			{"GetOffsetShell", nil, `(?m)^chronos.out:0:1$`},
			{groups, []string{"--describe", "--group", "chronos"}, `chronos\s+chronos.in\s+0\s+\d`},
			{groups, []string{"--list"}, `(?m)^chronos$`},
		} {
			out := call(t, f.tool(c.main, append(slices.Clone(at), c.args...)...), "", "")
			if !regexp.MustCompile(c.want).MatchString(out) {
				t.Errorf("%s %q prints\n%s\nwant %s", c.main, c.args, out, c.want)
			}
		}
	})
	t.Run("kcat of pages", func(t *testing.T) {
		f.installed(t, "kcat")
		order := submission("order-4", time.Now().Add(time.Hour), nil)
		order.Key = []byte("customer-7")
		produce(t, address, order)
		for _, command := range kcatOf(t, address, "../../README.md", "../../docs/CONTROL.md") {
			if out := call(t, []string{"bash", "-c", command}, "", ""); strings.Contains(command, " -C ") && out == "" {
				t.Errorf("%s prints nothing", command)
			}
			if strings.Contains(command, "chronosDeadline") {
				p.stdout.await(t, `fired  \S*-\S*-\S*-`, 1)
			}
			if strings.Contains(command, "chronosAction") {
				p.stdout.await(t, `outcome  order-4  cancel: cancelled`, 1)
			}
		}
	})
	topics := []string{"chronos.out", "chronos.outcomes", "chronos.dead"}
	f.readBy(t, address, topics, submitBurst(t, address, "chronos.in", topics...))
}
