package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"chronos/node"
	"chronos/node/api"
	"chronos/node/client"
	"chronos/node/store/memory"
)

// newNode serves the API over a store in memory, in place of a node: nothing comes out of it.
func newNode() *httptest.Server {
	store := memory.New(time.Now)
	config := node.Default()
	config.Routes = []node.Route{{Input: "in", Output: "reminders"}}
	config.Callbacks.Any = true
	return httptest.NewServer((&api.API{Node: &config, Taker: store, Store: store, Outlook: store}).Handler())
}

func Example() {
	server := newNode()
	defer server.Close()
	ctx := context.Background()
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}

	// A request to https://shop.example/expire, in a quarter of an hour.
	outcome, err := c.Put(ctx, "http:orders", "order-1", client.Message{
		When: client.In(15 * time.Minute), URL: "https://shop.example/expire", Value: []byte(`{"order":1}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome.Outcome)

	// The order is paid.
	outcome, err = c.Cancel(ctx, "http:orders", "order-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome.Outcome)

	// Output:
	// scheduled
	// cancelled
}

// A cancel that comes too late, and one of what is not there, are errors that say so.
func Example_tooLate() {
	server := newNode()
	defer server.Close()
	ctx := context.Background()
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	message := client.Message{When: client.In(time.Hour), Key: []byte("ann"), Value: []byte("stand up")}
	if _, err := c.Put(ctx, "reminders", "a", message); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Fire(ctx, "reminders", "a"); err != nil {
		log.Fatal(err)
	}
	_, err = c.Cancel(ctx, "reminders", "a")
	fmt.Println("too late:", client.IsTooLate(err))
	_, err = c.Cancel(ctx, "reminders", "b")
	fmt.Println("not found:", client.IsNotFound(err))

	// Output:
	// too late: true
	// not found: true
}

// A series comes out every workday at half past nine in Berlin; the page shows when it does so next.
func Example_series() {
	server := newNode()
	defer server.Close()
	ctx := context.Background()
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Put(ctx, "reminders", "standup", client.Message{
		Recurrence: &client.Recurrence{Repeat: "30 9 * * mon-fri", Zone: "Europe/Berlin"}, Value: []byte("stand up"),
	})
	if err != nil {
		log.Fatal(err)
	}
	for m, err := range c.List(ctx, "reminders", client.Query{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.ID, m.Series.Sequence, m.Series.Next.After(m.Deadline))
	}

	// Output:
	// standup 1 true
}
