package table_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"fedpace/data/federated"
	. "fedpace/data/table"
)

// TestTarget_RoundingIsTold has Unix times as targets. float32 has steps of 128 s there, so that 300
// times that are 7 s apart, with a deviation of 606 s, are off by up to 64 s, a tenth of it.
func TestTarget_RoundingIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		origin int
		told   bool
	}{"since 1970": {1_700_000_000, true}, "since the first": {0, false}} {
		t.Run(name, func(t *testing.T) {
			text := "x,when\n"
			for i := range 300 {
				text += fmt.Sprintf("%d,%d\n", i, c.origin+7*i)
			}
			s := mustOpenMapped(t, text, "own.csv", Table{Features: []string{"x"}, Target: []string{"when"}})
			const note = "target when is rounded to float32, by up to 0.11 of its deviation"
			if got := s.Info().Note; strings.Contains(got, note) != c.told || !c.told && strings.Contains(got, "rounded") {
				t.Errorf("%q", got)
			}
			b := everything(t, s)
			for i, x := range b.X {
				want := float32(c.origin + 7*int(x))
				if b.Targets[i] != want {
					t.Errorf("row %v: target %v, want %v", x, b.Targets[i], want)
				}
			}
		})
	}
	if step := math.Nextafter32(1_700_000_000, math.MaxFloat32) - 1_700_000_000; step != 128 {
		t.Errorf("float32 has steps of %v there", step)
	}
}

// TestTargetScale_Standard scales targets by the mean and the deviation of the training rows, which
// are worked by hand, and keeps the rest of times of which float32 would lose it. A device's table
// gets the run's scale.
func TestTargetScale_Standard(t *testing.T) {
	mapping := Table{Features: []string{"x"}, Target: []string{"when"}, Split: "part", TargetScale: "standard"}
	open := func(text string, m Table) federated.Set { return mustOpenMapped(t, text, "own.csv", m) }
	run := open("x,when,part\n1,1700000000,train\n2,1700000010,train\n3,1700000025,test\n", mapping)
	// The mean of 0 and 10 s is 5 s, and their deviation as well.
	b := everything(t, run)
	want := map[float32]float32{1: -1, 2: 1, 3: 4}
	for i, x := range b.X {
		if b.Targets[i] != want[x] || run.Info().TargetDeviation[0] != 5 {
			t.Errorf("row %v: target %v in units of %v, want %v of 5", x, b.Targets[i], run.Info().TargetDeviation, want[x])
		}
	}
	for _, scale := range []string{"standard", ""} {
		mapping.TargetScale = scale
		device := open("x,when,part\n1,1700000100,train\n2,1700000200,train\n3,1700000300,test\n", mapping)
		if err := federated.Adopt(device, run.Info().Schema); err != nil {
			t.Fatal(err)
		}
		b := everything(t, device)
		for i, x := range b.X {
			// (100 x - 5)/5; float32 knows the times without a scale to 64 s, which are 12.8 deviations.
			tolerance := 1e-5
			if scale == "" {
				tolerance = 12.8
			}
			if want := (100*float64(x) - 5) / 5; !(math.Abs(float64(b.Targets[i])-want) <= tolerance) {
				t.Errorf("scale %q, row %v: target %v, want %v", scale, x, b.Targets[i], want)
			}
		}
	}
	if err := (Table{Features: []string{"x"}, Label: "y", TargetScale: "standard"}).Validate(); err == nil {
		t.Error("the scale of a target is taken without one")
	}
}

// A device whose samples have another number of targets than a run that scales them is refused.
func TestAdopt_TargetCounts(t *testing.T) {
	const content = "x,p,q,part\n0,0,1,train\n4,8,5,train\n8,4,9,test\n"
	scaled := Table{Features: []string{"x"}, Target: []string{"p"}, TargetScale: "standard", Split: "part"}
	run := mustOpenMapped(t, content, "own.csv", scaled)
	for _, targets := range [][]string{{"p", "q"}, nil} {
		own := Table{Features: []string{"x"}, Target: targets, Split: "part"}
		if targets == nil {
			own.Label = "q"
		}
		err := federated.Adopt(mustOpenMapped(t, content, "own.csv", own), run.Info().Schema)
		if err == nil || !strings.Contains(err.Error(), "the run scales 1 targets") {
			t.Errorf("%d targets: %v", len(targets), err)
		}
	}
}
