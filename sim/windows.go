package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/queue"
	"chronos/sim/check"
)

// periodic is a window of the worlds here, which last a minute or two: it opens once in each period. It goes by the
// wall clock of whoever asks, as those in words do, so that a wrong clock opens and closes at the wrong instant.
type periodic struct{ period, open, phase time.Duration }

var _ node.Window = periodic{}

// into returns how long ago the window opened last.
func (p periodic) into(at time.Time) time.Duration {
	into := (at.Sub(epoch()) - p.phase) % p.period
	if into < 0 {
		into += p.period
	}
	return into
}

// Open implements node.Window.
func (p periodic) Open(at time.Time) bool { return p.into(at) < p.open }

// Next implements node.Window.
func (p periodic) Next(after time.Time) (time.Time, bool) {
	into := p.into(after)
	if into < p.open {
		return after.Add(p.open - into), true
	}
	return after.Add(p.period - into), true
}

// editions is how many sets of windows there are: the nodes are told another one by a window-changed.
const editions = 3

// windows returns when the lanes are open that have a window, by name. In another edition each opens at another time.
func (o *Options) windows(edition int) map[string]periodic {
	drawn := map[string]periodic{}
	if o.Windows == 0 {
		return drawn
	}
	var dead []string
	for i := range o.Routes {
		dead = append(dead, o.route(i).DeadLetter)
	}
	for i, lane := range o.lanes() {
		r := stream(o.Seed, forWindows, i+1, 0)
		p := o.window(lane, r.IntN)
		found, aimed := strings.CutSuffix(lane, ".2") // has that of .1, by a name with a *
		switch {
		case slices.Contains(dead, lane), lane == queue.Lane:
		case aimed:
			if first, has := drawn[found+".1"]; has {
				drawn[lane] = first
			}
		case r.IntN(100) < o.Windows:
			p.phase += p.period * time.Duration(edition) / editions
			drawn[lane] = p
		}
	}
	return drawn
}

// window draws a window of a lane.
func (o *Options) window(lane string, intN func(int) int) periodic {
	const ms = time.Millisecond
	period := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}[intN(4)]
	share, phase := []int{5, 20, 50, 50, 80, 95}[intN(6)], intN(int(period/ms))
	if o.WindowPeriod > 0 {
		return periodic{o.WindowPeriod, o.WindowOpen, 0}
	}
	// What is claimed in time needs no longer than it takes to begin. Otherwise there must be time for a claim.
	least := 50 * ms
	if o.Lookahead < 30*o.StoreLatency {
		least = max(least, 40*o.StoreLatency)
	}
	// A node that reaches no broker may hold all that waits for as long as a publish may take, and then leaves the lane
	// to the others. Where the lane has closed by then it would do so at each opening, if its clock is a little ahead.
	if sick := strings.Count(o.Fates, string(FateNoBroker)); sick > 0 {
		engine := node.Config{HoldTime: o.HoldTime}
		least = time.Duration(sick)*(engine.PublishTimeout()+engine.StoreTimeout()) + standBack
	}
	if o.Ordered > 0 && node.IsCallback(lane) {
		share = max(share, 50) // one after the other takes its time
	}
	open := max(period*time.Duration(share)/100, least)
	return periodic{max(period, open*100/95), open, time.Duration(phase) * ms}
}

// laneWindows returns what a node is told of the windows.
func (o *Options) laneWindows(edition int) []node.LaneWindow {
	return toldOf(o, o.windows(edition), func(lane string, p periodic) node.LaneWindow {
		return node.LaneWindow{Lane: lane, Window: p}
	})
}

// judgedWindows returns what the judge is told of the windows.
func (o *Options) judgedWindows(edition int) []check.Window {
	return judgedOf(o, o.windows(edition), func(lane string, p periodic) check.Window {
		return check.Window{Topic: lane, Period: p.period, Open: p.open, Phase: p.phase}
	})
}

// toldOf returns what a node is told of what was drawn for lanes, in their order: of those that were found by one aim
// it is told once, by the name that stands for all of them.
func toldOf[D, T any](o *Options, drawn map[string]D, of func(lane string, d D) T) (all []T) {
	for _, lane := range o.lanes() {
		d, has := drawn[lane]
		found, aimed := strings.CutSuffix(lane, ".1")
		switch {
		case !has || strings.HasSuffix(lane, ".2"):
		case aimed:
			all = append(all, of(found+".*", d))
		default:
			all = append(all, of(lane, d))
		}
	}
	return all
}

// judgedOf returns what the judge is told of it: of each lane by itself.
func judgedOf[D, T any](o *Options, drawn map[string]D, of func(lane string, d D) T) (all []T) {
	for _, lane := range o.lanes() {
		if d, has := drawn[lane]; has {
			all = append(all, of(lane, d))
		}
	}
	return all
}

// itsOwn returns what the judge is told of the windows of a life: nothing where they are the first ones.
func (l *life) itsOwn() []check.Window {
	if l.edition == 0 {
		return nil
	}
	return l.host.world.options.judgedWindows(l.edition)
}

// passes counts what a node publishes on lanes with windows, and gives back on those that are closed by its clock.
func (l *life) passes(lane, point string, open bool) {
	w := l.host.world
	p, has := l.windows[lane]
	if !has || p.Open(l.host.clock.wall(w.now)) != open {
		return
	}
	w.count(point)
	if into := p.into(l.host.clock.wall(w.now)); open && into < 5*time.Millisecond {
		w.count("window-opened")
	}
}

// changeWindows tells the nodes other windows from their next start on, as somebody does who changes a file and
// restarts them one after the other: the first one now, and each of the others so much later. While faults last, that
// is: some nodes may never hear of it.
func (w *world) changeWindows(by int, later time.Duration) {
	w.edition = (w.edition + 1 + by%(editions-1)) % editions
	w.count("window-edition-" + strconv.Itoa(w.edition))
	edition := w.edition
	for i, h := range w.hosts[1:] {
		w.after(time.Microsecond+later*time.Duration(i), func() {
			if l := h.life; l != nil && !w.faultsOver && w.edition == edition && l.edition != edition && !l.stopping {
				w.recorder.add(check.Event{Kind: check.Term, Node: l.label})
				l.stop()
				h.startIn(later)
			}
		})
	}
}
