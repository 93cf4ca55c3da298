package service

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/callback"
	"chronos/node/hours"
)

// windowText says what the key window may be.
const windowText = "words such as \"8am to 8pm every day in Europe/London\", see WINDOWS.md; `always` or `never`"

// readWindow reads the window of a route or a lane; nil if nobody has set it.
func readWindow(v *Value) (node.Window, error) {
	if !v.IsSet {
		return nil, nil
	}
	w, err := calendar.ParseWindow(v.Text, time.Time{})
	if err != nil {
		return nil, Usagef("%s is %s, which is no window: %v", v.Origin, Shown(v.Text), err)
	}
	return w, nil
}

// windows returns when lanes are open, as routes and the list of lanes say it. A lane that is listed without a window
// is always open, whatever an entry with a * says; one that a route gives a window has that one.
func (s *Settings) windows(config *node.Config) error {
	if s.file == nil {
		return nil
	}
	said := map[string]*Value{} // by lane, where that is said
	add := func(lane string, v *Value) error {
		w, err := readWindow(v)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(config.Windows, func(l node.LaneWindow) bool { return l.Lane == lane })
		switch {
		case at < 0:
			config.Windows, said[lane] = append(config.Windows, node.LaneWindow{Lane: lane, Window: w}), v
		case config.Windows[at].Window == nil:
			config.Windows[at].Window, said[lane] = w, v
		case w != nil && fmt.Sprint(config.Windows[at].Window) != fmt.Sprint(w):
			return v.Wrong(fmt.Sprintf("lane %s has another window already, by %s: a lane has one", lane,
				said[lane].Origin))
		}
		return nil
	}
	for i := range s.file.lanes {
		l := &s.file.lanes[i]
		name := l.name.Text
		if !node.IsCallback(name) && !strings.HasSuffix(name, "*") && !config.Serves(name) && !s.tells(name) {
			return l.name.Wrong("no route has that topic as its output, a target or its outcomes")
		}
		if err := add(name, &l.window); err != nil {
			return err
		}
	}
	for i := range s.file.routes {
		if r := &s.file.routes[i]; r.Window.IsSet {
			if err := add(r.Output.Text, &r.Window); err != nil {
				return err
			}
		}
	}
	config.Windows = slices.DeleteFunc(config.Windows, func(l node.LaneWindow) bool {
		return l.Window == nil && !slices.ContainsFunc(config.Windows, func(other node.LaneWindow) bool {
			return other.Window != nil && strings.HasSuffix(other.Lane, "*")
		})
	})
	return nil
}

// Hours returns when lanes are open, as the file says it, for commands that ask the store without a node; nil if it
// says nothing, or cannot be understood here: only a node needs all of it, such as the secrets of its lanes.
func (s *Settings) Hours() *hours.Hours {
	if s.file == nil {
		return nil
	}
	var config node.Config
	var err error
	if config.Routes, _, err = s.routes(); err != nil {
		return nil
	}
	if s.callbacks(&config, new(callback.Config)) != nil || s.windows(&config) != nil {
		return nil
	}
	return hours.New(&config)
}

// tells reports whether a topic is one of outcomes or dead letters, whose windows the engine decides on.
func (s *Settings) tells(topic string) bool {
	return slices.ContainsFunc(s.file.routes, func(r fileRoute) bool {
		return topic == r.Outcomes.Text || topic == r.DeadLetter.Text
	})
}

// topicLane returns an error if an entry of a topic has what only callbacks have.
func (l *fileLane) topicLane() error {
	fields := l.fields()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if v := fields[name]; v.IsSet && name != "name" && name != "window" && name != "max-per-second" {
			return v.Wrong("only a callback lane has it, whose name begins with " + node.CallbackPrefix)
		}
	}
	switch prefix, many := strings.CutSuffix(l.name.Text, "*"); {
	case len(l.headers) > 0:
		return Usagef("%s: only a callback lane has them, whose name begins with %s", l.headersOrigin,
			node.CallbackPrefix)
	case !node.IsTopic(l.name.Text) && (!many || prefix != "" && !node.IsTopic(prefix)):
		return l.name.Wrong(laneForm + "; a * at its end stands for any more of them")
	case !l.window.IsSet && !l.perSecond.IsSet:
		return Usagef("%s is not set: an entry of a topic says when it is open, or how fast messages come out there "+
			"(max-per-second)", l.window.Origin)
	}
	return nil
}

// windowsInForce returns the windows in their normal form, by lane.
func (c *Config) windowsInForce() map[string]string {
	windows := map[string]string{}
	for _, l := range c.Node.Windows {
		if l.Window != nil {
			windows[l.Lane] = fmt.Sprint(l.Window)
		}
	}
	return windows
}

// windowForPeers returns what nodes that go by the same window all say of it: its words, and a digest of when it opens
// and closes for some years. Machines may have different rules for its zone, and nobody would notice until a
// government has moved its clocks.
func windowForPeers(w node.Window) string {
	const years = 5
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end := from.AddDate(years, 0, 0)
	digest := fnv.New32a()
	for at, some := w.Next(from); some && at.Before(end); at, some = w.Next(at) {
		_, _ = fmt.Fprintln(digest, at.Unix()) // a digest takes everything
	}
	return fmt.Sprintf("%v (openings %08x)", w, digest.Sum32())
}

// sayWindows says what of the windows may not be as their authors think.
func (c *Config) sayWindows(log *slog.Logger) {
	for _, l := range c.Node.Windows {
		if w, is := l.Window.(*calendar.Window); is {
			for _, note := range w.Notes() {
				log.Warn("the window of a lane may not be what you want", slog.String("lane", l.Lane),
					slog.String("window", w.String()), slog.String("note", note))
			}
		}
	}
}
