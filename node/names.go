package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// InternalPrefix begins the ids of the messages that Chronos makes itself: copies for dead letters, outcomes, and what
// brings, runs and ends tasks. They share lanes with messages that were submitted, and many of their ids follow from
// what others may see, such as an incarnation. No submission may use the prefix (CheckName), so nothing that was
// submitted can wait under such an id and be taken for the message itself.
const InternalPrefix = "chronos:"

// internalID returns the id of a message of Chronos itself, which follows from what it is made of: the same each time.
func internalID(of string) string {
	return InternalPrefix + uuid.NewSHA1(uuid.NameSpaceURL, []byte(of)).String()
}

// CheckName returns why no submission may name the message id on lane, as a code and in words, and two empty strings if
// one may. Whether the node serves the lane is another question (Serves). It is the only rule for names, whatever the
// action is: every way in applies it, for what it stores as for what it changes.
func (c *Config) CheckName(id, lane string) (reason Reason, why string) {
	if reason, why := CheckID(id); why != "" {
		return reason, "the id " + why
	}
	if strings.HasPrefix(id, InternalPrefix) {
		return InvalidID, fmt.Sprintf("the id %s begins with %s, as the ids of dead letters, outcomes and tasks do: "+
			"choose another id", quoted([]byte(id)), InternalPrefix)
	}
	if why := c.CheckLane(lane); why != "" {
		return UnknownTopic, why
	}
	return "", ""
}

// CheckLane returns why no submission may name a message on lane, in words, and an empty string if one may: it is one
// of InternalLanes, or TasksLane.
func (c *Config) CheckLane(lane string) string {
	switch {
	case lane == TasksLane:
		return fmt.Sprintf("lane %s is that of tasks, and takes no messages from elsewhere: a task names its queue, "+
			"a record that is one by a header %s", TasksLane, HeaderQueue)
	case c.tells(lane):
		return fmt.Sprintf("lane %s is where Chronos puts dead letters or outcomes, and takes no messages from "+
			"elsewhere: they always come out, because somebody was told so, or relies on it", quoted([]byte(lane)))
	}
	return ""
}

// InternalLanes returns the lanes on which Chronos puts dead letters and outcomes, each once: no submission brings a
// message there, or changes one.
func (c *Config) InternalLanes() []string {
	lanes := c.Callbacks.DeadLetters()
	for i := range c.Routes {
		lanes = append(lanes, c.Routes[i].DeadLetter, c.Routes[i].Outcomes)
	}
	slices.Sort(lanes)
	lanes = slices.Compact(lanes)
	return slices.DeleteFunc(lanes, func(lane string) bool { return lane == "" })
}

// tells reports whether a lane is one of InternalLanes.
func (c *Config) tells(lane string) bool {
	if lane == "" {
		return false
	}
	for i := range c.Routes {
		if lane == c.Routes[i].DeadLetter || lane == c.Routes[i].Outcomes {
			return true
		}
	}
	if lane == c.Callbacks.Others.DeadLetter {
		return true
	}
	return slices.ContainsFunc(c.Callbacks.Lanes, func(l CallbackLane) bool { return l.DeadLetter == lane })
}

// NameRefusal returns why no store can have the message under its name, in one sentence, and an empty string if one
// may. It is CheckName for what was in a store before, such as a line of an export: messages of Chronos itself are
// among it, and which lanes are internal is a matter of settings.
func (m *Message) NameRefusal() string {
	rest, internal := strings.CutPrefix(m.ID, InternalPrefix)
	switch {
	case internal && rest == "":
		return "the id is " + InternalPrefix + " and nothing else"
	case !internal && m.Lane == TasksLane:
		return fmt.Sprintf("the id does not begin with %s, and lane %s has no other messages", InternalPrefix,
			TasksLane)
	}
	return m.laneRefusal()
}
