package journal

import "hash/maphash"

// seen knows which keys have been stored: for certain of those that have not, and of nearly all of the others. It is a
// Bloom filter, and spares a copy that is made anew most looks into itself: of a message that was stored, the journal
// has one entry, as a rule.
type seen struct {
	seed maphash.Seed
	bits []uint64
}

const (
	// seenBits is how many bits there are for each key, of which seenProbes are set: one in a hundred keys is taken for
	// one that was stored.
	seenBits, seenProbes = 10, 6

	// maxSeen is as many bits as there are at most, which are 8 MiB: of more than 7 million keys more are mistaken, and
	// looked up in vain.
	maxSeen = 1 << 26
)

// newSeen returns one for about as many keys.
func newSeen(keys int64) *seen {
	return &seen{maphash.MakeSeed(), make([]uint64, min(max(keys, 1)*seenBits, maxSeen)/64+1)}
}

// has reports whether a key may have been stored before, and notes that it is from now on, if it is.
func (s *seen) has(key []byte, stores bool) bool {
	sum := maphash.Bytes(s.seed, key)
	all := true
	for range seenProbes {
		at := sum % uint64(len(s.bits)*64)
		bit := uint64(1) << (at % 64)
		if s.bits[at/64]&bit == 0 {
			if all = false; !stores {
				return false
			}
			s.bits[at/64] |= bit
		}
		sum = (sum ^ sum>>29) * 0x9e3779b97f4a7c15
	}
	return all
}
