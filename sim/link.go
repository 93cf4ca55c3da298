package sim

import (
	"math/rand/v2"
	"time"
)

// link is the way between one node and the store, or one node and the brokers. Each direction can be cut.
type link struct {
	random *rand.Rand
	usual  int64 // the usual time of a call, there and back

	requestsCut, repliesCut int64                // until when nothing passes
	unreached               map[*partition]int64 // until when nothing passes to the leaders of some partitions
	bandwidth               int64                // bytes in a second, 0 for no limit
}

func newLink(w *world, p purpose, number int, usual time.Duration) link {
	return link{
		random: stream(w.options.Seed, p, number, 0), usual: int64(usual), bandwidth: int64(w.options.Bandwidth),
	}
}

// transfer returns the time that so many bytes take.
func (l *link) transfer(bytes int) int64 {
	if l.bandwidth == 0 {
		return 0
	}
	return int64(bytes) * int64(time.Second) / l.bandwidth
}

// latency draws the time of one way.
func (l *link) latency() int64 {
	one := l.usual/4 + l.random.Int64N(l.usual/2+1)
	if oneIn(l.random, 128) {
		one *= 10
	}
	return one
}

// cut lets nothing pass to the node until an instant, and nothing from it either if both.
func (l *link) cut(until int64, both bool) {
	l.repliesCut = max(l.repliesCut, until)
	if both {
		l.requestsCut = max(l.requestsCut, until)
	}
}

// cutFrom lets nothing pass to the leader of a partition until an instant.
func (l *link) cutFrom(p *partition, until int64) {
	if l.unreached == nil {
		l.unreached = map[*partition]int64{}
	}
	l.unreached[p] = max(l.unreached[p], until)
}

func (l *link) heal(now int64) { l.requestsCut, l.repliesCut, l.unreached = now, now, nil }
