package journal

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// flushInterval is how often the local copy is written to disk at least, as long as something changes. What a process
// that is killed has not written it reads again, and from a copy that is older than MaxAge it could not go on at all.
const flushInterval = 5 * time.Minute

// maxPatience is how long a store whose disk has failed may take to be closed. Whoever was about to write as it failed
// may wait for Pebble, forever.
const maxPatience = 30 * time.Second

// errClosed is the error of calls that come after Close.
var errClosed = errors.New("the local copy of the journal is closed")

// DiskError says that the local copy can't be read or written any more: the disk is full, or broken. The store has lost
// all partitions then, owns none anew, and has to be closed within half a minute, or it ends the process. Nothing is
// lost: all that was acknowledged stands in the journal, and whoever owns the partitions next goes on.
type DiskError struct {
	Dir string
	Err error

	// Damaged says that what is on the disk is wrong, and not the disk: the copy is made anew when it is opened next.
	Damaged bool
}

// Error returns the sentence for a person.
func (e *DiskError) Error() string {
	if e.Damaged {
		return fmt.Sprintf("the local copy of the journal in %s is damaged: %v; nothing is lost: start the node "+
			"again, which makes the copy anew from the journal", e.Dir, e.Err)
	}
	return fmt.Sprintf("the local copy of the journal in %s cannot be kept: %v; nothing is lost: make room there, or "+
		"remove that folder, and start the node again, which reads the journal", e.Dir, e.Err)
}

// Unwrap returns the error of the disk.
func (e *DiskError) Unwrap() error { return e.Err }

// disk is where the local copies of all partitions are. It has no log of its own, because the journal is one: a change
// is in memory until that is full, flushInterval has passed or the store is closed, and is written then. All that is
// written in one batch gets there together, and nothing before what was written earlier: so each copy is as the journal
// was at the place that it names.
//
// What fails is found while such a part is written, in the background. Pebble would try on forever, and whoever wants
// to write would wait with his locks; so the first error is the last one: nothing more is written.
type disk struct {
	*pebble.DB

	folder  *folder
	failed  atomic.Pointer[DiskError]
	gone    chan struct{} // closed when it has failed
	flushed atomic.Int64  // when it was written last, in microseconds; 0 before it is known
	closed  atomic.Bool

	// steps is how many keys scans have stepped over, with those that were removed since the last compaction.
	steps atomic.Int64

	// over says that the disk is closed, as far as can be. If it is not within maxPatience of a failure, the process
	// ends.
	over atomic.Bool

	// closing is held by whoever uses the database, for reading, and from Close on for good. Pebble panics when it is
	// used afterwards. It is only ever tried: a call within another one would wait for Close, which waits for both.
	closing sync.RWMutex
}

// openDisk opens the folder. Nil files is the file system of this machine. A copy that cannot be opened, whatever is
// wrong with it, is removed, and made anew from the journal. A *FolderError says that the folder is not one for this
// node, and a *DiskError that its disk fails.
func openDisk(dir string, files vfs.FS) (*disk, error) {
	f, err := openFolder(dir, files)
	if err != nil {
		return nil, err
	}
	d, err := f.open()
	if err == nil {
		if err = f.label(); err == nil { // an earlier release has made it without
			return d, nil
		}
		return nil, errors.Join(err, d.Close())
	}
	if !isOfDisk(err) {
		if err = f.empty(err); err == nil {
			d, err = f.open()
		}
	}
	if err == nil {
		return d, nil
	}
	if isOfDisk(err) {
		if _, is := errors.AsType[*DiskError](err); !is {
			err = f.failed(err)
		}
	}
	_ = f.lock.Close() // which says nothing new
	return nil, err
}

// open opens the copy in a folder.
func (f *folder) open() (*disk, error) {
	d := &disk{folder: f, gone: make(chan struct{})}
	options := &pebble.Options{
		FS: f.files, Lock: f.lock, Logger: (*diskLog)(d), MemTableSize: memTable, CacheSize: cacheSize,
		DisableWAL: true,
		EventListener: &pebble.EventListener{
			BackgroundError: d.broken,
			DataCorruption:  func(info pebble.DataCorruptionInfo) { _ = d.damaged(errors.New(info.String())) },
		},
	}
	options.Levels[0].FilterPolicy = bloom.FilterPolicy(10) // most of what is looked up is not there
	var err error
	var opening sync.WaitGroup
	opening.Go(func() { d.DB, err = pebble.Open(f.dir, options) }) // which may end there, see Fatalf
	opening.Wait()
	if err == nil {
		err = d.works()
	}
	if err == nil {
		return d, nil
	}
	if d.DB != nil {
		_, closed := d.close()
		err = errors.Join(err, closed)
	}
	d.over.Store(true)
	return nil, err
}

// broken notes that the disk fails. The caller may have any lock of Pebble.
func (d *disk) broken(err error) {
	if pebble.IsCorruptionError(err) {
		_ = d.damaged(err)
		return
	}
	d.fails(&DiskError{Dir: d.folder.dir, Err: err})
}

// damaged notes that what is on the disk is wrong, for whoever opens it next. The caller may have any lock of Pebble.
func (d *disk) damaged(err error) error {
	problem := &DiskError{Dir: d.folder.dir, Err: err, Damaged: true}
	if noted := d.folder.write(damageFile, ""); noted != nil {
		problem = &DiskError{Dir: d.folder.dir, Err: errors.Join(err, noted)} // whoever reads it removes the folder
	}
	d.fails(problem)
	return problem
}

// fails notes the first failure.
func (d *disk) fails(problem *DiskError) {
	if !d.failed.CompareAndSwap(nil, problem) {
		return
	}
	time.AfterFunc(maxPatience, func() {
		if !d.over.Load() {
			panic(problem)
		}
	})
	close(d.gone)
}

// works returns an error if nothing can be written any more.
func (d *disk) works() error {
	if problem := d.failed.Load(); problem != nil {
		return problem
	}
	return nil
}

// write writes a batch. It is not synced: what the disk loses is read again.
func (d *disk) write(batch *pebble.Batch, now time.Time) error {
	return d.read(func() error {
		if err := d.works(); err != nil {
			return err
		}
		err := batch.Commit(pebble.NoSync)
		if err == nil && d.due(now) {
			_, err = d.AsyncFlush()
		}
		if err != nil {
			return fmt.Errorf("write the local copy: %w", err)
		}
		return nil
	})
}

// due reports whether what is in memory has not been written for long. The answer is true once.
func (d *disk) due(now time.Time) bool {
	last := d.flushed.Load()
	if last == 0 {
		d.flushed.CompareAndSwap(0, now.UnixMicro())
		return false
	}
	return now.Sub(time.UnixMicro(last)).Abs() >= flushInterval && d.flushed.CompareAndSwap(last, now.UnixMicro())
}

// read calls do while the database is open.
func (d *disk) read(do func() error) error {
	if !d.closing.TryRLock() {
		return errClosed
	}
	defer d.closing.RUnlock()
	err := do()
	if pebble.IsCorruptionError(err) || errors.Is(err, errForeign) || errors.Is(err, errPart) {
		return d.damaged(err) // Chronos has written all of it, and as it had read it
	}
	return err
}

// errPart says that the local copy lacks something that it had together with something else.
var errPart = errors.New("the local copy has only a part of a message")

// get returns what is stored under a key, as decode makes it of that; the zero value and false if there is nothing.
func get[T any](
	d *disk, from pebble.Reader, key []byte, decode func([]byte) (T, error),
) (value T, some bool, err error) {
	err = d.read(func() error {
		data, closer, err := from.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the local copy: %w", err)
		}
		defer closer.Close() //nolint:errcheck // it has no errors
		some = true
		value, err = decode(data)
		return err
	})
	return value, some, err
}

// size returns how many bytes are on disk, once all is written.
func (d *disk) size() (size uint64, err error) {
	return size, d.read(func() error {
		if err := d.flush(); err != nil {
			return err
		}
		size = d.Metrics().DiskSpaceUsage()
		return nil
	})
}

// flush writes what is in memory. It does not wait for a disk that fails: Pebble would, forever.
func (d *disk) flush() error {
	if err := d.works(); err != nil {
		return err
	}
	flushed, err := d.AsyncFlush()
	if err != nil {
		return fmt.Errorf("write the local copy: %w", err)
	}
	select {
	case <-flushed:
	case <-d.gone:
	}
	return d.works()
}

// Close writes what is in memory, closes the database, and unlocks the folder. A second call does nothing. A database
// that has failed may wait for a goroutine of its own that has ended: then it stays as it is until the process ends.
func (d *disk) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	ended, err := d.close()
	if ended {
		err = errors.Join(err, d.folder.lock.Close())
	}
	return err
}

// close is Close of the database alone, and reports whether it is closed.
func (d *disk) close() (over bool, err error) {
	d.closing.Lock()
	defer d.over.Store(true)
	err = d.flush()
	ended := make(chan error, 1)
	go func() { ended <- d.DB.Close() }()
	if err == nil {
		select {
		case err = <-ended:
			return true, err
		case <-d.gone: // it fails just now, while it is being closed
			err = d.works()
		}
	}
	select {
	case also := <-ended:
		return true, errors.Join(err, also)
	case <-time.After(time.Second):
		return false, err
	}
}

// diskLog is the pebble.Logger of a disk.
type diskLog disk

// Infof implements pebble.Logger.
func (*diskLog) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (*diskLog) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger: it is called where Pebble can't go on, and must not return. That is a goroutine of
// Pebble's own that writes the list of its files, the one of openDisk, or something that can't happen.
func (l *diskLog) Fatalf(format string, args ...any) {
	d := (*disk)(l)
	d.broken(fmt.Errorf(format, args...))
	runtime.Goexit()
}
