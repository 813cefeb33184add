package utc

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// at returns a time in UTC as nanoseconds since 1970.
func at(t *testing.T, text string) int64 {
	t.Helper()
	ns, err := Nanoseconds(text)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// Clocks in Berlin change at 01:00 UTC on the last Sundays of March and October.
func TestOffsets_SummerTime(t *testing.T) {
	const hour = 3600 * 1_000_000_000
	got, err := Offsets("Europe/Berlin", at(t, "2024-01-01 00:00:00"), at(t, "2025-01-01 00:00:00"))
	want := []Offset{
		{math.MinInt64, hour},
		{at(t, "2024-03-31 01:00:00"), 2 * hour},
		{at(t, "2024-10-27 01:00:00"), hour},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	// The law in force goes on.
	got, err = Offsets("Europe/Berlin", at(t, "2099-01-01 00:00:00"), at(t, "2100-01-01 00:00:00"))
	if err != nil || len(got) != 3 || got[2].From != at(t, "2099-10-25 01:00:00") {
		t.Errorf("in 2099: %v, %v", got, err)
	}
	// Two changes a year, through leap years.
	got, err = Offsets("Europe/Berlin", at(t, "2024-01-01 00:00:00"), at(t, "2100-01-01 00:00:00"))
	if err != nil || len(got) != 1+2*76 {
		t.Errorf("until 2100: %d offsets, %v, want %d", len(got), err, 1+2*76)
	}
	if got, err := Offsets("Asia/Kolkata", 0, 1<<62); err != nil || len(got) != 1 || got[0].Ahead != 5*hour+hour/2 {
		t.Errorf("in India: %v, %v", got, err)
	}
}

func TestOffsets_UnknownPlaces(t *testing.T) {
	for _, place := range []string{"", "Local", "Europe/Berln", "../etc/passwd"} {
		if got, err := Offsets(place, 0, 1); err == nil || !strings.Contains(err.Error(), "no place of the time-zone") {
			t.Errorf("%s: %v, %v", place, got, err)
		}
	}
}
