package sim

import (
	"context"
	"slices"
	"time"

	"chronos/node"
)

// windowMutants open and close lanes wrongly.
func windowMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "windows-ignored", About: "messages come out whether their lane is open or not",
			Kills: []string{"S29"}, Options: openingAnyway,
			Config: func(c *node.Config) { c.Windows = nil },
		},
		{
			Name:  "opens-by-advance",
			About: "a lane opens and closes earlier by the timing advance, as messages come out earlier",
			Kills: []string{"S29"}, Options: openingAnyway,
			Config: asked(func(w node.Window) node.Window { return shifted{w, 50 * time.Millisecond} }),
		},
		{
			Name:  "opening-foreseen",
			About: "a node that has looked when a lane changes believes that until then, although its clock was set",
			Kills: []string{"S29"},
			Options: func(o *Options) {
				opening(o)
				o.FaultRate, o.Mix, o.Nodes, o.Fates = 300, []FaultKind{WallStep}, 1, ""
			},
			Config: asked(func(w node.Window) node.Window { return &foreseen{Window: w} }),
		},
		{
			Name: "opens-late", About: "a lane opens and closes half a second late by the clock of the node",
			Kills: []string{"S29", "L16"}, Options: opening,
			Config: asked(func(w node.Window) node.Window { return shifted{w, -500 * time.Millisecond} }),
		},
		{
			Name: "opens-half", About: "a lane stays closed for the first half of a second after it has opened",
			Kills: []string{"L16"}, Options: opening,
			Config: asked(func(w node.Window) node.Window { return reluctant{w} }),
		},
		{
			Name: "opens-never-again", About: "a node that finds a lane closed looks never again",
			Kills: []string{"L2", "L16"}, Options: opening,
			Config: asked(func(w node.Window) node.Window { return final{w} }),
		},
		{
			Name: "keeps-by-night", About: "what is claimed when a lane closes stays claimed",
			Kills: []string{"L17"}, Options: opening,
			Ports: func(p node.Ports) node.Ports { p.Store = forgetful{p.Store}; return p },
		},
		{
			Name:  "takes-claim-by-night",
			About: "what is due when it is taken in is claimed, although its lane is closed",
			Kills: []string{"L17"}, Options: opening,
			Rows: func(rows node.Store, t Table) node.Store {
				w := t.truth.server.world
				return takeChanger{rows, func(i *node.Item) {
					p, has := w.windows[i.Lane]
					i.Claim = i.Claim || has && !p.Open(w.instant()) && i.Deadline.Before(w.instant())
				}}
			},
		},
	}
}

// opening gives every lane a window, and leaves faults out.
func opening(o *Options) {
	o.Windows, o.WindowPeriod, o.WindowOpen = 100, 4*time.Second, 2*time.Second
	o.FaultRate, o.Mix, o.Skew, o.Drift, o.Bursts, o.TimingAdvance = 0, nil, 0, 0, 0, 50*time.Millisecond
	o.PollInterval, o.Lookahead = 50*time.Millisecond, 250*time.Millisecond
	o.StoreLatency, o.BrokerLatency, o.Bandwidth = time.Millisecond, 2*time.Millisecond, 0
	o.Messages, o.Callbacks = max(o.Messages, 100), 0
}

// openingAnyway lets something go wrong now and then, so that nobody looks how claims lie about the openings.
func openingAnyway(o *Options) {
	opening(o)
	o.FaultRate, o.Mix = 300, []FaultKind{RequestLost, Refused}
}

// asked has each node ask other windows than it is told.
func asked(change func(node.Window) node.Window) func(*node.Config) {
	return func(c *node.Config) {
		for i := range c.Windows {
			c.Windows[i].Window = change(c.Windows[i].Window)
		}
	}
}

// shifted is asked for another instant.
type shifted struct {
	node.Window

	by time.Duration
}

// Open implements node.Window.
func (s shifted) Open(at time.Time) bool { return s.Window.Open(at.Add(s.by)) }

// Next implements node.Window.
func (s shifted) Next(after time.Time) (time.Time, bool) {
	next, found := s.Window.Next(after.Add(s.by))
	return next.Add(-s.by), found
}

// foreseen is asked nothing until the change that was foreseen.
type foreseen struct {
	node.Window

	open  bool
	until time.Time
}

// Open implements node.Window.
func (f *foreseen) Open(at time.Time) bool {
	if !at.Before(f.until) {
		f.open = f.Window.Open(at)
		f.until, _ = f.Window.Next(at)
	}
	return f.open
}

// Next implements node.Window.
func (f *foreseen) Next(time.Time) (time.Time, bool) { return f.until, true }

// reluctant opens later, and closes when it should.
type reluctant struct{ node.Window }

const reluctance = 500 * time.Millisecond

// Open implements node.Window.
func (r reluctant) Open(at time.Time) bool {
	return r.Window.Open(at) && r.Window.Open(at.Add(-reluctance))
}

// Next implements node.Window.
func (r reluctant) Next(after time.Time) (time.Time, bool) {
	if into := after.Add(-reluctance); !r.Open(after) && r.Window.Open(after) {
		opened, _ := r.Window.Next(into)
		return opened.Add(reluctance), true
	}
	next, found := r.Window.Next(after)
	if !r.Open(after) {
		next = next.Add(reluctance)
	}
	return next, found
}

// final never opens again.
type final struct{ node.Window }

// Next implements node.Window.
func (f final) Next(after time.Time) (time.Time, bool) {
	next, found := f.Window.Next(after)
	return next, found && f.Open(after)
}

// forgetful says that it has taken back what was never tried, and has not.
type forgetful struct{ node.Store }

// Reset implements node.Store.
func (s forgetful) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	kept := func(r node.Release) bool { return r.Unsent && r.Due.IsZero() }
	_, err := s.Store.Reset(ctx, slices.DeleteFunc(slices.Clone(releases), kept))
	return mapped(releases, func(node.Release) node.Settled { return node.Freed }), err
}
