package headers

import (
	"bytes"

	"chronos/node"
)

// usual is for how many headers there is room at first. A value may have more braces than a message has headers.
const usual = 16

// decodePlain is Decode for what nearly all headers are: text without escapes, or null. Anything else is not plain,
// be it valid or not. Reading it as any JSON makes maps of slices of JSON, some dozen allocations for two headers, and
// each message that a store gives away has some.
//
// What it returns shares one copy of data, and ends with the message.
func decodePlain(data []byte) (headers []node.Header, plain bool) {
	s := scanner{data: data}
	if !s.skip('[') {
		return nil, false
	}
	if s.skip(']') {
		return nil, s.atEnd()
	}
	names, values := string(data), bytes.Clone(data)
	headers = make([]node.Header, 0, min(bytes.Count(data, []byte{'{'}), usual))
	for {
		if !s.skip('{') {
			return nil, false
		}
		from, to, ok := s.text()
		if !ok || !s.skip(':') {
			return nil, false
		}
		h := node.Header{Name: names[from:to]}
		if from, to, ok = s.text(); ok {
			h.Value = values[from:to:to]
		} else if !s.null() {
			return nil, false
		}
		headers = append(headers, h)
		switch {
		case !s.skip('}'):
			return nil, false
		case s.skip(','):
		case s.skip(']'):
			return headers, s.atEnd()
		default:
			return nil, false
		}
	}
}

// scanner reads tokens of JSON, and the space before them.
type scanner struct {
	data []byte
	at   int
}

// space passes over space.
func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// skip passes over one character, if that comes next.
func (s *scanner) skip(c byte) bool {
	s.space()
	if s.at == len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// text passes over a string that is plain, and returns where it is without its quotes.
func (s *scanner) text() (from, to int, ok bool) {
	if !s.skip('"') {
		return 0, 0, false
	}
	length := bytes.IndexByte(s.data[s.at:], '"')
	if length < 0 || !isPlain(s.data[s.at:s.at+length]) {
		return 0, 0, false
	}
	from, to = s.at, s.at+length
	s.at = to + 1
	return from, to, true
}

// null passes over null.
func (s *scanner) null() bool {
	s.space()
	if !bytes.HasPrefix(s.data[s.at:], []byte("null")) {
		return false
	}
	s.at += len("null")
	return true
}

// atEnd reports whether nothing but space is left.
func (s *scanner) atEnd() bool {
	s.space()
	return s.at == len(s.data)
}
