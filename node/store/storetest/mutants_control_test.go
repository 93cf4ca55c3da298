package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// decideOf breaks the table of instructions: change is given what is decided by the right one.
func decideOf(
	change func(i *node.Item, before *node.Kept, v *node.Verdict),
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.Break(memory.Broken{
			Decide: func(i *node.Item, before *node.Kept) node.Verdict {
				v := i.Decide(before)
				if v.After != nil && v.After != before {
					after := *v.After
					v.After = &after
				}
				change(i, before, &v)
				return v
			},
		})
	})
}

// asIf has instructions decided on something else than what is kept. Only what is decided on that is kept, be it there
// or not, is changed: a verdict on what is not there could not be carried out.
func asIf(change func(i *node.Item, kept *node.Kept)) func(*storetest.Clock) storetest.Instance {
	return decideOf(func(i *node.Item, before *node.Kept, v *node.Verdict) {
		if before != nil {
			thought := *before
			change(i, &thought)
			*v = i.Decide(&thought)
		}
	})
}

// replyOf breaks what is told.
func replyOf(
	reply func(i *node.Item, v node.Verdict, lineage int64) (node.Message, bool),
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.Break(memory.Broken{Reply: reply})
	})
}

// eachReply changes every reply, given the verdict.
func eachReply(change func(m *node.Message, v node.Verdict)) func(*storetest.Clock) storetest.Instance {
	return replyOf(func(i *node.Item, v node.Verdict, lineage int64) (node.Message, bool) {
		m, told := i.Reply(v, lineage)
		m.Headers = slices.Clone(m.Headers)
		change(&m, v)
		return m, told
	})
}

// without removes the headers of a name.
func without(m *node.Message, name string) {
	m.Headers = slices.DeleteFunc(m.Headers, func(h node.Header) bool { return h.Name == name })
}

func controlMutants() []mutant {
	return slices.Concat(tableMutants(), keepMutants(), replyMutants(), foldMutants(), controlRaceMutants())
}

// tableMutants decide otherwise: the literal readings of what people ask for.
func tableMutants() []mutant {
	return []mutant{
		{
			"cancel by id, while it is claimed", "contract/control/a message that is claimed", true,
			asIf(func(_ *node.Item, k *node.Kept) {
				if k.Claimed {
					k.Claimed, k.Attempts = false, 0
				}
			}),
		},
		{
			"a claim alone makes it too late", "contract/control/a message that waits after an attempt", true,
			asIf(func(_ *node.Item, k *node.Kept) {
				if !k.Claimed {
					k.Attempts = 0
				}
			}),
		},
		{
			"attempts alone make it too late, up to one", "contract/control/a message that is claimed", true,
			asIf(func(_ *node.Item, k *node.Kept) {
				if k.Attempts == 1 {
					k.Claimed, k.Attempts = false, 0
				}
			}),
		},
		{
			"too late does not bind", "contract/control/too late binds, and giving back does not clear it", true,
			decideOf(func(_ *node.Item, before *node.Kept, v *node.Verdict) {
				if v.Outcome == node.TooLate {
					v.After = before
				}
			}),
		},
		{
			"fire does not bind", "contract/control/a message that was fired", true,
			decideOf(func(_ *node.Item, _ *node.Kept, v *node.Verdict) {
				if v.Outcome == node.FiredNow {
					v.After.Bound = false
				}
			}),
		},
		{
			"what is bound is cancelled", "contract/control/a message that too late has bound", true,
			asIf(func(i *node.Item, k *node.Kept) { k.Bound = k.Bound && i.Action != node.Cancel }),
		},
		{
			"what is bound is rescheduled", "contract/control/a message that was fired", true,
			asIf(func(i *node.Item, k *node.Kept) { k.Bound = k.Bound && i.Action != node.Reschedule }),
		},
		{
			"what is bound stays as it is after a replace",
			"contract/control/too late binds, and giving back does not clear it", true,
			decideOf(func(_ *node.Item, before *node.Kept, v *node.Verdict) {
				if v.Outcome == node.Replaced {
					v.After.Bound = before.Bound
				}
			}),
		},
		{
			"replace is too late as well", "contract/control/a message that is claimed", true,
			decideOf(func(i *node.Item, before *node.Kept, v *node.Verdict) {
				if v.Outcome == node.Replaced && (before.Claimed || before.Attempts > 0) {
					v.Outcome, v.After, v.Brings = node.TooLate, before, false
				}
			}),
		},
		{
			"schedule replaces", "contract/control/a message that waits", true,
			decideOf(func(i *node.Item, _ *node.Kept, v *node.Verdict) {
				if v.Outcome == node.Duplicate {
					v.After = &node.Kept{Incarnation: i.Incarnation, Deadline: i.Deadline, Due: i.Deadline}
					v.Outcome, v.Brings = node.Replaced, true
				}
			}),
		},
		{
			"replace needs something to replace", "contract/control/a message that is not there", true,
			decideOf(func(i *node.Item, before *node.Kept, v *node.Verdict) {
				if i.Action == node.Replace && before == nil {
					v.Outcome, v.After, v.Brings = node.NotFound, nil, false
				}
			}),
		},
		{
			"cancel of nothing is done", "contract/control/a message that has come out", true,
			decideOf(func(i *node.Item, _ *node.Kept, v *node.Verdict) {
				if i.Action == node.Cancel && v.Outcome == node.NotFound {
					v.Outcome = node.Cancelled
				}
			}),
		},
		{
			"too late where nothing is found", "contract/control/a message that has come out", true,
			decideOf(func(_ *node.Item, _ *node.Kept, v *node.Verdict) {
				if v.Outcome == node.NotFound {
					v.Outcome = node.TooLate
				}
			}),
		},
		{
			"a cancelled message stays", "contract/control/a message that waits", true,
			decideOf(func(_ *node.Item, before *node.Kept, v *node.Verdict) {
				if v.Outcome == node.Cancelled {
					v.After = before
				}
			}),
		},
	}
}

// keepMutants decide rightly and keep something else.
func keepMutants() []mutant {
	on := func(
		outcome node.Outcome, change func(before, after *node.Kept),
	) func(*storetest.Clock) storetest.Instance {
		return decideOf(func(_ *node.Item, before *node.Kept, v *node.Verdict) {
			if v.Outcome == outcome && before != nil {
				change(before, v.After)
			}
		})
	}
	return []mutant{
		{
			"replace keeps the incarnation, and the claim", "contract/control/replace under a claim", true,
			on(node.Replaced, func(b, a *node.Kept) { a.Incarnation = b.Incarnation }),
		},
		{
			"replace forgets that a claim may publish", "contract/control/a message that is claimed", true,
			on(node.Replaced, func(b, a *node.Kept) { a.Former = b.Former }),
		},
		{
			"replace forgets an attempt", "contract/control/a message that waits after an attempt", true,
			on(node.Replaced, func(b, a *node.Kept) { a.Former = b.Former || b.Claimed }),
		},
		{
			"replace forgets what was replaced before",
			"contract/control/a message whose former content may appear", true,
			on(node.Replaced, func(b, a *node.Kept) { a.Former = b.Claimed || b.Attempts > 0 }),
		},
		{
			"replace always says that the former may appear", "contract/control/a message that waits", true,
			on(node.Replaced, func(_, a *node.Kept) { a.Former = true }),
		},
		{
			"replace keeps the attempts", "contract/control/replace under a claim", true,
			on(node.Replaced, func(b, a *node.Kept) { a.Attempts = b.Attempts }),
		},
		{
			"replace keeps the due time", "contract/control/what moves is found in the order of due times", true,
			on(node.Replaced, func(b, a *node.Kept) { a.Due = b.Due }),
		},
		{
			"reschedule forgets what was replaced",
			"contract/control/what was replaced may appear, and later replies say so",
			true, on(node.Rescheduled, func(_, a *node.Kept) { a.Former = false }),
		},
		{
			"fire forgets what was replaced", "contract/control/what was replaced may appear, and later replies say so",
			true, on(node.FiredNow, func(_, a *node.Kept) { a.Former = false }),
		},
		{
			"reschedule keeps the incarnation", "contract/control/a message that waits", true,
			on(node.Rescheduled, func(b, a *node.Kept) { a.Incarnation = b.Incarnation }),
		},
		{
			"fire keeps the incarnation", "contract/control/a message that waits", true,
			on(node.FiredNow, func(b, a *node.Kept) { a.Incarnation = b.Incarnation }),
		},
		{
			"reschedule leaves the due time", "contract/control/what moves is found in the order of due times", true,
			on(node.Rescheduled, func(b, a *node.Kept) { a.Due = b.Due }),
		},
		{
			"reschedule leaves a message put off",
			"contract/control/a message that waits after an unsent release", true,
			on(node.Rescheduled, func(b, a *node.Kept) {
				if !b.Due.Equal(b.Deadline) {
					a.Due = b.Due
				}
			}),
		},
		{
			"fire leaves the due time", "contract/control/what moves is found in the order of due times", true,
			on(node.FiredNow, func(b, a *node.Kept) { a.Due = b.Due }),
		},
		{
			"fire puts off what is overdue", "contract/control/fire never comes later than it would have", true,
			decideOf(func(i *node.Item, _ *node.Kept, v *node.Verdict) {
				if v.Outcome == node.FiredNow {
					v.After.Due = i.Deadline
				}
			}),
		},
		{
			"fire moves the deadline of what is overdue", "contract/control/fire never comes later than it would have",
			true, decideOf(func(i *node.Item, _ *node.Kept, v *node.Verdict) {
				if v.Outcome == node.FiredNow {
					v.After.Deadline = i.Deadline
				}
			}),
		},
		{
			"fire leaves the deadline", "contract/control/a message that waits", true,
			on(node.FiredNow, func(b, a *node.Kept) { a.Deadline = b.Deadline }),
		},
		{
			"reschedule brings the content of its record", "contract/control/a message that waits", true,
			decideOf(func(_ *node.Item, _ *node.Kept, v *node.Verdict) {
				v.Brings = v.Brings || v.Outcome == node.Rescheduled
			}),
		},
		{
			"replace keeps the content", "contract/control/a message that waits", true,
			decideOf(func(_ *node.Item, _ *node.Kept, v *node.Verdict) {
				v.Brings = v.Brings && v.Outcome != node.Replaced
			}),
		},
		{
			"giving back clears what was bound",
			"contract/control/too late binds, and giving back does not clear it", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.reset = func(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
					reset, err := b.Store.Reset(ctx, releases)
					for i, release := range releases {
						if row, found := b.row(release.ID, release.Lane); found && reset[i] == node.Freed && row.Bound {
							b.rewrite(ctx, row.Message, node.TakeRequest{}, row.Due)
						}
					}
					return reset, err
				}
			}),
		},
		{
			"an unsent attempt counts", "contract/control/an attempt that was taken back does not count", true,
			eachRelease(func(r *node.Release, _ memory.Row) { r.Unsent = false }),
		},
		{
			"giving back takes every attempt back", "contract/control/a message that waits after an attempt", true,
			eachRelease(func(r *node.Release, _ memory.Row) { r.Unsent = true }),
		},
		{
			"nothing is said of not after", "contract/control/not after is kept and returned", true,
			claimOf(asAsked, func(_ context.Context, _ *broken, list []node.Ready) []node.Ready {
				for i := range list {
					list[i].NotAfter = time.Time{}
				}
				return list
			}),
		},
		{
			"replace keeps not after", "contract/control/not after is kept and returned", true,
			takeOf(func(_ context.Context, b *broken, r *node.TakeRequest) {
				for i := range r.Items {
					if item := &r.Items[i]; item.Action == node.Replace && item.NotAfter.IsZero() {
						row, _ := b.row(item.ID, item.Lane)
						item.NotAfter = row.NotAfter
					}
				}
			}),
		},
		{
			"not after is a second late", "contract/control/not after is kept and returned", true,
			eachMessage(func(i *node.Item) {
				if !i.NotAfter.IsZero() && i.NotAfter.Year() < 9999 {
					i.NotAfter = i.NotAfter.Add(time.Second)
				}
			}),
		},
		{
			"instructions are for any lane", "contract/control/an instruction is for one lane", false,
			takeOf(func(_ context.Context, b *broken, r *node.TakeRequest) {
				for i := range r.Items {
					if item := &r.Items[i]; item.Action == node.Cancel {
						for _, row := range b.Dump() {
							if row.ID == item.ID {
								item.Lane = row.Lane
							}
						}
					}
				}
			}),
		},
	}
}

// aside takes items in from a partition that nobody else knows of, and removes no position of anybody.
func (b *broken) aside(ctx context.Context, request node.TakeRequest, items ...node.Item) node.TakeResult {
	place := node.Place{Partition: node.Partition{Topic: "aside", TopicID: uuid.UUID{0xa5}}}
	positions, _, err := b.Store.Positions(ctx, []node.Place{place})
	b.must(nil, err)
	if err != nil {
		return node.TakeResult{}
	}
	place.Position = positions[0]
	request.From, request.Items = []node.Place{place}, slices.Clone(items)
	for i := range request.Items {
		item := &request.Items[i]
		item.From, item.Epoch, item.Offset = 0, place.Epoch, place.Offset+int64(i)
	}
	result, err := b.Store.Take(ctx, request)
	b.must(nil, err)
	return result
}

// rewrite stores a message anew, as claimed if the request has a hold time, with nothing that was known of it.
func (b *broken) rewrite(ctx context.Context, m node.Message, request node.TakeRequest, due time.Time) node.Claim {
	b.must(b.Store.Settle(ctx, node.Removals(m.Ref())))
	item := node.Item{Action: node.Schedule, Message: m, Claim: true}
	result := b.aside(ctx, request, item)
	if len(result.Results) == 0 {
		return node.Claim{}
	}
	claim := result.Results[0].Claim
	if !due.IsZero() {
		b.must(b.Store.Reset(ctx, []node.Release{{Claim: claim, Due: due, Unsent: true}}))
	}
	return claim
}

// replyMutants tell something else, or nothing.
func replyMutants() []mutant {
	never := func(outcomes ...node.Outcome) func(*storetest.Clock) storetest.Instance {
		return replyOf(func(i *node.Item, v node.Verdict, lineage int64) (node.Message, bool) {
			m, told := i.Reply(v, lineage)
			return m, told && !slices.Contains(outcomes, v.Outcome)
		})
	}
	return []mutant{
		{
			"nothing is told", "contract/control/a message that waits", true,
			replyOf(func(*node.Item, node.Verdict, int64) (node.Message, bool) { return node.Message{}, false }),
		},
		{
			"only what changes something is told", "contract/control/a message that is claimed", true,
			never(node.TooLate, node.NotFound, node.Duplicate),
		},
		{
			"schedule is never told of", "contract/control/a message that is not there", true,
			never(node.Scheduled, node.Duplicate),
		},
		{
			"rejected records are not told of", "contract/control/a rejected record has a reply of its own", true,
			replyOf(func(i *node.Item, v node.Verdict, lineage int64) (node.Message, bool) {
				m, told := i.Reply(v, lineage)
				return m, told && !i.Answer.Rejected
			}),
		},
		{
			"a rejected record has the outcome of its copy",
			"contract/control/a rejected record has a reply of its own",
			true, replyOf(func(i *node.Item, v node.Verdict, lineage int64) (node.Message, bool) {
				other := *i
				if i.Answer != nil {
					other.Answer = &node.Answer{Message: i.Answer.Message}
				}
				return other.Reply(v, lineage)
			}),
		},
		{
			"replies of two lineages have one id", "contract/control/a message that waits", true,
			replyOf(func(i *node.Item, v node.Verdict, lineage int64) (node.Message, bool) {
				m, told := i.Reply(v, lineage)
				if told {
					m.ID = i.Answer.ID
				}
				return m, told
			}),
		},
		{
			"the lineage is always the first", "contract/lineage/nothing is taken in for the hold time", true,
			replyOf(func(i *node.Item, v node.Verdict, _ int64) (node.Message, bool) { return i.Reply(v, 1) }),
		},
		{
			"the former content is not spoken of", "contract/control/a message whose former content may appear", true,
			eachReply(func(m *node.Message, _ node.Verdict) { without(m, node.HeaderFormer) }),
		},
		{
			"the former content is spoken of by its replace only",
			"contract/control/what was replaced may appear, and later replies say so", true,
			eachReply(func(m *node.Message, v node.Verdict) {
				if v.Outcome != node.Replaced {
					without(m, node.HeaderFormer)
				}
			}),
		},
		{
			"a cancel does not say what it has cancelled",
			"contract/control/a reply says by how much a deadline has moved",
			true, eachReply(func(m *node.Message, v node.Verdict) {
				if v.Outcome == node.Cancelled {
					without(m, node.HeaderFormerDeadline)
				}
			}),
		},
		{
			"a reply has the deadline of before",
			"contract/control/a reply says by how much a deadline has moved", true,
			replyOf(func(i *node.Item, v node.Verdict, lineage int64) (node.Message, bool) {
				if v.Before != nil && v.After != nil {
					v.After = v.Before
				}
				return i.Reply(v, lineage)
			}),
		},
		{
			"a reply has no key", "contract/control/a reply is stored byte for byte", true,
			eachReply(func(m *node.Message, _ node.Verdict) { m.Key = nil }),
		},
		{
			"the headers of a reply are text", "contract/control/a reply is stored byte for byte", true,
			eachReply(func(m *node.Message, _ node.Verdict) {
				for i := range m.Headers {
					m.Headers[i].Value = []byte(string([]rune(string(m.Headers[i].Value))))
				}
			}),
		},
		{
			"a reply replaces what is stored", "contract/control/a reply leaves what is stored under its id", false,
			takeOf(func(ctx context.Context, b *broken, r *node.TakeRequest) {
				for _, item := range r.Items {
					if item.Answer != nil {
						if row, found := b.row(item.Answer.ID+"/1", item.Answer.Lane); found {
							b.must(b.Store.Settle(ctx, node.Removals(row.Ref())))
						}
					}
				}
			}),
		},
		{
			"a reply is due a second later", "contract/control/a message that waits", true,
			eachReply(func(m *node.Message, _ node.Verdict) {
				if m.Deadline.Year() < 9999 {
					m.Deadline = m.Deadline.Add(time.Second)
				}
			}),
		},
	}
}
