package expect

import (
	"math"
	"strings"
	"testing"
)

func hold(t *testing.T, text string, gain Interval) Outcome {
	t.Helper()
	e, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{"tail_accuracy": 0.75, "virtual_seconds": 100, "lost": math.NaN()}
	return e.Hold("", func(name string) float64 { return values[name] }, func(_, _, _ string) Interval { return gain })
}

// A gain of 0.01 within 0.02 passes where both bounds do.
func TestHold(t *testing.T) {
	gain := Interval{-0.01, 0.01, 0.03}
	for text, want := range map[string]bool{
		"tail_accuracy >= 0.75": true, "tail_accuracy > 0.75": false, "virtual_seconds < 3600": true, "3600 <= virtual_seconds": false,
		"lost > 0": false, "lost < 0": false, "lost <= lost": false, "virtual_seconds / 2 - 50 >= 0": true, "-virtual_seconds < -99": true,
		"gain('a', 'b', 'c') > -0.02": true, "gain('a', 'b', 'c') > -0.005": false, "gain('a', 'b', 'c') < 0.04": true, "gain('a', 'b', 'c') < 0.02": false,
		"-2 * gain('a', 'b', 'c') > -0.07": true, "-2 * gain('a', 'b', 'c') > -0.05": false, "1 / gain('a', 'b', 'c') > 33": false, "1 - gain('a', 'b', 'c') >= 0.97": true,
		"gain('a', 'b', 'c') * gain('a', 'b', 'c') < 0.00091": true, "gain('a', 'b', 'c') * gain('a', 'b', 'c') < 0.0008": false,
	} {
		if o := hold(t, text, gain); o.Passed != want {
			t.Errorf("%s: %+v", text, o)
		}
	}
	if o := hold(t, "gain('a', 'b', 'c') > 0", Interval{math.Inf(-1), 5, math.Inf(1)}); o.Passed || o.Low != nil || o.String() != "gain('a', 'b', 'c') > 0: it is 5" {
		t.Errorf("one seed decides: %+v", o)
	}
	if err := Missed([]Outcome{hold(t, "tail_accuracy > 0.8", gain), hold(t, "tail_accuracy > 0.7", gain), hold(t, "lost > 0", gain)}); err == nil ||
		err.Error() != "expected tail_accuracy > 0.8: it is 0.75; expected lost > 0: it was not measured" {
		t.Error(err)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"tail_accuracy": "want a comparison", "a == b": "want a comparison", "a >": "character 3", "a > b and c > d": "want a comparison",
		"a > max(1, 2)": "character 5: want numbers", "a > 'b'": "character 5: want numbers", "a > gain('b')": "character 5: want numbers", "a > b % 2": "character 7: unexpected %",
		"a > " + strings.Repeat("1", 1000): "1004 characters are too many",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: %v, want %s", text, err, want)
		}
	}
	e, err := Parse("tail_acuracy > gain('rouds', 'fixed', 'tail_accuracy')")
	if err != nil {
		t.Fatal(err)
	}
	err = e.Check([]string{"tail_accuracy", "rounds"}, []string{"fixed", "rounds"})
	if err == nil || err.Error() != "\"tail_acuracy\" is no value (did you mean \"tail_accuracy\"?)\n\"rouds\" is no schedule here (did you mean \"rounds\"?)" {
		t.Error(err)
	}
}
