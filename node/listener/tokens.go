package listener

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"

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

	// Weak says that the token is so short that it could be guessed.
	Weak bool

	hash [sha256.Size]byte
}

const (
	// weakToken is the length below which a token is weak: 16 letters and digits are some 80 bits.
	weakToken = 16

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
// Names and tokens come once each. No error of it shows a token.
func ParseTokens[R any](text string, grammar Grammar[R]) ([]Token[R], error) {
	if alone := strings.TrimSpace(text); !strings.Contains(alone, "\n") && len(strings.Fields(alone)) < 3 &&
		!strings.HasPrefix(alone, "#") {
		if alone == "" {
			return nil, fmt.Errorf("it is empty")
		}
		return []Token[R]{{Rights: grammar.All, Weak: len(alone) < weakToken, hash: sha256.Sum256([]byte(alone))}}, nil
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
	return Token[R]{
		Name: name, Rights: rights, Weak: len(fields[2]) < weakToken, hash: sha256.Sum256([]byte(fields[2])),
	}, nil
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

// newTokens returns the tokens of a file, as it is now.
func newTokens[R any](
	keeper *credential.Keeper, file string, grammar Grammar[R],
) (*credential.Source[[]Token[R]], error) {
	return credential.New(keeper, func() ([]Token[R], error) {
		tokens, err := ReadTokens(file, grammar)
		if err != nil {
			return nil, fmt.Errorf("it must be a file with a token, or with one on each line: %w", err)
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
