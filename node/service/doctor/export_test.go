package doctor

import (
	"context"

	"chronos/node/admin"
	"chronos/node/service"
)

// Listener makes the check of the listener alone, which needs no servers.
func Listener(ctx context.Context, config admin.Config) (string, []Finding, error) {
	e := &examination{config: service.Config{Admin: config}, report: &Report{}, check: "listener"}
	said, err := e.listener(ctx)
	return said, e.report.Findings, err
}

// Differing makes the comparison of nodes alone, which needs no servers. Each setting has one value on each node.
func Differing(settings ...map[string]any) []Finding {
	e := &examination{report: &Report{}, check: "nodes"}
	var nodes []seenNode
	for i, s := range settings {
		nodes = append(nodes, seenNode{host: string(rune('a' + i)), version: "v1", settings: s})
	}
	e.compare(nodes)
	return e.report.Findings
}
