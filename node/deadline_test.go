package node_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"chronos/node"
)

// The grammar, by example: what is read as what, and what is not read.
func TestParseDeadline(t *testing.T) {
	const layout = "2006-01-02T15:04:05.000000"
	for value, want := range map[string]string{
		"2022-12-01T11:09:01.123":             "2022-12-01T11:09:01.123000",
		"2022-12-01T11:09:01.123Z":            "2022-12-01T11:09:01.123000",
		"2022-12-01t11:09:01z":                "2022-12-01T11:09:01.000000",
		"2022-12-01 11:09:01":                 "2022-12-01T11:09:01.000000",
		"2022-12-01T11:09":                    "2022-12-01T11:09:00.000000",
		"2022-12-01T11:09Z":                   "2022-12-01T11:09:00.000000",
		"2022-12-01T11:09:01+05:45":           "2022-12-01T05:24:01.000000",
		"2022-12-01T11:09:01-0330":            "2022-12-01T14:39:01.000000",
		"2022-12-01T11:09:01+11":              "2022-12-01T00:09:01.000000",
		"2022-12-01T11:09:01-00:00":           "2022-12-01T11:09:01.000000",
		"2022-12-01T11:09:01.1234561Z":        "2022-12-01T11:09:01.123457",
		"2022-12-01T11:09:01.999999999Z":      "2022-12-01T11:09:02.000000",
		"2016-12-31T23:59:60Z":                "2017-01-01T00:00:00.000000",
		"2017-01-01T08:59:60+09:00":           "2017-01-01T00:00:00.000000",
		"2024-02-29T00:00:00Z":                "2024-02-29T00:00:00.000000",
		"0001-01-01T00:00:00Z":                "0001-01-01T00:00:00.000000",
		"9999-12-31T23:59:59.999999Z":         "9999-12-31T23:59:59.999999",
		"":                                    "",
		" 2022-12-01T11:09:01Z":               "",
		"2022-12-01T11:09:01Z ":               "",
		"2022-12-01":                          "",
		"2022-12-01T11":                       "",
		"20221201T110901Z":                    "",
		"2022-12-01T11:09:01,5Z":              "2022-12-01T11:09:01.500000",
		"2022-12-01 11:09:01.371586 UTC":      "2022-12-01T11:09:01.371586", // Rust, chrono::DateTime<Utc>
		"2022-12-01 11:09:01.37 +01:00":       "2022-12-01T10:09:01.370000", // Rust, FixedOffset
		"2022-12-01 11:09:01 UTC":             "2022-12-01T11:09:01.000000", // Ruby, Time#to_s
		"2022-12-01 11:09:01 +0100":           "2022-12-01T10:09:01.000000",
		"2022-12-01 11:09:01 GMT":             "2022-12-01T11:09:01.000000",
		"2022-12-01T11:09:01 Z":               "2022-12-01T11:09:01.000000",
		"2022-12-01 11:09:01,123456789+01:00": "2022-12-01T10:09:01.123457", // date --iso-8601=ns
		"Thu, 01 Dec 2022 11:09:01 +0100":     "2022-12-01T10:09:01.000000", // date -R, RFC 5322
		"1 Dec 2022 11:09 GMT":                "2022-12-01T11:09:00.000000",
		"Fri, 01 Dec 2022 11:09:01 GMT":       "", // it was a Thursday
		"Thu, 01 Dec 2022 11:09:01":           "",
		"Thu, 01 Dec 2022 11:09:01 CET":       "",
		"Thu, 1 Dec 22 11:09:01 GMT":          "",
		"Thu, 31 Nov 2022 11:09:01 GMT":       "",
		"Thu,  1 Dec 2022 11:09:01 GMT":       "",
		"hu, 01 Dec 2022 11:09:01 GMT":        "",
		"01 ecJ 2022 11:09:01 GMT":            "",
		"2022-12-01T11:09:01utc":              "",
		"2022-12-01T11:09:01  UTC":            "",
		"2022-12-01T11:09:01 +0100 UTC":       "",
		"2022-12-01T11:09:01.Z":               "",
		"2022-12-01T11:09:01.1234567890Z":     "",
		"2022-12-01T1:09:01Z":                 "",
		"2022-13-01T11:09:01Z":                "",
		"2022-02-29T11:09:01Z":                "",
		"2022-12-00T11:09:01Z":                "",
		"2022-12-01T24:00:00Z":                "",
		"2022-12-01T11:60:01Z":                "",
		"2022-12-01T11:09:61Z":                "",
		"2022-12-01T11:09:60Z":                "",
		"2022-12-01T11:09:01+24:00":           "",
		"2022-12-01T11:09:01+05:60":           "",
		"2022-12-01T11:09:01Europe/Paris":     "",
		"2022-12-01T11:09:01[Z]":              "",
		"0000-12-31T23:59:59Z":                "",
		"0001-01-01T00:00:00+00:01":           "",
		"9999-12-31T23:59:59-00:01":           "",
		"9999-12-31T23:59:59.9999999Z":        "",
		"12022-12-01T11:09:01Z":               "",
		"+12022-12-01T11:09:01Z":              "",
		"1669892941":                          "",
		"infinity":                            "",
		"2022-12-01T11:09:01\x00":             "",
		"２０２２-12-01T11:09:01Z":                "",
		"Thu, 01 Dec 2022 11:09:01 GMT":       "2022-12-01T11:09:01.000000", // RFC 1123
		"2022-12-01T11:09:01Z\n":              "",
		"2022-12-01T11:09:01.123 +0000 UTC":   "2022-12-01T11:09:01.123000", // Go, Time.String in UTC
		"2022-12-01T11:09:01+00:00:00":        "",
		"2022-W48-4T11:09:01Z":                "",
		"2022-335T11:09:01Z":                  "",
		"2022-12-01T11:09:01.123Z2022":        "",
		"\xff\xfe2022-12-01T11:09:01":         "",
		"99999999999999999999999999999999999": "",
	} {
		got, err := node.ParseDeadline([]byte(value), node.EpochRejected)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is read as %v", value, got)
		case want != "" && err != nil:
			t.Errorf("%q is not read: %v", value, err)
		case want != "" && got.Format(layout) != want:
			t.Errorf("%q is read as %s, want %s", value, got.Format(layout), want)
		}
	}
}

// Of what is not read the sentence says which part is wrong, where that can be told, and always what is accepted.
func TestDeadlineSentences(t *testing.T) {
	const bare = "bare numbers are not accepted, because they do not tell their unit: " + accepted
	for value, want := range map[string]string{
		"soon":       accepted,
		"2026-11-28": "there is no time of day: " + accepted,
		"21:24:45Z":  "there is no date: " + accepted,
		"2026-11-28T21:24:45+01:00[Europe/Paris]": `drop the "[Europe/Paris]" at its end, since the zone before it ` +
			`says ` +
			"it all: " + accepted,
		"2026-11-28T21:24:45Z[UTC]": `drop the "[UTC]" at its end, since the zone before it says it all: ` + accepted,
		"2026-11-28T21:24:45[Europe/Paris]": `the "[Europe/Paris]" at its end is no offset from UTC: write that of ` +
			"the instant in its place: " + accepted,
		"2026-11-28 21:24:45 +0100 CET": `drop the " CET" at its end: ` + accepted,
		"2026-11-28T21:24:45Z\n":        `drop the "\n" at its end: ` + accepted,
		"2026-11-28T21:24:45 ":          `drop the " " at its end: ` + accepted,
		"2026-11-28T21:24:45 Paris":     `drop the " Paris" at its end, or write an offset from UTC there: ` + accepted,
		"Fri, 28 Nov 2026 21:24:45 GMT": "that day is a Saturday",
		"2026-11-31T21:24:45Z":          "there is no such day",
		"1795900401":                    bare,
		"1795900401.5":                  bare,
	} {
		_, err := node.ParseDeadline([]byte(value), node.EpochRejected)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", value, err, want)
		}
	}
}

// Bare numbers are read in the unit that is configured, or not at all.
func TestParseEpoch(t *testing.T) {
	for _, c := range []struct {
		value string
		unit  node.EpochUnit
		want  string
	}{
		{"1669892941", node.EpochSeconds, "2022-12-01T11:09:01Z"},
		{"1669892941123", node.EpochMilliseconds, "2022-12-01T11:09:01.123Z"},
		{"-1", node.EpochSeconds, "1969-12-31T23:59:59Z"},
		{"1669892941123", node.EpochSeconds, ""}, // milliseconds taken for seconds: a year far away
		{"999999999999999999", node.EpochMilliseconds, ""},
		{"1e9", node.EpochSeconds, ""},
		{"1669892941.5", node.EpochSeconds, "2022-12-01T11:09:01.5Z"},
		{"1669892941.417558879", node.EpochSeconds, "2022-12-01T11:09:01.417559Z"}, // Spring, of an Instant
		{"1669892941.4175580000001", node.EpochSeconds, "2022-12-01T11:09:01.417559Z"},
		{"1669892941.417558", node.EpochSeconds, "2022-12-01T11:09:01.417558Z"},
		{"1669892941123.4567", node.EpochMilliseconds, "2022-12-01T11:09:01.123457Z"},
		{"1669892941123.4560001", node.EpochMilliseconds, "2022-12-01T11:09:01.123457Z"},
		{"-0.5", node.EpochSeconds, "1969-12-31T23:59:59.5Z"},
		{"-0.0000009", node.EpochSeconds, "1970-01-01T00:00:00Z"},
		{"1669892941.", node.EpochSeconds, ""},
		{".5", node.EpochSeconds, ""},
		{"1669892941.5.5", node.EpochSeconds, ""},
		{"1669892941,5", node.EpochSeconds, ""},
		{"1669892941.-5", node.EpochSeconds, ""},
		{"1795900401417558879", node.EpochSeconds, ""}, // nanoseconds
		{"1669892941.5", node.EpochRejected, ""},
	} {
		got, err := node.ParseDeadline([]byte(c.value), c.unit)
		if (err == nil) != (c.want != "") || err == nil && got.Format(time.RFC3339Nano) != c.want {
			t.Errorf("%s: %v, %v; want %q", c.value, got, err, c.want)
		}
	}
}

// The grammar as regular expressions: what has neither of these forms is not read.
var (
	deadlineForm = regexp.MustCompile(
		`^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?: ?` + zoneForm + `| ?\+0000 UTC)?$`)
	namedForm = regexp.MustCompile(`^(?:(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat), )?\d\d? (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|` +
		`Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)? ` + zoneForm + `$`)
	epochForm = regexp.MustCompile(`^-?\d+(?:\.\d+)?$`)
)

const zoneForm = `(?:[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?)`

// accepted is how the sentence ends that is about what has not the form of a deadline.
const accepted = "write an instant such as 2099-12-31T23:59:59Z, or with an offset, 2099-12-31T23:59:59+01:00"

// Whatever comes, the result is an instant in range, in whole microseconds, not before what RFC 3339 says; and it is
// refused for its form if it has none of those of the grammar, and for nothing else then.
func FuzzParseDeadline(f *testing.F) {
	for _, seed := range []string{
		"2022-12-01T11:09:01.123", "2016-12-31T23:59:60Z", "9999-12-31T23:59:59.999999999-23:59", "1669892941",
		"2022-12-01t11:09z", "2022-12-01 11:09+0545", "2022-12-01T11:09-03", "2022-12-01T11:09:01.Z", "-", "",
		"2022-12-01T11:09:01.1234567890", "2022-12-01T11:09:01+05:4", "2022-12-01T11:09.5", "1234567890123456789",
		"2022-12-01\xc3\xbe11:09", "2022-12-01T11:09:", "2022-12-01T11:09+", "-123456789012345678",
		"2022-12-01T11:09:01ZZ", "2022-12-01 11:09:01 UTC", "Thu, 01 Dec 2022 11:09:01 GMT", "1 Dec 2022 11:09 +01",
		"2022-12-01 11:09:01 +0000 UTC", "2022-12-01T11:09:01+01:00[Europe/Paris]", "1.5", "2022-12-01T11:09:01 ",
	} {
		f.Add([]byte(seed), 0)
		f.Add([]byte(seed), 2)
	}
	f.Fuzz(func(t *testing.T, value []byte, unit int) {
		got, err := node.ParseDeadline(value, node.EpochUnit(uint(unit)%3))
		formed := deadlineForm.Match(value) || namedForm.Match(value) || epochForm.Match(value)
		bare := err != nil && strings.HasPrefix(err.Error(), "bare numbers")
		if refused := err != nil && !bare && strings.HasSuffix(err.Error(), accepted); refused == formed {
			t.Fatalf("%q has a form of the grammar: %v, but: %v", value, formed, err)
		}
		if err != nil {
			return
		}
		if got.Year() < 1 || got.Year() > 9999 || got.Nanosecond()%1000 != 0 || got.Location() != time.UTC {
			t.Fatalf("%q is read as %v", value, got)
		}
		if want, err := time.Parse(time.RFC3339Nano, string(value)); err == nil {
			if got.Before(want) || got.Sub(want) >= time.Microsecond {
				t.Fatalf("%q is read as %v, not %v", value, got, want)
			}
		}
	})
}

// BenchmarkParseDeadline measures what each record of the input costs.
func BenchmarkParseDeadline(b *testing.B) {
	value := []byte("2022-12-01T11:09:01.123Z")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := node.ParseDeadline(value, node.EpochRejected); err != nil {
			b.Fatal(err)
		}
	}
}
