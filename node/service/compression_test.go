package service_test

import (
	"os"
	"path/filepath"
	"testing"

	"chronos/node/broker/kafka"
	"chronos/node/service"
)

// configOf returns the configuration of a node with a file.
func configOf(t *testing.T, store, text string) service.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := service.Read(service.Run, map[string]service.Value{
		"store":   service.FlagValue("store", store),
		"brokers": service.FlagValue("brokers", "127.0.0.1:1"), "config": service.FlagValue("config", file),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// The compression of a route is that of all topics that it writes to: of messages, those that only a pattern stands for
// as well, of outcomes and of dead letters. Nothing else is compressed.
func TestCompressionOfTopics(t *testing.T) {
	config := configOf(t, "sqlite:"+filepath.Join(t.TempDir(), "chronos.db"), `
routes:
  - {input: a, output: b, targets: "c, d.*", dead-letter: e, outcomes: f, compression: zstd}
  - {input: g, output: h, dead-letter: i, outcomes: j}
  - {input: k, output: l, compression: gzip}
  - {input: m, output: "http:n", dead-letter: o, compression: lz4}
`)
	compressionOf := config.Compression()
	for topic, want := range map[string]kafka.Compression{
		"b": kafka.Zstd, "c": kafka.Zstd, "d.x": kafka.Zstd, "e": kafka.Zstd, "f": kafka.Zstd,
		"h": kafka.Uncompressed, "i": kafka.Uncompressed, "j": kafka.Uncompressed,
		"l": kafka.Gzip, "o": kafka.LZ4, "elsewhere": kafka.Uncompressed,
	} {
		if got := compressionOf(topic); got != want {
			t.Errorf("what goes on topic %s is compressed by %v, want %v", topic, got, want)
		}
	}
	plain := configOf(t, "sqlite:"+filepath.Join(t.TempDir(), "chronos.db"), "routes: [{input: a, output: b}]\n")
	if plain.Compression() != nil {
		t.Error("something is compressed though nobody has asked for it")
	}
}

// Each journal compresses as the route of its input topic says.
func TestCompressionOfJournals(t *testing.T) {
	config := configOf(t, "journal:a=j,c=k", "data-dir: /nowhere\nroutes:\n"+
		"  - {input: a, output: b, compression: snappy}\n  - {input: c, output: d}\n")
	for i, want := range []kafka.Compression{kafka.Snappy, kafka.Uncompressed} {
		if got := config.Store.Journal().Topics()[i].Compression; got != want {
			t.Errorf("journal %d compresses by %v, want %v", i, got, want)
		}
	}
}
