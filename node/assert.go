package node

import "fmt"

// assert panics when condition, which only a mistake of ours can break, is false. It is on in production: to stop
// is better than to go on with a state that nobody has thought of, and what is in the store survives.
func assert(condition bool, format string, args ...any) {
	if !condition {
		panic("chronos: broken assumption: " + fmt.Sprintf(format, args...))
	}
}
