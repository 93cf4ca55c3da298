package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"chronos/node"
	"chronos/node/store/outlook"
)

var _ outlook.Source = (*Store)(nil)

// Outlook implements outlook.Source. It counts everything: this store is small.
func (s *Store) Outlook(ctx context.Context, request outlook.Request) (outlook.Outlook, error) {
	if err := ctx.Err(); err != nil {
		return outlook.Outlook{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all outlook.Outlook
	for _, name := range request.Lanes {
		lane := outlook.Lane{Name: name, Within: make([]outlook.Count, len(outlook.Horizons()))}
		late := instant(request.Now.Add(-outlook.Grace))
		var overdue []*row
		for _, part := range slices.SortedFunc(maps.Keys(s.waiting), node.Part.Compare) {
			if part.Lane != name {
				continue
			}
			parked := outlook.Parked{Part: part.Name}
			for r := range s.waiting[part].all {
				lane.Waiting.N++
				if parked.Waiting.N++; parked.Waiting.N == 1 {
					parked.Oldest = r.Due
				}
				if r.Deadline.Before(late) {
					overdue = append(overdue, r)
				}
				switch {
				case r.Due.Before(late):
				case lane.Next.IsZero() || r.Due.Before(lane.Next):
					lane.Next = r.Due
				}
				for i, horizon := range outlook.Horizons() {
					if r.Due.After(request.Now) && !r.Due.After(request.Now.Add(horizon)) {
						lane.Within[i].N++
					}
				}
			}
			if part.Name != "" && len(lane.Parked) < outlook.MaxParked {
				lane.Parked = append(lane.Parked, parked)
			}
		}
		for r := range s.ready.all {
			if r.Lane != name {
				continue
			}
			lane.Claimed.N++
			if r.Deadline.Before(late) {
				overdue = append(overdue, r)
			}
		}
		slices.SortFunc(overdue, func(a, b *row) int {
			return cmp.Or(a.Deadline.Compare(b.Deadline), cmp.Compare(a.ID, b.ID))
		})
		lane.Overdue.N = len(overdue)
		for _, r := range overdue {
			if !r.Due.Before(late) {
				lane.Deferred.N++
			}
		}
		if len(overdue) > 0 {
			lane.Oldest = overdue[0].Deadline
		}
		lane.Origins = origins(overdue[:min(len(overdue), outlook.MaxOrigins)])
		all.Lanes = append(all.Lanes, lane)
	}
	return all, nil
}

// origins counts where messages came from.
func origins(rows []*row) []outlook.Origin {
	var all []outlook.Origin
	for _, r := range rows {
		if r.Origin.Topic == "" {
			continue
		}
		i := slices.IndexFunc(all, func(o outlook.Origin) bool {
			return o.Topic == r.Origin.Topic && o.Partition == r.Origin.Partition
		})
		if i < 0 {
			i = len(all)
			all = append(all, outlook.Origin{Topic: r.Origin.Topic, Partition: r.Origin.Partition})
		}
		all[i].Messages++
	}
	slices.SortFunc(all, func(a, b outlook.Origin) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition))
	})
	return all
}
