package devices_test

import (
	"testing"

	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/study/plan"
)

// Eight devices alone, whose updates a robust rule combines, make the model of their simulated
// counterparts, to the bit: so a simulation says how good their model becomes.
func TestDevicesAlone_SimulatedModel(t *testing.T) {
	t.Parallel()
	o, c, d := secureRun(t, "secure_aggregation.on=false", "fleet=[{name: pi}]",
		"devices.names={d1: pi, d2: pi, d3: pi, d4: pi, d5: pi, d6: pi, d7: pi, d8: pi}")
	var devices folder.Summary
	d.played(t, o, c, func(o run.Options) (err error) {
		devices, err = run.Run(t.Context(), c, o)
		return err
	})
	simulated, err := plan.Simulated(c)
	if err != nil {
		t.Fatal(err)
	}
	simulated.Out = t.TempDir()
	s, err := run.Run(t.Context(), simulated, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if *s.ModelSHA256 != *devices.ModelSHA256 {
		t.Errorf("the model is %s with devices, %s simulated", *devices.ModelSHA256, *s.ModelSHA256)
	}
	// Without the rule the simulation would have another one.
	simulated.Aggregate.Combine = nil
	simulated.Out = t.TempDir()
	s, err = run.Run(t.Context(), simulated, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if *s.ModelSHA256 == *devices.ModelSHA256 {
		t.Error("the rule of devices changes nothing here, so the test says nothing")
	}
}
