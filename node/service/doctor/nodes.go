package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"chronos/migrations"
	"chronos/node/admin"
)

// seenNode is a node that has written into the store lately.
type seenNode struct {
	host, version string
	settings      map[string]any
	status        admin.NodeStatus
}

// seen returns the nodes of the last quarter of a minute. A store of a release that kept none has no such table: then
// nothing is known, and known is false.
func (e *examination) seen(ctx context.Context) (nodes []seenNode, known bool, err error) {
	there := "SELECT to_regclass('nodes') IS NOT NULL"
	query := "SELECT host, version, settings::text, status::text FROM nodes " +
		"WHERE seen > clock_timestamp() - interval '15 " +
		"seconds' ORDER BY id"
	if e.dialect == migrations.SQLite {
		there = "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'nodes'"
		query = "SELECT host, version, settings, status FROM nodes ORDER BY id"
	}
	if err := e.db.QueryRowContext(ctx, there).Scan(&known); err != nil || !known {
		return nil, known, err
	}
	rows, err := e.db.QueryContext(ctx, query)
	if err != nil {
		return nil, true, err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	for rows.Next() {
		var n seenNode
		var settings, status string
		if err := rows.Scan(&n.host, &n.version, &settings, &status); err != nil {
			return nil, true, err
		}
		// What is no object has no settings to compare, and tells no problem.
		_ = json.Unmarshal([]byte(settings), &n.settings)
		_ = json.Unmarshal([]byte(status), &n.status)
		nodes = append(nodes, n)
	}
	return nodes, true, rows.Err()
}

// silent looks for nodes that have ended without a word. A file of SQLite has one node, whose process would have to end
// before this program could look.
func (e *examination) silent(ctx context.Context) (err error) {
	if e.dialect == migrations.SQLite {
		return nil
	}
	rows, err := e.db.QueryContext(ctx, `
SELECT id::text, host, extract(epoch FROM clock_timestamp() - seen)::bigint FROM nodes
WHERE seen BETWEEN clock_timestamp() - interval '15 minutes' AND clock_timestamp() - interval '15 seconds' ORDER BY id`)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	for rows.Next() {
		var id, host string
		var seconds int64
		if err := rows.Scan(&id, &host, &seconds); err != nil {
			return err
		}
		e.find(Warning, "node "+id,
			fmt.Sprintf("was last seen %v ago, on %s", time.Duration(seconds)*time.Second, host),
			"It has died, or does not reach the store. Others fire what it held, some of it for the second time "+
				"perhaps.",
			"See what the last lines of its log say, and whether it runs again. It is forgotten after a quarter of "+
				"an hour.")
	}
	return rows.Err()
}

// nodes looks for nodes that have died, and compares the versions and the settings of those that live.
func (e *examination) nodes(ctx context.Context) (string, error) {
	nodes, known, err := e.seen(ctx)
	switch {
	case err != nil:
		return "", err
	case !known:
		return "this store does not know them", nil
	}
	if err := e.silent(ctx); err != nil {
		return "", err
	}
	e.problems(nodes)
	e.compare(nodes)
	return count(len(nodes), "node"), nil
}

// problems has what nodes say of themselves found: what each of them sees is not well.
func (e *examination) problems(nodes []seenNode) {
	for _, n := range nodes {
		about := fmt.Sprintf("the node on %s, pid %d,", n.host, n.status.PID)
		for i := range n.status.Problems {
			p := &n.status.Problems[i]
			severity := Warning
			if p.Unready {
				severity = Error
			}
			e.find(severity, about, "says: "+p.Sentence(e.options.Now()), "A promise is not kept. At fault is "+
				p.Fault+".", "docs/RUNBOOK.md has a section for it.")
		}
		if !n.status.Ready && len(n.status.Problems) == 0 {
			e.find(Error, about, "is not ready", "It cannot do its work.", "Its /readyz?verbose says why.")
		}
	}
}

// compare looks for versions and settings that differ from node to node.
func (e *examination) compare(nodes []seenNode) {
	versions := map[string][]string{}
	settings := map[string]bool{}
	for _, n := range nodes {
		versions[n.version] = append(versions[n.version], n.host)
		for name := range n.settings {
			settings[name] = true
		}
	}
	if len(versions) > 1 {
		e.find(Note, "the nodes", "are of different "+differing("versions", versions),
			"That is fine during an upgrade.", "Finish the upgrade.")
	}
	for _, name := range sorted(settings) {
		values := map[string][]string{}
		for _, n := range nodes {
			value := ""
			if v, there := n.settings[name]; there {
				value, _ = admin.InCommon(name, fmt.Sprint(v))
			}
			values[value] = append(values[value], n.host)
		}
		if len(values) > 1 {
			e.find(Warning, "the nodes", "have different settings: "+differing(name, values),
				"What a message goes through depends on the node that it meets.", "Give all nodes the same settings.")
		}
	}
}
