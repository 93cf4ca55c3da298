package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readable shows bytes to a person: as they are if they are printable text, else quoted and escaped. A null is
// <null>, and empty is "".
func readable(b []byte) string {
	text := string(b)
	switch {
	case b == nil:
		return "<null>"
	case text == "" || text == "<null>" || !utf8.ValidString(text):
		return strconv.Quote(text)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// readableWord is readable for what stands among other things: it is quoted also if it has a space, a quote, a
// bracket or an equals sign in it.
func readableWord(b []byte) string {
	shown := readable(b)
	if b != nil && shown == string(b) && strings.ContainsAny(shown, " \"[]=") {
		return strconv.Quote(shown)
	}
	return shown
}
