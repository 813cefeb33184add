package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"fedpace/coordinator/schedule"
)

// Every form of a schedule that a file may have, and how it is written again.
func TestSchedules_ReadAndWritten(t *testing.T) {
	list := schedule.ListK{Values: []schedule.StepsFrom{{Value: 8}, {Value: 4}}}
	for _, test := range []struct {
		text    string // of the group
		written string // in the complete configuration
		k       schedule.K
		eta     schedule.Eta
	}{
		{`k: {power: 1/3, min: 2}`, `  k: {power: "1/3", min: 2}`, schedule.PowerK{Power: "1/3", Min: 2}, schedule.FixedEta{}},
		{`k: {rule: power, power: -0.5}`, `  k: {power: "-0.5"}`, schedule.PowerK{Power: "-0.5"}, schedule.FixedEta{}},
		{`k: [8, 4]`, `  k: [8, 4]`, list, schedule.FixedEta{}},
		{`k: {rule: list, values: [8, 4]}`, `  k: [8, 4]`, list, schedule.FixedEta{}},
		{
			`k: [{from_round: 9, value: 4}]`, `  k: [{value: 4, from_round: 9}]`,
			schedule.ListK{Values: []schedule.StepsFrom{{Value: 4, From: schedule.From{Round: 9}}}}, schedule.FixedEta{},
		},
		{`k: {rule: expression, formula: "k0 / cbrt(r)"}`, `  k: {rule: expression, formula: "k0 / cbrt(r)"}`, schedule.ExpressionK{Formula: "k0 / cbrt(r)"}, schedule.FixedEta{}},
		{`k: {rule: adacomm, seconds: 60}`, `  k: {rule: adacomm, seconds: 60, gamma: 0.5}`, schedule.AdaComm{Seconds: 60, Gamma: 0.5}, schedule.FixedEta{}},
		{`eta: {rule: warmup, rounds: 5, then: {power: 1/2}}`, `  eta: {rule: warmup, rounds: 5, from: 0.1, then: {power: "1/2", min: 0}}`, schedule.RoundsK{}, schedule.Warmup{Rounds: 5, StartFactor: 0.1, Then: schedule.PowerEta{Power: "1/2"}}},
		{`eta: [{from_seconds: 60, value: 0.05}]`, `  eta: [{value: 0.05, from_seconds: 60}]`, schedule.RoundsK{}, schedule.ListEta{Values: []schedule.RateFrom{{Value: 0.05, From: schedule.From{Seconds: 60}}}}},
	} {
		c, err := fromText(t, "schedule:\n  "+test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if !reflect.DeepEqual(c.Schedule.K, test.k) || !reflect.DeepEqual(c.Schedule.Eta, test.eta) {
			t.Errorf("%s is read as %+v, %+v", test.text, c.Schedule.K, c.Schedule.Eta)
		}
		written := string(c.YAML())
		if !strings.Contains(written, "\n"+test.written+"\n") {
			t.Errorf("%s is written as\n%s", test.text, written)
		}
		if again, err := Parse("again.yaml", c.YAML()); err != nil || string(again.YAML()) != written {
			t.Errorf("%s is written, and read again with %v as\n%s", test.text, err, again.YAML())
		}
	}
}

func TestSchedules_Mistakes(t *testing.T) {
	for text, want := range map[string]string{
		`k: {rule: expression, formula: "k0 / sqrt(r"}`: `config.yaml:2: schedule.k.formula: character 11: unexpected end`,
		`k: {rule: expression, formula: k0 / loss}`:     `config.yaml:2: schedule.k.formula: character 6: unknown name loss (a formula may name F, F0, abs, accuracy, cbrt, ceil, converged, cos, eta, eta0, exp, floor, k, k0, log, max, min, pi, pow, r, round, sqrt, straggler_share, t)`,
		`k: {power: 1/x}`:                   `config.yaml:2: schedule.k.power: "1/x" is not a power (a number or a fraction such as 1/3, from -4 to 4, with a denominator of at most 100)`,
		`k: 8`:                              `config.yaml:2: schedule.k: "8" is not a schedule (adacomm, cosine, dsgd, error, exponential, expression, fixed, linear, list, power, quadratic, rounds, step or theory)`,
		`k: [8, x]`:                         `config.yaml:2: schedule.k[1]: "x" is not a whole number from 1 to 1000000`,
		`k: [8, {from_round: 3, value: 4}]`: `config.yaml:2: schedule.k.values[1]: is not of the form of the first (give all a from_round, all a from_seconds, or none anything)`,
		`k: []`:                             `config.yaml:2: schedule.k.values: is empty (at least one value is wanted)`,
		`k: {rule: linear, to: 3}`:          `config.yaml:2: schedule.k.rounds: is not set, nor is seconds (set one of them)`,
		`eta: {rule: warmup, rounds: 3, then: {rule: cosine, to: 0.1}}`: `config.yaml:2: schedule.eta.then.rounds: is not set, nor is seconds (set one of them)`,
		`{k: dsgd, unit: epochs}`:              `config.yaml:2: schedule.unit: epochs do not go with schedule.k: dsgd, which counts local steps (set unit: steps)`,
		"unit: epochs\ndevices: {names: [pi]}": `config.yaml:2: schedule.unit: epochs need the clients' numbers of samples before the run, and a device tells its own when it joins, or not at all (set unit: steps)`,
		"k: {rule: expression, formula: k0 * straggler_share}\nclose: {rule: buffered, n: 3}":       `config.yaml:2: schedule.k: "expression" reads the straggler share, which rounds that overlap do not have (use adacomm, auto, cosine, dsgd, error, exponential, expression with other options, fixed, linear, list, power, python, quadratic, rounds, step or theory, or another closing rule)`,
		"k: {rule: adacomm, seconds: 60}\ntrain: false":                                             `config.yaml:2: schedule.k: "adacomm" decides by training losses, which train: false does not measure (use cosine, dsgd, exponential, expression, fixed, linear, list, power, quadratic or rounds)`,
		"k: {rule: expression, formula: F}\ntrain: false":                                           `config.yaml:2: schedule.k: "expression" decides by training losses, which train: false does not measure (use auto, cosine, dsgd, exponential, expression with other options, fixed, linear, list, power, python, quadratic or rounds)`,
		"eta: {rule: warmup, rounds: 2, then: {rule: expression, formula: accuracy}}\ntrain: false": `config.yaml:2: schedule.eta: "warmup" decides by the validation accuracy, which train: false does not measure (use cosine, exponential, expression, fixed, linear, list, power, rounds or warmup with other options)`,
		"trim: 0.5": `config.yaml:2: schedule.trim: 0.5 is out of range (more than 0 and less than 0.5)`,
	} {
		if _, err := fromText(t, "schedule:\n  "+text); err == nil || message(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// What a run's schedules begin with follows from the unit, and their loss from loss.
func TestSchedules_UnitAndLoss(t *testing.T) {
	for text, want := range map[string]string{
		"{k0: 5}":                               "{5 0} {false 0}",
		"{k0: 5, unit: epochs, trim: 0.2}":      "{5000 1000} {false 0}",
		"{k0: 5, loss: validation}":             "{5 0} {true 0}",
		"{k0: 5, loss: trimmed, trim: 0.2}":     "{5 0} {false 0.2}",
		"{k0: 1000000, unit: epochs, k: fixed}": "{1000000000 1000} {false 0}",
	} {
		c, err := fromText(t, "schedule: "+text)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Schedule.Setup()
		if got := fmt.Sprint(struct{ K0, Scale int }{s.K0, s.PartsPerUnit}, c.Schedule.FollowedLoss()); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
