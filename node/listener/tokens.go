package listener

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"sync/atomic"

	"chronos/node/credential"
)

// Grammar says what tokens of a listener allow.
type Grammar[R any] struct {
	// Parse reads the rights of a token, as a file has them: a word without blanks.
	Parse func(rights string) (R, error)

	// All are the rights of a token that a file has alone.
	All R

	// Example is a line without its token, such as "ann  read,control".
	Example string
}

// Token is what somebody shows to be let in.
type Token[R any] struct {
	// Name says whose it is, for the audit; "" for the only token of a file that has nothing else in it.
	Name string

	Rights R

	hash [sha256.Size]byte
}

const (
	// minToken is the length of a token, in bytes, at least: 16 letters and digits are some 80 bits. Nobody counts the
	// attempts, so a shorter one can be guessed.
	minToken = 16

	// maxTokenName bounds the name of a token.
	maxTokenName = 64
)

// ParseTokens reads a file with tokens, in one of two forms. Either it is one token, and nothing else; whoever has that
// may do all that the listener allows. Or each line has a name, rights and a token:
//
//	# who      may do what            with
//	grafana    read                   bf9Jq1nT0Yk3mE7s
//	ann        read,payload,control   Zr4uW8xQ2aLh6CdP
//
// Tokens have 16 bytes or more. Names and tokens come once each. The last line ends like the others: a file that is
// half written has no such end, or lacks a column, which is an error. No error shows a token.
func ParseTokens[R any](text string, grammar Grammar[R]) ([]Token[R], error) {
	switch alone := strings.Fields(text); {
	case len(alone) == 0:
		return nil, fmt.Errorf("it is empty")
	case !strings.HasSuffix(text, "\n"):
		return nil, fmt.Errorf("its last line has no end, as if the file were cut off: end it with a newline")
	case len(alone) == 1 && !strings.HasPrefix(alone[0], "#"):
		if err := checkToken(alone[0]); err != nil {
			return nil, err
		}
		return []Token[R]{{Rights: grammar.All, hash: sha256.Sum256([]byte(alone[0]))}}, nil
	}
	var tokens []Token[R]
	names, hashes := map[string]bool{}, map[[sha256.Size]byte]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		token, err := parseToken(fields, grammar)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if names[token.Name] {
			return nil, fmt.Errorf("line %d: there is a token named %s above", number, token.Name)
		}
		if other, is := hashes[token.hash]; is {
			return nil, fmt.Errorf("line %d: %s has the same token as %s", number, token.Name, other)
		}
		names[token.Name], hashes[token.hash] = true, token.Name
		tokens = append(tokens, token)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("there is no token in it")
	}
	return tokens, nil
}

// parseToken reads a line. One with another number of fields may have its token anywhere, so that none of them is
// shown.
func parseToken[R any](fields []string, grammar Grammar[R]) (Token[R], error) {
	if len(fields) != 3 {
		return Token[R]{}, fmt.Errorf("it must have a name, rights and a token, with blanks between, such as "+
			"\"%s  TOKEN\"", grammar.Example)
	}
	name := fields[0]
	for _, r := range name {
		if !strings.ContainsRune(nameRunes, r) || len(name) > maxTokenName {
			return Token[R]{}, fmt.Errorf("the name must be up to %d letters, digits and any of . _ - @", maxTokenName)
		}
	}
	rights, err := grammar.Parse(fields[1])
	if err != nil {
		return Token[R]{}, fmt.Errorf("the rights of %s: %w", name, err)
	}
	if err := checkToken(fields[2]); err != nil {
		return Token[R]{}, fmt.Errorf("the token of %s: %w", name, err)
	}
	return Token[R]{Name: name, Rights: rights, hash: sha256.Sum256([]byte(fields[2]))}, nil
}

// checkToken refuses a token that could be guessed.
func checkToken(token string) error {
	if len(token) < minToken {
		return fmt.Errorf("it has fewer than %d characters, so it can be guessed: make one by openssl rand -base64 24",
			minToken)
	}
	return nil
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@"

// ReadTokens reads such a file.
func ReadTokens[R any](file string, grammar Grammar[R]) ([]Token[R], error) {
	text, err := credential.ReadFile(file)
	if err != nil {
		return nil, err
	}
	tokens, err := ParseTokens(string(text), grammar)
	if err != nil {
		return nil, fmt.Errorf("the file %s: %w", file, err)
	}
	return tokens, nil
}

// newTokens returns the tokens of a file, as it is now. A file that had names keeps them: one word in their place is a
// file that was cut, or a slip, and would be a token with all rights.
func newTokens[R any](
	keeper *credential.Keeper, file string, grammar Grammar[R],
) (*credential.Source[[]Token[R]], error) {
	var named atomic.Bool
	return credential.New(keeper, func() ([]Token[R], error) {
		tokens, err := ReadTokens(file, grammar)
		switch {
		case err != nil:
			return nil, fmt.Errorf("it must be a file with a token, or with one on each line: %w", err)
		case tokens[0].Name != "":
			named.Store(true)
		case named.Load():
			return nil, fmt.Errorf("the file %s: it had tokens with names and rights, and has one word now: each line "+
				"must have a name, rights and a token, such as \"%s  TOKEN\"; to have one token for everything, "+
				"start the node anew", file, grammar.Example)
		}
		return tokens, nil
	})
}

// find returns the token that somebody shows; nil if it is none of them. All are compared, by their hashes: how long
// that takes tells nothing about any of them.
func find[R any](tokens []Token[R], shown string) *Token[R] {
	hash := sha256.Sum256([]byte(shown))
	var found *Token[R]
	for i := range tokens {
		if subtle.ConstantTimeCompare(tokens[i].hash[:], hash[:]) == 1 {
			found = &tokens[i]
		}
	}
	return found
}
