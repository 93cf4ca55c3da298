package listener

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

const (
	// maxValues bounds the values of JSON in one body: a message with 1,000 headers has 4,000.
	maxValues = 10_000

	// maxName bounds the name of a member, in bytes. The longest of ours has 22.
	maxName = 100

	// opaque is the member whose value is any JSON. It is relayed as it is, and neither counted nor checked here.
	opaque = "json"
)

// CheckValues refuses JSON with more than 10,000 values, which would take many times its own length once decoded. It
// takes time in proportion to the length and no memory. JSON that is not well formed may pass.
func CheckValues(body []byte) error {
	_, err := scan(body, false)
	return err
}

// CheckMembers is CheckValues for the bodies that FormatJSON reads. It also refuses members whose name no schema has:
// one with a "." or a "[" in it, or of more than 100 bytes. The validator would name each with all those before it.
// What is in a member "json" does not count.
func CheckMembers(body []byte) error {
	_, err := scan(body, true)
	return err
}

// FormatJSON is how huma reads and writes JSON here: as it does by itself, except that the validator is shown 0 in
// place of what is in a member "json". That may be anything, and would be decoded for nothing.
func FormatJSON() map[string]huma.Format {
	format := huma.DefaultJSONFormat
	format.Unmarshal = func(data []byte, v any) error {
		if shown, is := v.(*any); is && json.Valid(data) {
			without, err := scan(data, true)
			if err != nil {
				return err
			}
			return json.Unmarshal(without, shown)
		}
		return json.Unmarshal(data, v)
	}
	return map[string]huma.Format{"application/json": format, "json": format}
}

// scan goes through JSON once and counts its values. If ours is set it minds names, and returns the JSON with 0 for
// what members "json" have.
func scan(body []byte, ours bool) (without []byte, err error) {
	var name []byte // the last text
	values, kept, depth := 1, 0, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			end := endOfText(body, i)
			name = body[i+1 : max(i+1, end-1)]
			i = end - 1
		case ',':
			values++
		case '{', '[':
			values++
			depth++
		case '}', ']':
			depth--
		case ':':
			if !ours {
				continue
			}
			member, err := nameOf(name)
			if err != nil {
				return nil, err
			}
			if member == opaque && depth > 1 { // the body itself has none
				end := endOfValue(body, i+1)
				without = append(append(without, body[kept:i+1]...), '0')
				kept, i = end, end-1
			}
		}
		if values > maxValues {
			return nil, fmt.Errorf("the body has more than %d values of JSON, and nothing that is asked for here has "+
				"so many", maxValues)
		}
	}
	if without == nil {
		return body, nil
	}
	return append(without, body[kept:]...), nil
}

// nameOf returns the name of a member, as it stands between its quotes.
func nameOf(raw []byte) (name string, err error) {
	name = string(raw[:min(len(raw), 6*maxName)])
	if bytes.IndexByte(raw, '\\') >= 0 && len(raw) <= 6*maxName {
		_ = json.Unmarshal([]byte(`"`+name+`"`), &name) // one that is malformed is refused when it is decoded
	}
	if len(name) > maxName || strings.ContainsAny(name, ".[") {
		return "", fmt.Errorf("there is no member %q here", Cut(name, maxShown))
	}
	return name, nil
}

// endOfText returns where a text ends that begins at a quote: behind its last quote.
func endOfText(body []byte, at int) int {
	for at++; at < len(body); at++ {
		switch body[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(body)
}

// endOfValue returns where the value of a member ends.
func endOfValue(body []byte, at int) int {
	for depth := 0; at < len(body); at++ {
		switch body[at] {
		case '"':
			at = endOfText(body, at) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return at
			}
		case ',':
			if depth == 0 {
				return at
			}
		}
	}
	return len(body)
}

// Cut returns a text of at most that many characters; a longer one ends with "…" in place of the rest.
func Cut(text string, characters int) string {
	if len(text) <= characters {
		return text
	}
	at := 0
	for range characters {
		_, size := utf8.DecodeRuneInString(text[at:])
		if at += size; at == len(text) {
			return text
		}
	}
	return strings.ToValidUTF8(text[:at], "�") + "…"
}
