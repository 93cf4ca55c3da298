//go:build !chaosmutant

package main

import "chronos/node"

// mutated returns the ports as they are. The chaos suite builds a binary in which it does not (mutant.go), to show that
// it notices; no other binary has anything of that.
func mutated(_ node.Config, store node.Store, broker node.Broker) (node.Store, node.Broker, error) {
	return store, broker, nil
}
