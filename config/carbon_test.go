package config

import (
	"strings"
	"testing"
)

// gridRun is a run of one class with a whole trace of the grid.
const gridRun = `
fleet: [{name: phone, watts: 4, zone: DEU}]
carbon: {file: grid.csv, columns: [hour, zone, g], start: 2024-03-01T10:00:00Z, source: made, year: 2024}
`

// Each mistake is one change of a run that is right.
func TestConfig_MistakesInBudgets(t *testing.T) {
	if _, err := fromText(t, gridRun); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, replacement, want string }{
		{"no watts", "watts: 4, ", "", "fleet: has no watts in each of its classes"},
		{"no zone", ", zone: DEU", "", "carbon.zone: is not set, and class phone names no zone"},
		{"two letters", "DEU", "DE", `carbon.zone: of class phone: "DE" is not a zone`},
		{"two columns", "[hour, zone, g]", "[hour, zone]", "carbon.columns: are 2"},
		{"no source", "source: made, ", "", "carbon.source: is not set"},
		{"no year", ", year: 2024", "", "carbon.year: is not set"},
		{"no start", "start: 2024-03-01T10:00:00Z, ", "", `carbon.start: "" is not a time`},
		{"no file", "file: grid.csv, ", "", "carbon.file: is not set, so the other keys"},
		{"a cost without prices", "\nfleet", "\nstop: {energy_cost: 3}\nfleet", "stop.energy_cost: needs a trace with prices"},
		{"equal in nothing", "\nfleet", "\nstop: {rounds: null, virtual_seconds: 9, equal: energy}\nfleet", "stop.equal: is for"},
	} {
		text := strings.Replace(gridRun, c.old, c.replacement, 1)
		if _, err := fromText(t, text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"carbon without a trace", "stop: {carbon_grams: 3}", "stop.carbon_grams: needs a trace of the grid"},
		{"energy without watts", "stop: {energy_joules: 3}", "fleet: has no watts in each of its classes"},
	} {
		if _, err := fromText(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
