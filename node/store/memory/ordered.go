package memory

import (
	"cmp"
	"iter"
	"slices"
)

// chunkRows is the largest number of rows in one chunk of an ordered list. It balances moving rows within a
// chunk against moving chunks within the list.
const chunkRows = 256

// ordered is a list of rows in ascending order, cut into chunks, so that adding or removing one row moves
// at most a chunk and now and then the list of chunks, but never all rows.
type ordered struct {
	// compare is a total order: it returns 0 for a row and itself only.
	compare func(a, b *row) int

	// chunks hold the rows in order. None is empty.
	chunks [][]*row
}

// compareDue orders waiting rows as Claim returns them.
func compareDue(a, b *row) int {
	if order := a.Due.Compare(b.Due); order != 0 {
		return order
	}
	return compareNames(a, b)
}

// compareExpires orders ready rows as Expired returns them.
func compareExpires(a, b *row) int {
	if order := a.Expires.Compare(b.Expires); order != 0 {
		return order
	}
	return compareNames(a, b)
}

func compareNames(a, b *row) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
}

// add puts r, which must not be in the list, in its place.
func (o *ordered) add(r *row) {
	if len(o.chunks) == 0 {
		o.chunks = [][]*row{{r}}
		return
	}
	c, i, _ := o.find(r)
	chunk := slices.Insert(o.chunks[c], i, r)
	if len(chunk) <= chunkRows {
		o.chunks[c] = chunk
		return
	}
	half := len(chunk) / 2
	upper := slices.Clone(chunk[half:])
	clear(chunk[half:])
	o.chunks[c] = chunk[:half]
	o.chunks = slices.Insert(o.chunks, c+1, upper)
}

// remove takes r, which must be in the list, out of it.
func (o *ordered) remove(r *row) {
	c, i, found := o.find(r)
	if !found {
		panic("memory: a row is not where its index expects it")
	}
	if len(o.chunks[c]) == 1 {
		o.chunks = slices.Delete(o.chunks, c, c+1)
		return
	}
	o.chunks[c] = slices.Delete(o.chunks[c], i, i+1)
}

// all yields the rows in ascending order. The list must not change meanwhile.
func (o *ordered) all(yield func(*row) bool) {
	for _, chunk := range o.chunks {
		for _, r := range chunk {
			if !yield(r) {
				return
			}
		}
	}
}

// from yields the rows in ascending order that do not come before r, which need not be in the list. The list must not
// change meanwhile.
func (o *ordered) from(r *row) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		if len(o.chunks) == 0 {
			return
		}
		c, i, _ := o.find(r)
		for _, chunk := range o.chunks[c:] {
			for _, r := range chunk[i:] {
				if !yield(r) {
					return
				}
			}
			i = 0
		}
	}
}

// find returns the chunk and the place in it where r is, or where it belongs. There must be a chunk.
func (o *ordered) find(r *row) (chunk, place int, found bool) {
	chunk, begins := slices.BinarySearchFunc(o.chunks, r, func(chunk []*row, r *row) int {
		return o.compare(chunk[0], r)
	})
	if !begins && chunk > 0 {
		chunk-- // the last chunk that begins before r
	}
	place, found = slices.BinarySearchFunc(o.chunks[chunk], r, o.compare)
	return chunk, place, found
}
