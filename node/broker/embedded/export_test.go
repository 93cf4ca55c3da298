package embedded

import (
	"log/slog"
	"net"
)

// What the tests use from outside of the package.

const (
	MaxConnections = maxConnections
	MaxPlain       = maxPlain
	IdleTime       = idleTime
	IdleEnough     = idleEnough
	RequestTime    = requestTime
	WriteTime      = writeTime
)

// CheckRequest returns why the broker must not see a request.
func CheckRequest(request []byte) error { return checkRequest(request, served()) }

// Newest returns the newest version of a kind that is served, -1 for none.
func Newest(kind int16) int16 {
	version, known := served().LookupMaxKeyVersion(kind)
	if !known {
		return -1
	}
	return version
}

// Guard returns a listener that guards the connections of another.
func Guard(plain net.Listener, log *slog.Logger) net.Listener {
	return newListener(plain, served(), log)
}
