package calendar

import (
	"fmt"
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

// ZoneName returns the name of a time zone as the database has it, for somebody who wrote it in other letters; the name
// as it is if there is none.
func ZoneName(name string) string {
	if _, canonical, why := windowZone(name); why == "" && strings.Contains(name, "/") {
		return canonical
	}
	return name
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

// windowZone finds the zone that a window names, and the name for its normal form, or says why there is none.
func windowZone(name string) (*time.Location, string, string) {
	switch strings.ToUpper(name) {
	case "":
		return nil, "", "here a time zone must stand, such as Europe/Berlin or UTC"
	case "UTC", "Z":
		return time.UTC, "UTC", ""
	case "GMT":
		return time.FixedZone("GMT", 0), "GMT", ""
	}
	if m := offsetForm.FindStringSubmatch(name); m != nil {
		return fixedZone(m)
	}
	if instead, known := abbreviation(strings.ToUpper(name)); known {
		return nil, "", "an abbreviation does not tell where the clock hangs, nor when it changes: " +
			"write a name such as " + instead
	}
	if name == strings.ToLower(name) {
		name = capitals(name)
	}
	found, err := zone(name)
	if err != nil {
		return nil, "", "there is no such time zone: write an IANA name such as Europe/Berlin, UTC, or UTC+02:00"
	}
	return found, name, ""
}

// offsetForm is a distance from UTC.
var offsetForm = regexp.MustCompile(`^(?i:utc|gmt)?([+-])(\d{1,2})(?::?(\d\d))?$`)

// fixedZone returns the zone of an offset's sign, hours and minutes.
func fixedZone(parts []string) (*time.Location, string, string) {
	hours, minutes := number(parts[2]), 0
	if parts[3] != "" {
		minutes = number(parts[3])
	}
	offset := hours*3600 + minutes*60
	if minutes > 59 || offset > 18*3600 {
		return nil, "", "no clock is so far from UTC: write an IANA name such as Europe/Berlin, UTC, or UTC+02:00"
	}
	if offset == 0 {
		return time.UTC, "UTC", ""
	}
	if parts[1] == "-" {
		offset = -offset
	}
	name := fmt.Sprintf("UTC%s%02d:%02d", parts[1], hours, minutes)
	return time.FixedZone(name, offset), name, ""
}

// abbreviation returns names to write for what people call their zone, and reports whether it is one of those that mean
// several, or one half of the year.
func abbreviation(name string) (string, bool) {
	switch name {
	case "EST", "EDT", "ET":
		return "America/New_York", true
	case "CST", "CDT", "CT":
		return "America/Chicago (or Asia/Shanghai)", true
	case "MST", "MDT", "MT":
		return "America/Denver", true
	case "PST", "PDT", "PT":
		return "America/Los_Angeles", true
	case "BST":
		return "Europe/London", true
	case "IST":
		return "Asia/Kolkata (or Europe/Dublin, Asia/Jerusalem)", true
	case "CET", "CEST", "MEZ", "MESZ", "MET":
		return "Europe/Berlin", true
	case "EET", "EEST":
		return "Europe/Athens", true
	case "WET", "WEST":
		return "Europe/Lisbon", true
	case "AEST", "AEDT":
		return "Australia/Sydney", true
	case "JST":
		return "Asia/Tokyo", true
	case "MSK":
		return "Europe/Moscow", true
	case "HST":
		return "Pacific/Honolulu", true
	}
	return "", false
}

// capitals writes a name in small letters as the database does, for most names.
func capitals(name string) string {
	var b strings.Builder
	upper := true
	for _, r := range name {
		if upper && 'a' <= r && r <= 'z' {
			r += 'A' - 'a'
		}
		upper = r == '/' || r == '_' || r == '-'
		b.WriteRune(r)
	}
	return b.String()
}
