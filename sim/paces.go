package sim

import (
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/queue"
	"chronos/sim/check"
)

// paces returns how many messages a node lets out in a second on the lanes that have a pace, by name.
func (o *Options) paces() map[string]int {
	drawn := map[string]int{}
	if o.Paced == 0 {
		return drawn
	}
	var dead []string
	for i := range o.Routes {
		dead = append(dead, o.route(i).DeadLetter)
	}
	for i, lane := range o.lanes() {
		r := stream(o.Seed, forPaces, i+1, 0)
		pace := pick(r, 5, 10, 10, 40)
		if o.Pace > 0 {
			pace = o.Pace
		}
		found, aimed := strings.CutSuffix(lane, ".2") // has that of .1, by a name with a *
		switch {
		case slices.Contains(dead, lane), lane == queue.Lane:
		case aimed:
			if first, has := drawn[found+".1"]; has {
				drawn[lane] = first
			}
		case r.IntN(100) < o.Paced:
			drawn[lane] = pace
		}
	}
	return drawn
}

// lanePaces returns what a node is told of the paces.
func (o *Options) lanePaces() []node.LanePace {
	return toldOf(o, o.paces(), func(lane string, pace int) node.LanePace {
		return node.LanePace{Lane: lane, PerSecond: pace}
	})
}

// judgedPaces returns what the judge is told of the paces.
func (o *Options) judgedPaces() []check.Pace {
	return judgedOf(o, o.paces(), func(lane string, pace int) check.Pace {
		return check.Pace{Topic: lane, PerSecond: pace}
	})
}

// keepsPace counts how often a node has as many publishes of a lane begin within a second as its pace allows.
func (l *life) keepsPace(lane string) {
	w := l.host.world
	pace, has := w.paces[lane]
	if !has {
		return
	}
	now := time.Duration(l.host.clock.mono(w.now))
	l.begun[lane] = append(slices.DeleteFunc(l.begun[lane], func(at time.Duration) bool {
		return now-at >= time.Second
	}), now)
	if len(l.begun[lane]) == pace {
		w.count("pace-reached")
	}
}
