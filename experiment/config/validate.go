package config

import (
	"fmt"
	"math"
	"slices"
)

// Validate says whether the configuration can be run: every value within its
// limits and all of them fit together. It stops at the first problem, which it
// returns as a *[KeyError].
func (c Config) Validate() error {
	for _, k := range keys {
		if err := k.check(&c); err != nil {
			return problemAt(k.path, err)
		}
	}
	for _, fits := range []func(Config) *KeyError{
		fitPopulation, fitModel, fitConvex, fitTheory, fitLosses, fitClose, fitSelect, fitAggregate, fitDevices, fitRealDevices, fitStop, fitEqualRuntime, fitClock, fitNATS, fitUnused,
	} {
		if err := fits(c); err != nil {
			return err
		}
	}
	return nil
}

func fitPopulation(c Config) *KeyError {
	if c.Clients == 0 {
		if c.IsSynthetic() {
			return &KeyError{Key: "clients", Problem: "all is for data that is read; synthetic data needs a number", Others: []string{"data"}}
		}
		return nil
	}
	if c.Cohort > c.Clients {
		return &KeyError{Key: "cohort", Others: []string{"clients"},
			Problem: fmt.Sprintf("%d is more than there are clients (at most %d, or set clients)", c.Cohort, c.Clients)}
	}
	return nil
}

func fitModel(c Config) *KeyError {
	if c.Model.Kind != ModelTask && c.IsSynthetic() {
		return &KeyError{Key: "model", Others: []string{"data"},
			Problem: fmt.Sprintf("%q is for own data; synthetic data has the task's model (set data, or model: task)", c.Model.Kind)}
	}
	return nil
}

// fitLosses refuses decisions that read what is never measured.
func fitLosses(c Config) *KeyError {
	if c.Train {
		return nil
	}
	for _, s := range []struct{ key, kind string }{{"schedule.k", c.Schedule.K}, {"schedule.eta", c.Schedule.Eta}} {
		switch {
		case s.kind == Error || s.kind == TheorySchedule:
			return &KeyError{Key: s.key, Others: []string{"train"},
				Problem: fmt.Sprintf("%q decides by the training loss, which train: false does not measure (use fixed, rounds, or step with decay_round)", s.kind)}
		case s.kind == Step && c.Schedule.DecayRound == 0:
			return &KeyError{Key: s.key, Others: []string{"train"},
				Problem: fmt.Sprintf("%q decides by the validation accuracy, which train: false does not measure (set schedule.decay_round)", s.kind)}
		}
	}
	if c.Stop.ValidationAccuracy != 0 {
		return &KeyError{Key: "stop.validation_accuracy", Others: []string{"train"},
			Problem: fmt.Sprintf("%s is never reached with train: false, which measures no accuracy (remove it)", number(c.Stop.ValidationAccuracy))}
	}
	return nil
}

func fitStop(c Config) *KeyError {
	if c.Stop == (Stop{}) {
		return &KeyError{Key: "stop", Others: []string{"stop.rounds", "stop.virtual_seconds", "stop.equal_runtime_rounds", "stop.validation_accuracy"},
			Problem: "nothing is set, so the run would not end (set rounds, virtual_seconds, equal_runtime_rounds or validation_accuracy)"}
	}
	return nil
}

// fitEqualRuntime refuses a time that is known only by training for it.
func fitEqualRuntime(c Config) *KeyError {
	if c.Stop.EqualRuntimeRounds > 0 && c.Select.Rule == PowerOfChoice {
		return &KeyError{Key: "stop.equal_runtime_rounds", Others: []string{"select.rule"},
			Problem: "power_of_choice decides by losses, so the time of rounds is known only by training them (set stop.virtual_seconds instead)"}
	}
	return nil
}

// fitClock keeps one round, and K-eta-fixed's runtime, within the clock.
func fitClock(c Config) *KeyError {
	megabits := c.Network.ModelMegabits
	if p, ok := c.Task.Paper(); megabits == 0 && ok && c.Model.Kind == ModelTask {
		megabits = p.Megabits // near enough for a limit
	} else if megabits == 0 {
		megabits = MaxParameters * 32 / 1e6 // the data, not read yet, decides
	}
	round := megabits/c.Network.DownloadMbps + megabits/c.Network.UploadMbps +
		float64(c.Schedule.K0)*(c.Compute.SecondsPerStep+10*c.Compute.Std) // Eq. 4
	if round > maxSeconds || math.IsNaN(round) {
		return &KeyError{Key: "network", Others: []string{"network.download_mbps", "network.upload_mbps", "network.model_megabits", "compute.seconds_per_step", "compute.std", "schedule.k0"},
			Problem: fmt.Sprintf("one round would take %.3g virtual seconds (at most %s: raise the speeds or lower schedule.k0)", round, number(maxSeconds))}
	}
	if n := c.Stop.EqualRuntimeRounds; float64(n)*round > maxSeconds && c.Network.ModelMegabits != 0 {
		return &KeyError{Key: "stop.equal_runtime_rounds",
			Problem: fmt.Sprintf("%d rounds would take %.3g virtual seconds (at most %s)", n, float64(n)*round, number(maxSeconds))}
	}
	return nil
}

// fitUnused refuses a value that would have no effect yet.
func fitUnused(c Config) *KeyError {
	standard, err := Defaults(c.Task)
	if err != nil {
		return &KeyError{Key: "task", Problem: taskProblem(string(c.Task))}
	}
	for _, k := range keys {
		if slices.Contains(unused, k.path) && k.write(&c) != k.write(&standard) {
			return &KeyError{Key: k.path, Problem: fmt.Sprintf("%s has no effect in this version (leave it at %s)", k.write(&c), k.write(&standard))}
		}
	}
	return nil
}

// unused are the keys that nothing reads yet. To enable one, remove it here.
var unused = []string{}
