package model

// records is how many records the application can send at most.
const records = 4

// The instructions that a record can give. Scope.Script has one of these letters for each record.
const (
	kindSchedule   = 's'
	kindCancel     = 'c'
	kindReplace    = 'r'
	kindReschedule = 'm' // moves what waits to another time
	kindFire       = 'f' // now
)

// schedules reports whether a record of this kind brings content that can come out.
func schedules(kind byte) bool { return kind == kindSchedule || kind == kindReplace }

// input is the partition as Kafka has it. A record is known by the order in which it was sent, 0 to 3; where it stands
// depends on what has happened to the log, which is one thing at most.
type input struct {
	sent uint8 // records that were sent
	fate uint8
	cut  uint8 // how many had been sent when that happened
	keep uint8 // how many of those Kafka still has
}

// What can happen to a log.
const (
	logWhole     uint8 = iota
	logTruncated       // a new leader lacks the tail: its epoch is higher, and offsets are given again
	logRecreated       // the topic was deleted and created again: its id is another, and offsets begin again
)

// A log has two versions: as it was before that, and as it is now. A batch remembers which one it was polled from.
const (
	versionBefore uint8 = iota
	versionAfter
)

func (l input) version() uint8 { return min(l.fate, versionAfter) }

// length returns the offset of the log end.
func (l input) length(version uint8) uint8 {
	switch {
	case version == versionAfter:
		return l.keep + l.sent - l.cut
	case l.fate != logWhole:
		return l.cut
	default:
		return l.sent
	}
}

// at returns the record at an offset.
func (l input) at(version, offset uint8) uint8 {
	if version == versionBefore || offset < l.keep {
		return offset
	}
	return l.cut + offset - l.keep
}

// epoch is the leader epoch in which a record was written.
func (l input) epoch(record uint8) uint8 {
	if l.fate == logTruncated && record >= l.cut {
		return 1
	}
	return 0
}

// epochBefore is the leader epoch of the record before an offset.
func (l input) epochBefore(version, offset uint8) uint8 {
	if offset == 0 {
		return epochUnknown
	}
	return l.epoch(l.at(version, offset-1))
}

// topic is the id of the topic.
func (l input) topic(version uint8) uint8 {
	if l.fate == logRecreated {
		return version
	}
	return 0
}

// visible returns the set of records that Kafka has now.
func (l input) visible() uint8 {
	set := uint8(0)
	for offset := range l.length(l.version()) {
		set |= 1 << l.at(l.version(), offset)
	}
	return set
}

// divergence returns where a client that has the epoch of the record before its offset goes on: at the end of that
// epoch, if its offset lies beyond. That is how Kafka's clients find out that a log was truncated.
func (l input) divergence(offset, epoch uint8) (from, before uint8) {
	if epoch == epochUnknown {
		return offset, epoch
	}
	version, end := l.version(), uint8(0)
	for o := range l.length(version) {
		if l.epoch(l.at(version, o)) <= epoch {
			end = o + 1
		}
	}
	if offset <= end {
		return offset, epoch
	}
	return end, l.epochBefore(version, end)
}

// epochUnknown stands for the epoch -1 of Kafka's protocol.
const epochUnknown = 3

// position is how far a partition has been taken in: the offset behind the last record that was taken, and the epoch of
// that record. The store has one for each topic id.
type position struct {
	has    uint8 // 0: there is none
	offset uint8
	epoch  uint8
}

// behind reports whether a record lies behind the position, so that it has been taken.
func (p position) behind(offset, epoch uint8) bool {
	switch {
	case p.has == 0:
		return false
	case p.epoch == epochUnknown:
		return offset < p.offset
	default:
		return epoch < p.epoch || epoch == p.epoch && offset < p.offset
	}
}

// below reports whether a consumer that goes on at offset, behind a record of epoch, has left the position behind
// itself: nobody has taken what lies between.
func (p position) below(offset, epoch uint8) bool {
	return p.has == 0 || p.offset < offset ||
		p.epoch != epochUnknown && epoch != epochUnknown && p.epoch < epoch
}
