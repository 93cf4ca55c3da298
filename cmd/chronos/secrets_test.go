package main_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	rows "chronos/node/service"
)

// canary is what each planted secret contains.
const canary = "c4n4ry"

// token is a secret that is long enough for a token, in a line of its own.
const token = canary + canary + canary + "\n"

// secrets returns settings for every way to give a secret, each of them in a combination that gets as far as it can,
// and in combinations that are mistakes. All of the secrets contain the canary.
func secrets(t *testing.T, brokers string) map[string][]string {
	t.Helper()
	file := func(text string) string { return writeFile(t, "secret", text) }
	jaas := "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
	const away = "@127.0.0.1:1/chronos"
	key := "-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----\n"
	kafka := func(more ...string) []string {
		return append([]string{"--store", "sqlite:FILE", "--brokers", brokers}, more...)
	}
	sasl := func(more ...string) []string { return append(kafka("--sasl-username", "u"), more...) }
	store := func(url string, more ...string) []string {
		return append([]string{"--store", url, "--brokers", brokers}, more...)
	}
	return map[string][]string{
		"password":          sasl("--sasl-mechanism", "PLAIN", "--sasl-password", canary),
		"password of SCRAM": sasl("--sasl-mechanism", "SCRAM-SHA-512", "--sasl-password", canary),
		"password alone":    kafka("--sasl-password", canary),
		"password file":     sasl("--sasl-mechanism", "PLAIN", "--sasl-password-file", file(canary)),
		"two passwords": sasl("--sasl-mechanism", "PLAIN", "--sasl-password-file", file(canary),
			"--sasl-password", canary),
		"token":          kafka("--sasl-mechanism", "OAUTHBEARER", "--sasl-token-file", file(canary)),
		"token and user": sasl("--sasl-mechanism", "OAUTHBEARER", "--sasl-token-file", file(canary)),
		"token endpoint": sasl("--sasl-mechanism", "OAUTHBEARER", "--sasl-token-url", "http://127.0.0.1:1/t",
			"--sasl-password", canary),
		"token endpoint's URL": sasl("--sasl-mechanism", "OAUTHBEARER", "--sasl-token-url",
			"https://u:"+canary+"@127.0.0.1:1/t", "--sasl-password", "x"),
		"broken endpoint's URL": sasl("--sasl-mechanism", "OAUTHBEARER", "--sasl-token-url",
			"https://u:"+canary+"%zz@h/t", "--sasl-password", "x"),
		"key":       kafka("--tls-cert", file(key), "--tls-key", file(key)),
		"authority": kafka("--tls-ca", file(canary)),
		"JAAS": kafka("--kafka-properties",
			file(jaas+`a.PlainLoginModule required username="u" password="`+canary+`";`)),
		"JAAS, open": kafka("--kafka-properties",
			file(jaas+`a.PlainLoginModule required password="`+canary)),
		"JAAS, no quotes": kafka("--kafka-properties",
			file(jaas+`a.PlainLoginModule required password=x `+canary+`=y;`)),
		"librdkafka": kafka("--kafka-properties",
			file("security.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\nsasl.username=u\nsasl.password="+canary)),
		"librdkafka, no user": kafka("--kafka-properties",
			file("security.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\nsasl.password="+canary)),
		"key in properties": kafka("--kafka-properties",
			file("security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key="+strings.ReplaceAll(key, "\n",
				`\n`)+"\nssl.keystore.certificate.chain="+strings.ReplaceAll(key, "\n", `\n`))),
		"key password":           kafka("--kafka-properties", file("ssl.key.password="+canary)),
		"key without properties": kafka("--kafka-properties", file("ssl.keystore.key="+canary)),
		"token of the API": kafka("--admin-listen", "127.0.0.1:0",
			"--admin-token-file", file(token)),
		"tokens of the API": kafka("--admin-listen", "127.0.0.1:0",
			"--admin-token-file", file("ann read "+token+"bob read "+canary+token)),
		"tokens, no right": kafka("--admin-listen", "127.0.0.1:0", "--admin-token-file", file("ann "+canary+" read\n")),
		"tokens, no name":  kafka("--admin-listen", "127.0.0.1:0", "--admin-token-file", file("a\nread "+token)),
		"tokens, twice": kafka("--admin-listen", "127.0.0.1:0",
			"--admin-token-file", file("ann read "+token+"bob read "+token)),
		"short token": kafka("--admin-listen", "127.0.0.1:0", "--admin-token-file", file(canary+"\n")),
		"short token, with a name": kafka("--admin-listen", "127.0.0.1:0",
			"--admin-token-file", file("ann read "+canary+"\n")),
		"token that is cut": kafka("--admin-listen", "127.0.0.1:0", "--admin-token-file", file(canary+token+canary)),
		"key of the API": kafka("--admin-listen", "127.0.0.1:0",
			"--admin-tls-cert", file(key), "--admin-tls-key", file(key)),
		"tokens of applications": kafka("--api-listen", "127.0.0.1:0",
			"--api-token-file", file("ann read "+token+"bob write:x*,rate=1 "+canary+token)),
		"tokens of applications, no scope": kafka("--api-listen", "127.0.0.1:0",
			"--api-token-file", file("ann "+canary+" read\n")),
		"tokens of applications, no limit": kafka("--api-listen", "127.0.0.1:0",
			"--api-token-file", file("ann read,"+canary+"=1 read\n")),
		"key of applications": kafka("--api-listen", "127.0.0.1:0",
			"--api-tls-cert", file(key), "--api-tls-key", file(key)),
		"Postgres":            store("postgres://u:" + canary + away),
		"Postgres, parameter": store("postgres://u" + away + "?password=" + canary),
		"Postgres, key":       store("postgres://u" + away + "?sslmode=require&sslpassword=" + canary),
		"Postgres, port":      store("postgres://u:" + canary + "@127.0.0.1:port/chronos"),
		"Postgres, mode":      store("postgres://u:" + canary + away + "?sslmode=perhaps"),
		"Postgres, escape":    store("postgres://u:" + canary + "%zz" + away),
		"Postgres, scheme":    store("mysql://u:" + canary + away),
		"Postgres, words":     store("host=127.0.0.1 password=" + canary),
		"Postgres, file":      store("postgres://u"+away, "--store-password-file", file(canary)),
		"Postgres, both":      store("postgres://u:"+canary+away, "--store-password-file", file(canary)),
	}
}

// No secret appears in what any command says, whatever goes wrong: on its output, in its errors, in its log. All
// commands run at once, because most of them wait for a server that is not there; and no other test beside them,
// because they are so many.
func TestNoSecretIsShown(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	dir := t.TempDir()
	tried := map[string]bool{}
	var running sync.WaitGroup
	for name, flags := range secrets(t, cluster.ListenAddrs()[0]) {
		text := ""
		for i := 0; i < len(flags); i += 2 {
			setting := strings.TrimPrefix(flags[i], "--")
			tried[setting] = true
			text += fmt.Sprintf("%s: %q\n", setting, flags[i+1])
		}
		for i, command := range [][]string{
			{"run", "--log-level", "debug", "--log-format", "json", "--migrate"},
			{"doctor"},
			{"doctor", "-o", "json"},
			{"bind"},
			{"run", "--log-format", "text", "--config"}, // with the settings in the file
		} {
			database := fmt.Sprintf("sqlite:%s/%s-%d.db", dir, strings.Map(plain, name), i)
			given := append(slices.Clone(command), flags...)
			if slices.Contains(command, "--config") {
				given = append(slices.Clone(command), writeFile(t, "chronos.yaml", strings.ReplaceAll(text,
					"sqlite:FILE", database)))
			}
			for i := range given {
				given[i] = strings.ReplaceAll(given[i], "sqlite:FILE", database)
			}
			running.Go(func() {
				// A node that waits for a server is told to stop when it has said so.
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				if command[0] != "run" {
					ctx = t.Context()
				}
				got := runUntil(ctx, "", given...)
				if said := got.stdout + got.stderr; strings.Contains(said, canary) || said == "" {
					t.Errorf("%s: %v says %q", name, command, said)
				}
			})
		}
	}
	running.Wait()
	tried["token-file"] = true // of other commands than these, see TestAskNodeOfFile
	for _, row := range rows.Table(rows.All) {
		for _, part := range []string{"password", "token", "key", "properties"} {
			if strings.Contains(row.Name, part) && !tried[row.Name] {
				t.Errorf("the setting %s may hold a secret, and was not tried", row.Name)
			}
		}
	}
}

// plain keeps the letters of a name.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r
	}
	return -1
}

// TestSecretsStaySecret gives passwords in all ways, and looks for them in everything that is said, also by a node that
// cannot reach its store.
func TestSecretsStaySecret(t *testing.T) {
	const secret = "hunter2secret"
	file := writeFile(t, "password", secret+"\n")
	for _, args := range [][]string{
		{"--store", "postgres://u:" + secret + "@127.0.0.1:1/db"},
		{"--store", "postgres://u@127.0.0.1:1/db?password=" + secret},
		{"--store", "postgres://u@127.0.0.1:1/db?sslpassword=" + secret},
		{"--store", "postgres://u@127.0.0.1:1/db", "--store-password-file", file},
		{"--store", "postgres://u:" + secret + "@127.0.0.1:1/db?sslmode=wrong"},
		{"--store", "postgres://u:" + secret + "@127.0.0.1:port/db"},
		{"--store", "postgres://u:" + secret + "%zz@127.0.0.1/db"},
		{"--store", "u:" + secret + "@127.0.0.1/db"},
		{"--store", aStore, "--sasl-mechanism", "PLAIN", "--sasl-username", "u", "--sasl-password", secret},
		{"--store", aStore, "--sasl-mechanism", "SCRAM-SHA-512", "--sasl-username", "u", "--sasl-password-file", file},
		{"--store", aStore, "--sasl-password", secret},
	} {
		for _, stops := range []bool{true, false} {
			t.Run(fmt.Sprint(args, stops), func(t *testing.T) {
				args := append([]string{"run", "--brokers", "127.0.0.1:1", "--log-level", "debug"}, args...)
				if stops {
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					got := runUntil(ctx, "", args...)
					assertSecret(t, secret, got.stderr+got.stdout)
					return
				}
				p := start(t, args...)
				p.stderr.await(t, `store unavailable|chronos: `, 1)
				p.stop()
				p.code(t)
				assertSecret(t, secret, p.stderr.String()+p.stdout.String())
			})
		}
	}
}

func assertSecret(t *testing.T, secret, said string) {
	t.Helper()
	if said == "" || strings.Contains(said, secret) {
		t.Errorf("this was said:\n%s", said)
	}
}
