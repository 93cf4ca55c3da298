package storetest_test

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
	"chronos/node/store/transfer"
)

// moved is a store of which the side that its contents are moved by is broken.
type moved struct {
	*broken

	seal     func(context.Context, uuid.UUID, string) (transfer.Seal, error)
	unseal   func(context.Context) (node.State, error)
	messages func(context.Context, node.MessageID, int, int) ([]transfer.Message, error)
	tasks    func(context.Context, uuid.UUID, int, int) ([]queue.Task, error)
	actions  func(context.Context, uuid.UUID, int, int) ([]queue.Action, error)
	receive  func(context.Context, transfer.Batch) (transfer.Seal, error)
}

func (m *moved) Seal(ctx context.Context, id uuid.UUID, by string) (transfer.Seal, error) {
	return m.seal(ctx, id, by)
}

func (m *moved) Unseal(ctx context.Context) (node.State, error) { return m.unseal(ctx) }

func (m *moved) Messages(
	ctx context.Context, after node.MessageID, limit, bytes int,
) ([]transfer.Message, error) {
	return m.messages(ctx, after, limit, bytes)
}

func (m *moved) TasksBehind(ctx context.Context, after uuid.UUID, limit, bytes int) ([]queue.Task, error) {
	return m.tasks(ctx, after, limit, bytes)
}

func (m *moved) ActionsBehind(ctx context.Context, after uuid.UUID, limit, bytes int) ([]queue.Action, error) {
	return m.actions(ctx, after, limit, bytes)
}

func (m *moved) Receive(ctx context.Context, batch transfer.Batch) (transfer.Seal, error) {
	return m.receive(ctx, batch)
}

// moveBroken is breakIt for that side.
func moveBroken(change func(m *moved)) func(*storetest.Clock) storetest.Instance {
	return func(clock *storetest.Clock) storetest.Instance {
		instance := intact(clock)
		b := instance.Store.(*broken)
		m := &moved{
			broken: b, seal: b.Seal, unseal: b.Unseal, messages: b.Messages, tasks: b.TasksBehind,
			actions: b.ActionsBehind, receive: b.Receive,
		}
		change(m)
		instance.Store = m
		return instance
	}
}

func transferMutants() []mutant {
	return []mutant{
		{
			"a sealed store begins a lineage", "contract/move/a sealed store begins no lineage", false,
			moveBroken(func(m *moved) { m.Break(memory.Broken{Opens: true}) }),
		},
		{
			"a seal is only written down", "contract/move/a sealed store claims nothing and takes nothing in", false,
			moveBroken(func(m *moved) {
				m.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					if seal, _ := m.Sealed(ctx); !seal.Sealed() {
						return m.Store.Claim(ctx, r)
					}
					before := m.Snapshot()
					if _, err := m.Store.Unseal(ctx); err != nil {
						return node.ClaimResult{}, err
					}
					result, err := m.Store.Claim(ctx, r)
					m.Restore(before)
					return result, err
				}
			}),
		},
		{
			"a second export has a seal of its own", "contract/move/a seal stays", false,
			moveBroken(func(m *moved) {
				m.seal = func(ctx context.Context, id uuid.UUID, by string) (transfer.Seal, error) {
					if _, err := m.Store.Unseal(ctx); err != nil && !transfer.IsRefused(err) {
						return transfer.Seal{}, err
					}
					return m.Store.Seal(ctx, id, by)
				}
			}),
		},
		{
			"what is claimed is left behind", "contract/move/messages are read in order, claimed or not", false,
			moveBroken(func(m *moved) {
				m.messages = func(
					ctx context.Context, after node.MessageID, limit, bytes int,
				) ([]transfer.Message, error) {
					claims, err := m.Expired(ctx, 100)
					if err != nil {
						return nil, err
					}
					for _, c := range claims {
						if _, err := m.Settle(ctx, node.Removals(c.Ref)); err != nil {
							return nil, err
						}
					}
					return m.Store.Messages(ctx, after, limit, bytes)
				}
			}),
		},
		{
			"goes on behind all lanes of an id", "contract/move/messages are read in order, claimed or not", false,
			moveBroken(func(m *moved) {
				m.messages = func(
					ctx context.Context, after node.MessageID, limit, bytes int,
				) ([]transfer.Message, error) {
					if after.Lane != "" {
						after.Lane = "~"
					}
					return m.Store.Messages(ctx, after, limit, bytes)
				}
			}),
		},
		{
			"reads more messages than fit", "contract/move/messages are read in order, claimed or not", false,
			moveBroken(func(m *moved) {
				m.messages = func(
					ctx context.Context, after node.MessageID, limit, bytes int,
				) ([]transfer.Message, error) {
					return m.Store.Messages(ctx, after, limit, bytes+1000)
				}
			}),
		},
		{
			"reads more tasks than fit", "contract/move/queues, tasks and actions are read in order", false,
			moveBroken(func(m *moved) {
				m.tasks = func(ctx context.Context, after uuid.UUID, limit, bytes int) ([]queue.Task, error) {
					return m.Store.TasksBehind(ctx, after, limit, bytes+1000)
				}
			}),
		},
		{
			"reads more actions than fit", "contract/move/queues, tasks and actions are read in order", false,
			moveBroken(func(m *moved) {
				m.actions = func(ctx context.Context, after uuid.UUID, limit, bytes int) ([]queue.Action, error) {
					return m.Store.ActionsBehind(ctx, after, limit, bytes+1000)
				}
			}),
		},
		{
			"loses where queues lie", "contract/move/what lies inside a closed queue waits", false,
			moveBroken(func(m *moved) {
				m.receive = func(ctx context.Context, b transfer.Batch) (transfer.Seal, error) {
					b.Queues = slices.Clone(b.Queues)
					for i := range b.Queues {
						b.Queues[i].Paths = nil
					}
					return m.Store.Receive(ctx, b)
				}
			}),
		},
		{
			"opens with the first batch", "contract/move/a store is filled, and opened at the end", false,
			moveBroken(func(m *moved) {
				m.receive = func(ctx context.Context, b transfer.Batch) (transfer.Seal, error) {
					b.Last = true
					return m.Store.Receive(ctx, b)
				}
			}),
		},
		{
			"takes a gap for an end", "contract/move/a batch is received once", false,
			moveBroken(func(m *moved) {
				m.receive = func(ctx context.Context, b transfer.Batch) (transfer.Seal, error) {
					if seal, _ := m.Sealed(ctx); b.From < seal.Lines && b.Last {
						b.From = seal.Lines
					}
					return m.Store.Receive(ctx, b)
				}
			}),
		},
		{
			"receives a batch as often as it comes", "contract/move/a batch is received once", false,
			moveBroken(func(m *moved) { m.Break(memory.Broken{Refills: true}) }),
		},
	}
}
