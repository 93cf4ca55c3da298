package doctor_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/chaos/servers"
	"chronos/migrations"
	"chronos/node/service"
	"chronos/node/service/doctor"
	"chronos/node/store/postgres"
)

// patience is how long things may take that are to succeed.
const patience = time.Minute

// world is a Kafka that asks who one is and what one may, and a Postgres with TLS: one pair for all tests.
type world struct {
	kafka     *servers.Kafka
	postgres  *servers.Postgres
	authority *servers.Authority
	admin     *kadm.Client // may do everything
	client    *kgo.Client
	ca        string // the file
}

// The users of the Kafka by PLAIN. What they may do is up to each test.
const (
	plainUser     = "plain"
	plainPassword = "plain-secret"
)

var (
	shared  *world // started once, for it takes seconds
	problem error  // why it is not there
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests wait for servers most of the time
		panic(err)
	}
	if testing.Short() {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "chronos-doctor-")
	if err != nil {
		panic(err)
	}
	s, err := servers.Open(context.Background(),
		servers.Config{Backend: servers.Processes, Logs: dir, Say: os.Stderr})
	if err == nil {
		shared, err = start(s, dir)
	}
	problem = err
	code := m.Run()
	if s != nil {
		if err := s.Close(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// start starts the servers.
func start(s *servers.Servers, dir string) (*world, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	w := &world{ca: filepath.Join(dir, "ca.pem")}
	var err error
	if w.authority, err = servers.NewAuthority(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(w.ca, []byte(w.authority.PEM), 0o600); err != nil {
		return nil, err
	}
	if w.kafka, err = s.Kafka(ctx, servers.KafkaConfig{
		Authority: w.authority, Users: map[string]string{plainUser: plainPassword},
	}); err != nil {
		return nil, err
	}
	if w.postgres, err = s.Postgres(ctx, servers.PostgresConfig{Authority: w.authority}); err != nil {
		return nil, err
	}
	var both sync.WaitGroup
	var kafkaErr, postgresErr error
	both.Go(func() { kafkaErr = w.kafka.Start(ctx) })
	both.Go(func() {
		if postgresErr = w.postgres.Start(ctx); postgresErr == nil {
			postgresErr = w.postgres.Ready(ctx, patience)
		}
		if postgresErr == nil {
			postgresErr = migrate(ctx, w.postgres)
		}
	})
	both.Wait()
	if err := errors.Join(kafkaErr, postgresErr); err != nil {
		return nil, err
	}
	if w.client, err = w.kafka.Connect(); err != nil {
		return nil, err
	}
	w.admin = kadm.NewClient(w.client)
	return w, nil
}

// template is the database that those of the tests are copies of.
const template = "chronos_template"

// migrate makes the template.
func migrate(ctx context.Context, server *servers.Postgres) error {
	if err := server.Exec(ctx, "CREATE DATABASE "+template); err != nil {
		return err
	}
	at := server.Admin
	at.Path = "/" + template
	db, err := postgres.OpenDB(at.String(), postgres.Options{})
	if err != nil {
		return err
	}
	_, err = migrations.Up(ctx, db, migrations.Postgres)
	return errors.Join(err, db.Close())
}

// the returns the pair.
func the(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts Kafka and Postgres: not in a short test")
	}
	if problem != nil {
		t.Fatal(problem)
	}
	return shared
}

// deployment is one that all is well with, apart from the others.
type deployment struct {
	*world

	t                 *testing.T
	in, out, dead     string
	target, outcomes  string
	group, user       string
	database, role    string // role has just the grants that a node needs
	passwordFile      string // of the user of Kafka
	storePasswordFile string
	owner             url.URL // where the owner finds the database
	flags             map[string]string
}

// deploy makes topics, a user, a database and a role for a test, with nothing but what a node needs.
func deploy(t *testing.T) *deployment {
	t.Helper()
	w := the(t)
	name := strings.ToLower(uuid.NewString()[:8])
	dir := t.TempDir()
	d := &deployment{
		world: w, t: t, in: name + ".in", out: name + ".out", dead: name + ".dead", group: "group-" + name,
		target: name + ".target", outcomes: name + ".outcomes",
		user: "user-" + name, database: "chronos_" + name, role: "node_" + name,
		passwordFile: filepath.Join(dir, "kafka"), storePasswordFile: filepath.Join(dir, "postgres"),
	}
	for _, topic := range []string{d.in, d.out, d.dead, d.target, d.outcomes} {
		d.create(topic, map[string]string{"min.insync.replicas": "1"})
	}
	d.password("first")
	d.allow(d.user)

	d.owner = w.postgres.Admin
	d.must(w.postgres.Exec(t.Context(), "CREATE DATABASE "+d.database+" TEMPLATE "+template))
	d.owner.Path = "/" + d.database
	d.exec("CREATE ROLE " + d.role + " LOGIN NOSUPERUSER PASSWORD 'first'")
	for _, g := range postgres.Grants() {
		d.exec(fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(g.Privileges, ", "), g.Table, d.role))
	}
	d.write(d.storePasswordFile, "first")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := w.postgres.Exec(ctx, "DROP DATABASE "+d.database+" WITH (FORCE)", "DROP ROLE "+d.role); err != nil {
			t.Error(err)
		}
	})
	d.flags = map[string]string{
		"brokers": w.kafka.Secure[0], "tls-ca": w.ca, "sasl-mechanism": "SCRAM-SHA-512", "sasl-username": d.user,
		"sasl-password-file": d.passwordFile, "group": d.group,
		"store": d.url(d.role), "store-password-file": d.storePasswordFile,
		"input-topic": d.in, "output-topic": d.out, "dead-letter-topic": d.dead,
		"targets": d.target, "outcome-topic": d.outcomes,
	}
	return d
}

// url returns where a role finds the database, with TLS and without a password.
func (d *deployment) url(role string) string {
	at := d.owner
	at.User = url.User(role)
	at.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {d.ca}}.Encode()
	return at.String()
}

func (d *deployment) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *deployment) write(file, text string) {
	d.t.Helper()
	d.must(os.WriteFile(file, []byte(text), 0o600))
}

// create creates a topic.
func (d *deployment) create(name string, settings map[string]string) {
	d.t.Helper()
	d.must(d.kafka.Create(d.t.Context(), servers.Topic{Name: name, Partitions: 1, Settings: settings}))
}

// alter changes settings of a topic.
func (d *deployment) alter(name, setting, value string) {
	d.t.Helper()
	responses, err := d.admin.AlterTopicConfigs(d.t.Context(),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: setting, Value: &value}}, name)
	if err == nil {
		_, err = responses.On(name, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	d.must(err)
}

// password sets the password of the user in Kafka, and in the file that the nodes have.
func (d *deployment) password(secret string) {
	d.t.Helper()
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		altered, err := d.admin.AlterUserSCRAMs(d.t.Context(), nil, []kadm.UpsertSCRAM{
			{User: d.user, Mechanism: mechanism, Iterations: 4096, Password: secret},
		})
		if err == nil {
			err = altered.Error()
		}
		d.must(err)
	}
	d.write(d.passwordFile, secret+"\n")
}

// right is one that a node needs.
type right struct {
	kind      kmsg.ACLResourceType
	name      string
	operation kmsg.ACLOperation
}

// rights returns exactly what docs/SECURITY.md says that a node needs.
func (d *deployment) rights() []right {
	return []right{
		{kmsg.ACLResourceTypeTopic, d.in, kmsg.ACLOperationRead},
		{kmsg.ACLResourceTypeTopic, d.out, kmsg.ACLOperationWrite},
		{kmsg.ACLResourceTypeTopic, d.dead, kmsg.ACLOperationWrite},
		{kmsg.ACLResourceTypeGroup, d.group, kmsg.ACLOperationRead},
		{kmsg.ACLResourceTypeTopic, d.target, kmsg.ACLOperationWrite},
		{kmsg.ACLResourceTypeTopic, d.outcomes, kmsg.ACLOperationWrite},
	}
}

// builder returns what names the ACL of a right.
func (r *right) builder(user string) *kadm.ACLBuilder {
	b := kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral).Operations(r.operation).
		Allow("User:" + user).AllowHosts("*")
	if r.kind == kmsg.ACLResourceTypeGroup {
		return b.Groups(r.name)
	}
	return b.Topics(r.name)
}

// allow gives a user the rights of a node.
func (d *deployment) allow(user string) {
	d.t.Helper()
	for _, r := range d.rights() {
		d.grant(user, r)
	}
}

func (d *deployment) grant(user string, r right) {
	d.t.Helper()
	results, err := d.admin.CreateACLs(d.t.Context(), r.builder(user))
	for _, result := range results {
		err = errors.Join(err, result.Err)
	}
	d.must(err)
}

func (d *deployment) revoke(user string, r right) {
	d.t.Helper()
	results, err := d.admin.DeleteACLs(d.t.Context(), r.builder(user))
	for _, result := range results {
		err = errors.Join(err, result.Err)
	}
	d.must(err)
}

// exec executes statements as the owner of the database.
func (d *deployment) exec(statements string) {
	d.t.Helper()
	conn := d.connect()
	_, err := conn.Exec(d.t.Context(), statements, pgx.QueryExecModeSimpleProtocol)
	d.must(errors.Join(err, conn.Close(d.t.Context())))
}

func (d *deployment) connect() *pgx.Conn {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.owner.String())
	d.must(err)
	return conn
}

// config reads the settings.
func (d *deployment) config() service.Config {
	d.t.Helper()
	values := map[string]service.Value{}
	for name, text := range d.flags {
		values[name] = service.FlagValue(name, text)
	}
	s, err := service.Read(service.Run, values, nil)
	d.must(err)
	config, err := s.Config()
	d.must(err)
	return config
}

// examine returns what the doctor says.
func (d *deployment) examine(options doctor.Options) *doctor.Report {
	d.t.Helper()
	report, err := doctor.Examine(d.t.Context(), d.config(), options)
	d.must(err)
	return report
}

// result returns how a check has ended.
func result(report *doctor.Report, check string) doctor.Check {
	for _, c := range report.Checks {
		if c.Name == check {
			return c
		}
	}
	return doctor.Check{Name: check}
}

// sees lets the user look at the settings of the topics, which a node does not need.
func (d *deployment) sees() {
	d.t.Helper()
	for _, topic := range []string{d.in, d.out, d.dead, d.target, d.outcomes} {
		d.grant(d.user, right{kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationDescribeConfigs})
	}
}
