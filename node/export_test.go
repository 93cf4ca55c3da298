package node

// Asked is what a record asks for, for tests that look at nothing but that.
type Asked struct {
	Action  Action
	Message Message
	ID      string
	Told    bool
	Reason  Reason // "" for a valid instruction
	Detail  string
}

// Decode reads a record of the input topic of a route.
func (c *Config) Decode(r Record, route Route) Asked {
	in := c.decode(r, route)
	asked := Asked{Action: in.action, Message: in.message, ID: in.id, Told: in.told}
	if in.rejected != nil {
		asked.Reason, asked.Detail = in.rejected.reason, in.rejected.detail
	}
	return asked
}

// DeadLetter returns the copy of a message that was given up.
func DeadLetter(m *Message, cause error, topic string) Record {
	return deadLetterOfMessage(m, cause, topic)
}

// GoesAnyway reports whether the dead letter of a message need not name its lane.
func GoesAnyway(c *Config, m *Message) bool {
	p := publisher{firer: &firer{core: &core{config: *c}}}
	return p.goesAnyway(m)
}

// DerivedID is derivedID.
var DerivedID = derivedID

// RequestOf is requestOf.
var RequestOf = requestOf
