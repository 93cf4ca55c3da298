package calendar

import (
	"regexp"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // for machines and images without time zones
)

// zoneName is what names in the database look like. It keeps LoadLocation from looking elsewhere on the disk.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,31}){0,2}$`)

// zones has each zone that was asked for: reading one takes longer than all else that a series does, and one name
// means one thing for as long as the program runs, also when somebody updates the machine's database.
var zones = struct { //nolint:gochecknoglobals // a cache of constants
	mutex sync.Mutex
	known map[string]*time.Location
}{known: map[string]*time.Location{}}

// zone finds a time zone by its IANA name; none is UTC.
func zone(name string) (*time.Location, *SeriesError) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	switch name {
	case "EST", "MST", "HST":
		// The database has these three, as offsets that never change. Whoever writes EST in July means EDT.
		return nil, refuse(UnknownZone, PartZone,
			"an abbreviation does not tell where the clock hangs: write a name such as America/New_York")
	}
	if !zoneName.MatchString(name) || foreign(name) {
		return nil, unknownZone()
	}
	zones.mutex.Lock()
	defer zones.mutex.Unlock()
	if found := zones.known[name]; found != nil {
		return found, nil
	}
	found, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknownZone()
	}
	zones.known[name] = found
	return found, nil
}

// foreign reports whether a name is of something else that lies about in a machine's database: its own zone, and
// copies of all zones, those under right/ with leap seconds counted.
func foreign(name string) bool {
	switch name {
	case "Local", "localtime", "posixrules", "Factory":
		return true
	}
	return strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/")
}

func unknownZone() *SeriesError {
	return refuse(UnknownZone, PartZone, "there is no such time zone: write an IANA name such as Europe/Berlin")
}
