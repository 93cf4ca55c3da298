package main_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	web "chronos/node/client"
)

// BenchmarkHTTP puts messages by the API of one node on real servers, from many clients at once, and measures how many
// are stored in a second, and how long a client waits for its answer.
//
//	scripts/with-servers go test -run '^$' -bench BenchmarkHTTP -benchtime 1x ./cmd/chronos
func BenchmarkHTTP(b *testing.B) {
	const messages = 20_000
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s := newService(b)
			p := s.start(b, "--api-listen", "127.0.0.1:0", "--api-rate", "0")
			at := p.log.await(b, `"msg":"taking messages in by HTTP","url":"([^"]+)"`, 1)[1]
			p.log.await(b, `"msg":"started"`, 1)
			n := messages
			if clients == 1 {
				n /= 20
			}
			message := web.Message{When: web.In(time.Hour), Value: make([]byte, 300)}
			for b.Loop() {
				took := make([]time.Duration, n)
				var group sync.WaitGroup
				started := time.Now()
				for worker := range clients {
					group.Go(func() {
						c, err := web.New(web.Config{URL: at})
						if err != nil {
							b.Error(err)
							return
						}
						for i := worker; i < n; i += clients {
							began := time.Now()
							_, err := c.Post(b.Context(), s.output, message)
							if took[i] = time.Since(began); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
				all := time.Since(started)
				slices.Sort(took)
				b.ReportMetric(float64(n)/all.Seconds(), "requests/s")
				b.ReportMetric(float64(took[n/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[n*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
