package runtest

import (
	"path/filepath"
	"testing"

	"fedpace/config"
)

// Small is a run that learns and takes a fraction of a second.
func Small(t testing.TB, sets ...string) config.Config {
	t.Helper()
	sets = append([]string{
		"task=femnist", "clients=200", "cohort=10", "schedule.k0=4", "stop.rounds=6", "evaluate.every=3",
		"schedule.window=2", "out=" + filepath.Join(t.TempDir(), "run"),
	}, sets...)
	c, err := config.Load("", sets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Custom are the settings of FEMNIST's devices for data of one's own, which must name a
// model.
var Custom = []string{
	"task=custom", "schedule.eta0=0.3", "compute.seconds_per_step=0.017",
	"network.download_mbps=20", "network.upload_mbps=5",
}

// Stragglers are clients of whom some are far slower than others, in rounds
// short enough for a test.
func Stragglers(t testing.TB, sets ...string) config.Config {
	t.Helper()
	return Small(t, append([]string{
		"task=sent140", "clients=60", "cohort=12", "schedule.k0=5", "stop.rounds=8", "evaluate.every=100",
		"network.model_megabits=6.71", "compute.seconds_per_step=0.017", "compute.std=0",
		"fleet=[{name: slow, weight: 1, seconds_per_step: {dist: lognormal, mean: 0.4, sigma: 1}, vary: {upload: " +
			"{dist: lognormal, mean: 1, sigma: 0.3}}, watts: 3}, {name: fast, weight: 2, step_cv: 0.2}]",
	}, sets...)...)
}

// Uneven is a run in which tasks end in many ways: two classes of devices, a
// deadline, dropouts, and an end within a round.
func Uneven(t testing.TB, sets ...string) config.Config {
	return Small(t, append([]string{
		"train=false", "cohort=20", "schedule.k0=8", "stop.rounds=null", "stop.virtual_seconds=30.5",
		"close={rule: deadline, seconds: 3}",
		"fleet=[{name: phone, weight: 2}, {name: watch, weight: 1, seconds_per_step: 0.2}]",
		"dropout.probability=0.1",
	}, sets...)...)
}

// Convex is a short run of a convex task.
func Convex(t testing.TB, task config.Task, sets ...string) config.Config {
	t.Helper()
	c, err := config.Load("", append([]string{
		"task=" + string(task), "clients=12", "cohort=4", "schedule.k0=8", "stop.rounds=60", "schedule.window=3",
		"out=" + filepath.Join(t.TempDir(), "run"),
	}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// BriefConvex is a convex task that is played in a fraction of a second.
func BriefConvex(t testing.TB, task config.Task, sets ...string) config.Config {
	t.Helper()
	return Convex(t, task, append([]string{
		"clients=8", "cohort=3", "schedule.k0=6", "stop.rounds=20", "evaluate.every=10",
		"quadratic={dimension: 6, samples: 10}", "logistic={features: 4, classes: 3, samples: 10}",
	}, sets...)...)
}
