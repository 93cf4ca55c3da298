package metrics

// The states of the copies that a standby keeps.
const (
	warmCopy = "warm"
	coldCopy = "cold"
)

// The results of an attempt to take over a partition of a journal.
const (
	takenOver = "owned"
	notTaken  = "failed"
)

// beginJournal has series start at zero, also where the store is no journal.
func (m *Metrics) beginJournal() {
	for _, result := range []string{takenOver, notTaken} {
		m.counters["chronos_journal_takeovers_total"].WithLabelValues(result)
	}
	m.ReplayLeft(0)
	m.Unreadable(0)
	m.Standbys(0, 0, 0)
}

// Owned counts an attempt to take over a partition of a journal.
func (m *Metrics) Owned(worked bool) {
	result := notTaken
	if worked {
		result = takenOver
	}
	m.count("chronos_journal_takeovers_total", 1, result)
}

// ReplayLeft shows how much of a journal is to be read before all partitions are taken over.
func (m *Metrics) ReplayLeft(entries int64) { m.set("chronos_journal_replay_left", float64(entries)) }

// Unreadable shows how many entries of a journal cannot be read, in the partitions that this node was given.
func (m *Metrics) Unreadable(entries int) { m.set("chronos_journal_unreadable", float64(entries)) }

// Standbys shows how many copies a node keeps of partitions that others own: those that have come to the end of the
// journal once, and those that have not; and how many entries all of them lack at most.
func (m *Metrics) Standbys(warm, cold int, behind int64) {
	m.set("chronos_journal_standby_copies", float64(warm), warmCopy)
	m.set("chronos_journal_standby_copies", float64(cold), coldCopy)
	m.set("chronos_journal_standby_behind", float64(behind))
}
