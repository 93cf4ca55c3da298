package doctor_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/service"
	"chronos/node/service/doctor"
)

// begin has the store belong to the cluster and the group, with the input partition taken in up to an offset, as a node
// that has run would leave it.
func (d *deployment) begin(offset int64) node.Place {
	d.t.Helper()
	config := d.config()
	store, err := config.Store.Open(d.t.Context(), patience)
	d.must(err)
	metadata, err := d.admin.Metadata(d.t.Context(), d.in)
	d.must(err)
	place := node.Place{
		Partition: node.Partition{Topic: d.in, TopicID: uuid.UUID(metadata.Topics[d.in].ID)},
		Position:  node.Position{Epoch: node.UnknownEpoch, Offset: offset},
	}
	_, err = store.Bind(d.t.Context(), node.BindRequest{Cluster: metadata.Cluster, Group: d.group})
	d.must(err)
	_, _, err = store.Positions(d.t.Context(), []node.Place{place})
	d.must(errors.Join(err, store.Close()))
	return place
}

// insert puts a row for a message into the store.
func (d *deployment) insert(lane, due string) {
	d.t.Helper()
	d.exec(`INSERT INTO messages (id, lane, incarnation, deadline, due_at, message_headers, message_size)
VALUES ('` + uuid.NewString() + `', '` + lane + `', gen_random_uuid(), now() + interval '` + due + `',
  now() + interval '` + due + `', '[]', 0)`)
}

// fill produces records to the input topic that are so old.
func (d *deployment) fill(n int, age time.Duration) {
	d.t.Helper()
	for range n {
		d.must(d.client.ProduceSync(d.t.Context(),
			&kgo.Record{Topic: d.in, Timestamp: time.Now().Add(-age), Key: []byte("k"), Value: []byte("x")}).FirstErr())
	}
}

// A deployment with which all is well has no findings but those that follow from its single broker.
func TestAllIsWell(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.sees()
	d.fill(1, 0)
	d.begin(1)
	d.insert(d.out, "1 hour")
	report := d.examine(doctor.Options{})
	for _, f := range report.Findings {
		if f.Severity != doctor.Note && f.Says != "has one replica" && !strings.HasPrefix(f.About,
			"replication slots") {
			t.Errorf("%+v", f)
		}
	}
	for _, c := range report.Checks {
		if c.Result == doctor.NotLooked || c.Result == doctor.Skipped {
			t.Errorf("not looked: %+v", c)
		}
	}
	if len(report.Checks) < 20 {
		t.Errorf("%d checks", len(report.Checks))
	}
}

// mistake is one that somebody may make, and what is to be said about it.
type mistake struct {
	name     string
	plant    func(d *deployment, options *doctor.Options)
	check    string
	severity doctor.Severity
	about    string // a part of it; IN, OUT, DEAD, TARGET, TOLD and GROUP are replaced
	says     string // a part of it
	do       string // a part of it
}

// is reports whether a finding is about the mistake.
func (m *mistake) is(f doctor.Finding, d *deployment) bool {
	about := strings.NewReplacer("IN", d.in, "OUT", d.out, "DEAD", d.dead, "GROUP", d.group,
		"TARGET", d.target, "TOLD", d.outcomes).Replace(m.about)
	return f.Check == m.check && f.Severity == m.severity && strings.Contains(f.About, about) &&
		strings.Contains(f.Says, m.says) && strings.Contains(f.Do, m.do) && f.Means != ""
}

// Each of these mistakes is planted and found: with the right severity, about the right thing, and with something to
// do. Those that do not hide one another share a deployment, because it takes a second to make one.
func TestPlantedMistakes(t *testing.T) {
	t.Parallel()
	the(t)
	for together, mistakes := range map[string][]mistake{
		"rights": {
			{"no right to read", func(d *deployment, _ *doctor.Options) {
				d.revoke(d.user, d.rights()[0])
				d.grant(d.user, right{kmsg.ACLResourceTypeTopic, d.in, kmsg.ACLOperationDescribe})
			}, "rights", doctor.Error, "IN", "no right to read", "Grant Read"},
			{"no right to write", func(d *deployment, _ *doctor.Options) {
				d.revoke(d.user, d.rights()[1])
				d.grant(d.user, right{kmsg.ACLResourceTypeTopic, d.out, kmsg.ACLOperationDescribe})
			}, "rights", doctor.Error, "OUT", "no right to write", "Grant Write"},
			{"dead letters out of sight", func(d *deployment, _ *doctor.Options) {
				d.revoke(d.user, d.rights()[2])
			}, "rights", doctor.Error, "DEAD", "may not even see it", "Grant Write"},
			{"no right to the group", func(d *deployment, _ *doctor.Options) {
				d.revoke(d.user, d.rights()[3])
			}, "rights", doctor.Error, "GROUP", "may not use it", "Grant Read"},
			{"no right to write to a target", func(d *deployment, _ *doctor.Options) {
				d.revoke(d.user, d.rights()[4])
				d.grant(d.user, right{kmsg.ACLResourceTypeTopic, d.target, kmsg.ACLOperationDescribe})
			}, "rights", doctor.Error, "output topic TARGET", "no right to write", "Grant Write"},
			{"outcomes out of sight", func(d *deployment, _ *doctor.Options) {
				d.revoke(d.user, d.rights()[5])
			}, "rights", doctor.Error, "outcome topic TOLD", "may not even see it", "Grant Write"},
			{"old schema", func(d *deployment, _ *doctor.Options) {
				d.exec("DELETE FROM chronos_migrations WHERE version_id > 1")
			}, "schema", doctor.Error, "schema", "out of date", "chronos migrate up"},
		},
		"retention": {
			{"position behind the log", func(d *deployment, _ *doctor.Options) {
				d.fill(3, 0)
				until := kadm.Offsets{}
				until.Add(kadm.Offset{Topic: d.in, Partition: 0, At: 3})
				_, err := d.admin.DeleteRecords(d.t.Context(), until)
				d.must(err)
			}, "positions", doctor.Error, "IN", "deleted everything before 3", "retention.ms"},
		},
		"cut log": {
			{"missing topic", func(d *deployment, _ *doctor.Options) {
				_, err := d.admin.DeleteTopics(d.t.Context(), d.out)
				d.must(err)
			}, "topics", doctor.Error, "OUT", "does not exist", "--create-topics"},
			{"missing outcome topic", func(d *deployment, _ *doctor.Options) {
				_, err := d.admin.DeleteTopics(d.t.Context(), d.outcomes)
				d.must(err)
			}, "topics", doctor.Error, "outcome topic TOLD", "does not exist", "--create-topics"},
			{"position ahead of the log", func(d *deployment, _ *doctor.Options) {
				d.exec("UPDATE positions SET next_offset = 1000")
			}, "positions", doctor.Error, "IN", "ends at 0", "submit again"},
		},
		"set back": {
			{"store that was set back", func(d *deployment, _ *doctor.Options) {
				d.fill(2, 0)
				offsets := kadm.Offsets{}
				offsets.Add(kadm.Offset{Topic: d.in, Partition: 0, At: 2, LeaderEpoch: -1})
				_, err := d.admin.CommitOffsets(d.t.Context(), d.group, offsets)
				d.must(err)
			}, "positions", doctor.Warning, "IN", "committed 2", "restored"},
		},
		"created again": {
			{"topic created again", func(d *deployment, _ *doctor.Options) {
				d.exec("UPDATE positions SET topic_id = gen_random_uuid(); UPDATE partitions SET topic_id = " +
					"p.topic_id FROM positions p")
			}, "positions", doctor.Warning, "IN", "another topic", "on purpose"},
		},
		"old records": {
			{"records about to be deleted", func(d *deployment, _ *doctor.Options) {
				d.fill(2, 5*24*time.Hour)
				d.fill(1, 0)
			}, "positions", doctor.Error, "IN", "2 records are older than half", "retention.ms"},
		},
		"all the rest": {
			{"next schema", func(d *deployment, _ *doctor.Options) {
				d.exec("INSERT INTO chronos_migrations (version_id, is_applied) " +
					"SELECT max(version_id) + 1, true FROM chronos_migrations")
			}, "schema", doctor.Note, "schema", "the one after that of this program", "Finish the upgrade"},
			{"min.insync.replicas", func(d *deployment, _ *doctor.Options) {
				d.alter(d.out, "min.insync.replicas", "2")
			}, "replication", doctor.Error, "OUT", "min.insync.replicas is 2", "min.insync.replicas=1"},
			{"unclean elections", func(d *deployment, _ *doctor.Options) {
				d.alter(d.in, "unclean.leader.election.enable", "true")
			}, "replication", doctor.Warning, "IN", "unclean.leader", "=false"},
			{"short retention", func(d *deployment, _ *doctor.Options) {
				d.alter(d.in, "retention.ms", "3600000")
			}, "retention", doctor.Warning, "IN", "60 minutes", "retention.ms"},
			{"compacted input", func(d *deployment, _ *doctor.Options) {
				d.alter(d.in, "cleanup.policy", "compact")
			}, "compaction", doctor.Error, "IN", "compact", "cleanup.policy=delete"},
			{"compacted output", func(d *deployment, _ *doctor.Options) {
				d.alter(d.out, "cleanup.policy", "compact,delete")
			}, "compaction", doctor.Error, "OUT", "compact", "cleanup.policy=delete"},
			{"compacted outcomes", func(d *deployment, _ *doctor.Options) {
				d.alter(d.outcomes, "cleanup.policy", "compact")
			}, "compaction", doctor.Error, "outcome topic TOLD", "compact", "cleanup.policy=delete"},
			{"small target", func(d *deployment, _ *doctor.Options) {
				d.alter(d.target, "max.message.bytes", "2000")
			}, "message sizes", doctor.Warning, "TARGET", "max.message.bytes is 2000", "max.message.bytes=1048588"},
			{"small output", func(d *deployment, _ *doctor.Options) {
				d.alter(d.out, "max.message.bytes", "1000")
			}, "message sizes", doctor.Warning, "OUT", "max.message.bytes is 1000", "max.message.bytes=1048588"},
			{"compressed by brokers", func(d *deployment, _ *doctor.Options) {
				d.alter(d.target, "compression.type", "zstd")
			}, "compression", doctor.Note, "TARGET", "is zstd, and its route has none", "compression.type=producer"},
			{"no grant", func(d *deployment, _ *doctor.Options) {
				d.exec("REVOKE DELETE ON messages FROM " + d.role)
			}, "grants", doctor.Error, "messages", "no right to DELETE", "GRANT SELECT, INSERT, UPDATE, DELETE"},
			{"missing index", func(d *deployment, _ *doctor.Options) {
				d.exec("DROP INDEX messages_waiting")
			}, "indexes", doctor.Error, "messages_waiting", "does not exist", "CONCURRENTLY"},
			{"index that is not valid", func(d *deployment, _ *doctor.Options) {
				d.exec("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'messages_claimed'::regclass")
			}, "indexes", doctor.Error, "messages_claimed", "not valid", "REINDEX"},
			{"no autovacuum", func(d *deployment, _ *doctor.Options) {
				d.exec("ALTER TABLE messages SET (autovacuum_enabled = false)")
			}, "autovacuum", doctor.Error, "messages", "autovacuum is off", "RESET"},
			{"long transaction", func(d *deployment, options *doctor.Options) {
				options.LongTransaction = time.Millisecond
				d.exec("GRANT pg_monitor TO " + d.role)
				conn := d.connect()
				d.t.Cleanup(func() { _ = conn.Close(d.t.Context()) }) // its database is gone by then
				_, err := conn.Exec(d.t.Context(), "BEGIN; SELECT count(*) FROM messages")
				d.must(err)
			}, "long transactions", doctor.Warning, "session", "in a transaction for", "pg_terminate_backend"},
			{"forgotten slot", func(d *deployment, _ *doctor.Options) {
				slot := "slot_" + d.database
				d.exec("SELECT pg_create_physical_replication_slot('" + slot + "')")
				d.t.Cleanup(func() {
					if err := d.postgres.Exec(context.WithoutCancel(d.t.Context()),
						"SELECT pg_drop_replication_slot('"+slot+"')"); err != nil {
						d.t.Error(err)
					}
				})
			}, "long transactions", doctor.Warning, "replication slots", "not in use", "pg_drop_replication_slot"},
			{"clock", func(_ *deployment, options *doctor.Options) {
				options.Now = func() time.Time { return time.Now().Add(-time.Minute) }
			}, "clocks", doctor.Warning, "the clock of Postgres", "ahead of", "NTP"},
			{"record from the future", func(d *deployment, _ *doctor.Options) {
				d.fill(1, -30*time.Minute)
			}, "clocks", doctor.Note, "IN", "from the future", "clocks"},
			{"store of another group", func(d *deployment, _ *doctor.Options) {
				d.exec("UPDATE store SET consumer_group = 'theirs'")
			}, "owner", doctor.Error, "the store", "consumer group theirs", "--group"},
			{"store of another cluster", func(d *deployment, _ *doctor.Options) {
				d.exec("UPDATE store SET cluster = 'theirs'")
			}, "owner", doctor.Error, "the store", "Kafka cluster theirs", "--brokers"},
			{"store that was exported", func(d *deployment, _ *doctor.Options) {
				d.exec("UPDATE store SET gate = 'infinity'")
			}, "owner", doctor.Error, "the store", "is sealed", "chronos export --undo"},
			{"overdue messages", func(d *deployment, _ *doctor.Options) {
				d.insert(d.out, "-1 hour")
			}, "what waits", doctor.Error, "OUT", "overdue", "nodes"},
			{"paused lane", func(d *deployment, _ *doctor.Options) {
				d.exec("INSERT INTO pauses (lane, since, paused_by, reason) " +
					"VALUES ('" + d.dead + "', now(), 'ann', 'a test')")
			}, "what waits", doctor.Warning, "DEAD", "paused by ann: a test", "chronos resume"},
			{"route that is gone", func(d *deployment, _ *doctor.Options) {
				d.insert("elsewhere", "1 hour")
			}, "what waits", doctor.Warning, "elsewhere", "no route", "route"},
			{"wait beyond retention", func(d *deployment, _ *doctor.Options) {
				d.insert(d.out, "90 days")
			}, "what waits", doctor.Note, "IN", "wait for up to", "Back the store up"},
			{"node that has died", func(d *deployment, _ *doctor.Options) {
				d.exec(`INSERT INTO nodes VALUES ('00000000-0000-0000-0000-00000000dead', 'h7', 'v1',
  now() - interval '1 hour', now() - interval '80 s', '{}', '{}')`)
			}, "nodes", doctor.Warning, "node 00000000-0000-0000-0000-00000000dead", "on h7", "last lines of its log"},
			{"different nodes", func(d *deployment, _ *doctor.Options) {
				d.exec(`CREATE TABLE IF NOT EXISTS nodes (id uuid, host text, version text, started timestamptz,
  seen timestamptz,	  settings jsonb, status jsonb);
	INSERT INTO nodes SELECT gen_random_uuid(), host, 'v1', now(), now(), settings::jsonb, '{}'
	FROM (VALUES ('a', '{"hold-time": "5s"}'), ('b', '{"hold-time": "10s"}')) v (host, settings);
	GRANT SELECT ON nodes TO ` + d.role)
			}, "nodes", doctor.Warning, "the nodes", "hold-time (10s on b; 5s on a)", "same settings"},
		},
	} {
		t.Run(together, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			d.sees()
			d.begin(0)
			var options doctor.Options
			for _, m := range mistakes {
				m.plant(d, &options)
			}
			report := d.examine(options)
			if report.Verdict != doctor.Found {
				t.Errorf("the verdict is %s", report.Verdict)
			}
			for _, m := range mistakes {
				if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return m.is(f, d) }) {
					t.Errorf("%s: not found", m.name)
				}
			}
			if t.Failed() {
				t.Logf("%+v\n%+v", report.Checks, report.Findings)
			}
		})
	}
}

// What waits for a lane that its window keeps closed is not overdue, nor is it in the first minute of an opening; on a
// lane that is open it is.
func TestClosedLane(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.begin(0)
	d.insert(d.out, "-570 minutes")
	d.insert(d.target, "-570 minutes")
	now := time.Now().UTC()
	for window, want := range map[string]string{
		"never":  "",
		"always": "9 hours",
		now.Add(2*time.Hour).Format("15:04") + " to " + now.Add(4*time.Hour).Format("15:04") + " every day":  "",
		now.Format("15:04") + " to " + now.Add(4*time.Hour).Format("15:04") + " every day":                   "",
		now.Add(-4*time.Hour).Format("15:04") + " to " + now.Add(4*time.Hour).Format("15:04") + " every day": "4 hours",
	} {
		config := d.config()
		w, err := calendar.ParseWindow(window, time.Time{})
		d.must(err)
		config.Node.Windows = []node.LaneWindow{{Lane: d.out, Window: w}}
		report, err := doctor.Examine(t.Context(), config, doctor.Options{Now: func() time.Time {
			return now.Truncate(time.Minute).Add(20 * time.Second)
		}})
		d.must(err)
		overdue := map[string]string{}
		for _, f := range report.Findings {
			if lane, is := strings.CutPrefix(f.About, "messages for topic "); is && f.Severity == doctor.Error {
				overdue[lane] = f.Says
			}
		}
		if says := overdue[d.out]; want == "" && says != "" || !strings.Contains(says, want) {
			t.Errorf("%s: %q, want %q", window, says, want)
		}
		if !strings.Contains(overdue[d.target], "9 hours") {
			t.Errorf("%s: of the other lane: %q", window, overdue[d.target])
		}
	}
}

// A server that keeps less than it says is found. It is the only server: this comes when the others are done.
func TestServerThatForgets(t *testing.T) {
	d := deploy(t)
	for _, setting := range []string{"fsync", "full_page_writes", "autovacuum"} {
		t.Run(setting, func(t *testing.T) {
			set := func(how string) {
				d.must(d.postgres.Exec(t.Context(), "ALTER SYSTEM "+how, "SELECT pg_reload_conf()"))
			}
			set("SET " + setting + " = off")
			defer set("RESET " + setting)
			deadline := time.Now().Add(patience)
			for {
				report := d.examine(doctor.Options{})
				for _, f := range report.Findings {
					if f.Severity == doctor.Error && f.Says == setting+" is off" && strings.Contains(f.Do,
						setting+" = on") {
						return
					}
				}
				if time.Now().After(deadline) { // the server reloads in its own time
					t.Fatalf("not found; there are %+v", report.Findings)
				}
			}
		})
	}
}

// What does not answer could not be looked at, and is told once.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	s, err := service.Read(service.Run, map[string]service.Value{
		"brokers": service.FlagValue("brokers", "127.0.0.1:1"),
		"store":   service.FlagValue("store", "postgres://chronos:hush@127.0.0.1:1/chronos"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	report, err := doctor.Examine(t.Context(), config, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict != doctor.NotLooked || result(report, "kafka").Result != doctor.NotLooked ||
		result(report, "store").Result != doctor.NotLooked || result(report, "positions").Result != doctor.Skipped {
		t.Errorf("%+v", report)
	}
	for _, c := range report.Checks {
		if strings.Contains(c.Says, "hush") {
			t.Errorf("it shows the password: %+v", c)
		}
	}
}

// A SQLite file is examined as far as that makes sense: without a node, with one, and when it is damaged.
func TestSQLite(t *testing.T) {
	t.Parallel()
	w := the(t)
	file := filepath.Join(t.TempDir(), "chronos.db")
	s, err := service.Read(service.Run, map[string]service.Value{
		"brokers": service.FlagValue("brokers", w.kafka.Addresses[0]), "store": service.FlagValue("store",
			"sqlite:"+file),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	examine := func() *doctor.Report {
		t.Helper()
		report, err := doctor.Examine(t.Context(), config, doctor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if c := result(examine(), "store"); c.Result != doctor.NotLooked || !strings.Contains(c.Says, "no such file") {
		t.Errorf("no file: %+v", c)
	}
	store, err := config.Store.Open(t.Context(), patience)
	if err != nil {
		t.Fatal(err)
	}
	if c := result(examine(), "store"); c.Result != doctor.NotLooked || !strings.Contains(c.Says, "stop that first") {
		t.Errorf("a node has it: %+v", c)
	}
	_, err = store.Migrate(t.Context())
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	report := examine()
	for _, check := range []string{"store", "schema", "integrity", "owner", "what waits"} {
		if c := result(report, check); c.Result != doctor.Well {
			t.Errorf("%+v", c)
		}
	}
}

// Goal: what was not looked at is not well, and records that wait while nothing is taken in are found, as is what was
// put off, since its deadline. Method: topics that do not exist; and a position that stays behind.
func TestNothingToLookAt(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.fill(3, 0)
	d.begin(1)
	d.insert(d.out, "1 minute")
	d.exec("UPDATE messages SET deadline = now() - interval '3 hours'")
	report := d.examine(doctor.Options{})
	says := map[string]string{}
	for _, f := range report.Findings {
		says[f.Check] += string(f.Severity) + ": " + f.Says + "; "
	}
	if !strings.Contains(says["positions"], "warning: 2 records wait, and none was taken in for 3s") ||
		!strings.Contains(says["what waits"], "error: are overdue, the oldest for 3 hours") {
		t.Errorf("findings: %q", says)
	}
	config := d.config()
	config.Node.Routes = []node.Route{{Input: "no-such-in", Output: "no-such-out"}}
	report, err := doctor.Examine(t.Context(), config, doctor.Options{})
	d.must(err)
	for _, c := range report.Checks {
		switch c.Name {
		case "replication", "retention", "compaction", "message sizes", "positions":
			if c.Result != doctor.Skipped || !strings.Contains(c.Says, "exists") {
				t.Errorf("no topic exists: %+v", c)
			}
		case "topics":
			if !strings.HasPrefix(c.Says, "none exists") || c.Result != doctor.Found && c.Result != doctor.Skipped {
				t.Errorf("no topic exists: %+v", c)
			}
		}
	}
}
