// Package credential hands out passwords, tokens and certificates from the files that they are kept in. Whoever makes
// connections asks for them at each connection, so that what was replaced meanwhile is used without a restart.
//
// While a file is being replaced it may be missing or half written for a moment, and a certificate may not fit its key.
// Then what was read last is used, until the file can be read again: a connection with the former password may still
// succeed, and one with none cannot. The Keeper tells somebody. No error of this package shows a secret.
package credential

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Keeper tells somebody when a file cannot be read any more. The zero value tells nobody.
type Keeper struct {
	mu   sync.Mutex
	tell func(error)
}

// Tell has tell called with every new reason why something cannot be read any more. It must be quick.
func (k *Keeper) Tell(tell func(error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tell = tell
}

// report calls tell.
func (k *Keeper) report(err error) {
	k.mu.Lock()
	tell := k.tell
	k.mu.Unlock()
	if tell != nil {
		tell(err)
	}
}

// Source is one thing that is read anew whenever it is needed. It is safe for concurrent use.
type Source[T any] struct {
	keeper *Keeper
	read   func() (T, error)

	mu    sync.Mutex
	last  T
	error string // why the last try failed; "" if it did not
}

// New returns a source after it has been read once; if that fails, there is nothing to fall back to.
func New[T any](keeper *Keeper, read func() (T, error)) (*Source[T], error) {
	first, err := read()
	if err != nil {
		return nil, err
	}
	return &Source[T]{keeper: keeper, read: read, last: first}, nil
}

// Get returns what is there now, or what was there last.
func (s *Source[T]) Get() T {
	now, err := s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.last, s.error = now, ""
		return now
	}
	if s.error != err.Error() {
		s.error = err.Error()
		s.keeper.report(err)
	}
	return s.last
}

// Secret returns the password or token that is the first line of a file, without the end of that line.
func Secret(file string) (string, error) {
	content, err := ReadFile(file)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("the file %s is empty", file)
	}
	return secret, nil
}

// ReadFile returns the content of a file.
func ReadFile(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		reason := err
		if inner := errors.Unwrap(err); inner != nil {
			reason = inner
		}
		return nil, fmt.Errorf("read %s: %w", file, reason)
	}
	return content, nil
}

// Roots returns the authorities of a PEM text.
func Roots(text []byte) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("there is no certificate in PEM form in it")
	}
	return roots, nil
}

// Pair returns the certificate and the key of two PEM texts, which may be one and the same.
func Pair(certificate, key []byte) (*tls.Certificate, error) {
	if bytes.Contains(key, []byte("BEGIN ENCRYPTED PRIVATE KEY")) || bytes.Contains(key,
		[]byte("Proc-Type: 4,ENCRYPTED")) {
		return nil, errors.New("the key is encrypted with a password: write it without one " +
			"(openssl pkey -in KEY -out PLAIN), in a file that only Chronos may read")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}
