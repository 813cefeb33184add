package table

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The parts of dates in texts: a time of day, and a month by its English name or its first three letters.
const (
	timeOfDay = `\d{1,2}:\d\d(:\d\d([.,]\d+)?)?`
	monthName = `(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*`
)

// date matches a text that is a date in one of the usual forms, with or without a time of day, or a
// time of day alone.
var date = regexp.MustCompile(`^(` + strings.Join([]string{
	// Year first or last, as in 2024-01-31T12:00Z, 31.1.2024 12:00 and 1/31/24.
	`(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2}/\d{1,2}/\d\d)([T ]\d{1,2}:\d\d.*)?`,
	// The basic form of ISO 8601, its months and its weeks: 20240131T120000Z, 2024-01, 2024-W05.
	`\d{8}T\d{4}.*`,
	`\d{4}-(0[1-9]|1[0-2])`,
	`\d{4}-?W\d\d(-?\d)?`,
	// A time of day alone, of 24 hours or 12.
	timeOfDay + `( ?[AaPp]\.?[Mm]\.?)?`,
	// Months by name: 31 Jan 2024, Wed, 31-Jan-24 12:00, January 31, 2024, and Wed Jan 31 12:00:00 2024.
	`([A-Z][a-z]{2},? )?\d{1,2}[ -]` + monthName + `[ -]\d{2,4}.*`,
	`([A-Z][a-z]{2},? )?` + monthName + ` \d{1,2},? (` + timeOfDay + `.* )?\d{4}.*`,
}, "|") + `)$`)

// calendarNumber matches a date as a number of eight digits from 1900 to 2099, such as 20240131.
var calendarNumber = regexp.MustCompile(`^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$`)

// Every date as a number lies between these.
const (
	firstCalendar = 1900_01_01
	lastCalendar  = 2099_12_31
)

// timeWords are names of columns that hold an instant.
var timeWords = []string{
	"time", "timestamp", "ts", "date", "datetime", "epoch", "unix", "unixtime", "unix_time", "when", "created",
	"updated", "modified", "recorded", "measured", "observed", "collected", "start", "end", "begin",
}

// timeUnits are the units in which programs count from 1970, each with the number of them in a
// second.
var timeUnits = []struct {
	name      string
	perSecond float64
}{{"seconds", 1}, {"milliseconds", 1e3}, {"microseconds", 1e6}, {"nanoseconds", 1e9}}

// namedTime reports whether the name of the column says that it holds an instant: it is one of
// timeWords, or has one as a part between underscores, hyphens, spaces or points, as created_at and event_time do.
func (p *profile) namedTime() bool {
	parts := strings.FieldsFunc(strings.ToLower(p.name), func(r rune) bool {
		return r == '_' || r == '-' || r == ' ' || r == '.'
	})
	return hasWord(p.name, timeWords) ||
		slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(timeWords, part) })
}

// instants says which instants the numbers of the column are, as a phrase for the user: dates such as
// 20240131, or Unix time. It is "" for other numbers, and for a column that does not have numbers
// alone.
//
// Unix time are at least two different numbers that all lie between 2000 and 2040 or, where the name of
// the column says that it holds instants, between 1973 and 2100. Other quantities hardly keep within such
// a range.
func (p *profile) instants() string {
	if !p.areNumbers() {
		return ""
	}
	// All numbers of the column are dates.
	if p.numericDates == p.numbers {
		return fmt.Sprintf("dates as numbers, such as %s", p.smallestName())
	}
	startOf := func(year int) float64 { return float64(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) }
	from := startOf(2000)
	to := startOf(2040)
	if p.namedTime() {
		from = startOf(1973)
		to = startOf(2100)
	}
	// A column that stays the same, such as a price of 1e9, tells nothing.
	if len(p.distinct) < 2 {
		return ""
	}
	for _, unit := range timeUnits {
		low := p.lowest / unit.perSecond
		high := p.highest / unit.perSecond
		if low >= from && high < to {
			day := func(seconds float64) string { return time.Unix(int64(seconds), 0).UTC().Format(time.DateOnly) }
			return fmt.Sprintf("Unix time in %s, %s to %s", unit.name, day(low), day(high))
		}
	}
	return ""
}

// smallestName returns the first of the values of the column in the order of their letters; "" if
// there is none.
func (p *profile) smallestName() string {
	first := ""
	for name := range p.distinct {
		if first == "" || name < first {
			first = name
		}
	}
	return first
}
