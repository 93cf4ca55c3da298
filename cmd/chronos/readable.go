package main

import (
	"fmt"
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

// printable returns a text for a line or a cell of ours: as it is if all of it can be printed, else quoted and escaped.
// Whoever writes to an input topic chooses ids, keys and headers, and could otherwise steer the terminal of whoever
// looks at them, or begin a line that looks like one of ours.
func printable(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	return strconv.Quote(text)
}

// harmless returns a text of ours in which somebody else may have put words: as it is, with what cannot be printed
// escaped. Errors and names come from servers, and a server could otherwise steer the terminal of whoever looks.
func harmless(text string) string {
	var shown strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&shown, `\x%02x`, text[i])
		case unicode.IsPrint(r):
			shown.WriteRune(r)
		default:
			shown.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return shown.String()
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
