package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

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
	PID      int                `json:"pid,omitempty" doc:"The process on its host."`
	Problems []Problem          `json:"problems,omitempty" doc:"What is not well, as it sees it."`
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
	write(a, api, http.MethodDelete, "/v1/nodes/{id}", "forgetNode",
		"Forget a node that is silent, so that it is shown no more; one that lives says so again", a.forgetNode)
}

type forgetInput struct {
	ID string `path:"id" format:"uuid"`
	By string `query:"by" maxLength:"200" doc:"Who does it."`
}

// Forgotten names the node that was forgotten.
type Forgotten struct {
	ID   string `json:"id"`
	Host string `json:"host"`
}

func (a *API) forgetNode(ctx context.Context, in *forgetInput) (Forgotten, error) {
	all, err := a.allNodes(ctx, nil)
	if err != nil {
		return Forgotten{}, err
	}
	i := slices.IndexFunc(all.Nodes, func(n Node) bool { return n.ID == in.ID })
	switch {
	case i < 0:
		return Forgotten{}, huma.Error404NotFound("there is no node " + in.ID + ": one that was silent for a quarter " +
			"of an hour is forgotten by itself")
	case !all.Nodes[i].Silent:
		return Forgotten{}, huma.Error409Conflict("node " + in.ID + " was seen within the last 10 s: only one that " +
			"is silent can be forgotten")
	}
	id, err := uuid.Parse(in.ID)
	if err != nil {
		return Forgotten{}, huma.Error422UnprocessableEntity("the id of a node is a UUID")
	}
	if err := a.Store.Gone(ctx, id); err != nil {
		return Forgotten{}, err
	}
	by := in.By
	if by == "" {
		by = callerOf(ctx).Name()
	}
	a.auditLine(ctx, "audit: somebody has changed something by the admin API", "forget", by, "",
		slog.String("what", "node "+in.ID))
	return Forgotten{in.ID, all.Nodes[i].Host}, nil
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

// InCommon returns what of a setting has to be the same on all nodes, and false if nothing has. Each node listens on an
// address of its own; that it does is for all: the hold time of callbacks follows from it, for example.
func InCommon(name, value string) (string, bool) {
	switch {
	case ownSetting(name):
		return "", false
	case strings.HasSuffix(name, "-listen") && value != "off":
		return "an address", true
	}
	return value, true
}

// ownSetting reports whether a setting may differ from node to node: how people reach it, how it logs, where its files
// are, by what addresses it reaches others or is reached, and what it makes at its start.
func ownSetting(name string) bool {
	return strings.HasPrefix(name, "admin-") || strings.HasPrefix(name, "log-") || strings.HasSuffix(name, "-file") ||
		strings.HasPrefix(name, "tls-") || strings.HasSuffix(name, "-tls-cert") ||
		strings.HasSuffix(name, "-tls-key") ||
		slices.Contains([]string{
			"config", "create-topics", "migrate", "kafka-properties", "horae-url", "brokers", "store", "data-dir",
		}, name)
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
			if common, has := InCommon(setting, value); has {
				note(setting, common, n.ID)
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
