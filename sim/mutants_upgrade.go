package sim

import (
	"chronos/node"
	"chronos/node/store/memory"
)

// upgradeMutants adopt wrongly what an older deployment has committed.
func upgradeMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "adopts-nothing", About: "what an older deployment has committed is taken in once more (3.1)",
			Kills: []string{"S17", "S5"}, Scenario: "upgrade",
			Adopts: func([]node.CommittedPlace) []node.Place { return []node.Place{} },
		},
		{
			Name: "adopts-too-far", About: "a position is adopted one record behind what was committed (3.1)",
			Kills: []string{"S18"}, Scenario: "upgrade",
			Adopts: func(committed []node.CommittedPlace) []node.Place {
				return mapped(node.Adoptable(committed), func(p node.Place) node.Place { p.Offset++; return p })
			},
		},
		{
			Name: "adopts-too-little", About: "a position is adopted before the last record that was committed (3.1)",
			Kills: []string{"S17", "S5"}, Scenario: "upgrade",
			Adopts: func(committed []node.CommittedPlace) []node.Place {
				return mapped(node.Adoptable(committed), func(p node.Place) node.Place {
					p.Epoch, p.Offset = node.UnknownEpoch, max(p.Offset-1, 0)
					return p
				})
			},
		},
		{
			Name: "adopts-again", About: "an adoption that comes late sets positions that there are (3.1)",
			Kills: []string{"S18", "S17"}, Scenario: "upgrade-late", Broken: memory.Broken{AdoptsAgain: true},
		},
		{
			Name: "adopts-kept", About: "what nodes with positions have committed is adopted after a restore (3.1)",
			Kills: []string{"S18", "S1", "L9"}, Scenario: "upgrade-set-back",
			Adopts: func(committed []node.CommittedPlace) []node.Place {
				return mapped(committed, func(c node.CommittedPlace) node.Place { return c.Place })
			},
		},
	}
}

func (m *Mutant) adoptable(committed []node.CommittedPlace) []node.Place {
	if m != nil && m.Adopts != nil {
		return m.Adopts(committed)
	}
	return node.Adoptable(committed)
}
