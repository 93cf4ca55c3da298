package sim

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// intakeMutants lose or repeat what comes in.
func intakeMutants() []*Mutant { //nolint:funlen // a table
	return []*Mutant{
		{
			Name: "commit-first", About: "offsets are committed when records are polled (H8)",
			Kills: []string{"S10"},
			Ports: func(p Ports) Ports {
				broker := p.Broker
				p.Broker = brokenBroker{Broker: broker, poll: func(ctx context.Context) ([]node.Record, error) {
					records, err := broker.Poll(ctx)
					if len(records) > 0 {
						_ = broker.Commit(ctx, records)
					}
					return records, err
				}}
				return p
			},
		},
		{
			Name: "insert-error-swallowed", About: "an insert that fails counts as done",
			Kills: []string{"S10"},
			Ports: func(p Ports) Ports {
				store := p.Store
				p.Store = brokenStore{Store: store, insert: func(
					ctx context.Context, in node.InsertRequest,
				) ([]node.InsertResult, error) {
					if results, err := store.Insert(ctx, in); err == nil {
						return results, nil
					}
					return mapped(in.Messages, func(node.Insertion) node.InsertResult {
						return node.InsertResult{Outcome: node.Inserted}
					}), nil
				}}
				return p
			},
		},
		{
			Name: "insert-last-forgotten", About: "the last message of a batch is not stored",
			Kills: []string{"S10"},
			Ports: func(p Ports) Ports {
				store := p.Store
				p.Store = brokenStore{Store: store, insert: func(
					ctx context.Context, in node.InsertRequest,
				) ([]node.InsertResult, error) {
					if len(in.Messages) < 2 {
						return store.Insert(ctx, in)
					}
					in.Messages = in.Messages[:len(in.Messages)-1]
					results, err := store.Insert(ctx, in)
					return append(results, node.InsertResult{Outcome: node.Inserted}), err
				}}
				return p
			},
		},
		{
			Name: "no-presence-check", About: "what has lapsed is published without a look into the store (D5)",
			Kills: []string{"S9"},
			Ports: func(p Ports) Ports {
				p.Store = brokenStore{Store: p.Store, present: func(
					_ context.Context, ids []node.MessageID,
				) ([]bool, error) {
					return make([]bool, len(ids)), nil
				}}
				return p
			},
		},
		{
			Name: "presence-ignored", About: "what has lapsed is published although its id is stored",
			Kills: []string{"S9"}, Options: func(o *Options) { reusing(o); o.Lapsed = 50 },
			Ports: func(p Ports) Ports {
				store := p.Store
				p.Store = brokenStore{Store: store, present: func(
					ctx context.Context, ids []node.MessageID,
				) ([]bool, error) {
					present, err := store.Present(ctx, ids)
					clear(present)
					return present, err
				}}
				return p
			},
		},
		{
			Name: "presence-stale", About: "the look into the store goes to a replica that lags (H12)",
			Kills: []string{"S10", "S1", "L3"}, Options: func(o *Options) { reusing(o); o.Lapsed = 50 },
			Rows: stalePresence,
		},
		{
			Name: "poll-skips", About: "the first record of a batch is skipped",
			Kills: []string{"S10", "L3"},
			Ports: func(p Ports) Ports {
				broker := p.Broker
				p.Broker = brokenBroker{Broker: broker, poll: func(ctx context.Context) ([]node.Record, error) {
					records, err := broker.Poll(ctx)
					return records[min(1, len(records)):], err
				}}
				return p
			},
		},
		{
			Name: "commit-beyond", About: "the offset that is committed is one too high",
			Kills: []string{"S10"},
			Ports: func(p Ports) Ports {
				broker := p.Broker
				p.Broker = brokenBroker{Broker: broker, commit: func(ctx context.Context, r []node.Record) error {
					r = slices.Clone(r)
					for i := range r {
						r[i].Offset++
					}
					return broker.Commit(ctx, r)
				}}
				return p
			},
		},
		{
			Name: "commit-never", About: "offsets are never committed, and that is called success",
			Kills: []string{"L3"},
			Ports: func(p Ports) Ports {
				p.Broker = brokenBroker{Broker: p.Broker, commit: func(context.Context, []node.Record) error {
					return nil
				}}
				return p
			},
		},
		{
			Name: "never-leaves", About: "a node without the store keeps its partitions",
			Kills: []string{"L7"},
			Options: func(o *Options) {
				o.Nodes, o.Fates, o.Partitions, o.Messages = 3, "shs", 6, 300
			},
			Config: func(c *node.Config) { c.LeaveAfter = time.Hour },
		},
	}
}

// publishMutants draw the wrong conclusions from a publish.
func publishMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "publish-error-is-success", About: "a publish that fails counts as done (H15)",
			Kills: []string{"S2", "S10"}, Ports: forgivingPublish(func(error) bool { return true }),
		},
		{
			Name: "publish-timeout-is-success", About: "a publish of unknown outcome counts as done (H15)",
			Kills: []string{"S2", "S10"},
			Ports: forgivingPublish(func(err error) bool { return !rejected(err) }),
		},
		{
			Name: "publish-rejected-is-success", About: "what the broker rejects counts as done (D9)",
			Kills: []string{"S2", "S10"}, Options: func(o *Options) { o.Poison, o.DeadLetter = 20, false },
			Ports: forgivingPublish(rejected),
		},
		{
			Name: "publish-first-result", About: "the first result of a batch counts for all of it (H17)",
			Kills: []string{"S2", "S10"}, Options: func(o *Options) { o.Poison, o.Bursts = 20, 3 },
			Ports: func(p Ports) Ports {
				broker := p.Broker
				p.Broker = brokenBroker{Broker: broker, publish: func(
					ctx context.Context, r []node.Record,
				) []error {
					errs := broker.Publish(ctx, r)
					return mapped(errs, func(error) error { return errs[0] })
				}}
				return p
			},
		},
		{
			Name: "publish-twice", About: "every record is sent twice", Kills: []string{"S5"},
			Ports: func(p Ports) Ports {
				broker := p.Broker
				p.Broker = brokenBroker{Broker: broker, publish: func(
					ctx context.Context, r []node.Record,
				) []error {
					return broker.Publish(ctx, append(slices.Clone(r), r...))[:len(r)]
				}}
				return p
			},
		},
		{
			Name: "delete-before-ack", About: "the row is deleted before the publish is acknowledged (H16)",
			Kills: []string{"S2"}, Ports: hastyDelete,
		},
		{
			Name: "values-cut-off", About: "long values are cut off", Kills: []string{"S6"},
			Ports: changedPublish(func(r *node.Record) { r.Value = r.Value[:min(len(r.Value), 32)] }),
		},
		{
			Name: "keys-not-null", About: "a null key becomes an empty one (D6)", Kills: []string{"S6"},
			Ports: changedPublish(func(r *node.Record) { r.Key = append([]byte{}, r.Key...) }),
		},
		{
			Name: "headers-added", About: "the owner's name is added to the headers, as in the published original",
			Kills: []string{"S6"},
			Ports: changedPublish(func(r *node.Record) {
				r.Headers = append(slices.Clip(r.Headers), node.Header{Name: "readied_by", Value: []byte("me")})
			}),
		},
	}
}

// clockMutants read clocks wrongly.
func clockMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "early", About: "the wall clock is read a second ahead", Kills: []string{"S8"},
			Ports: func(p Ports) Ports {
				clock := p.Clock
				p.Clock = brokenClock{Clock: clock, now: func() time.Time { return clock.Now().Add(time.Second) }}
				return p
			},
		},
		{
			Name: "late", About: "the timing advance is subtracted (D1, H26)", Kills: []string{"L5"},
			Options: func(o *Options) {
				o.FaultRate, o.TimingAdvance, o.AdaptiveAdvance, o.Skew = 0, 200*time.Millisecond, false, 0
				o.PollInterval = 50 * time.Millisecond
				o.StoreLatency, o.BrokerLatency = time.Millisecond, time.Millisecond
			},
			Ports: func(p Ports) Ports {
				clock := p.Clock
				p.Clock = brokenClock{Clock: clock, now: func() time.Time {
					return clock.Now().Add(-400 * time.Millisecond)
				}}
				return p
			},
		},
		{
			Name: "no-age-check", About: "claims do not age, so that old ones are published (D3)",
			Kills: []string{"S13"},
			Ports: func(p Ports) Ports {
				clock := p.Clock
				// A tenth of the age: waits and back-off still work, after a fashion.
				p.Clock = brokenClock{Clock: clock, mono: func() time.Duration { return clock.Mono() / 10 }}
				return p
			},
		},
	}
}

// mapped applies a function to each element.
func mapped[A, B any](list []A, change func(A) B) []B {
	result := make([]B, len(list))
	for i, a := range list {
		result[i] = change(a)
	}
	return result
}

// fencedDelete deletes only what is allowed, and calls everything deleted.
func fencedDelete(rows node.Store, allowed func(node.Ref) bool) node.Store {
	return brokenStore{Store: rows, remove: func(ctx context.Context, refs []node.Ref) ([]bool, error) {
		deleted := make([]bool, len(refs))
		for i, ref := range refs {
			deleted[i] = true
			if allowed(ref) {
				found, _ := rows.Delete(ctx, []node.Ref{ref})
				deleted[i] = found[0]
			}
		}
		return deleted, nil
	}}
}

// claimFence deletes only under the claim that the caller was given last.
func claimFence(rows node.Store, table Table) node.Store {
	type grant struct {
		owner uuid.UUID
		ref   node.Ref
	}
	given := map[grant]time.Time{}
	fenced := fencedDelete(rows, func(ref node.Ref) bool {
		c, _ := table.Claim(node.MessageID{ID: ref.ID, Topic: ref.Topic})
		return c.ReadiedBy == table.Caller() && given[grant{table.Caller(), ref}].Equal(c.ReadiedAt)
	}).(brokenStore)
	fenced.ready = func(ctx context.Context, in node.ReadyRequest) ([]node.Readied, error) {
		claimed, err := rows.Ready(ctx, in)
		for _, c := range claimed {
			given[grant{in.Node, c.Claim.Ref}] = c.Claim.ReadiedAt
		}
		return claimed, err
	}
	fenced.insert = func(ctx context.Context, in node.InsertRequest) ([]node.InsertResult, error) {
		results, err := rows.Insert(ctx, in)
		for _, r := range results {
			if r.Claim.ReadiedBy == in.Node {
				given[grant{in.Node, r.Claim.Ref}] = r.Claim.ReadiedAt
			}
		}
		return results, err
	}
	return fenced
}

// repeatedIncarnation derives the incarnation from the id, and translates what the nodes ask for.
func repeatedIncarnation(rows node.Store, _ Table) node.Store {
	return changedInsert(rows, func(m *node.Insertion) {
		m.Incarnation = uuid.NewSHA1(uuid.NameSpaceOID, []byte(m.ID+m.Topic))
	})
}

func changedInsert(rows node.Store, change func(*node.Insertion)) node.Store {
	return brokenStore{Store: rows, insert: func(
		ctx context.Context, in node.InsertRequest,
	) ([]node.InsertResult, error) {
		in.Messages = slices.Clone(in.Messages)
		for i := range in.Messages {
			change(&in.Messages[i])
		}
		return rows.Insert(ctx, in)
	}}
}

// looseReset resets whatever claim there is now, if the two look alike.
func looseReset(
	rows node.Store, table Table, alike func(asked node.Release, is node.Claim) bool,
) node.Store {
	return brokenStore{Store: rows, reset: func(ctx context.Context, r []node.Release) ([]bool, error) {
		return rows.Reset(ctx, mapped(r, func(r node.Release) node.Release {
			if c, found := table.Claim(node.MessageID{ID: r.ID, Topic: r.Topic}); found && alike(r, c) {
				r.Claim = c
			}
			return r
		}))
	}}
}

func filteredStuck(keep func(node.Claim, Table) bool) func(node.Store, Table) node.Store {
	return func(rows node.Store, table Table) node.Store {
		return brokenStore{Store: rows, stuck: func(ctx context.Context, in node.StuckRequest) ([]node.Claim, error) {
			stuck, err := rows.Stuck(ctx, in)
			return slices.DeleteFunc(stuck, func(c node.Claim) bool { return !keep(c, table) }), err
		}}
	}
}

// stalePresence answers a look as it would have been answered some looks ago: an id that was stored then still is.
func stalePresence(rows node.Store, table Table) node.Store {
	seen := map[node.MessageID]bool{}
	broken := changedInsert(rows, func(m *node.Insertion) {
		seen[node.MessageID{ID: m.ID, Topic: m.Topic}] = true
	}).(brokenStore)
	broken.present = func(ctx context.Context, ids []node.MessageID) ([]bool, error) {
		_, _ = rows.Present(ctx, ids)
		return mapped(ids, func(id node.MessageID) bool {
			_, is := table.Claim(id)
			return is || seen[id]
		}), nil
	}
	return broken
}

func forgivingPublish(forgiven func(error) bool) func(Ports) Ports {
	return func(p Ports) Ports {
		broker := p.Broker
		p.Broker = brokenBroker{Broker: broker, publish: func(ctx context.Context, r []node.Record) []error {
			return mapped(broker.Publish(ctx, r), func(err error) error {
				if err != nil && forgiven(err) {
					return nil
				}
				return err
			})
		}}
		return p
	}
}

func changedPublish(change func(*node.Record)) func(Ports) Ports {
	return func(p Ports) Ports {
		broker := p.Broker
		p.Broker = brokenBroker{Broker: broker, publish: func(ctx context.Context, r []node.Record) []error {
			r = slices.Clone(r)
			for i := range r {
				change(&r[i])
			}
			return broker.Publish(ctx, r)
		}}
		return p
	}
}

// hastyDelete deletes what it is about to publish.
func hastyDelete(p Ports) Ports {
	store, broker := p.Store, p.Broker
	claimed := map[string]node.Ref{}
	p.Store = brokenStore{Store: store, ready: func(
		ctx context.Context, in node.ReadyRequest,
	) ([]node.Readied, error) {
		list, err := store.Ready(ctx, in)
		for _, c := range list {
			claimed[headersAsText(c.Headers)] = c.Claim.Ref
		}
		return list, err
	}}
	p.Broker = brokenBroker{Broker: broker, publish: func(ctx context.Context, r []node.Record) []error {
		var refs []node.Ref
		for i := range r {
			if ref, known := claimed[headersAsText(r[i].Headers)]; known {
				refs = append(refs, ref)
			}
		}
		if len(refs) > 0 {
			_, _ = store.Delete(ctx, refs)
		}
		return broker.Publish(ctx, r)
	}}
	return p
}

func headersAsText(headers []node.Header) string {
	var text []byte
	for _, h := range headers {
		text = append(append(append(text, h.Name...), 0), h.Value...)
	}
	return string(text)
}
