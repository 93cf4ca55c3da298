package sim

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"chronos/node"
)

// originalMutants are bugs of the published original that the others do not have.
func originalMutants() []*Mutant { //nolint:funlen // a table
	return []*Mutant{
		{
			Name: "node-id-fixed", About: "the node id does not change with the process",
			Kills: []string{"S12"}, Config: func(c *node.Config) { c.Seed = [32]byte{1} },
		},
		{
			Name: "insert-given-up", About: "an insert that has failed three times counts as done, and is logged",
			Kills: []string{"S10"}, Options: func(o *Options) { o.FaultRate = 1000 },
			Ports: func(p Ports) Ports {
				store, failures := p.Store, 0
				p.Store = brokenStore{Store: store, insert: func(
					ctx context.Context, in node.InsertRequest,
				) ([]node.InsertResult, error) {
					results, err := store.Insert(ctx, in)
					if err == nil {
						failures = 0
						return results, nil
					}
					if failures++; failures < 3 {
						return nil, err
					}
					return mapped(in.Messages, func(node.Insertion) node.InsertResult {
						return node.InsertResult{Outcome: node.Inserted}
					}), nil
				}}
				return p
			},
		},
		{
			Name: "bad-deadline-ignored", About: "a deadline that can't be read is skipped without a word (H27)",
			Kills: []string{"S10", "L3"}, Options: func(o *Options) { o.Malformed = 20 },
			Ports: changedPoll(func(records []node.Record) []node.Record {
				return slices.DeleteFunc(records, func(r node.Record) bool {
					for _, h := range r.Headers {
						if h.Name == node.HeaderDeadline && len(h.Value) >= 10 {
							_, err := time.Parse(time.DateOnly, string(h.Value[:10]))
							return err != nil
						}
					}
					return false
				})
			}),
		},
		{
			Name: "zone-required", About: "a deadline without a zone is rejected, as by a strict parser (H27)",
			Kills: []string{"S1"},
			Ports: changedPoll(func(records []node.Record) []node.Record {
				for i := range records {
					headers := slices.Clone(records[i].Headers)
					for j, h := range headers {
						if h.Name == node.HeaderDeadline && !bytes.ContainsAny(h.Value, "Z+") {
							headers[j].Value = []byte("rejected")
						}
					}
					records[i].Headers = headers
				}
				return records
			}),
		},
		{
			Name: "lossy-text", About: "keys and values are made valid UTF-8",
			Kills: []string{"S6"}, Ports: changedPublish(func(r *node.Record) {
				r.Key = bytes.ToValidUTF8(r.Key, []byte("\ufffd"))
				r.Value = bytes.ToValidUTF8(r.Value, []byte("\ufffd"))
			}),
		},
		{
			Name: "headers-relayed", About: "the Chronos headers stay on the message",
			Kills:  []string{"S6"},
			Config: func(c *node.Config) { c.RelayHeaders = []string{node.HeaderID, node.HeaderDeadline} },
		},
	}
}

// delayMutants are right in the end, but too late, in the wrong order, or again and again.
func delayMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "lapsed-first", About: "of a batch, what has lapsed is published before anything is stored (D5, H12)",
			Kills:   []string{"S9"},
			Options: func(o *Options) { o.Reuse, o.Lapsed, o.Bursts, o.Partitions = 40, 50, 3, 1 },
			Ports:   lapsedFirst,
		},
		{
			Name: "partitions-at-random", About: "records of one key go to any partition",
			Kills: []string{"S7"}, Scatters: true,
		},
		{
			Name: "slow-detector", About: "nobody looks for stuck claims for half a minute",
			Kills:  []string{"L1"},
			Config: func(c *node.Config) { c.DetectionInterval = 30 * time.Second },
			Options: func(o *Options) {
				o.Nodes, o.Fates, o.Messages, o.Lookahead = 2, "dh", 300, o.HoldTime/5-time.Millisecond
			},
		},
		{
			Name: "deletes-fail", About: "no delete ever reaches the store, so that everything fires for ever (H4)",
			Kills: []string{"L4"},
			Ports: func(p Ports) Ports {
				p.Store = brokenStore{Store: p.Store, remove: func(context.Context, []node.Ref) ([]bool, error) {
					return nil, errors.New("the delete is lost")
				}}
				return p
			},
		},
		{
			Name: "poison-blocks", About: "a record that is rejected keeps the others waiting (D9, H29)",
			Kills:   []string{"L6"},
			Options: func(o *Options) { o.Poison, o.FaultRate, o.DeadLetter = 20, 0, false },
			Ports: func(p Ports) Ports {
				broker, clock := p.Broker, p.Clock
				p.Broker = brokenBroker{Broker: broker, publish: func(ctx context.Context, r []node.Record) []error {
					errs := broker.Publish(ctx, r)
					if slices.ContainsFunc(errs, rejected) {
						clock.Sleep(ctx, 3*time.Second)
					}
					return errs
				}}
				return p
			},
		},
		{
			Name: "release-ignored", About: "a node that stops, or can't publish, keeps its claims (D8, H32)",
			Kills: []string{"L8"},
			Options: func(o *Options) {
				o.Mix, o.FaultRate, o.Bursts = []FaultKind{Stopped}, 1000, 3
				o.Lookahead = o.HoldTime/5 - time.Millisecond
			},
			Rows: func(rows node.Store, t Table) node.Store {
				return brokenStore{Store: rows, reset: func(ctx context.Context, r []node.Release) ([]bool, error) {
					own := func(r node.Release) bool { return r.ReadiedBy == t.Caller() }
					if slices.ContainsFunc(r, own) {
						return make([]bool, len(r)), nil
					}
					return rows.Reset(ctx, r)
				}}
			},
		},
	}
}

// changedPoll changes what a poll returns.
func changedPoll(change func([]node.Record) []node.Record) func(Ports) Ports {
	return func(p Ports) Ports {
		broker := p.Broker
		p.Broker = brokenBroker{Broker: broker, poll: func(ctx context.Context) ([]node.Record, error) {
			records, err := broker.Poll(ctx)
			return change(records), err
		}}
		return p
	}
}

// lapsedFirst hands the engine a batch with what has lapsed at its front.
func lapsedFirst(p Ports) Ports {
	lapsed := func(r node.Record) int {
		for _, h := range r.Headers {
			deadline := bytes.Replace(h.Value, []byte(" "), []byte("T"), 1)
			if h.Name == node.HeaderDeadline && string(deadline) <= p.Clock.Now().UTC().Format("2006-01-02T15:04:05") {
				return 0
			}
		}
		return 1
	}
	return changedPoll(func(records []node.Record) []node.Record {
		slices.SortStableFunc(records, func(a, b node.Record) int { return lapsed(a) - lapsed(b) })
		return records
	})(p)
}
