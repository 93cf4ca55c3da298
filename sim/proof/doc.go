// Package proof states the algorithm as a transition system in first-order logic, for any number of nodes, messages and
// faults, with an invariant that each of its steps keeps and from which the promises about states follow. Two solvers
// check that (package solver). The page docs/PROOF.md explains it to people who know logic and not Chronos; read it
// first, then words.go, transitions.go and taking.go with docs/ALGORITHM.md beside them, and invariant.go.
//
// A formula is a value (Expr) that has two readers: Obligation writes it for solvers in SMT-LIB 2.6, and World
// evaluates it in a given state. So the simulator, which checks each step of a run to be a step of this system, and
// the solvers mean the same. A guard or an update is stated once.
//
// The package is pure. It knows nothing of the engine, and nothing else in this repository.
package proof
