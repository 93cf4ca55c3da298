package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/migrations"
	"chronos/node/broker/kafka"
	"chronos/node/service"
)

// Severity says how much a finding matters.
type Severity string

// The severities.
const (
	// Error: messages are lost, come late or not at all, or will be with the next thing that goes wrong.
	Error Severity = "error"

	// Warning: it works, and somebody should change it before it does not.
	Warning Severity = "warning"

	// Note: good to know; nobody has to do anything.
	Note Severity = "note"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	About    string   `json:"about"` // such as "topic orders.in"
	Says     string   `json:"says"`  // what is the case
	Means    string   `json:"means"` // why that matters
	Do       string   `json:"do"`
}

// Result says how a check has ended.
type Result string

// The results.
const (
	Well      Result = "well"
	Found     Result = "findings"   // errors or warnings
	NotLooked Result = "not_looked" // it could not
	Skipped   Result = "skipped"    // because of what another check has said, or there was nothing to look at
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Says   string `json:"says"` // what was seen, or why nothing was
}

// Report is all of it.
type Report struct {
	At       time.Time `json:"at"`
	Kafka    string    `json:"kafka"`
	Store    string    `json:"store"`
	Verdict  Result    `json:"verdict"`
	Checks   []Check   `json:"checks"`
	Findings []Finding `json:"findings"`
}

// Options say how to look. The zero value is good.
type Options struct {
	// Now is the clock of this machine; nil for that.
	Now func() time.Time

	// LongTransaction is the age from which on a transaction is long; a minute if zero.
	LongTransaction time.Duration
}

// lookTimeout bounds each check.
const lookTimeout = 2 * service.AnswerTimeout

// Examine looks at everything and returns what it has seen. The error is about the settings.
func Examine(ctx context.Context, config service.Config, options Options) (*Report, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.LongTransaction == 0 {
		options.LongTransaction = time.Minute
	}
	e := &examination{config: config, options: options, report: &Report{
		At: options.Now().UTC(), Kafka: strings.Join(config.Kafka.Brokers, ","), Store: config.Store.String(),
		Checks: []Check{}, Findings: []Finding{},
	}}
	closeKafka, err := e.openKafka()
	if err != nil {
		return nil, err
	}
	defer closeKafka()
	if config.Store.IsJournal() {
		e.examine(ctx)
		return e.report, nil
	}
	if e.db, e.dialect, err = config.Store.OpenToRead(); err != nil {
		if _, isUsage := errors.AsType[*service.UsageError](err); isUsage {
			return nil, err
		}
		e.noStore = err
	} else {
		defer e.db.Close() //nolint:errcheck // nothing was written
	}
	e.examine(ctx)
	return e.report, nil
}

// openKafka makes the clients of Kafka, if there is one.
func (e *examination) openKafka() (closeAll func(), err error) {
	if e.config.WithoutKafka() {
		e.report.Kafka, e.noKafka = "none", errors.New("there is no Kafka")
		return func() {}, nil
	}
	connection, err := kafka.ConnectionOptions(e.config.Kafka)
	if err != nil {
		return nil, err
	}
	// A doctor says soon that nobody answers.
	if e.client, err = kgo.NewClient(append(connection, kgo.RetryTimeout(service.AnswerTimeout))...); err != nil {
		return nil, fmt.Errorf("configure the client of Kafka: %w", err)
	}
	if e.admin, err = kafka.NewAdmin(e.config.Kafka); err != nil {
		e.client.Close()
		return nil, err
	}
	return func() {
		e.admin.Close()
		e.client.Close()
	}, nil
}

// examination is one examination while it goes on.
type examination struct {
	config  service.Config
	options Options
	report  *Report

	client *kgo.Client
	admin  *kafka.Admin

	db      *sql.DB
	dialect migrations.Dialect
	noStore error // why there is none

	check    string // the one that goes on
	topics   map[string]*topic
	noKafka  error // why nothing can be seen there
	noTables error // why there is nothing to see in the store
	places   []place
	bound    bound
}

// examine makes all checks, in the order in which a person would.
func (e *examination) examine(ctx context.Context) {
	look := func(name string, needs *error, check func(context.Context) (string, error)) {
		if ctx.Err() != nil {
			return
		}
		e.check = name
		before := len(e.report.Findings)
		c := Check{Name: name, Result: Well}
		var err error
		if needs != nil && *needs != nil {
			c.Result, c.Says = Skipped, (*needs).Error()
		} else {
			limited, cancel := context.WithTimeout(ctx, lookTimeout)
			c.Says, err = check(limited)
			cancel()
		}
		if nothing, is := errors.AsType[*nothingError](err); is {
			c.Result, c.Says = Skipped, nothing.why
		} else if err != nil {
			c.Result, c.Says = NotLooked, oneLine(err)
		}
		for _, f := range e.report.Findings[before:] {
			if (c.Result == Well || c.Result == Skipped) && f.Severity != Note {
				c.Result = Found
			}
		}
		e.report.Checks = append(e.report.Checks, c)
	}
	look("kafka", nil, e.kafka)
	look("topics", &e.noKafka, e.topicsExist)
	look("rights", &e.noKafka, e.rights)
	look("replication", &e.noKafka, e.replication)
	look("retention", &e.noKafka, e.retention)
	look("compaction", &e.noKafka, e.compaction)
	look("message sizes", &e.noKafka, e.messageSizes)
	look("compression", &e.noKafka, e.compression)
	look("consumer group", &e.noKafka, e.group)
	if e.config.Store.IsJournal() { // each node has its own part, which the listener tells of
		look("journal", &e.noKafka, e.journal)
		look("journal entries", &e.noKafka, e.unreadable)
	} else {
		e.database(look)
	}
	look("listener", nil, e.listener)
	look("api", nil, e.api)
	e.report.Verdict = verdict(e.report.Checks)
}

// nothingError says that there was nothing to look at: what was not looked at is not well.
type nothingError struct{ why string }

func (e *nothingError) Error() string { return e.why }

// errNoTopics says that no topic of the routes exists.
var errNoTopics error = &nothingError{"no topic of the routes exists"}

// Together makes one finding of those that differ in what they are about, and in nothing else, for people.
func Together(all []Finding) []Finding {
	merged := []Finding{}
	for _, f := range all {
		i := slices.IndexFunc(merged, func(m Finding) bool { m.About = f.About; return m == f })
		if i < 0 {
			merged = append(merged, f)
			continue
		}
		merged[i].About += ", " + f.About
	}
	return merged
}

// database makes the checks of a store that is a database.
func (e *examination) database(look func(name string, needs *error, check func(context.Context) (string, error))) {
	look("store", nil, func(ctx context.Context) (said string, err error) {
		said, err = e.store(ctx)
		if err != nil {
			e.noStore = errors.New("not without the store")
			e.noTables = e.noStore
		}
		return said, err
	})
	look("schema", &e.noStore, e.schema)
	if e.dialect == migrations.Postgres {
		look("grants", &e.noTables, e.grants)
		look("indexes", &e.noTables, e.indexes)
		look("durability", &e.noStore, e.durability)
		look("autovacuum", &e.noTables, e.autovacuum)
		look("long transactions", &e.noStore, e.longTransactions)
		look("connections", &e.noStore, e.connections)
		look("notifications", &e.noTables, e.notifications)
	} else {
		look("integrity", &e.noStore, e.integrity)
	}
	look("clocks", &e.noStore, e.clocks)
	look("owner", &e.noTables, e.owner)
	positions := &e.noTables
	if e.config.WithoutKafka() {
		positions = &e.noKafka
	}
	look("positions", positions, e.positions)
	look("what waits", &e.noTables, e.waiting)
	look("nodes", &e.noTables, e.nodes)
}

// kafka sees whether Kafka answers, where there is one.
func (e *examination) kafka(ctx context.Context) (said string, err error) {
	if e.config.WithoutKafka() {
		return "none: nodes with these settings run without Kafka", nil
	}
	if said, err = e.brokers(ctx); err != nil {
		e.noKafka = errors.New("not without Kafka")
	}
	return said, err
}

// verdict returns the worst result of all: what could not be looked at may be worse than what was found.
func verdict(checks []Check) Result {
	worst := Well
	for _, c := range checks {
		switch c.Result {
		case NotLooked:
			return NotLooked
		case Found:
			worst = Found
		case Well, Skipped:
		}
	}
	return worst
}

// find adds a finding of the check that goes on.
func (e *examination) find(severity Severity, about, says, means, do string) {
	e.report.Findings = append(e.report.Findings, Finding{e.check, severity, about, says, means, do})
}

// oneLine returns an error as one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// count puts a number before a word.
func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// duration returns a time that a person can read.
func duration(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}
