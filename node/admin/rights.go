package admin

import (
	"context"
	"fmt"
	"strings"

	"chronos/node/listener"
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
type Token = listener.Token[Rights]

// grammar says what a token allows.
func grammar() listener.Grammar[Rights] {
	return listener.Grammar[Rights]{
		Parse: ParseRights, All: Rights{Payload: true, Control: true}, Example: "ann  read,control",
	}
}

// ParseTokens reads a file with tokens, see listener.ParseTokens.
func ParseTokens(text string) ([]Token, error) { return listener.ParseTokens(text, grammar()) }

// ReadTokens reads such a file.
func ReadTokens(file string) ([]Token, error) { return listener.ReadTokens(file, grammar()) }

// InUseError says that the address is taken.
type InUseError = listener.InUseError

// caller is whoever sends a request.
type caller struct{ listener.Caller[Rights] }

// callerOf returns whoever a request is from.
func callerOf(ctx context.Context) caller {
	who, _ := listener.CallerOf[Rights](ctx)
	return caller{who}
}

// authenticated says how the caller has shown who it is.
func (c caller) authenticated() string {
	switch {
	case c.Token == nil:
		return "no: this listener asks for no token"
	case c.Token.Name == "":
		return "by the token of admin-token-file"
	}
	return "by the token " + c.Token.Name
}

// may returns what the caller may do where rights are allowed at all.
func (c caller) may(allowed Rights) Rights {
	if c.Token == nil {
		return allowed
	}
	return Rights{
		Payload: allowed.Payload && c.Token.Rights.Payload, Control: allowed.Control && c.Token.Rights.Control,
	}
}

// lacks says why a caller may not do what needs a right: because nobody may, or because of its token.
func (c caller) lacks(allowed bool, right string) string {
	if !allowed {
		return "nobody may do that here: admin-allow would have to name " + right
	}
	return fmt.Sprintf("the token %s may not do that: its rights in admin-token-file are %s, and would have to name %s",
		c.Name(), c.Token.Rights, right)
}
