package utc

import (
	"fmt"
	"math"
	"time"

	// The time-zone database, for machines that have none of their own.
	_ "time/tzdata"
)

// Offset is how far the clocks of a place are ahead of UTC from a moment on, until the next one.
type Offset struct {
	// From is the moment in nanoseconds since the beginning of 1970 in UTC.
	From int64
	// Ahead is in nanoseconds, negative to the west.
	Ahead int64
}

// Offsets returns how far the clocks of a place, such as Europe/Berlin, are ahead of UTC between two
// moments, in nanoseconds since 1970: a list in ascending order with one entry for each change, whose
// first is from math.MinInt64 on. Places are those of the time-zone database.
func Offsets(place string, from, until int64) ([]Offset, error) {
	// Go has words for UTC and for the zone of the machine.
	if place == "" || place == "Local" {
		return nil, fmt.Errorf("%q is no place of the time-zone database (such as Europe/Berlin)", place)
	}
	location, err := time.LoadLocation(place)
	if err != nil {
		return nil, fmt.Errorf("%.40q is no place of the time-zone database (such as Europe/Berlin)", place)
	}
	last := time.Unix(0, until)
	begin := int64(math.MinInt64)
	var list []Offset
	for now := time.Unix(0, from).In(location); now.Before(last); {
		_, seconds := now.Zone()
		ahead := int64(seconds) * int64(time.Second)
		// A name may change without the offset.
		if n := len(list); n == 0 || list[n-1].Ahead != ahead {
			list = append(list, Offset{begin, ahead})
		}
		_, end := now.ZoneBounds()
		switch {
		// A zero end stands for none.
		case end.IsZero():
			return list, nil
		// On the last day of a leap year beyond the database's table, Go gives an end that is past.
		case !end.After(now):
			end = now.Add(time.Hour)
		}
		now = end
		begin = now.UnixNano()
	}
	return list, nil
}
