package node

import (
	"errors"
	"time"
)

// ParseDelay reads the value of the header chronosDelay.
func ParseDelay(value string) (time.Duration, error) {
	delay, err := time.ParseDuration(value)
	if err != nil || delay < 0 {
		return 0, errors.New("it is not of the form 1h30m")
	}
	return delay, nil
}
