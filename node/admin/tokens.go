package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"

	"chronos/node/credential"
)

// Rights are what somebody may do with the API besides read, which everybody may whom it answers.
type Rights struct {
	// Payload: see the values of messages. Keys and headers are shown to all who may read.
	Payload bool

	// Control: pause and resume; cancel, reschedule and fire messages.
	Control bool
}

// String returns the rights as ParseRights reads them.
func (r Rights) String() string {
	text := "read"
	if r.Payload {
		text += ",payload"
	}
	if r.Control {
		text += ",control"
	}
	return text
}

// ParseRights reads a list of rights with commas between. The right that is control now was once called write.
func ParseRights(list string) (Rights, error) {
	var rights Rights
	for word := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(word) {
		case "read":
		case "payload":
			rights.Payload = true
		case "control", "write":
			rights.Control = true
		default:
			return Rights{}, fmt.Errorf("there is no such right: it must be some of read, payload and control, " +
				"separated by commas")
		}
	}
	return rights, nil
}

// Token is what somebody shows to be let in.
type Token struct {
	// Name says whose it is, for the audit; "" for the only token of a file that has nothing else in it.
	Name string

	Rights Rights

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
func ParseTokens(text string) ([]Token, error) {
	if alone := strings.TrimSpace(text); !strings.Contains(alone, "\n") && len(strings.Fields(alone)) < 3 &&
		!strings.HasPrefix(alone, "#") {
		if alone == "" {
			return nil, fmt.Errorf("it is empty")
		}
		all := Rights{Payload: true, Control: true}
		return []Token{{Rights: all, Weak: len(alone) < weakToken, hash: sha256.Sum256([]byte(alone))}}, nil
	}
	var tokens []Token
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		token, err := parseToken(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		for i := range tokens {
			switch {
			case tokens[i].Name == token.Name:
				return nil, fmt.Errorf("line %d: there is a token named %s above", number, token.Name)
			case tokens[i].hash == token.hash:
				return nil, fmt.Errorf("line %d: %s has the same token as %s", number, token.Name, tokens[i].Name)
			}
		}
		tokens = append(tokens, token)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("there is no token in it")
	}
	return tokens, nil
}

// parseToken reads a line. One with another number of fields may have its token anywhere, so that none of them is
// shown.
func parseToken(fields []string) (Token, error) {
	if len(fields) != 3 {
		return Token{}, fmt.Errorf("it must have a name, rights and a token, with blanks between, such as " +
			"\"ann  read,control  TOKEN\"")
	}
	name := fields[0]
	for _, r := range name {
		if !strings.ContainsRune(nameRunes, r) || len(name) > maxTokenName {
			return Token{}, fmt.Errorf("the name must be up to %d letters, digits and any of . _ - @", maxTokenName)
		}
	}
	rights, err := ParseRights(fields[1])
	if err != nil {
		return Token{}, fmt.Errorf("the rights of %s: %w", name, err)
	}
	return Token{
		Name: name, Rights: rights, Weak: len(fields[2]) < weakToken, hash: sha256.Sum256([]byte(fields[2])),
	}, nil
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@"

// ReadTokens reads such a file.
func ReadTokens(file string) ([]Token, error) {
	text, err := credential.ReadFile(file)
	if err != nil {
		return nil, err
	}
	tokens, err := ParseTokens(string(text))
	if err != nil {
		return nil, fmt.Errorf("the file %s: %w", file, err)
	}
	return tokens, nil
}

// newTokens returns the tokens of a file, as it is now.
func newTokens(keeper *credential.Keeper, file string) (*credential.Source[[]Token], error) {
	return credential.New(keeper, func() ([]Token, error) {
		tokens, err := ReadTokens(file)
		if err != nil {
			return nil, fmt.Errorf("it must be a file with a token, or with one on each line: %w", err)
		}
		return tokens, nil
	})
}

// find returns the token that somebody shows; nil if it is none of them. All are compared, by their hashes: how long
// that takes tells nothing about any of them.
func find(tokens []Token, shown string) *Token {
	hash := sha256.Sum256([]byte(shown))
	var found *Token
	for i := range tokens {
		if subtle.ConstantTimeCompare(tokens[i].hash[:], hash[:]) == 1 {
			found = &tokens[i]
		}
	}
	return found
}
