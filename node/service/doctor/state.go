package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/hours"
)

// place is how far the store has taken in a partition.
type place struct {
	topic     string
	id        uuid.UUID
	partition int32
	epoch     int32
	offset    int64
}

// bound is whom the store belongs to.
type bound struct {
	cluster, group string
	adopting       bool
}

// clockBound is how far clocks may be apart.
const clockBound = 500 * time.Millisecond

// clocks compares the clock of this machine with those of the servers.
func (e *examination) clocks(ctx context.Context) (string, error) {
	said := "this machine only"
	if e.dialect == migrations.Postgres {
		var there time.Time
		best, unsure := time.Duration(0), time.Duration(math.MaxInt64)
		for range 3 { // the quickest answer tells it best
			before := e.options.Now()
			began := time.Now()
			if err := e.db.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
				return "", err
			}
			if took := time.Since(began); took < unsure {
				unsure = took
				best = there.Sub(before) - took/2
			}
		}
		said = fmt.Sprintf("Postgres %+d ms, give or take %d", best.Milliseconds(), (unsure/2 + 1e6).Milliseconds())
		if best.Abs() > clockBound+unsure/2 {
			side := "ahead of"
			if best < 0 {
				side = "behind"
			}
			e.find(Warning, "the clock of Postgres", "is "+duration(best.Abs())+" "+side+" that of this machine",
				"A node fires by its own clock. One whose clock is ahead fires early, one that is behind fires late.",
				"Run NTP on both (chronyc tracking tells which one is wrong).")
		}
	}
	if e.noKafka == nil {
		e.kafkaClocks(ctx)
	}
	return said, nil
}

// kafkaClocks looks for records from the future: nobody can ask Kafka for the time, but it may have written it down.
func (e *examination) kafkaClocks(ctx context.Context) {
	for _, t := range e.named(false) {
		newest, err := kadm.NewClient(e.client).ListMaxTimestampOffsets(ctx, t.name)
		if err != nil {
			continue // of the check of rights
		}
		latest := int64(-1)
		newest.Each(func(o kadm.ListedOffset) { latest = max(latest, o.Timestamp) })
		ahead := time.UnixMilli(latest).Sub(e.options.Now())
		if latest < 0 || ahead < clockBound {
			continue
		}
		if t.settings["message.timestamp.type"] == "LogAppendTime" {
			e.find(Warning, "the clock of Kafka", fmt.Sprintf("is %s ahead at least: so says the newest record of "+
				"topic %s",
				duration(ahead), t.name), "Retention and chronos rewind --to-time go by it.",
				"Run NTP on the brokers and here.")
			continue
		}
		e.find(Note, t.kind(), "has a record from the future, by "+duration(ahead),
			"The clock of its producer is ahead, or that of this machine is behind. Retention and chronos rewind "+
				"--to-time go "+
				"by it.", "Look at the clocks of those that write to it.")
	}
}

// owner sees whether the store belongs to this cluster and this group.
func (e *examination) owner(ctx context.Context) (string, error) {
	query := "SELECT cluster, consumer_group, adopting FROM store"
	if e.dialect == migrations.SQLite {
		query = "SELECT coalesce(cluster, ''), coalesce(consumer_group, ''), adopting FROM binding"
	}
	if err := e.db.QueryRowContext(ctx, query).Scan(&e.bound.cluster, &e.bound.group, &e.bound.adopting); err != nil {
		return "", err
	}
	if err := e.sealed(ctx); err != nil {
		return "", err
	}
	if e.config.WithoutKafka() {
		if e.bound.group != "" {
			e.find(Note, "the store", "belongs to consumer group "+e.bound.group+" of a Kafka",
				"Nodes with these settings take in and make callbacks; what is for topics waits for nodes with Kafka.",
				"Nothing, if there are such nodes.")
			return "group " + e.bound.group, nil
		}
		return "nobody, as it is without Kafka", nil
	}
	if e.bound.cluster == "" {
		e.find(Note, "the store", "belongs to nobody yet", "No node has started on it.", "Start one.")
		return "nobody", nil
	}
	if e.noKafka == nil {
		cluster, err := e.admin.ClusterID(ctx)
		if err != nil {
			return "", err
		}
		if e.bound.cluster != cluster {
			e.find(Error, "the store", "belongs to Kafka cluster "+e.bound.cluster+", and the brokers are "+cluster,
				"Nodes with these settings do not start.", "Set the right --brokers or --store; or chronos bind.")
		}
	}
	if e.bound.group != e.config.Group {
		e.find(Error, "the store", "belongs to consumer group "+e.bound.group+", and --group is "+e.config.Group,
			"Nodes with these settings do not start.", "Set the right --group or --store; or chronos bind.")
	}
	return "group " + e.bound.group, nil
}

// sealed sees whether the contents of the store are being moved, or were.
func (e *examination) sealed(ctx context.Context) error {
	query := "SELECT gate = 'infinity' FROM store"
	if e.dialect == migrations.SQLite {
		query = "SELECT claims_from = 9223372036854775807 FROM lineage"
	}
	var sealed bool
	if err := e.db.QueryRowContext(ctx, query).Scan(&sealed); err != nil {
		return err
	}
	if sealed {
		e.find(Error, "the store", "is sealed: it was exported, or an import is filling it",
			"Nothing fires from it, nothing is taken in, and nodes do not start on it.",
			"Run nodes on the store that the export was imported into; or chronos import again, if that is not "+
				"done; or chronos export --undo, if the export is not going to be imported.")
	}
	return nil
}

// readPlaces reads the positions of the store.
func (e *examination) readPlaces(ctx context.Context) error {
	query := `
SELECT p.topic, p.topic_id::text, p.partition, l.epoch, l.next_offset
FROM partitions p CROSS JOIN LATERAL (
  SELECT epoch, next_offset FROM positions
  WHERE topic_id = p.topic_id AND partition = p.partition ORDER BY turn DESC LIMIT 1) l
ORDER BY p.topic, p.partition`
	if e.dialect == migrations.SQLite {
		query = "SELECT topic, lower(hex(topic_id)), partition, epoch, next_offset FROM positions ORDER BY topic, " +
			"partition"
	}
	rows, err := e.db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	for rows.Next() {
		var p place
		var id string
		if err := rows.Scan(&p.topic, &id, &p.partition, &p.epoch, &p.offset); err != nil {
			return err
		}
		if p.id, err = uuid.Parse(id); err != nil {
			return err
		}
		e.places = append(e.places, p)
	}
	return rows.Err()
}

// positions compares the positions of the store with what Kafka holds and what the group has committed. While nodes
// run, a position moves after the end of its partition, and is committed after it has moved: so what follows is looked
// at first, the commits before the positions, and these before the ends. In another order a busy service would look as
// if its store had been set back.
func (e *examination) positions(ctx context.Context) (string, error) {
	var inputs []string
	for _, t := range e.named(false) {
		if t.input {
			inputs = append(inputs, t.name)
		}
	}
	var committed []node.CommittedPlace
	var unseen error
	if e.noKafka == nil && len(inputs) > 0 {
		committed, unseen = e.admin.Committed(ctx, e.config.Group, inputs...)
	}
	if err := e.readPlaces(ctx); err != nil {
		return "", err
	}
	switch {
	case e.noKafka != nil:
		return "", e.noKafka
	case len(inputs) == 0:
		return "", &nothingError{"no input topic exists"}
	case unseen != nil && !errors.Is(unseen, kerr.GroupAuthorizationFailed): // that is of the check of rights
		return "", remedied(unseen)
	}
	extents, err := e.admin.Extents(ctx, inputs...)
	if err != nil {
		return "", err
	}
	offsets := map[node.Partition]int64{}
	for _, c := range committed {
		offsets[c.Partition] = c.Offset
	}
	behind := int64(0)
	var waiting []node.Extent
	for _, x := range extents {
		records := e.position(x, offsets)
		if behind += records; records > 0 {
			waiting = append(waiting, x)
		}
	}
	if err := e.old(ctx, inputs); err != nil {
		return "", err
	}
	if err := e.standing(ctx, waiting); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d records behind", count(len(e.places), "partition"), behind), nil
}

// standFor is for how long positions are looked at that lie behind the ends of their partitions.
const standFor = 3 * time.Second

// standing looks at partitions in which records wait for a second time: whether anything was taken in meanwhile.
func (e *examination) standing(ctx context.Context, waiting []node.Extent) error {
	if len(waiting) == 0 {
		return nil
	}
	timer := time.NewTimer(standFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	before := e.places
	e.places = nil
	if err := e.readPlaces(ctx); err != nil {
		return err
	}
	for _, x := range waiting {
		is := func(p place) bool { return p.id == x.TopicID && p.partition == x.Number }
		b, a := slices.IndexFunc(before, is), slices.IndexFunc(e.places, is)
		if b < 0 || a < 0 || before[b].offset != e.places[a].offset {
			continue
		}
		e.find(Warning, fmt.Sprintf("input topic %s, partition %d", x.Topic, x.Number),
			fmt.Sprintf("%s wait, and none was taken in for %s", count(int(x.End-before[b].offset), "record"),
				duration(standFor)),
			"What is in them comes late, and is lost when Kafka deletes it.", "Start nodes. If they run: is the "+
				"intake paused, and what does /readyz?verbose of each of them say? docs/RUNBOOK.md, Intake stands.")
	}
	return nil
}

// position looks at one partition, and returns how many records it is behind.
func (e *examination) position(x node.Extent, committed map[node.Partition]int64) int64 {
	about := fmt.Sprintf("input topic %s, partition %d", x.Topic, x.Number)
	at := slices.IndexFunc(e.places, func(p place) bool { return p.id == x.TopicID && p.partition == x.Number })
	if at < 0 {
		former := slices.ContainsFunc(e.places, func(p place) bool {
			return p.topic == x.Topic &&
				p.partition == x.Number
		})
		if former {
			e.find(Warning, about, "is of another topic than the one that the store has taken in: of the same name, "+
				"created later",
				"It is read from its first record on. What the former one held and was not taken in is lost.",
				"Nothing, if it was deleted on purpose; otherwise find out who does that.")
		}
		return 0
	}
	p := e.places[at]
	switch {
	case p.offset > x.End:
		e.find(Error, about, fmt.Sprintf("the store has taken it in up to %d, and it ends at %d", p.offset, x.End),
			"Kafka has lost the end of it, by an unclean election perhaps, or was set back itself.",
			"Look at what has happened to the cluster. Nodes go on behind the cut by themselves; submit again what "+
				"is missing.")
		return 0
	case p.offset < x.First:
		e.find(Error, about,
			fmt.Sprintf("the store has taken it in up to %d, and Kafka has deleted everything before %d", p.offset,
				x.First),
			fmt.Sprintf("Up to %d records are lost: retention was shorter than the service was behind.",
				x.First-p.offset),
			"Set retention.ms to more; submit again what is missing.")
	}
	if c, there := committed[x.Partition]; there && c > p.offset {
		e.find(Warning, about, fmt.Sprintf("the group has committed %d, and the store has taken it in up to %d", c,
			p.offset),
			"The store was set back: to a backup, or by a failover. Nodes notice, take in again what is missing, and "+
				"fire "+
				"nothing until then.", "Wait, if nodes run. If nobody has restored anything, find out who has.")
	}
	return x.End - max(p.offset, x.First)
}

// old sees whether what comes next is about to be deleted.
func (e *examination) old(ctx context.Context, inputs []string) error {
	for _, name := range inputs {
		ms, known := e.topics[name].number("retention.ms")
		if !known || ms < 0 {
			continue
		}
		half := e.options.Now().Add(-time.Duration(ms) * time.Millisecond / 2)
		young, err := kadm.NewClient(e.client).ListOffsetsAfterMilli(ctx, half.UnixMilli(), name)
		if err != nil {
			return err
		}
		for _, p := range e.places {
			o, there := young.Lookup(name, p.partition)
			if p.topic == name && there && o.Err == nil && o.Offset >= 0 && p.offset < o.Offset {
				e.find(Error, fmt.Sprintf("input topic %s, partition %d", name, p.partition),
					fmt.Sprintf("%d records are older than half of the retention, %s, and not taken in",
						o.Offset-p.offset, duration(time.Duration(ms)*time.Millisecond)),
					"Kafka deletes them when they are older than that, and then they are lost.",
					"Raise retention.ms now; then start nodes, or find out why they do not keep up.")
			}
		}
	}
	return nil
}

// waiting looks at what is overdue, what nobody serves, and how far ahead the store is ahead of Kafka's memory.
func (e *examination) waiting(ctx context.Context) (string, error) {
	lanes, err := e.lanes(ctx)
	if err != nil {
		return "", err
	}
	paused, err := e.paused(ctx)
	if err != nil {
		return "", err
	}
	now, last := e.options.Now(), time.Time{}
	open := hours.New(&e.config.Node)
	for _, lane := range lanes {
		served := e.config.Node.Serves(lane)
		if !served {
			e.find(Warning, "messages for topic "+lane, "wait, and no route of these settings leads there",
				"Nodes with these settings never fire them.", "Add the route again, or run a node that has it, until "+
					"they are gone.")
		}
		first, latest, err := e.span(ctx, lane)
		if err != nil {
			return "", err
		}
		if opened := open.Opened(lane, now); opened.After(first) {
			first = opened // nobody could fire it before
		}
		if late := now.Sub(first); late > time.Minute && served && !paused[lane] && !open.Excuses(lane, now) {
			e.overdue(lane, late)
		}
		if latest.After(last) {
			last = latest
		}
	}
	if ahead := last.Sub(now); ahead > 0 {
		e.beyondRetention(ahead)
		return fmt.Sprintf("on %s, the last in %s", count(len(lanes), "topic"), duration(ahead)), nil
	}
	return "on " + count(len(lanes), "topic"), nil
}

// overdue says that messages of a lane are overdue. On a lane with a pace that need be no mistake.
func (e *examination) overdue(lane string, late time.Duration) {
	of, what := "messages for topic "+lane, "are overdue, the oldest for "+duration(late)
	if pace := e.config.Node.PaceOf(lane); pace > 0 {
		e.find(Warning, of, what,
			fmt.Sprintf("Each node lets out %d of them a second at most (max-per-second), which may be less than "+
				"falls due; or no node runs, or they cannot claim or publish them.", pace),
			"Wait if they get fewer; otherwise raise the pace, or look at the nodes and at what their logs say.")
		return
	}
	e.find(Error, of, what, "No node runs, or they cannot claim or publish them.",
		"Look at the nodes and at what their logs say; at the topic; and at long transactions.")
}

// paused returns the lanes that somebody has paused, and says so.
func (e *examination) paused(ctx context.Context) (map[string]bool, error) {
	rows, err := e.db.QueryContext(ctx, "SELECT lane, paused_by, reason FROM pauses ORDER BY lane")
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	lanes := map[string]bool{}
	for rows.Next() {
		var lane, by, reason string
		if err := rows.Scan(&lane, &by, &reason); err != nil {
			return nil, err
		}
		lanes[lane] = true
		about, means, do := "messages for topic "+lane, "None of them fires until somebody resumes it.",
			"chronos resume "+lane+", when the reason is gone."
		if lane == node.Intake {
			about, means, do = "the intake", "Nothing is taken in from any topic until somebody resumes it.",
				"chronos resume --intake, when the reason is gone."
		}
		e.find(Warning, about, "paused by "+by+": "+orDefault(reason, "no reason given"), means, do)
	}
	return lanes, rows.Err()
}

// beyondRetention compares the longest wait with the memory of Kafka.
func (e *examination) beyondRetention(ahead time.Duration) {
	for _, t := range e.named(false) {
		ms, known := t.number("retention.ms")
		kept := time.Duration(ms) * time.Millisecond
		if t.input && known && ms > 0 && ahead > kept {
			e.find(Note, t.kind(), fmt.Sprintf("keeps records for %s, and messages wait for up to %s", duration(kept),
				duration(ahead)),
				"The store is the only place where messages that wait for longer are. Only a backup brings them back.",
				"Back the store up more often than every "+duration(kept)+".")
		}
	}
}

// lanes returns the lanes on which messages wait, by one descent of the index for each.
func (e *examination) lanes(ctx context.Context) ([]string, error) {
	rows, err := e.db.QueryContext(ctx, `
WITH RECURSIVE lanes(lane) AS (
  SELECT (SELECT min(lane) FROM messages WHERE readied_at IS NULL)
  UNION ALL
  SELECT (SELECT min(lane) FROM messages WHERE readied_at IS NULL AND lane > lanes.lane) FROM lanes
  WHERE lanes.lane IS NOT NULL)
SELECT lane FROM lanes WHERE lane IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	var lanes []string
	for rows.Next() {
		var lane string
		if err := rows.Scan(&lane); err != nil {
			return nil, err
		}
		lanes = append(lanes, lane)
	}
	return lanes, rows.Err()
}

// span returns since when the first message of a lane is overdue, or when it falls due, and when the last one does.
func (e *examination) span(ctx context.Context, lane string) (first, last time.Time, err error) {
	for _, end := range []struct {
		order  string
		target *time.Time
	}{{"ASC", &first}, {"DESC", &last}} {
		const query = "SELECT due_at FROM messages WHERE lane = $1 AND readied_at IS NULL ORDER BY due_at "
		row := e.db.QueryRowContext(ctx, query+end.order+", id "+end.order+" LIMIT 1", lane)
		if e.dialect == migrations.SQLite {
			var micros int64
			if err = row.Scan(&micros); err == nil {
				*end.target = time.UnixMicro(micros)
			}
		} else {
			err = row.Scan(end.target)
		}
		if errors.Is(err, sql.ErrNoRows) { // it has just fired
			*end.target, err = e.options.Now(), nil
		}
		if err != nil {
			return first, last, err
		}
	}
	since, some, err := e.deferred(ctx, lane)
	if err == nil && some && since.Before(first) {
		first = since
	}
	return first, last, err
}

// deferred returns the first deadline of the messages of a lane that were put off: they are overdue since then, and not
// since their next try.
func (e *examination) deferred(ctx context.Context, lane string) (since time.Time, some bool, err error) {
	if e.dialect == migrations.SQLite {
		var micros sql.NullInt64
		err = e.db.QueryRowContext(ctx, "SELECT min(deadline) FROM messages WHERE lane = $1 AND due_at > deadline",
			lane).Scan(&micros)
		return time.UnixMicro(micros.Int64), micros.Valid, err
	}
	var first sql.NullTime
	err = e.db.QueryRowContext(ctx,
		"SELECT min(deadline) FROM messages WHERE lane = $1 AND due_at - deadline > interval '0'", lane).Scan(&first)
	return first.Time, first.Valid, err
}

// differing returns what a person reads of settings that differ: "hold-time (5s on a, 10s on b)".
func differing(name string, values map[string][]string) string {
	var list []string
	for _, value := range sorted(values) {
		list = append(list, orDefault(value, "not set")+" on "+strings.Join(values[value], ", "))
	}
	return name + " (" + strings.Join(list, "; ") + ")"
}
