package utc

import "testing"

// Worked values: 2024-03-01 is 19,783 days after 1970-01-01.
func TestNanoseconds_Forms(t *testing.T) {
	const day = 86_400_000_000_000
	const want = 19_783*day + 10*day/24
	for _, text := range []string{
		"2024-03-01T10:00:00Z", "2024-03-01T10:00:00.000Z", "2024-03-01T11:30:00+01:30",
		"2024-03-01 10:00:00 UTC", "2024-03-01 10:00:00", "2024-03-01T10:00:00",
	} {
		got, err := Nanoseconds(text)
		if err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, int64(want))
		}
	}
	if got, err := Nanoseconds("2024-03-01 10:00:00.25"); err != nil || got != want+250_000_000 {
		t.Errorf("a quarter of a second later is %d (%v)", got, err)
	}
	for _, text := range []string{"", "today", "2024-03-01", "2024-02-30T10:00:00Z", "1899-12-31T23:00:00Z", "2101-01-01T00:00:00Z"} {
		if got, err := Nanoseconds(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
