package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// healthCommand asks a node whether it is well.
type healthCommand struct {
	Live bool `help:"Ask whether the node should go on running, rather than whether it can do its work."`

	probeSettings
}

// Help says what it is for.
func (c *healthCommand) Help() string {
	return `For probes that execute a command, and for people. It asks the listener of a node on this machine, at
the address that --admin-listen names: give it the settings of the node; or any node, by --admin. It prints
what the node says of itself. The exit code is 0 if all is well, 1 if it is not or nobody answers.

A node is ready when it reaches the store, whose schema is the right one, and has joined its consumer group. It is
alive as long as its operations take turns, whether Kafka and the store are away or not: only --live is a reason
to start it anew.`
}

// healthTimeout is how long the node may take to answer.
const healthTimeout = 2 * time.Second

// Run asks.
func (c *healthCommand) Run(ctx context.Context, w *world) error {
	node, err := c.values.AskedNode()
	if err != nil {
		return err
	}
	if node.Guessed {
		node.URL = cmp.Or(w.beside, node.URL)
	}
	client := &http.Client{Timeout: healthTimeout}
	if client.Transport, err = trusting(node); err != nil {
		return err
	}
	path := "/readyz"
	if c.Live {
		path = "/livez"
	}
	url := node.URL + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?verbose", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil && node.Guessed {
		return usagef("neither --admin nor --admin-listen is set, and no node answers at %s, where \"chronos dev\" "+
			"would: name the node with --admin, or give its settings", node.URL)
	}
	if err != nil {
		return fmt.Errorf("no node answers at %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }() // It was read.
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if _, err := w.stdout.Write(text); err != nil {
		return err
	}
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusServiceUnavailable:
		return errLogged // it is on the screen
	default:
		return fmt.Errorf("what answers at %s is no node: status %d", url, response.StatusCode)
	}
}
