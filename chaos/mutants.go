package chaos

import "strings"

// Mutant is a broken variant of a node, to show that the suite has teeth. It is in a program
// of its own, cmd/lab/brokennode.
type Mutant struct {
	Name, About string

	// Scenario is the one that is to catch it.
	Scenario *Scenario

	// Passes says that it is no mistake, but what a mutant stands on: it may be slow, and breaks no invariant of
	// safety.
	Passes bool
}

// Caught returns what a run of it has broken that shows the mistake; "" for nothing. What the scenario itself demands
// counts as well, except of what is no mistake.
func (m *Mutant) Caught(r *Result) string {
	for i := range r.Verdict.Violations {
		v := &r.Verdict.Violations[i]
		if !m.Passes || strings.HasPrefix(v.Invariant, "S") {
			return v.Invariant + ": " + v.Detail
		}
	}
	if len(r.Broken) > 0 && !m.Passes {
		return r.Broken[0]
	}
	return ""
}

// Mutants returns all of them.
func Mutants() []*Mutant {
	scenarios := map[string]*Scenario{}
	for _, s := range Scenarios() {
		scenarios[s.Name] = s
	}
	return []*Mutant{
		{"last-passed-over", "the last record of each take is not stored", scenarios["no-fault"], false},
		{"delete-before-ack", "the row is deleted before the acknowledgement", scenarios["killed-nodes"], false},
		{"delete-by-id", "a delete names the id only", scenarios["lost-replies"], false},
		{"delete-if-claimed", "a delete is fenced by the claim that the node had", scenarios["no-fault"], false},
		{"slow-publish", "the slow brokers that the one before stands on, and no mistake", scenarios["no-fault"], true},
		{"expired-inverted", "claims younger than the hold time are suspected", scenarios["no-fault"], false},
		{"timeout-is-success", "a publish of unknown outcome counts as done", scenarios["broker-outage"], false},
		{
			"positions-from-memory", "a node believes itself how far it has taken in, and not the store",
			scenarios["restored-backup"], false,
		},
		{
			"epochs-unseen", "the epochs of records are not looked at, only their offsets", scenarios["truncated"],
			false,
		},
		{"failure-of-all", "a failure on one lane puts off all lanes", scenarios["lost-leader"], false},
		{"waits-for-locks", "a call waits for rows that somebody else has locked", scenarios["locked-rows"], false},
		{
			"lanes-take-turns", "after a claim that has failed, lanes take turns for a while",
			scenarios["stalled-store"], false,
		},
		{
			"longest-hold", "after a failover everything waits for callbacks that may be under way",
			scenarios["failover-callbacks"], false,
		},
		{"call-settled-first", "a callback is settled before it is made", scenarios["callbacks-unwell"], false},
		{
			"call-refused-is-success", "a callback counts as made whatever is answered", scenarios["callbacks-unwell"],
			false,
		},
		{
			"call-given-up-early", "a callback is given up by its first failure",
			scenarios["callbacks-given-up"], false,
		},
		{
			"call-given-up-for-nothing", "a callback that is given up counts as made, and leaves no dead letter",
			scenarios["callbacks-given-up"], false,
		},
		{"calls-one-at-a-time", "a callback waits for the one before it", scenarios["callbacks-unwell"], false},
		{
			"requests-forgotten", "a request of the HTTP API is forgotten when it is answered",
			scenarios["callbacks-killed"], false,
		},
		{
			"settled-apart", "with a journal, what comes out and its tombstone are two transactions",
			scenarios["journal-killed-nodes"], false,
		},
		{
			"unfenced", "with a journal, the next owner of a partition does not fence the one before",
			scenarios["journal-killed-nodes"], false,
		},
		{
			"sent-apart", "with a journal, what a transaction could not send is sent without one",
			scenarios["journal-frozen-broker"], false,
		},
	}
}
