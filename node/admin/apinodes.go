package admin

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node/store/inspect"
)

// Node is a node that has been seen lately.
type Node struct {
	ID       string            `json:"id"`
	Host     string            `json:"host"`
	Version  string            `json:"version"`
	Started  time.Time         `json:"started" doc:"When it said first that it lives, by the clock of the store."`
	Seen     time.Time         `json:"seen" doc:"When it said so last."`
	Silent   bool              `json:"silent" doc:"Not seen for 10 s: it has died, or does not reach the store."`
	Settings map[string]string `json:"settings"`
	Status   NodeStatus        `json:"status"`
}

// NodeStatus is how a node is, in its own words.
type NodeStatus struct {
	Ready    bool               `json:"ready"`
	Troubles map[string]Trouble `json:"troubles,omitempty" doc:"What it cannot publish, by lane."`
	Journal  []string           `json:"journal,omitempty" doc:"What is wrong with partitions of the journal."`
}

// Difference is a setting that nodes do not share.
type Difference struct {
	Setting string              `json:"setting"`
	Values  map[string][]string `json:"values" doc:"The ids of the nodes, by their value."`
}

// Nodes are all nodes, and what differs among them.
type Nodes struct {
	At          time.Time    `json:"at" doc:"The clock of the store, by which nodes are seen."`
	Nodes       []Node       `json:"nodes"`
	Differences []Difference `json:"differences" doc:"The version, and settings that should be the same everywhere."`
}

func (a *API) nodes(api huma.API) {
	read(a, api, "/v1/nodes", "nodes", "The nodes that were seen lately, and differences among their settings",
		a.allNodes)
}

func (a *API) allNodes(ctx context.Context, _ *nothing) (Nodes, error) {
	all := Nodes{Nodes: []Node{}, Differences: []Difference{}}
	nodes, now, err := a.Store.Nodes(ctx)
	if err != nil {
		return all, err
	}
	all.At = now
	for i := range nodes {
		n := &nodes[i]
		shown := Node{
			ID: n.ID.String(), Host: n.Host, Version: n.Version, Started: n.Started, Seen: n.Seen,
			Silent: now.Sub(n.Seen) > inspect.Silent, Settings: map[string]string{},
		}
		// What another version has written need not be what this one reads.
		_ = json.Unmarshal(n.Settings, &shown.Settings)
		_ = json.Unmarshal(n.Status, &shown.Status)
		all.Nodes = append(all.Nodes, shown)
	}
	all.Differences = differences(all.Nodes)
	return all, nil
}

// ownSettings are those that may differ from node to node.
func ownSettings() []string {
	return []string{
		"config", "create-topics", "migrate", "admin-listen", "admin-token-file", "admin-tls-cert", "admin-tls-key",
		"admin-allow", "log-level", "log-format", "brokers", "tls-ca", "tls-cert", "tls-key", "sasl-password-file",
		"store-password-file", "store",
	}
}

// differences returns what differs among nodes that live.
func differences(nodes []Node) []Difference {
	values := map[string]map[string][]string{}
	live := 0
	note := func(setting, value, id string) {
		if values[setting] == nil {
			values[setting] = map[string][]string{}
		}
		values[setting][value] = append(values[setting][value], id)
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Silent {
			continue
		}
		live++
		note("version", n.Version, n.ID)
		for setting, value := range n.Settings {
			if !slices.Contains(ownSettings(), setting) {
				note(setting, value, n.ID)
			}
		}
	}
	list := []Difference{}
	for _, setting := range slices.Sorted(maps.Keys(values)) {
		by := values[setting]
		said := 0
		for _, ids := range by {
			said += len(ids)
		}
		if len(by) > 1 || said < live {
			list = append(list, Difference{setting, by})
		}
	}
	return list
}
