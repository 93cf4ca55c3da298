package sim

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

// purpose names a stream of randomness. Each purpose has its own for each node, so that taking one fault or one
// message away leaves all other draws as they were.
type purpose uint64

const (
	forOptions purpose = iota + 1
	forWorkload
	forFaults
	forStoreLink
	forBrokerLink
	forClocks
	forProcesses
	forGroup
	forPayloads
	forFates
	forTopics
	forControl
	forOperators
	forReceivers
	forCallLink
	forWindows
	forPaces
	forQueues
	forIdle
	forHearing
)

// stream returns the stream for a purpose, a node (or another number) and its life.
func stream(seed uint64, p purpose, node, life int) *rand.Rand {
	a := scramble(seed ^ scramble(uint64(p)))
	b := scramble(a ^ scramble(uint64(node)<<32|uint64(life)&0xffffffff))
	return rand.New(rand.NewPCG(a, b))
}

// scramble is the finalizer of splitmix64: one changed bit of x changes about half of the result's.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// oneIn reports whether an event of chance 1 in n has occurred.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// between draws from least to most, both included.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// pick draws one of the given values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// digest is the running hash over everything that happens in a world. It is not for adversaries: it tells two
// traces apart, and is the same on every machine.
type digest uint64

func (d *digest) number(n uint64) {
	*d = digest(bits.RotateLeft64(uint64(*d)^n*0x9e3779b97f4a7c15, 27) * 0x94d049bb133111eb)
}

func (d *digest) text(s string) {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	d.number(h)
}

func (d *digest) bytes(b []byte) {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	d.number(h)
}
