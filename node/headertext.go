package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// HeaderText returns what the value of a header of Chronos says. A JSON string in quotes says the string in it, as
// Spring writes each header that is no text itself, such as a UUID. All other values say what they are.
func HeaderText(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' || !utf8.Valid(value) || !WholeJSON(value) {
		return value
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return value
	}
	return []byte(text)
}

// AsHeader returns the value of a header of Chronos that says text (HeaderText): the text, unless that is a JSON
// string in quotes itself.
func AsHeader(text string) []byte {
	value := []byte(text)
	if bytes.Equal(HeaderText(value), value) {
		return value
	}
	value, err := json.Marshal(text)
	assert(err == nil, "a text as JSON: %v", err)
	return value
}

// missing rejects a record that has no header of the name wanted. One of nearly that name, or of a name that others
// ask by instead, is named: its case, its hyphens or one letter are what is wrong.
func missing(reason Reason, headers []Header, wanted string, others ...string) *rejection {
	why := "there is no header " + wanted
	for _, name := range append([]string{wanted}, others...) {
		for i := range headers {
			if is := headers[i].Name; is != name && !isOurs(is) && nearly(is, name) {
				return &rejection{reason, fmt.Sprintf("%s; there is a header %s, which must be called %s", why,
					quoted([]byte(is)), name), wanted}
			}
		}
	}
	return &rejection{reason, why, wanted}
}

// nearly reports whether two names are the same but for case, punctuation, and one letter that is another one, missing,
// or exchanged with the next one.
func nearly(is, name string) bool {
	if len(is) > 2*len(name) {
		return false
	}
	a, b := letters(is), letters(name)
	if len(a) > len(b) {
		a, b = b, a
	}
	at := 0
	for at < len(a) && a[at] == b[at] {
		at++
	}
	same := func(i, j int) bool { return i <= len(a) && j <= len(b) && a[i:] == b[j:] }
	switch {
	case same(at, at), same(at, at+1), same(at+1, at+1):
		return true
	}
	return at+1 < len(a) && at+1 < len(b) && a[at] == b[at+1] && a[at+1] == b[at] && same(at+2, at+2)
}

// letters returns a name in lower case, without hyphens, underscores, dots and spaces.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. ", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}
