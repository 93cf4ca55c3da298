//go:build !race

package sqlite_test

// raced says that the race detector is on.
const raced = false
