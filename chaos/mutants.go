package chaos

// Mutant is a broken variant of a node, to show that the suite has teeth. It is in no binary but one that is built with
// the tag chaosmutant: cmd/chronos/mutant.go.
type Mutant struct {
	Name, About string

	// Scenario is the one that is to catch it.
	Scenario *Scenario
}

// Mutants returns all of them.
func Mutants() []*Mutant {
	scenarios := map[string]*Scenario{}
	for _, s := range Scenarios() {
		scenarios[s.Name] = s
	}
	return []*Mutant{
		{"commit-first", "offsets are committed when records are polled", scenarios["killed-without-store"]},
		{"delete-before-ack", "the row is deleted before the publish is acknowledged", scenarios["killed-nodes"]},
		{"delete-by-id", "a delete names the id only", scenarios["lost-replies"]},
		{"delete-if-claimed", "a delete is fenced by the claim that the node had", scenarios["frozen-nodes"]},
		{"stuck-inverted", "claims younger than the hold time are stuck", scenarios["no-fault"]},
		{"timeout-is-success", "a publish of unknown outcome counts as done", scenarios["broker-outage"]},
	}
}
