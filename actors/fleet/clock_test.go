package fleet

import (
	"testing"
	"time"

	"fedpace/internal/utc"
)

// night returns the presence of clients in a place between two local hours, from a time in UTC on.
func night(t *testing.T, place string, from, to float64, start string) Presence {
	t.Helper()
	p, err := Daily{FromHour: from, ToHour: to, Probability: 1, Places: []Place{{Name: place}}, Start: start}.Presence(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// since returns the virtual time at which it is a time in UTC, in a run from start on.
func since(t *testing.T, start, text string) int64 {
	t.Helper()
	from, err := utc.Nanoseconds(start)
	if err != nil {
		t.Fatal(err)
	}
	at, err := utc.Nanoseconds(text)
	if err != nil {
		t.Fatal(err)
	}
	return at - from
}

// Nights in Berlin, in which 02:00 to 03:00 comes twice on 27 October 2024, and not at all on 31 March.
func TestDaily_SummerTime(t *testing.T) {
	for _, c := range []struct {
		name         string
		from, to     float64
		start        string
		opens, close string
	}{
		{"a night of ten hours", 22, 7, "2024-10-26 12:00:00", "2024-10-26 20:00:00", "2024-10-27 06:00:00"},
		{"a night of eight hours", 22, 7, "2024-03-30 12:00:00", "2024-03-30 21:00:00", "2024-03-31 05:00:00"},
		{"a normal night", 22, 7, "2024-05-01 12:00:00", "2024-05-01 20:00:00", "2024-05-02 05:00:00"},
		{"until the second half past two", 22, 2.5, "2024-10-26 12:00:00", "2024-10-26 20:00:00", "2024-10-27 01:30:00"},
		{"from the first half past two", 2.5, 5, "2024-10-26 22:00:00", "2024-10-27 00:30:00", "2024-10-27 04:00:00"},
		{"until the hour that repeats", 22, 2, "2024-10-26 12:00:00", "2024-10-26 20:00:00", "2024-10-27 00:00:00"},
		{"after the hour that repeats", 3, 5, "2024-10-26 22:00:00", "2024-10-27 02:00:00", "2024-10-27 04:00:00"},
		{"from a time left out", 2.5, 5, "2024-03-30 23:00:00", "2024-03-31 01:00:00", "2024-03-31 03:00:00"},
		{"until a time left out", 22, 2.5, "2024-03-30 12:00:00", "2024-03-30 21:00:00", "2024-03-31 01:00:00"},
		{"a window left out", 2.25, 2.75, "2024-03-30 23:00:00", "2024-04-01 00:15:00", "2024-04-01 00:45:00"},
	} {
		p := night(t, "Europe/Berlin", c.from, c.to, c.start)
		opens := p.Change(1, 0, 0)
		closes := p.Change(1, 0, opens)
		if p.Present(1, 0, 0) || opens != since(t, c.start, c.opens) || closes != since(t, c.start, c.close) {
			t.Errorf("%s: from %g h to %g h after the start, want %s to %s",
				c.name, float64(opens)/float64(hour), float64(closes)/float64(hour), c.opens, c.close)
		}
	}
}

// A year of nights, minute by minute, against clocks that are looked at: a night begins when the clock first shows its
// beginning on a day, or has left it out, and ends when it last shows its end.
func TestDaily_YearOfClocks(t *testing.T) {
	const start = "2024-01-01 12:00:00"
	begin, err := utc.Nanoseconds(start)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata"} {
		location, err := time.LoadLocation(place)
		if err != nil {
			t.Fatal(err)
		}
		p := night(t, place, 23.5, 2.25, start)
		const minutes = 366 * 24 * 60
		// What the clock shows, in minutes since the beginning of its year.
		shown := make([]int, minutes)
		for i := range shown {
			_, ahead := time.Unix(0, begin+int64(i)*60e9).In(location).Zone()
			shown[i] = 12*60 + i + ahead/60
		}
		first := map[int]int{} // minute at which the clock first shows at least so many quarters of an hour
		last := map[int]int{}  // minute at which the clock last came to so many quarters from below
		for i := 1; i < minutes; i++ {
			for quarter := (shown[i-1] + 14) / 15; quarter*15 <= shown[i]; quarter++ {
				if quarter*15 <= shown[i-1] {
					continue
				}
				if _, seen := first[quarter]; !seen {
					first[quarter] = i
				}
				last[quarter] = i
			}
		}
		present := make([]bool, minutes)
		for day := range 365 {
			opens, ok := first[day*96+94]
			closes := last[day*96+96+9]
			for i := opens; ok && i < closes; i++ {
				present[i] = true
			}
		}
		// The first and last nights of the year may be cut off.
		for i := 3 * 24 * 60; i < minutes-3*24*60; i++ {
			if p.Present(1, 0, int64(i)*60e9) != present[i] {
				t.Fatalf("%s: present %v after %d minutes, where the clock shows %02d:%02d",
					place, !present[i], i, shown[i]/60%24, shown[i]%60)
			}
		}
	}
}

// The next change is where the presence first differs, through both changes of the clock.
func TestDaily_ChangesOfClocks(t *testing.T) {
	for _, start := range []string{"2024-10-26 12:00:00", "2024-03-30 12:00:00"} {
		p := night(t, "Europe/Berlin", 22, 2.5, start)
		for now := int64(0); now < 3*day; now += 10 * 60e9 {
			change := p.Change(1, 0, now)
			if p.Present(1, 0, change) == p.Present(1, 0, now) || p.Present(1, 0, change-1) != p.Present(1, 0, now) {
				t.Fatalf("from %s on, after %d ns: no change at %d ns", start, now, change)
			}
		}
	}
}

func TestDaily_PlacesRefused(t *testing.T) {
	berlin := []Place{{Name: "Europe/Berlin"}}
	const start = "2024-03-01 10:00:00"
	for _, c := range []struct {
		daily Daily
		want  string
	}{
		{Daily{FromHour: 1, ToHour: 2, Places: []Place{{Name: "Berlin"}}, Start: start}, `places: "Berlin" is no place of the time-zone database (such as Europe/Berlin)`},
		{Daily{FromHour: 1, ToHour: 2, Places: berlin}, `start: "" is not a time in UTC (such as 2024-03-01T10:00:00Z or 2024-03-01 10:00:00)`},
		{Daily{FromHour: 1, ToHour: 2, Start: start}, "start: is for places, which are not set (use start_hour with zones)"},
		{Daily{FromHour: 1, ToHour: 2, Places: berlin, Start: start, StartHour: 3}, "places: are set, and zones or start_hour, too (choose one, and start with places)"},
		{Daily{FromHour: 3, ToHour: 2, Places: berlin, Start: start}, "to_hour: leaves less than 3 hours from one day to the next, and clocks are set back"},
	} {
		c.daily.Probability = 1
		if _, err := c.daily.Presence(nil); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.daily, err, c.want)
		}
	}
}
