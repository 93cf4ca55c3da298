package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestPartitions sends messages and what is to cancel them to a topic with several partitions: both go to the partition
// that the client chooses which --partitioner stands for, or to the one that --partition names.
func TestPartitions(t *testing.T) {
	_, address := cluster(t, "")
	admin := kadm.NewClient(client(t, address))
	if _, err := admin.CreateTopic(t.Context(), 100, 1, nil, "orders.in"); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]int32{
		"":                                (-790332482 & 0x7fffffff) % 100, // what Kafka's own tests have for foobar
		"--partitioner murmur2":           (-790332482 & 0x7fffffff) % 100,
		"--partitioner crc32":             0x9ef61f95 % 100,
		"--partitioner fnv1a":             -(0xbf9cf968 - 1<<32) % 100,
		"--partition 99":                  99,
		"--partition=0 --topic-out mails": 0,
	} {
		for _, command := range []string{
			"send --in 1h --id a", "cancel a --no-wait", "fire a --no-wait", "reschedule a --in 1h --no-wait",
			"replace a --in 1h --no-wait",
		} {
			line := command + " --topic orders.in --key foobar -o json --brokers " + address
			args := strings.Fields(line + " " + flags)
			if verb := args[0]; verb == "send" || verb == "replace" {
				args = append(args, "value")
			}
			got := run(t, "", args...)
			var sent struct{ Partition int32 }
			if err := json.Unmarshal([]byte(got.stdout), &sent); err != nil || sent.Partition != want {
				t.Errorf("%q: partition %d, want %d: %v, %s", args, sent.Partition, want, err, got.stderr)
			}
		}
	}
	for args, want := range map[string]string{
		"cancel a --partition 100":            "--partition is 100: topic orders.in has 100, from 0 to 99",
		"cancel a --partition=-1":             "--partition is -1: topic orders.in has 100, from 0 to 99",
		"fire a --partitioner md5":            "--partitioner must be one of",
		"cancel --lane x --partition 1":       "--partition is for one message",
		"cancel --lane x --partitioner crc32": "--partitioner is for one message",
	} {
		got := run(t, "", strings.Fields(args+" --brokers "+address)...)
		if strings.Contains(args, " a ") {
			got = run(t, "", strings.Fields(args+" --topic orders.in --no-wait --brokers "+address)...)
		}
		if got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit code %d, %s; want %s", args, got.code, got.stderr, want)
		}
	}
}
