package journal

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A folder with a local copy has two files beside those of Pebble: a label, which says whose it is, and, if the copy
// is damaged, a note of that. A damaged copy is removed when the folder is opened next, and made anew from the journal.
// Nothing is ever removed from a folder without the label.
const (
	labelFile  = "CHRONOS-COPY"
	damageFile = "CHRONOS-DAMAGED"

	labelText = "This folder has the local copy of a journal of Chronos. It may be removed while its node is stopped.\n"
)

// FolderError says that a folder is not one for the local copy of this node.
type FolderError struct {
	Dir string

	// Why says what is wrong with the folder.
	Why string
}

// Error returns the sentence for a person.
func (e *FolderError) Error() string {
	return fmt.Sprintf("the folder %s %s: --data-dir must be a folder that belongs to this node alone", e.Dir, e.Why)
}

// ofPebble matches the names of the files of Pebble.
func ofPebble(name string) bool {
	_, known := map[string]bool{"LOCK": true, "CURRENT": true}[name]
	return known || pebbleNames().MatchString(name)
}

func pebbleNames() *regexp.Regexp {
	return regexp.MustCompile(`^(MANIFEST-\d+|OPTIONS-\d+|marker\.[a-z-]+\..+|\d+\.(sst|blob|log)|` +
		`(CURRENT|temporary)\.\d+\.dbtmp|REMOTE-OBJ-CATALOG-\d+)$`)
}

// folder is a folder for the local copy, which is locked.
type folder struct {
	dir   string
	files vfs.FS
	lock  *pebble.Lock
}

// openFolder makes a folder if it is not there, and locks it. A *FolderError says that it is not one for this node.
func openFolder(dir string, files vfs.FS) (*folder, error) {
	if files == nil {
		files = vfs.Default
	}
	f := &folder{dir: dir, files: files}
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return nil, f.failed(err)
	}
	names, err := files.List(dir)
	if err != nil {
		return nil, f.failed(err)
	}
	foreign := func(name string) bool {
		return !ofPebble(name) && name != damageFile && name != "lost+found" && !strings.HasPrefix(name, ".")
	}
	slices.Sort(names)
	if i := slices.IndexFunc(names, foreign); i >= 0 && !slices.ContainsFunc(names, ofPebble) &&
		!slices.Contains(names, labelFile) {
		return nil, &FolderError{dir, fmt.Sprintf("has files that are not of a local copy, such as %q", names[i])}
	}
	if f.lock, err = pebble.LockDirectory(dir, files); err != nil {
		if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "held by current process") {
			return nil, &FolderError{dir, "is in use by another node"}
		}
		return nil, f.failed(err)
	}
	if f.has(damageFile) {
		err = f.empty(errors.New("it was found to be damaged"))
	} else if !slices.ContainsFunc(names, ofPebble) {
		err = f.label()
	}
	if err != nil {
		return nil, errors.Join(err, f.lock.Close())
	}
	return f, nil
}

// failed returns the error of a folder whose disk fails.
func (f *folder) failed(err error) error { return &DiskError{Dir: f.dir, Err: err} }

// path returns the path of a file.
func (f *folder) path(name string) string { return f.files.PathJoin(f.dir, name) }

func (f *folder) has(name string) bool {
	_, err := f.files.Stat(f.path(name))
	return err == nil
}

// label labels the folder as that of a local copy.
func (f *folder) label() error { return f.write(labelFile, labelText) }

// write writes a file, unless it is there.
func (f *folder) write(name, text string) error {
	if f.has(name) {
		return nil
	}
	file, err := f.files.Create(f.path(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return f.failed(err)
	}
	_, err = file.Write([]byte(text))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return f.failed(err)
	}
	return nil
}

// empty removes a copy that cannot be trusted, because of an error. The note of its damage goes last: what is removed
// in part is no copy either.
func (f *folder) empty(why error) error {
	if !f.has(labelFile) {
		return &FolderError{f.dir, fmt.Sprintf("has a database that cannot be opened (%v), and nothing shows that it "+
			"is a local copy of Chronos: remove it if it is one, or name another folder", why)}
	}
	if err := f.write(damageFile, ""); err != nil {
		return err
	}
	names, err := f.files.List(f.dir)
	if err != nil {
		return f.failed(err)
	}
	for _, name := range names {
		if ofPebble(name) && name != "LOCK" {
			if err := f.files.Remove(f.path(name)); err != nil {
				return f.failed(err)
			}
		}
	}
	if err := f.files.Remove(f.path(damageFile)); err != nil {
		return f.failed(err)
	}
	return nil
}

// isOfDisk reports whether an error is one of a disk or of this machine, and says nothing of what is on the disk.
func isOfDisk(err error) bool {
	for _, of := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EIO, syscall.EMFILE,
		syscall.ENFILE, syscall.ENOMEM, syscall.EFBIG, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ENODEV,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}
