// Package tidy holds the guards of this repository: rules that a compiler does not know and a reviewer forgets. Its
// tests apply them to the tree, as part of the normal test command.
//
//   - Replayed: the simulator runs the engine twice with one seed and expects one trace. So the engine starts no
//     goroutine, uses no channel, reads no clock, draws no randomness of its own, never goes through a map in
//     its order, and computes nothing in floating point.
//   - Foreign: the packages that others stand on import, directly or not, only what is allowed.
//   - Long, Leftover, MachinePath, Misplaced: rules on files and folders.
//
// A guard returns its findings, one line for each; nothing found is an empty list. Every guard is shown by a test
// to reject a small bad example, so that none of them passes because it looks at nothing.
package tidy
