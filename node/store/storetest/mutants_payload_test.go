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
			eachMessage(func(m *node.Insertion) { m.Key = append([]byte{}, m.Key...) }),
		},
		{
			"empty value becomes null", "contract/payload/values", true,
			eachMessage(func(m *node.Insertion) { m.Value = append([]byte(nil), m.Value...) }),
		},
		{
			"null header becomes empty", "contract/payload/header values", true,
			eachMessage(func(m *node.Insertion) {
				m.Headers = slices.Clone(m.Headers)
				for i := range m.Headers {
					m.Headers[i].Value = append([]byte{}, m.Headers[i].Value...)
				}
			}),
		},
		{
			"headers are sorted", "contract/payload/lists of headers", true,
			eachMessage(func(m *node.Insertion) {
				m.Headers = slices.Clone(m.Headers)
				slices.SortStableFunc(m.Headers, func(a, b node.Header) int { return cmp.Compare(a.Name, b.Name) })
			}),
		},
		{
			"repeated headers are merged", "contract/payload/lists of headers", true,
			eachMessage(func(m *node.Insertion) {
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
			eachMessage(func(m *node.Insertion) {
				m.Headers = slices.Clone(m.Headers)
				for i := range m.Headers {
					m.Headers[i].Name = strings.ToValidUTF8(m.Headers[i].Name, "\ufffd")
				}
			}),
		},
		{
			"values end at 64 KiB", "contract/payload/large", false,
			eachMessage(func(m *node.Insertion) { m.Value = m.Value[:min(len(m.Value), 1<<16)] }),
		},
		{
			"deadlines are 64 bits of nanoseconds", "contract/payload/deadlines", true,
			eachMessage(func(m *node.Insertion) { m.Deadline = time.Unix(0, m.Deadline.UnixNano()) }),
		},
		{
			"deadlines in milliseconds", "contract/payload/deadlines", true,
			eachMessage(func(m *node.Insertion) { m.Deadline = m.Deadline.Truncate(time.Millisecond) }),
		},
		{
			"deadlines are rounded", "contract/payload/deadlines are cut to microseconds", false,
			eachMessage(func(m *node.Insertion) { m.Deadline = m.Deadline.Round(time.Microsecond) }),
		},
		{
			"deadlines come back in another zone", "contract/payload/deadlines", false,
			readyOf(asAsked, func(_ context.Context, _ *broken, r []node.Readied) []node.Readied {
				for i := range r {
					r[i].Deadline = r[i].Deadline.In(time.FixedZone("UTC", 0))
				}
				return r
			}),
		},
		{
			"claims in nanoseconds", "contract/ready/due time is inclusive", true,
			breakIt(func(b *broken, clock *storetest.Clock) {
				b.ready = func(ctx context.Context, request node.ReadyRequest) ([]node.Readied, error) {
					readied, err := b.Store.Ready(ctx, request)
					for i := range readied {
						readied[i].Claim.ReadiedAt = clock.Now()
					}
					return readied, err
				}
			}),
		},
		{
			"the caller's memory is kept", "contract/insert/arguments are not changed or kept", false,
			keepMemory(func(m node.Message) node.Message { return m }),
		},
		{
			"results share memory", "contract/ready/results share no memory with the store", false,
			keepMemory(copyPayload),
		},
	}
}

// keepMemory returns from Ready what Insert has kept of a message, and no copy of that.
func keepMemory(keep func(node.Message) node.Message) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		kept := map[node.Ref]node.Message{}
		b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
			for _, m := range r.Messages {
				kept[m.Ref()] = keep(m.Message)
			}
			return b.Store.Insert(ctx, r)
		}
		b.ready = func(ctx context.Context, r node.ReadyRequest) ([]node.Readied, error) {
			readied, err := b.Store.Ready(ctx, r)
			for i := range readied {
				m := kept[readied[i].Ref()]
				readied[i].Key, readied[i].Value, readied[i].Headers = m.Key, m.Value, m.Headers
			}
			return readied, err
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
