package config

import (
	"strings"
	"testing"

	"fedpace/coordinator/schedule"
)

// A schedule of one's own is a formula of K, or a map of a schedule's keys; both keep its name.
func TestSchedules_Own(t *testing.T) {
	base := Demonstration().Schedule
	for text, want := range map[string]string{
		"mine=max(5, k0 / (1 + t / 5))":                      "schedule:\n  name: mine\n  k: {rule: expression, formula: \"max(5, k0 / (1 + t / 5))\"}\n  k0: 80\n",
		"half={k: {power: 1/2}, eta: {rule: rounds}, k0: 9}": "schedule:\n  name: half\n  k: {power: \"1/2\"}\n  k0: 9\n  unit: steps\n  eta: rounds\n",
		"slow={eta0: 0.01}":                                  "schedule:\n  name: slow\n  k: fixed\n",
	} {
		s, err := base.Named(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		c := Demonstration()
		c.Schedule = s
		back, err := Parse("x", c.YAML())
		if err != nil || back.Schedule.Name() != strings.Split(text, "=")[0] || !strings.Contains(string(c.YAML()), want) {
			t.Errorf("%s: %s, %v\n%s", text, back.Schedule.Name(), err, c.YAML())
		}
		if again, err := s.Named(s.Name()); err != nil || again.Name() != s.Name() {
			t.Errorf("%s is not found by its name: %v", text, err)
		}
		if other, err := s.Named("error"); err != nil || other.Name() != "error" || other.Eta != schedule.Eta(schedule.FixedEta{}) {
			t.Errorf("error after %s is %s, %v", text, other.Name(), err)
		}
	}
	for text, want := range map[string]string{
		"mine=k0 * loss":        "schedules mine.formula: character 6: unknown name loss",
		"mine={kk: 5}":          "schedules mine.kk: unknown key",
		"mine={k: {power: x}}":  `schedules mine.k.power: "x" is not a power`,
		"mine={k: {power: 1/2}": "--schedules mine",
		"rounds=k0":             `schedules: "rounds" is another schedule's name`,
		"=k0":                   `schedules: "" is not a name`,
		"a b=k0":                `schedules: "a b" is not a name`,
		"mine={k: [4, 2, x]}":   "schedules mine.k",
		"mine={k: linear}":      "schedules mine.k.to: is not set",
		"mine={name: error}":    "",
	} {
		if s, err := base.Named(text); want == "" {
			c := Demonstration()
			c.Schedule = s
			if c.Validate() == nil {
				t.Errorf("%s takes another's name", text)
			}
		} else if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A name in quotes is the name, so a file may be JSON.
func TestNames_InQuotes(t *testing.T) {
	quoted, err := Parse("x", []byte(`{"schedule": {"k": "rounds", "eta": {"rule": "step"}}, "select": "uniform", "close": {"rule": "first", "n": 5}, "compress": {"method": "qsgd"}, "fleet": [{"name": "a", "seconds_per_step": {"dist": "lognormal", "mean": 1, "sigma": 1}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Parse("x", []byte("schedule: {k: rounds, eta: {rule: step}}\nselect: uniform\nclose: {rule: first, n: 5}\ncompress: {method: qsgd}\nfleet: [{name: a, seconds_per_step: {dist: lognormal, mean: 1, sigma: 1}}]"))
	if err != nil || string(quoted.YAML()) != string(plain.YAML()) {
		t.Errorf("%v, %s\nwant\n%s", err, quoted.YAML(), plain.YAML())
	}
}
