package service_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"chronos/node/callback"
	"chronos/node/client"
	"chronos/node/service"
)

// A program that has a node within it, and takes what is due itself: no Kafka, no HTTP server, one file. A lane that
// is the output of a route takes its messages from a topic in the same way.
func ExampleOptions_functions() {
	folder, err := os.MkdirTemp("", "chronos-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder

	settings, err := service.Read(service.Run, map[string]service.Value{
		"store":      service.FlagValue("store", "sqlite:"+filepath.Join(folder, "chronos.db")),
		"migrate":    service.FlagValue("migrate", "true"),
		"api-listen": service.FlagValue("api-listen", "127.0.0.1:0"),
	}, os.Environ())
	if err != nil {
		log.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		log.Fatal(err)
	}

	due := make(chan string)
	ctx, stop := context.WithCancel(context.Background())
	s, err := service.Open(ctx, config, service.Options{
		Log: slog.New(slog.DiscardHandler),
		Functions: map[string]callback.Function{
			"http:reminders": func(ctx context.Context, m *callback.Message) error {
				select {
				case due <- m.ID + ": " + string(m.Value):
					return nil
				case <-ctx.Done():
					return fmt.Errorf("nobody has time: %w", ctx.Err()) // it comes again
				}
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	c, err := client.New(client.Config{URL: s.APIURL()})
	if err != nil {
		log.Fatal(err)
	}
	message := client.Message{When: client.In(50 * time.Millisecond), Value: []byte("stand up")}
	for { // the node has just started
		if _, err = c.Put(ctx, "http:reminders", "ann", message); err == nil {
			break
		}
	}
	fmt.Println(<-due)

	stop()
	fmt.Println(<-ended)

	// Output:
	// ann: stand up
	// <nil>
}
