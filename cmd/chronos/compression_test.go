package main_test

import (
	"strings"
	"testing"
)

// What is wrong with a compression is one sentence, which names the line.
func TestCompressionSentences(t *testing.T) {
	for _, c := range []struct{ args, file, want string }{
		{args: "--compression br", want: "--compression is br: it must be none, gzip, snappy, lz4 or zstd"},
		{
			file: "routes:\n- {input: a, output: b, compression: brotli}\n",
			want: "FILE:2: compression is brotli: it must be none, gzip, snappy, lz4 or zstd",
		},
		{
			args: "--compression lz4", file: "routes:\n- {input: a, output: b}\n",
			want: "--compression and FILE:1: routes exclude each other: only one of them may be set",
		},
		{
			file: "routes:\n- {input: a, output: b, compression: gzip}\n- {input: c, output: d, targets: ['b*']}\n",
			want: "FILE:2: compression is gzip: topic b has none by the route of input topic c, and a topic has one " +
				"compression",
		},
		{
			file: "routes:\n- {input: a, output: b, outcomes: told}\n" +
				"- {input: c, output: d, outcomes: told, compression: zstd}\n",
			want: "FILE:3: compression is zstd: topic told has none by the route of input topic a, and a topic has " +
				"one compression",
		},
		{
			file: "routes:\n- {input: a, output: b, targets: ['p.*'], compression: gzip}\n" +
				"- {input: c, output: d, targets: ['p.q.*'], compression: lz4}\n",
			want: "FILE:3: compression is lz4: topic p.q.* has gzip by the route of input topic a, and a topic has " +
				"one compression",
		},
		{
			args: "--brokers none --api-listen 127.0.0.1:0 --compression gzip",
			want: "--brokers is none, and --compression is set: without Kafka there are no topics",
		},
	} {
		args := append([]string{"run", "--store", aStore}, strings.Fields(c.args)...)
		file := "no file"
		if c.file != "" {
			file = writeFile(t, "c.yaml", c.file)
			args = append(args, "--config", file)
		}
		got := run(t, "", args...)
		if said := strings.ReplaceAll(got.stderr, file, "FILE"); got.code != 2 || said != "chronos: "+c.want+"\n" {
			t.Errorf("%s%s: exit code %d, %s\nwant %s", c.args, c.file, got.code, said, c.want)
		}
	}
}
