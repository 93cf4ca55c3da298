package sim

// Mutants returns all mutants, in the order in which they are reported.
func Mutants() []*Mutant { return nil }
