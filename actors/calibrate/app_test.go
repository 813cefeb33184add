package calibrate

import (
	"math"
	"strings"
	"testing"
)

// nearly reports whether got equals want to a millionth.
func nearly(got, want float64) bool { return math.Abs(got-want) <= 1e-6*max(1, math.Abs(want)) }

// Messages of 3 ms a step and 20 ms besides, whose first one took 500 ms more.
func TestComputeOfApp_Line(t *testing.T) {
	var list []AppTask
	for i := range 20 {
		steps := 5 + i%7
		list = append(list, AppTask{steps, 0.020 + 0.003*float64(steps)})
	}
	list[0].Seconds += 0.5
	c, err := ComputeOfApp("app", "python", list)
	if err != nil {
		t.Fatal(err)
	}
	if !nearly(c.SecondsPerStep.Value, 0.003) || !nearly(c.Overhead.Value, 0.020) || !nearly(c.FirstTask, 0.5) || c.Tasks != 19 || c.Noisy {
		t.Errorf("%+v", c)
	}
}

// Messages that all have the same steps: a message is its steps. Those without steps do not count.
func TestComputeOfApp_EqualSteps(t *testing.T) {
	list := []AppTask{{8, 1}, {0, 1}, {8, 0.08}, {8, 0.072}, {8, 0.088}}
	c, err := ComputeOfApp("app", "python", list)
	if err != nil {
		t.Fatal(err)
	}
	if !nearly(c.SecondsPerStep.Value, 0.01) || c.Overhead.Value != 0 || c.Tasks != 3 || !c.Noisy {
		t.Errorf("%+v", c)
	}
	var text strings.Builder
	r := Result{Name: "laptop", Compute: []Compute{c}}
	if err := r.WriteClass(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seconds_per_step: 0.01\n", "Compute: app, kernel python: 3 messages"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q lacks %q", text.String(), want)
		}
	}
	if strings.Contains(text.String(), "batch:") {
		t.Errorf("the class has a size of minibatches, which an app has itself:\n%s", &text)
	}
}

// An app whose steps are not known is an error that says what to do.
func TestComputeOfApp_NoSteps(t *testing.T) {
	if _, err := ComputeOfApp("app", "python", []AppTask{{0, 1}, {0, 2}}); err == nil || !strings.Contains(err.Error(), "flower.steps") {
		t.Errorf("%v, want one that names flower.steps", err)
	}
}
