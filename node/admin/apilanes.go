package admin

import (
	"context"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node"
	"chronos/node/store/outlook"
)

// Count is a number of messages.
type Count struct {
	N         int  `json:"n"`
	Estimated bool `json:"estimated,omitempty" doc:"There are more than 10,000. n were counted, and there are more."`
	Unknown   bool `json:"unknown,omitempty" doc:"The look at them took too long."`

	ByStatistics bool `json:"by_statistics,omitempty" doc:"n is about what the statistics of the database expect."`
}

// String returns the count for a person, see outlook.Count.
func (c Count) String() string {
	count := outlook.Count(c)
	return count.String()
}

// Lane is what waits on a lane.
type Lane struct {
	Name    string     `json:"name"`
	Served  bool       `json:"served" doc:"Whether the node that was asked serves it."`
	Paused  *Pause     `json:"paused,omitempty"`
	Waiting Count      `json:"waiting"`
	Claimed Count      `json:"claimed"`
	Overdue Count      `json:"overdue"`
	Oldest  *time.Time `json:"oldest,omitempty" doc:"When the first of the overdue messages fell due."`
	Next    *time.Time `json:"next,omitempty" doc:"When the next message falls due."`
	Within  []Within   `json:"within" doc:"How many messages fall due soon, each with those of the one before."`
	Parked  []Parked   `json:"parked,omitempty" doc:"What waits for parts of the lane that do not answer; 100 at most."`
	Trouble *Trouble   `json:"trouble,omitempty" doc:"What this node fails on, and has failed on of late."`
	Window  string     `json:"window,omitempty" doc:"When it is open, in words; missing if it always is."`
	Closed  bool       `json:"closed,omitempty" doc:"By its window, so that nothing comes out and nothing is overdue."`
	Changes *time.Time `json:"changes,omitempty" doc:"When it closes or, if it is closed, opens."`
}

// Parked is what waits for a part of a lane that does not answer. It is among what waits on the lane.
type Parked struct {
	Part    string     `json:"part" doc:"The number of the output partition."`
	Waiting Count      `json:"waiting"`
	Oldest  *time.Time `json:"oldest,omitempty" doc:"When the first of them fell due."`
}

// Within is how many messages fall due within a time from now.
type Within struct {
	Seconds int   `json:"seconds"`
	Count   Count `json:"count"`
}

// Lanes are all lanes, and the intake.
type Lanes struct {
	At     time.Time `json:"at" doc:"Now. The counts may be some seconds old."`
	Lanes  []Lane    `json:"lanes"`
	Intake Intake    `json:"intake"`
}

// Intake is how the intake is.
type Intake struct {
	Paused     *Pause `json:"paused,omitempty"`
	CatchingUp bool   `json:"catching_up" doc:"The store was set back, and nothing is claimed until it has caught up."`
	Suspect    bool   `json:"suspect,omitempty"`
	Lineage    int64  `json:"lineage"`
}

// Position is how far a partition has been taken in.
type Position struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset" doc:"The first offset that was not taken in."`
	Epoch     int32  `json:"epoch"`
	Mark      *int64 `json:"mark,omitempty" doc:"Up to where it has to be taken in before anything is claimed."`
}

// Positions are those of all partitions.
type Positions struct {
	Positions []Position `json:"positions"`
	Intake    Intake     `json:"intake"`
}

func (a *API) lanes(api huma.API) {
	read(a, api, "/v1/lanes", "lanes", "All lanes: counts, what is overdue, and what comes", a.allLanes)
	read(a, api, "/v1/positions", "positions", "How far the partitions have been taken in", a.positions)
}

func (a *API) allLanes(ctx context.Context, _ *nothing) (Lanes, error) {
	now := a.now().UTC()
	all := Lanes{At: now, Lanes: []Lane{}}
	stored, err := a.Store.Parts(ctx)
	if err != nil {
		return all, err
	}
	pauses, err := a.Store.Pauses(ctx)
	if err != nil {
		return all, err
	}
	_, state, err := a.Store.Places(ctx)
	if err != nil {
		return all, err
	}
	names := append(slices.Clone(a.Lanes), node.LanesOf(stored)...)
	paused := map[string]*Pause{}
	for _, p := range pauses {
		paused[p.Lane] = pauseOf(p)
		if p.Lane != node.Intake {
			names = append(names, p.Lane)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	names = names[:min(len(names), node.MaxLanes)]
	seen, err := a.Outlook.Outlook(ctx, outlook.Request{Now: now, Lanes: names})
	if err != nil {
		return all, err
	}
	for i := range seen.Lanes {
		l := &seen.Lanes[i]
		lane := Lane{
			Name: l.Name, Served: a.serves(l.Name), Paused: paused[l.Name],
			Waiting: Count(l.Waiting), Claimed: Count(l.Claimed), Overdue: Count(l.Overdue),
			Oldest: instantOf(l.Oldest), Next: instantOf(l.Next), Within: []Within{},
		}
		for _, p := range l.Parked {
			lane.Parked = append(lane.Parked, Parked{p.Part, Count(p.Waiting), instantOf(p.Oldest)})
		}
		for i, horizon := range outlook.Horizons() {
			lane.Within = append(lane.Within, Within{int(horizon.Seconds()), Count(l.Within[i])})
		}
		if a.Troubles != nil {
			lane.Trouble = a.Troubles.lane(l.Name)
		}
		if a.Hours != nil {
			if state, has := a.Hours(l.Name, now); has {
				lane.Window, lane.Closed, lane.Changes = state.Window, !state.Open, instantOf(state.Changes)
			}
		}
		all.Lanes = append(all.Lanes, lane)
	}
	all.Intake = intakeOf(state, paused[node.Intake])
	return all, nil
}

// serves reports whether nodes with these settings serve a lane. A process that is no node has no lanes, and does not
// know.
func (a *API) serves(lane string) bool {
	return len(a.Lanes) == 0 || slices.Contains(a.Lanes, lane) || a.Finds != nil && a.Finds(lane)
}

func instantOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func intakeOf(state node.State, paused *Pause) Intake {
	return Intake{Paused: paused, CatchingUp: state.CatchingUp, Suspect: state.Suspect, Lineage: state.Lineage}
}

func (a *API) positions(ctx context.Context, _ *nothing) (Positions, error) {
	all := Positions{Positions: []Position{}}
	places, state, err := a.Store.Places(ctx)
	if err != nil {
		return all, err
	}
	for _, p := range places {
		shown := Position{
			Topic: p.Topic, TopicID: p.TopicID.String(), Partition: p.Number, Offset: p.Offset, Epoch: p.Epoch,
		}
		if p.Mark >= 0 {
			shown.Mark = &p.Mark
		}
		all.Positions = append(all.Positions, shown)
	}
	pauses, err := a.Store.Pauses(ctx)
	if err != nil {
		return all, err
	}
	var paused *Pause
	for _, p := range pauses {
		if p.Lane == node.Intake {
			paused = pauseOf(p)
		}
	}
	all.Intake = intakeOf(state, paused)
	return all, nil
}
