// Package headers is the form in which the SQL stores keep the headers of a message: JSON that a person can read
// with a database client, and that loses nothing of what Kafka allows.
//
// Kafka headers are an ordered list; a name may repeat, a value may be null, and both are arbitrary bytes. A JSON
// object would reorder and merge them, and a database's JSON cannot hold every byte, so the form is an array of
// objects with one pair each:
//
//	[
//	  {"name": "text"},                                       the value is UTF-8 without NUL
//	  {"name": ""},                                           the value is empty
//	  {"name": null},                                         the value is null
//	  {"name": {"base64": "/wA="}},                           the value is other bytes
//	  {"": {"nameBase64": "/w==", "base64": "dGV4dA=="}},     the name is other bytes, the value any
//	  {"": {"nameBase64": "/w==", "base64": null}}            the name is other bytes, the value is null
//	]
//
// A header whose name is empty has the key "" too, but never "nameBase64". No headers are [].
package headers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"chronos/node"
)

// The keys of what cannot be written as a JSON string.
const (
	valueKey = "base64"
	nameKey  = "nameBase64"
)

// Encode returns the JSON form of headers: compact, the same bytes for the same headers, UTF-8 without NUL in
// any spelling, so that a jsonb column of PostgreSQL takes it.
func Encode(headers []node.Header) []byte {
	if len(headers) == 0 {
		return []byte("[]")
	}
	e := encoder{}
	size := 0
	for _, h := range headers {
		size += len(h.Name) + len(h.Value) + len(`,{"":""}`)
	}
	e.out.Grow(size + 1)
	separator := byte('[')
	for _, h := range headers {
		e.out.WriteByte(separator)
		e.header(h)
		separator = ','
	}
	e.out.WriteByte(']')
	return e.out.Bytes()
}

// Decode returns the headers that data is the JSON form of, nil for none. Any JSON that means the same as what
// Encode writes is accepted, with spaces, escapes and the order of keys as a database may have changed them. The
// result shares no memory with data.
func Decode(data []byte) ([]node.Header, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("decode headers: not UTF-8")
	}
	if headers, plain := decodePlain(data); plain {
		return headers, nil
	}
	return decodeAny(data)
}

// decodeAny is Decode for whatever JSON comes, valid UTF-8.
func decodeAny(data []byte) ([]node.Header, error) {
	if list := bytes.TrimLeft(data, " \t\r\n"); len(list) == 0 || list[0] != '[' {
		return nil, errors.New("decode headers: not a JSON array")
	}
	var pairs []map[string]json.RawMessage
	if err := json.Unmarshal(data, &pairs); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	if len(pairs) == 0 {
		return nil, nil
	}
	headers := make([]node.Header, len(pairs))
	for i, pair := range pairs {
		if len(pair) != 1 {
			return nil, fmt.Errorf("decode header %d: it has %d pairs, not one", i, len(pair))
		}
		for name, value := range pair {
			var err error
			if headers[i], err = decodeHeader(name, value); err != nil {
				return nil, fmt.Errorf("decode header %d: %w", i, err)
			}
		}
	}
	return headers, nil
}

// encoder writes the pieces of JSON one after another. Writing to its buffer cannot fail.
type encoder struct {
	out     bytes.Buffer
	strings *json.Encoder // for what has to be escaped; nil until something has
}

func (e *encoder) header(h node.Header) {
	switch {
	case !isText(h.Name):
		e.out.WriteString(`{"":{"` + nameKey + `":"`)
		e.out.WriteString(base64.StdEncoding.EncodeToString([]byte(h.Name)))
		e.out.WriteString(`","` + valueKey + `":`)
		if h.Value == nil {
			e.out.WriteString("null}}")
			return
		}
		e.out.WriteByte('"')
		e.out.WriteString(base64.StdEncoding.EncodeToString(h.Value))
		e.out.WriteString(`"}}`)
		return
	case h.Value == nil:
		e.out.WriteByte('{')
		e.string(h.Name)
		e.out.WriteString(":null}")
	case isPlain(h.Value):
		e.out.WriteByte('{')
		e.string(h.Name)
		e.out.WriteString(`:"`)
		e.out.Write(h.Value)
		e.out.WriteString(`"}`)
	case isText(string(h.Value)):
		e.out.WriteByte('{')
		e.string(h.Name)
		e.out.WriteByte(':')
		e.string(string(h.Value))
		e.out.WriteByte('}')
	default:
		e.out.WriteByte('{')
		e.string(h.Name)
		e.out.WriteString(`:{"` + valueKey + `":"`)
		e.out.WriteString(base64.StdEncoding.EncodeToString(h.Value))
		e.out.WriteString(`"}}`)
	}
}

// string writes s, which is text, as a JSON string.
func (e *encoder) string(s string) {
	if isPlain(s) {
		e.out.WriteByte('"')
		e.out.WriteString(s)
		e.out.WriteByte('"')
		return
	}
	if e.strings == nil {
		e.strings = json.NewEncoder(&e.out)
		e.strings.SetEscapeHTML(false)
	}
	if err := e.strings.Encode(s); err != nil {
		panic("headers: a string cannot be encoded: " + err.Error())
	}
	e.out.Truncate(e.out.Len() - 1) // the encoder ends every value with a new line
}

// isPlain reports whether s is a JSON string as it is, without escapes. Nearly all headers are, and an encoder for each
// message was a good part of what the intake allocates.
func isPlain[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// isText reports whether s can be kept as a JSON string: jsonb holds no NUL, not even as an escape.
func isText(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return false
		}
	}
	return utf8.ValidString(s)
}

func decodeHeader(name string, value json.RawMessage) (node.Header, error) {
	switch value[0] {
	case 'n':
		return node.Header{Name: name}, nil
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return node.Header{}, err
		}
		return node.Header{Name: name, Value: []byte(text)}, nil
	}
	var coded map[string]*string
	if err := json.Unmarshal(value, &coded); err != nil {
		return node.Header{}, err
	}
	h := node.Header{Name: name}
	text, hasValue := coded[valueKey]
	codedName, hasName := coded[nameKey]
	switch {
	case !hasValue:
		return h, fmt.Errorf("%q is missing", valueKey)
	case hasName && (name != "" || codedName == nil || len(coded) != 2):
		return h, fmt.Errorf("%q is not in its place", nameKey)
	case !hasName && (text == nil || len(coded) != 1):
		return h, fmt.Errorf("%q is not alone with a value", valueKey)
	}
	if hasName {
		bytes, err := base64.StdEncoding.DecodeString(*codedName)
		if err != nil {
			return h, fmt.Errorf("%q: %w", nameKey, err)
		}
		h.Name = string(bytes)
	}
	if text != nil {
		bytes, err := base64.StdEncoding.DecodeString(*text)
		if err != nil {
			return h, fmt.Errorf("%q: %w", valueKey, err)
		}
		h.Value = bytes
	}
	return h, nil
}
