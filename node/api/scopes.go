package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chronos/node"
	"chronos/node/listener"
)

// Scopes are what a token allows: to read and to write on some lanes, within limits.
type Scopes struct {
	rules []scope

	// Rate is how many requests a second it may make, on each node; 0 for what the listener allows everybody.
	Rate int

	// Waiting is how many messages may wait on the lanes that it may write to, when it brings another; 0 for what the
	// listener allows everybody.
	Waiting int
}

// scope allows something on a lane, or on all whose names begin so.
type scope struct {
	write  bool
	lane   string
	prefix bool
}

// All returns the scopes that allow everything.
func All() Scopes { return Scopes{rules: []scope{{prefix: true}, {write: true, prefix: true}}} }

// MayRead and MayWrite report whether the scopes allow that on a lane. To write is no right to read: who puts messages
// in need not see those of others.
func (s *Scopes) MayRead(lane string) bool { return s.may(lane, false) }

// MayWrite is MayRead for what changes something.
func (s *Scopes) MayWrite(lane string) bool { return s.may(lane, true) }

// writes reports whether the scopes allow to write on any lane.
func (s *Scopes) writes() bool {
	return slices.ContainsFunc(s.rules, func(rule scope) bool { return rule.write })
}

func (s *Scopes) may(lane string, write bool) bool {
	for _, rule := range s.rules {
		if rule.write == write && (rule.lane == lane || rule.prefix && strings.HasPrefix(lane, rule.lane)) {
			return true
		}
	}
	return false
}

// String returns the scopes as ParseScopes reads them.
func (s *Scopes) String() string {
	var words []string
	for _, rule := range s.rules {
		word := map[bool]string{false: "read", true: "write"}[rule.write]
		switch {
		case rule.prefix && rule.lane != "":
			word += ":" + rule.lane + "*"
		case !rule.prefix:
			word += ":" + rule.lane
		}
		words = append(words, word)
	}
	if s.Rate > 0 {
		words = append(words, fmt.Sprint("rate=", s.Rate))
	}
	if s.Waiting > 0 {
		words = append(words, fmt.Sprint("waiting=", s.Waiting))
	}
	return strings.Join(words, ",")
}

// maxRate and maxWaiting bound the limits of a token.
const (
	maxRate    = 1_000_000
	maxWaiting = 1_000_000_000
)

// ParseScopes reads the scopes of a token: words with commas between. read and write are for all lanes, read:LANE and
// write:LANE for one, and with a * behind the lane they are for all lanes whose names begin so; rate=N and waiting=N
// are limits.
func ParseScopes(list string) (Scopes, error) {
	var scopes Scopes
	for word := range strings.SplitSeq(list, ",") {
		name, limit, isLimit := strings.Cut(word, "=")
		if isLimit {
			if err := scopes.limit(name, limit); err != nil {
				return Scopes{}, err
			}
			continue
		}
		what, lane, some := strings.Cut(word, ":")
		rule := scope{write: what == "write", prefix: true}
		if what != "read" && what != "write" {
			return Scopes{}, fmt.Errorf("there is no such scope: each must be read or write, read:LANE or " +
				"write:LANE, with " +
				"a * behind the lane for all that begin so, or rate=N or waiting=N")
		}
		if some {
			rule.lane, rule.prefix = strings.CutSuffix(lane, "*")
			if !rule.prefix && !node.IsTopic(lane) && !node.IsCallbackLane(lane) ||
				strings.Contains(rule.lane, "*") || rule.lane == "" && !rule.prefix {
				return Scopes{}, fmt.Errorf("a scope is for a lane that there cannot be: it must be the name of a " +
					"topic or " +
					"http:NAME, or how such names begin and a *")
			}
		}
		scopes.rules = append(scopes.rules, rule)
	}
	if len(scopes.rules) == 0 {
		return Scopes{}, fmt.Errorf("the token may do nothing: a scope is missing, such as read or write:orders.*")
	}
	return scopes, nil
}

// limit reads a limit.
func (s *Scopes) limit(name, value string) error {
	target, most := &s.Rate, maxRate
	switch name {
	case "rate":
	case "waiting":
		target, most = &s.Waiting, maxWaiting
	default:
		return fmt.Errorf("there is no such limit: it must be rate=N or waiting=N")
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("%s must be a whole number from 1 to %d", name, most)
	}
	*target = n
	return nil
}

// grammar says what a token allows.
func grammar() listener.Grammar[Scopes] {
	return listener.Grammar[Scopes]{Parse: ParseScopes, All: All(), Example: "orders  read:orders.*,write:orders.*"}
}

// ReadTokens reads a file with tokens, see listener.ParseTokens.
func ReadTokens(file string) ([]listener.Token[Scopes], error) {
	return listener.ReadTokens(file, grammar())
}
