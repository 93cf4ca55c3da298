package model

import "slices"

// Variant is a named deviation from our algorithm, what is expected of it, and why.
type Variant struct {
	// Name is for the command line; Hazard is the number of what goes wrong in the list of hazards, or of the
	// promise that it breaks.
	Name, Hazard string

	// Title says in one line what is different.
	Title string

	// Rules is what is different.
	Rules Rules

	// Scope is the smallest world in which that shows.
	Scope Scope

	// Expected are the properties that it breaks there. The last one is the worst, and the one that is told.
	Expected []Property

	// Story says what goes wrong, and Ours what our algorithm does instead.
	Story, Ours string
}

// Variants returns all variants that are expected to break something: first those of today's hazards, then those of
// positions, of a store that is set back, and of control.
func Variants() []Variant {
	return slices.Concat(deleting(), consuming(), claiming(), unpromised(),
		positioning(), transacting(), refusing(), comparing(), restoring(), marking(), controlling(), binding())
}

// VariantByName finds a variant.
func VariantByName(name string) (Variant, bool) {
	for _, v := range Variants() {
		if v.Name == name {
			return v, true
		}
	}
	return Variant{}, false
}

// SmallScopes returns the scopes of the variants, each once.
func SmallScopes() []Scope {
	var scopes []Scope
	for _, v := range Variants() {
		if !slices.Contains(scopes, v.Scope) {
			scopes = append(scopes, v.Scope)
		}
	}
	return scopes
}

// Scopes returns the large scopes in which our algorithm is explored to the end.
func Scopes() []Scope { return slices.Concat(plainScopes(), positionScopes(), controlScopes()) }

// plainScopes are those of the algorithm without controls, and with a log that stays as it is.
func plainScopes() []Scope {
	return []Scope{
		{
			Name:    "a crash, a lost reply, a rebalance",
			Crashes: 1, Unknowns: 1, Rebalances: 1, Suspicions: Unbounded, Batches: 1, Early: true,
		},
		{
			Name:     "two lost replies, a rebalance",
			Unknowns: 2, Rebalances: 1, Suspicions: Unbounded, Batches: 1, Early: true,
		},
		{
			Name:    "two crashes, a lost reply",
			Crashes: 2, Unknowns: 1, Suspicions: Unbounded, Batches: 1, Early: true,
		},
		{
			Name:    "two batches a node",
			Crashes: 1, Unknowns: 1, Suspicions: Unbounded, Batches: 2, Early: true,
		},
		{
			Name:    "two batches a node, a rebalance",
			Crashes: 1, Unknowns: 1, Rebalances: 1, Suspicions: 1, Batches: 2, Early: true,
		},
	}
}

// positionScopes are those in which the store is set back, an operator rewinds, or the log does not stay as it is.
func positionScopes() []Scope {
	return []Scope{
		{
			Name:    "a lossy failover, a crash",
			Crashes: 1, Unknowns: 1, Suspicions: Unbounded, Batches: 1, Failover: true,
		},
		{
			Name:     "a lossy failover, a rebalance",
			Unknowns: 1, Rebalances: 1, Batches: 1, Failover: true,
		},
		{
			Name:     "two rewinds, a rebalance",
			Unknowns: 1, Rebalances: 1, Rewinds: 2, Batches: 1,
		},
		{
			Name: "a truncation, a rebalance, a lost reply", Script: "sss",
			Unknowns: 1, Rebalances: 1, Truncate: true, Batches: 1,
		},
		{
			Name: "truncation, rebalance, lossy failover", Script: "sss",
			Rebalances: 1, Truncate: true, Failover: true, Batches: 1,
		},
		{
			Name: "a truncation, a rewind, a lost reply", Script: "sss",
			Unknowns: 1, Rewinds: 1, Truncate: true, Batches: 1,
		},
		{
			Name: "created again, a failover, a lost reply", Script: "ss",
			Unknowns: 1, Recreate: true, Failover: true, Batches: 1,
		},
		{
			Name: "created again, a rebalance, a lost reply", Script: "sss",
			Unknowns: 1, Rebalances: 1, Recreate: true, Batches: 1,
		},
		{
			Name: "adoption, a rebalance, a lossy failover", Script: "sss",
			Rebalances: 1, Adopt: true, Failover: true, Batches: 1,
		},
	}
}

// controlScopes are those with instructions that are no submissions.
func controlScopes() []Scope {
	return []Scope{
		{
			Name: "two cancels, a crash, a lost reply", Script: "scsc",
			Crashes: 1, Unknowns: 1, Suspicions: 1, Batches: 1,
		},
		{
			Name: "replace, fire, cancel, a crash", Script: "srfc",
			Crashes: 1, Unknowns: 1, Suspicions: 1, Batches: 1,
		},
		{
			Name: "reschedule, replace, cancel, a rebalance", Script: "smrc",
			Unknowns: 1, Rebalances: 1, Suspicions: 1, Batches: 1,
		},
		{
			Name: "a cancel, a lossy failover, a crash", Script: "scs",
			Crashes: 1, Unknowns: 1, Failover: true, Batches: 1,
		},
		{
			Name: "replace, cancel, a lossy failover", Script: "src",
			Unknowns: 1, Failover: true, Batches: 1,
		},
		{
			Name: "a cancel, a rewind, a crash, a lost reply", Script: "ssc",
			Crashes: 1, Unknowns: 1, Rewinds: 1, Batches: 1,
		},
	}
}
