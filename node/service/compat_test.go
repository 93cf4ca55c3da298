package service_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"chronos/node/service"
)

// Goal: with compat the environment of Kindred's chronos is enough to run a node; without it, it says nothing; and
// what is written for us wins.
func TestCompatKindred(t *testing.T) {
	t.Parallel()
	environ := []string{
		"KAFKA_HOST=kafka-1, kafka-2", "KAFKA_PORT=9092", "KAFKA_IN_TOPIC=theirs.in", "KAFKA_OUT_TOPIC=theirs.out",
		"KAFKA_GROUP_ID=theirs", "KAFKA_CLIENT_ID=x", "KAFKA_USERNAME=user", "KAFKA_PASSWORD=s3cr3t", "PG_HOST=db",
		"PG_PORT=5433", "PG_USER=who", "PG_PASSWORD=p@ss/w:rd", "PG_DATABASE=times", "PG_POOL_SIZE=5",
		"FAIL_DETECT_INTERVAL=500", "TIMING_ADVANCE=3",
	}
	read := func(environ []string, flags ...string) (service.Config, error) {
		given := map[string]service.Value{}
		for _, flag := range flags {
			name, value, _ := strings.Cut(flag, "=")
			given[name] = service.FlagValue(name, value)
		}
		settings, err := service.Read(service.Run, given, environ)
		if err != nil {
			return service.Config{}, err
		}
		return settings.Config()
	}

	c, err := read(environ, "compat=kindred")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Kafka.Brokers, []string{"kafka-1:9092", "kafka-2:9092"}) || c.Group != "theirs" ||
		c.Node.Routes[0].Input != "theirs.in" || c.Node.Routes[0].Output != "theirs.out" {
		t.Errorf("brokers %v, group %s, routes %v", c.Kafka.Brokers, c.Group, c.Node.Routes)
	}
	if shown := c.Shown(); !strings.Contains(shown, "db:5433/times") || !strings.Contains(shown, "SCRAM-SHA-512") ||
		strings.Contains(shown, "s3cr3t") || strings.Contains(shown, "p@ss") || strings.Contains(shown, "p%40ss") {
		t.Errorf("the settings are shown as %s", shown)
	}

	file := filepath.Join(t.TempDir(), "chronos.yaml")
	if err := os.WriteFile(file, []byte("routes: [{input: a, output: b}]\nbrokers: ours:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = read(append(environ, "CHRONOS_GROUP=ours"), "compat=kindred", "config="+file, "store=sqlite:x.db")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Kafka.Brokers, []string{"ours:1"}) || c.Group != "ours" || c.Node.Routes[0].Input != "a" ||
		strings.Contains(c.Shown(), "db:5433") {
		t.Errorf("brokers %v, group %s, routes %v", c.Kafka.Brokers, c.Group, c.Node.Routes)
	}

	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = read(environ, "compat=kindred", "store-password-file="+password)
	if err != nil || !strings.Contains(c.Shown(), "db:5433/times") {
		t.Errorf("with a file for the password, which wins over theirs: %v, %s", err, c.Shown())
	}
	half := slices.Clone(environ)
	half[7] = "KAFKA_PASSWORD="
	if c, err := read(half, "compat=kindred"); err != nil || strings.Contains(c.Shown(), "SCRAM") {
		t.Errorf("a user name without a password: %v, %s", err, c.Shown())
	}

	if _, err := read(environ); err == nil || !strings.Contains(err.Error(), "store") {
		t.Errorf("without compat: %v, want that there is no store", err)
	}
	if _, err := read(environ, "compat=other"); err == nil {
		t.Error("there is compat other")
	}
	bad := slices.Clone(environ)
	bad[2] = "KAFKA_IN_TOPIC=a b"
	if _, err := read(bad, "compat=kindred"); err == nil || !strings.Contains(err.Error(), `KAFKA_IN_TOPIC is "a b"`) {
		t.Errorf("the error is %v, want the name of their variable", err)
	}
}
