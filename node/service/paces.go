package service

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chronos/node"
)

// paces returns how fast messages come out on lanes, as the list of lanes says it. A lane that is listed without a pace
// has none, whatever an entry with a * says.
func (s *Settings) paces(config *node.Config) error {
	if s.file == nil {
		return nil
	}
	for i := range s.file.lanes {
		l := &s.file.lanes[i]
		pace := 0
		if l.perSecond.IsSet {
			var err error
			if pace, err = strconv.Atoi(l.perSecond.Text); err != nil || pace < 1 || pace > node.MaxPerSecond {
				return l.perSecond.Wrong(fmt.Sprintf("it must be a number from 1 to %d", node.MaxPerSecond))
			}
		}
		config.Paces = append(config.Paces, node.LanePace{Lane: l.name.Text, PerSecond: pace})
	}
	if !slices.ContainsFunc(config.Paces, func(l node.LanePace) bool {
		return l.PerSecond > 0 && strings.HasSuffix(l.Lane, "*")
	}) {
		config.Paces = slices.DeleteFunc(config.Paces, func(l node.LanePace) bool { return l.PerSecond == 0 })
	}
	return nil
}

// pacesInForce returns the paces by the names that a log and other nodes know them by, in the order of the file.
func (c *Config) pacesInForce() (names, paces []string) {
	for _, l := range c.Node.Paces {
		if l.PerSecond > 0 {
			names = append(names, "max-per-second "+l.Lane)
			paces = append(paces, strconv.Itoa(l.PerSecond))
		}
	}
	return names, paces
}
