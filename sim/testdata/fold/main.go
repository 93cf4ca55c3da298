// Command fold prints the fold of the hashes of a hundred seeds. TestHashOnOtherMachines builds it for other
// architectures, for which the tests themselves are not built.
package main

import (
	"fmt"

	"chronos/sim"
)

func main() {
	var sum uint64
	for seed := range uint64(100) {
		sum = sum*31 + sim.Run(sim.Setup{Options: sim.Swarm(seed)}).Hash
	}
	fmt.Printf("%016x\n", sum)
}
