package storetest_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/store/storetest"
)

func payloadMutants() []mutant {
	return []mutant{
		{
			"null key becomes empty", "contract/payload/keys", true,
			eachMessage(func(m *node.Item) { m.Key = append([]byte{}, m.Key...) }),
		},
		{
			"empty value becomes null", "contract/payload/values", true,
			eachMessage(func(m *node.Item) { m.Value = append([]byte(nil), m.Value...) }),
		},
		{
			"null header becomes empty", "contract/payload/header values", true,
			eachMessage(func(m *node.Item) {
				m.Headers = slices.Clone(m.Headers)
				for i := range m.Headers {
					m.Headers[i].Value = append([]byte{}, m.Headers[i].Value...)
				}
			}),
		},
		{
			"headers are sorted", "contract/payload/lists of headers", true,
			eachMessage(func(m *node.Item) {
				m.Headers = slices.Clone(m.Headers)
				slices.SortStableFunc(m.Headers, func(a, b node.Header) int { return cmp.Compare(a.Name, b.Name) })
			}),
		},
		{
			"repeated headers are merged", "contract/payload/lists of headers", true,
			eachMessage(func(m *node.Item) {
				var merged []node.Header
				for _, h := range m.Headers {
					if !slices.ContainsFunc(merged, func(o node.Header) bool { return o.Name == h.Name }) {
						merged = append(merged, h)
					}
				}
				m.Headers = merged
			}),
		},
		{
			"header names are text", "contract/payload/header names", true,
			eachMessage(func(m *node.Item) {
				m.Headers = slices.Clone(m.Headers)
				for i := range m.Headers {
					m.Headers[i].Name = strings.ToValidUTF8(m.Headers[i].Name, "\ufffd")
				}
			}),
		},
		{
			"values end at 64 KiB", "contract/payload/large", false,
			eachMessage(func(m *node.Item) { m.Value = m.Value[:min(len(m.Value), 1<<16)] }),
		},
		{
			"deadlines are 64 bits of nanoseconds", "contract/payload/deadlines", true,
			eachMessage(func(m *node.Item) { m.Deadline = time.Unix(0, m.Deadline.UnixNano()) }),
		},
		{
			"deadlines in milliseconds", "contract/payload/deadlines", true,
			eachMessage(func(m *node.Item) { m.Deadline = m.Deadline.Truncate(time.Millisecond) }),
		},
		{
			"deadlines are rounded", "contract/payload/deadlines are cut to microseconds", false,
			eachMessage(func(m *node.Item) { m.Deadline = m.Deadline.Round(time.Microsecond) }),
		},
		{
			"deadlines come back in another zone", "contract/payload/deadlines", false,
			claimOf(asAsked, func(_ context.Context, _ *broken, r []node.Ready) []node.Ready {
				for i := range r {
					r[i].Deadline = r[i].Deadline.In(time.FixedZone("UTC", 0))
				}
				return r
			}),
		},
		{
			"claims in nanoseconds", "contract/claim/due time is inclusive", true,
			breakIt(func(b *broken, clock *storetest.Clock) {
				b.claim = func(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
					result, err := b.Store.Claim(ctx, request)
					for i := range result.Messages {
						result.Messages[i].Claim.ReadiedAt = clock.Now()
					}
					return result, err
				}
			}),
		},
		{
			"the caller's memory is kept", "contract/take/arguments are not changed or kept", false,
			keepMemory(func(m node.Message) node.Message { return m }),
		},
		{
			"results share memory", "contract/claim/results share no memory with the store", false,
			keepMemory(copyPayload),
		},
	}
}

// keepMemory returns from Claim what Take has kept of a message, and no copy of that.
func keepMemory(keep func(node.Message) node.Message) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		kept := map[node.Ref]node.Message{}
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			for _, item := range r.Items {
				kept[item.Ref()] = keep(item.Message)
			}
			return b.Store.Take(ctx, r)
		}
		b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
			result, err := b.Store.Claim(ctx, r)
			for i := range result.Messages {
				to, m := &result.Messages[i], kept[result.Messages[i].Ref()]
				to.Key, to.Value, to.Headers = m.Key, m.Value, m.Headers
			}
			return result, err
		}
	})
}

func copyPayload(m node.Message) node.Message {
	m.Key, m.Value, m.Headers = slices.Clone(m.Key), slices.Clone(m.Value), slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = slices.Clone(m.Headers[i].Value)
	}
	return m
}
