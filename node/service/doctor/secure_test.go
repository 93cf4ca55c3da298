package doctor_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/chaos/servers"
	"chronos/node"
	"chronos/node/service"
	"chronos/node/service/doctor"
)

// submit sends a message that is due at once, as an application with a right to write would.
func (d *deployment) submit(id string) {
	d.t.Helper()
	record := &kgo.Record{Topic: d.in, Value: []byte(id), Headers: []kgo.RecordHeader{
		{Key: node.HeaderID, Value: []byte(id)},
		{Key: node.HeaderDeadline, Value: []byte(time.Now().UTC().Format(time.RFC3339))},
	}}
	d.must(d.client.ProduceSync(d.t.Context(), record).FirstErr())
}

// expect waits until so many messages have come out.
func (d *deployment) expect(messages int64) {
	d.t.Helper()
	d.must(servers.Await(d.t.Context(), patience, func(ctx context.Context) error {
		ends, err := d.admin.ListEndOffsets(ctx, d.out)
		if err != nil {
			return err
		}
		if end, _ := ends.Lookup(d.out, 0); end.Offset < messages {
			return fmt.Errorf("%d of %d messages have come out", end.Offset, messages)
		}
		return nil
	}))
}

// run runs a node until the function that it returns is called.
func (d *deployment) run() (stop func()) {
	d.t.Helper()
	s, err := service.Open(d.t.Context(), d.config(), service.Options{Log: slog.New(slog.DiscardHandler)})
	d.must(err)
	ctx, cancel := context.WithCancel(d.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			d.t.Error(err)
		}
	}
}

// reauthentication is the time after which the brokers ask everybody for the password again, and a moment.
const reauthentication = 2500 * time.Millisecond

// A node works with TLS and a password on both sides, and with exactly the rights and grants that the documentation
// names. It goes on when both passwords are replaced, on connections that ask again and on new ones.
func TestNodeWithJustItsRights(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	stop := d.run()
	defer stop()
	d.submit("first")
	d.expect(1)

	replaced := time.Now()
	d.password("second")
	d.exec("ALTER ROLE " + d.role + " PASSWORD 'second'")
	d.write(d.storePasswordFile, "second")
	d.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + d.role + "'")
	if c := result(d.examine(doctor.Options{}), "rights"); c.Result != doctor.Well {
		t.Errorf("rights: %+v", c)
	}
	came := int64(1)
	for time.Since(replaced) < reauthentication { // until no connection is left that knew the former password
		came++
		d.submit(fmt.Sprint("second-", came))
		d.expect(came)
	}
	broken := &kgo.Record{Topic: d.in, Value: []byte("no headers")}
	d.must(d.client.ProduceSync(t.Context(), broken).FirstErr())
	d.submit("third")
	d.expect(came + 1)
	d.must(servers.Await(t.Context(), patience, func(ctx context.Context) error {
		ends, err := d.admin.ListEndOffsets(ctx, d.dead)
		if end, _ := ends.Lookup(d.dead, 0); err == nil && end.Offset != 1 {
			err = fmt.Errorf("%d dead letters", end.Offset)
		}
		return err
	}))
}

// token returns a token that a broker believes which does not ask who has signed it.
func token(user string) string {
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now().Unix()
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, now-10, now+3600)
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
}

// Every way to say who one is opens the door, and a wrong secret does not.
func TestWaysIn(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		d.write(path, text)
		return path
	}
	d.allow(plainUser)
	certificate, key, err := d.authority.Issue(d.user)
	d.must(err)
	stranger, err := servers.NewAuthority()
	d.must(err)
	wrongCertificate, wrongKey, err := stranger.Issue(d.user)
	d.must(err)
	properties := func(lines ...string) map[string]string {
		lines = append(lines, "bootstrap.servers="+d.kafka.Secure[0], "security.protocol=SASL_SSL")
		return map[string]string{"kafka-properties": file(fmt.Sprintf("%d.properties", len(lines)), strings.Join(lines,
			"\n"))}
	}
	with := func(mechanism, user, secret string) map[string]string {
		return map[string]string{
			"brokers": d.kafka.Secure[0], "tls-ca": d.ca, "sasl-mechanism": mechanism, "sasl-username": user,
			"sasl-password": secret,
		}
	}
	const jaas = "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
	for name, c := range map[string]struct{ right, wrong map[string]string }{
		"PLAIN":         {with("PLAIN", plainUser, plainPassword), with("PLAIN", plainUser, "wrong")},
		"SCRAM-SHA-256": {with("SCRAM-SHA-256", d.user, "first"), with("SCRAM-SHA-256", d.user, "wrong")},
		"SCRAM-SHA-512": {with("SCRAM-SHA-512", d.user, "first"), with("SCRAM-SHA-512", d.user, "wrong")},
		"OAUTHBEARER": {
			map[string]string{
				"brokers": d.kafka.Secure[0], "tls-ca": d.ca, "sasl-mechanism": "OAUTHBEARER",
				"sasl-token-file": file("token", token(d.user)),
			},
			map[string]string{
				"brokers": d.kafka.Secure[0], "tls-ca": d.ca, "sasl-mechanism": "OAUTHBEARER",
				"sasl-token-file": file("wrong", "nothing"),
			},
		},
		"certificate": {
			map[string]string{
				"brokers": d.kafka.Mutual[0], "tls-ca": d.ca, "tls-cert": file("cert", certificate),
				"tls-key": file("key", key),
			},
			map[string]string{
				"brokers": d.kafka.Mutual[0], "tls-ca": d.ca, "tls-cert": file("wrong.cert", wrongCertificate),
				"tls-key": file("wrong.key", wrongKey),
			},
		},
		"Java's properties": {
			properties("sasl.mechanism=SCRAM-SHA-512", jaas+`username="`+d.user+`" \`+"\n"+`  password="first";`,
				"ssl.truststore.type=PEM", "ssl.truststore.location="+d.ca),
			properties("sasl.mechanism=SCRAM-SHA-512", jaas+`username="`+d.user+`" password="wrong";`, "#", "#", "#",
				"ssl.truststore.type=PEM", "ssl.truststore.location="+d.ca),
		},
		"librdkafka's properties": {
			properties("sasl.mechanisms=SCRAM-SHA-512", "sasl.username="+d.user, "sasl.password=first",
				"ssl.ca.location="+d.ca, "#"),
			properties("sasl.mechanisms=SCRAM-SHA-512", "sasl.username="+d.user, "sasl.password=wrong",
				"ssl.ca.location="+d.ca,
				"#", "#", "#"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := *d
			one.t = t
			attempt := func(flags map[string]string) *doctor.Report {
				one.flags = map[string]string{}
				for _, kept := range []string{
					"store", "store-password-file", "group", "input-topic", "output-topic",
					"dead-letter-topic",
				} {
					one.flags[kept] = d.flags[kept]
				}
				maps.Copy(one.flags, flags)
				return one.examine(doctor.Options{})
			}
			report := attempt(c.right)
			for _, check := range []string{"kafka", "rights"} {
				if got := result(report, check); got.Result != doctor.Well {
					t.Errorf("%s: %+v, %+v", check, got, report.Findings)
				}
			}
			got := result(attempt(c.wrong), "kafka")
			if got.Result != doctor.NotLooked || !strings.Contains(got.Says, "check the") && !strings.Contains(got.Says,
				"token") {
				t.Errorf("with a wrong secret: %+v, want that it says what to do", got)
			}
		})
	}
}

// Postgres lets the role in by its certificate, which may be replaced; it does not without TLS, and a client that asks
// for the full check refuses a server that somebody else vouches for.
func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	issue := func(by *servers.Authority, name string) {
		certificate, key, err := by.Issue(name)
		d.must(err)
		d.write(path("cert"), certificate)
		d.write(path("key"), key)
	}
	d.exec("DO $$ BEGIN CREATE ROLE mutual LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT " + d.role +
		" TO mutual")
	at, err := url.Parse(d.url("mutual"))
	d.must(err)
	query := at.Query()
	query.Set("sslcert", path("cert"))
	query.Set("sslkey", path("key"))
	at.RawQuery = query.Encode()
	issue(d.authority, "mutual")
	d.flags["store"] = at.String()
	delete(d.flags, "store-password-file")
	config := d.config()
	store, err := config.Store.Open(t.Context(), patience)
	d.must(err)
	defer store.Close() //nolint:errcheck // it was only read
	look := func() error {
		_, err := store.Bind(t.Context(), node.BindRequest{})
		return err
	}
	d.must(look())
	drop := func() {
		d.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mutual' AND datname = " +
			"current_database()")
	}
	issue(d.authority, "somebody else")
	drop()
	if err := servers.Await(t.Context(), 2*time.Second, func(context.Context) error {
		if err := look(); err == nil {
			drop()
			return errors.New("it was let in by the certificate of somebody else")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	issue(d.authority, "mutual")
	d.must(servers.Await(t.Context(), patience, func(context.Context) error { return look() }))

	delete(query, "sslcert")
	delete(query, "sslkey")
	d.flags["store-password-file"] = d.storePasswordFile
	for name, parameters := range map[string]url.Values{
		"without TLS":       {"sslmode": {"disable"}},
		"another authority": {"sslmode": {"verify-full"}, "sslrootcert": {path("cert")}},
	} {
		at.User, at.RawQuery = url.User(d.role), parameters.Encode()
		d.flags["store"] = at.String()
		if got := result(d.examine(doctor.Options{}), "store"); got.Result != doctor.NotLooked {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
