package bench

import "time"

// Second is what happened in one second of a run, or in a bit more or less: At is its end, since the start.
type Second struct {
	At           Millis `json:"at_ms"`
	Sent         int    `json:"sent"`
	Acknowledged int    `json:"acknowledged"`
	Taken        int64  `json:"taken"` // by the service since the start; -1 if nobody knows
	Came         int    `json:"came"`  // with duplicates
	Waiting      int    `json:"waiting"`

	// How late what came in this second was, when it was received; nil where nothing came.
	P50 *Millis `json:"p50_ms,omitempty"`
	P99 *Millis `json:"p99_ms,omitempty"`
	Max *Millis `json:"max_ms,omitempty"`

	Use []Use `json:"use,omitempty"`
}

// Use is what a group of processes uses: how many CPUs since the second before, and how much memory now.
type Use struct {
	Name   string  `json:"name"`
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory_bytes"`
}

// Reading is what a group of processes has used up so far, or the whole machine.
type Reading struct {
	Name   string
	CPU    time.Duration // since it started
	Memory int64         // now, in bytes
	Peak   int64         // the most memory that its largest process has ever had
	Files  int64         // what of Memory are pages of files, such as its program: the kernel can drop them
}

// Meter reads what the processes of a run use up.
type Meter interface {
	// Read returns a reading for each group of processes, always in the same order, and one for all that the machine
	// does, which has no memory.
	Read() (groups []Reading, machine Reading, err error)
}

// usage adds readings up over a run.
type usage struct {
	meter         Meter
	first, last   []Reading
	since         time.Time
	whole, latest Reading // of the machine
	lastAt        time.Time
	peaks         []int64 // by group, of what was read
	failed        error
}

// read takes a reading, and returns what was used since the one before.
func (u *usage) read(now time.Time) []Use {
	if u.meter == nil || u.failed != nil {
		return nil
	}
	groups, machine, err := u.meter.Read()
	if err != nil {
		u.failed = err
		return nil
	}
	if u.first == nil {
		u.first, u.last, u.since, u.whole = groups, groups, now, machine
		u.peaks = make([]int64, len(groups))
	}
	var uses []Use
	for i, g := range groups {
		use := Use{Name: g.Name, Memory: g.Memory}
		if passed := now.Sub(u.lastAt); !u.lastAt.IsZero() && passed > 0 {
			use.CPUs = max((g.CPU-u.last[i].CPU).Seconds()/passed.Seconds(), 0)
		}
		u.peaks[i] = max(u.peaks[i], g.Memory)
		uses = append(uses, use)
	}
	u.last, u.lastAt, u.latest = groups, now, machine
	return uses
}

// Process is what a group of processes has used in a run.
type Process struct {
	Name    string  `json:"name"`
	CPUs    float64 `json:"cpus"`        // on average
	CPU     float64 `json:"cpu_seconds"` // in all
	PerSent float64 `json:"cpu_us_per_message"`
	Memory  int64   `json:"memory_peak_bytes"` // the most that was read, once a second
	Peak    int64   `json:"largest_process_peak_bytes"`
}

// sum returns what each group has used, and what else the machine did, in CPUs; -1 if that is not known.
func (u *usage) sum(messages int) (groups []Process, others float64) {
	passed := u.lastAt.Sub(u.since).Seconds()
	if u.first == nil || passed <= 0 {
		return nil, -1
	}
	known := 0.0
	for i, g := range u.last {
		cpu := (g.CPU - u.first[i].CPU).Seconds()
		known += cpu
		groups = append(groups, Process{
			Name: g.Name, CPUs: cpu / passed, CPU: cpu, PerSent: cpu * 1e6 / float64(max(messages, 1)),
			Memory: u.peaks[i], Peak: g.Peak,
		})
	}
	return groups, max((u.latest.CPU-u.whole.CPU).Seconds()-known, 0) / passed
}
