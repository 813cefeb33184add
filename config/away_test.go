package config

import (
	"strings"
	"testing"
)

// Each is a run whose tasks pause, with something that this does not go with.
func TestConfig_PausesExclude(t *testing.T) {
	if _, err := fromText(t, "dropout: {away: wait, probability: 0.1}"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"leaving", "dropout: {away: wait, when_unavailable: true}", "dropout.away: wait and when_unavailable say opposite"},
		{"watts", "dropout: {away: wait}\nfleet: [{name: a, watts: 3}]", "dropout.away: does not go with the watts of class a"},
		{
			"watts of another class", "fleet: [{name: a, dropout: {away: wait}}, {name: b, watts: 3, dropout: {away: wait}}]",
			"fleet[1].dropout.away: does not go with the watts of class b",
		},
		{"shared links", "dropout: {away: wait}\nnetwork: {server_upload_mbps: 5}", "dropout.away: wait is timed where"},
	} {
		if _, err := fromText(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
