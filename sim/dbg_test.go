package sim_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"chronos/sim"
	"chronos/sim/check"
)

func TestDbg(t *testing.T) {
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	id := os.Getenv("ID")
	var lines []string
	r := sim.Run(sim.Setup{Options: sim.Swarm(uint64(seed)), Proof: true, History: func(e *check.Event) {
		s := fmt.Sprintf("%v %s node=%s msg=%d id=%s topic=%s inc=%v owner=%v act=%s text=%s of=%d uns=%v part=%s off=%d ep=%d", e.At, e.Kind, e.Node, e.Message, e.ID, e.Topic, e.Incarnation, e.Owner, e.Action, e.Text, e.Of, e.Unsent, e.Partition, e.Offset, e.Epoch)
		lines = append(lines, s)
	}})
	fmt.Println(r.Violation)
	for _, l := range lines {
		for _, x := range strings.Split(id, ",") {
			if strings.Contains(l, x) {
				fmt.Println(strings.ReplaceAll(l, "00000000-0000-0000-0000-000000000000", "-"))
				break
			}
		}
	}
}
