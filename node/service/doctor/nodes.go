package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"chronos/migrations"
)

// seenNode is a node that has written into the store lately.
type seenNode struct {
	host, version string
	settings      map[string]any
}

// seen returns the nodes of the last quarter of a minute. A store of a release that kept none has no such table: then
// nothing is known, and known is false.
func (e *examination) seen(ctx context.Context) (nodes []seenNode, known bool, err error) {
	there := "SELECT to_regclass('nodes') IS NOT NULL"
	query := "SELECT host, version, settings::text FROM nodes WHERE seen > clock_timestamp() - interval '15 seconds' " +
		"ORDER BY id"
	if e.dialect == migrations.SQLite {
		there = "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'nodes'"
		query = "SELECT host, version, settings FROM nodes ORDER BY id"
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
		var text string
		if err := rows.Scan(&n.host, &n.version, &text); err != nil {
			return nil, true, err
		}
		// What is no object has no settings to compare.
		_ = json.Unmarshal([]byte(text), &n.settings)
		nodes = append(nodes, n)
	}
	return nodes, true, rows.Err()
}

// nodes compares the versions and the settings of the nodes.
func (e *examination) nodes(ctx context.Context) (string, error) {
	nodes, known, err := e.seen(ctx)
	switch {
	case err != nil:
		return "", err
	case !known:
		return "this store does not know them", nil
	}
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
				value = fmt.Sprint(v)
			}
			values[value] = append(values[value], n.host)
		}
		if len(values) > 1 && !isPersonal(name) {
			e.find(Warning, "the nodes", "have different settings: "+differing(name, values),
				"What a message goes through depends on the node that it meets.", "Give all nodes the same settings.")
		}
	}
	return count(len(nodes), "node"), nil
}

// isPersonal reports whether a setting may differ from node to node: where it listens, how it logs, where its files
// are.
func isPersonal(name string) bool {
	return strings.HasPrefix(name, "admin-") || strings.HasPrefix(name, "log-") || strings.HasSuffix(name, "-file") ||
		slices.Contains([]string{"config", "kafka-properties", "tls-ca", "tls-cert", "tls-key"}, name)
}
