package utc

import (
	"fmt"
	"time"
)

// forms are the forms of a time that are read: RFC 3339, with Z or an offset, and those without a zone,
// which are UTC.
var forms = []string{
	time.RFC3339Nano,
	"2006-01-02 15:04:05.999999999 UTC",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999",
}

// These are the years that are read: the difference of any two of their times has its nanoseconds in 64
// bits.
const (
	firstYear = 1900
	lastYear  = 2100
)

// Nanoseconds returns a time as nanoseconds since the beginning of 1970 in UTC. An error says what a time
// looks like.
func Nanoseconds(text string) (int64, error) {
	for _, form := range forms {
		t, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		if year := t.UTC().Year(); year < firstYear || year > lastYear {
			return 0, fmt.Errorf("%.40q is in the year %d, want %d to %d", text, year, firstYear, lastYear)
		}
		return t.UnixNano(), nil
	}
	return 0, fmt.Errorf("%.40q is not a time in UTC (such as 2024-03-01T10:00:00Z or 2024-03-01 10:00:00)", text)
}
