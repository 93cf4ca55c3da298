// Brokennode is a node that is broken on purpose, as the variable CHAOS_MUTANT says: `lab chaos --mutants` runs it to
// show that the chaos suite notices. Except for what stands between the engine and its ports, it is what `chronos run`
// is. It takes its settings from the environment; its command line is that of the node that it stands for, and is not
// looked at.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/uuid"

	"chronos/node/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "brokennode: %v\n", err)
		os.Exit(1)
	}
}

// run runs the node until ctx is done.
func run(ctx context.Context) error {
	settings, err := service.Read(service.Run, nil, os.Environ())
	if err != nil {
		return err
	}
	config, err := settings.Config()
	if err != nil {
		return err
	}
	if os.Getenv("CHAOS_MUTANT") == unfenced {
		config.Store.Journal().Writers = uuid.NewString()
	}
	log, _ := settings.Logger(os.Stderr)
	s, err := service.Open(ctx, config, service.Options{Log: log, Version: "broken on purpose", Ports: mutated})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
