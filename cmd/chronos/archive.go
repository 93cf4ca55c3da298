package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// archive is a file that is written, compressed by its name. It bears another name until it is complete.
type archive struct {
	name   string
	file   *os.File // nil for the standard output
	buffer *bufio.Writer
	packed io.WriteCloser // nil where nothing is compressed
}

// partial is what is added to the name of a file that is not complete.
const partial = ".partial"

// create begins a file. "-" is the standard output.
func create(name string, stdout io.Writer) (*archive, error) {
	a := &archive{name: name}
	if name == "-" {
		a.buffer = bufio.NewWriterSize(stdout, 1<<18)
		return a, nil
	}
	err := creatable(name)
	if err != nil {
		return nil, err
	}
	// It has messages in it: nobody else is to read them.
	if a.file, err = os.OpenFile(name+partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600); err != nil {
		return nil, fmt.Errorf("create the file: %w", err)
	}
	a.buffer = bufio.NewWriterSize(a.file, 1<<18)
	switch {
	case strings.HasSuffix(name, ".gz"):
		a.packed = gzip.NewWriter(a.buffer)
	case strings.HasSuffix(name, ".zst"):
		if a.packed, err = zstd.NewWriter(a.buffer, zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, errors.Join(err, a.file.Close())
		}
	}
	return a, nil
}

// creatable returns an error for a file that is there already, or whose folder is not. It makes nothing.
func creatable(name string) error {
	if name == "-" {
		return nil
	}
	if _, err := os.Stat(name); err == nil {
		return usagef("--to is %s, which is there already: name another file, or remove it", shown(name))
	}
	folder := filepath.Dir(name)
	if at, err := os.Stat(folder); err != nil || !at.IsDir() {
		return usagef("--to is %s: there is no folder %s", shown(name), folder)
	}
	return nil
}

// Write implements io.Writer.
func (a *archive) Write(p []byte) (int, error) {
	if a.packed != nil {
		return a.packed.Write(p)
	}
	return a.buffer.Write(p)
}

// keep completes the file, and gives it its name.
func (a *archive) keep() (err error) {
	if a.packed != nil {
		err = a.packed.Close()
	}
	err = errors.Join(err, a.buffer.Flush())
	if a.file == nil || err != nil {
		return err
	}
	err = errors.Join(a.file.Sync(), a.file.Close())
	a.file = nil
	if err == nil {
		err = os.Rename(a.name+partial, a.name)
	}
	return err
}

// discard removes a file that was not kept.
func (a *archive) discard() {
	if a.file != nil {
		_ = a.file.Close() // what is in it is of no use
		_ = os.Remove(a.name + partial)
	}
}

// opened is a file that is read.
type opened struct {
	io.Reader

	file *os.File
	zstd *zstd.Decoder
}

// openArchive opens a file, compressed or not, whatever its name.
func openArchive(name string) (*opened, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the file: %w", err)
	}
	buffered := bufio.NewReaderSize(file, 1<<18)
	o := &opened{Reader: buffered, file: file}
	switch magic, _ := buffered.Peek(4); { // a file that is shorter is none of ours, and its reader says so
	case strings.HasPrefix(string(magic), "\x1f\x8b"):
		o.Reader, err = gzip.NewReader(buffered)
	case string(magic) == "\x28\xb5\x2f\xfd":
		o.zstd, err = zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		o.Reader = o.zstd
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the file %s: %w", name, err), file.Close())
	}
	return o, nil
}

func (o *opened) close() {
	if o.zstd != nil {
		o.zstd.Close()
	}
	_ = o.file.Close() // it was only read
}
