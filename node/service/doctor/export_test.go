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
