package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// finder looks up the heads of messages for one change, many one after the other. Most of what is taken in is not
// there, which the filters of Pebble's tables tell without a look at what they are about; and a look by itself (get)
// does not ask those of the lowest level, where nearly everything is.
type finder struct {
	db       *disk
	iterator *pebble.Iterator // nil before the first look
}

// reading calls do, in which the change looks up heads in the local copy as it is now.
func (c *change) reading(do func() error) error {
	return c.db.read(func() error {
		f := &finder{db: c.db}
		c.finder = f
		defer func() { c.finder = nil }()
		return errors.Join(do(), f.close())
	})
}

// head returns the head under a key; nil for nothing.
func (f *finder) head(key []byte) (r *row, err error) {
	if f.iterator == nil {
		if f.iterator, err = f.db.NewIter(&pebble.IterOptions{UseL6Filters: true}); err != nil {
			return nil, fmt.Errorf("read the local copy: %w", err)
		}
	}
	var value []byte
	some := f.iterator.SeekPrefixGE(key)
	if err = f.iterator.Error(); err == nil && some {
		value, err = f.iterator.ValueAndErr()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the local copy: %w", err)
	case !some:
		return nil, nil //nolint:nilnil // there is nothing
	}
	return decodeHead(value)
}

func (f *finder) close() error {
	if f.iterator == nil {
		return nil
	}
	if err := f.iterator.Close(); err != nil {
		return fmt.Errorf("read the local copy: %w", err)
	}
	return nil
}
