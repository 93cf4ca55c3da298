package listener

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

const (
	// DefaultMemory is the value of Config.Memory if it is zero.
	DefaultMemory = 64 << 20

	// BodyCost is how often a byte of a body counts: as it was sent, decoded, checked, and on its way to the store.
	BodyCost = 4

	// shares is how many callers with large bodies a listener serves at a time: the part of one is Memory/shares.
	shares = 4

	// firstPiece is the size of the first buffer of a body, in bytes. It is counted once the first byte has arrived.
	firstPiece = 512
)

// BodyError says why the body of a request was not read.
type BodyError struct {
	Status   int    // 400, 408, 413 or 429
	Sentence string // for whoever has sent it
}

// Error returns the sentence.
func (e *BodyError) Error() string { return e.Sentence }

// RefuseBody answers a request by refuse whose body ReadBody has not read. Where the same one may be taken in a moment,
// the header Retry-After says so.
func RefuseBody(w http.ResponseWriter, err error, refuse Refusal) {
	status := http.StatusBadRequest
	if told, is := errors.AsType[*BodyError](err); is {
		status = told.Status
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	refuse(w, status, err.Error())
}

// ReadBody reads the body of a request whole: at most limit bytes, and only if the budget of the listener has room for
// it (Config.Memory). Memory is taken as bytes arrive, so a body may be refused after a part of it was read. From then
// on r.Body reads from memory, too. The caller calls done when the request is answered, which gives the memory back to
// the budget. The error is a *BodyError, and done then need not be called.
func ReadBody(
	w http.ResponseWriter, r *http.Request, limit int64,
) (content []byte, done func(), err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, func() {}, nil
	}
	if r.ContentLength > limit {
		return nil, nil, tooLarge(limit)
	}
	part, _ := r.Context().Value(partKey{}).(*part)
	held := &held{part: part}
	if content, err = readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, held); err != nil {
		held.release()
		return nil, nil, bodyError(err, limit)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	return content, held.release, nil
}

// readAll reads a body of a length that was announced, or of length -1. It takes memory as bytes arrive: nothing before
// the first one, and at most twice what has arrived. What a request announces costs its sender nothing.
func readAll(body io.Reader, length int64, held *held) ([]byte, error) {
	var content []byte
	for int64(len(content)) != length {
		arrived := len(content)
		if arrived == cap(content) {
			more := max(firstPiece, arrived) // twice as much each time
			if length >= 0 {
				more = int(min(int64(more), length-int64(arrived)))
			}
			if arrived > 0 {
				if err := held.take(int64(more)); err != nil {
					return nil, err
				}
			}
			content = append(make([]byte, 0, arrived+more), content...)
		}
		n, err := body.Read(content[arrived:cap(content)])
		content = content[:arrived+n]
		if arrived == 0 && n > 0 {
			if err := held.take(int64(cap(content))); err != nil {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, io.EOF) && int64(len(content)) < length:
			return nil, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return content, nil
		case err != nil:
			return nil, err
		}
	}
	return content, nil
}

func tooLarge(limit int64) *BodyError {
	return &BodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", limit)}
}

// bodyError returns what the sender of a body is told that was not read.
func bodyError(err error, limit int64) error {
	told, is := errors.AsType[*BodyError](err)
	_, large := errors.AsType[*http.MaxBytesError](err)
	var network net.Error
	switch {
	case is:
		return told
	case large:
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return &BodyError{http.StatusRequestTimeout, "the body did not arrive in time"}
	}
	return &BodyError{
		http.StatusBadRequest, "the body did not arrive whole: its connection has ended, or its chunks are malformed",
	}
}

// budget bounds the memory of the bodies of all requests that are under way. One body is let through whatever it
// costs, if the caller has no other: a limit on the size of bodies is no matter of the budget.
type budget struct {
	most int64 // of all

	mu  sync.Mutex
	all int64
	of  map[string]int64 // by caller; those without a body have no entry
}

// part is what a budget leaves to one caller.
type part struct {
	budget *budget
	who    string
	most   int64
}

type partKey struct{}

// in returns ctx with the part.
func (p *part) in(ctx context.Context) context.Context { return context.WithValue(ctx, partKey{}, p) }

// held is what one body costs.
type held struct {
	part *part // nil for no budget
	cost int64
}

// take takes memory for so many bytes more.
func (h *held) take(length int64) error {
	if h.part == nil || length == 0 {
		return nil
	}
	p, b, more := h.part, h.part.budget, length*BodyCost
	b.mu.Lock()
	defer b.mu.Unlock()
	switch own := b.of[p.who]; {
	case own > h.cost && own+more > p.most:
		return &BodyError{http.StatusTooManyRequests, "the bodies of your other requests take all the memory that " +
			"they may: wait for answers before you send more"}
	case b.all > h.cost && b.all+more > b.most:
		return &BodyError{http.StatusTooManyRequests, "the bodies of other requests take all the memory that they " +
			"may: send this one again"}
	}
	if b.of == nil {
		b.of = map[string]int64{}
	}
	b.of[p.who] += more
	b.all += more
	h.cost += more
	return nil
}

// release gives everything back.
func (h *held) release() {
	if h.part == nil || h.cost == 0 {
		return
	}
	b := h.part.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= h.cost
	if b.of[h.part.who] -= h.cost; b.of[h.part.who] <= 0 {
		delete(b.of, h.part.who)
	}
	h.cost = 0
}
