package devices_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
)

// siteModels plays rounds of sixteen clients, four behind each of four sites unless there are none, and returns the
// last model.
func siteModels(t *testing.T, sets ...string) []float32 {
	t.Helper()
	c := runtest.Small(t, append([]string{"clients=16", "cohort=16", "stop.rounds=3", "task=logistic"}, sets...)...)
	var last []float32
	var o run.Options
	o.Model = func(_ int, params []float32) { last = slices.Clone(params) }
	mustRun(t, c, o)
	return last
}

// Sites with one own round have the bits of clients that send to the server, with and without masks: each client weighs
// 1 of 2^4 under all of these rules.
func TestSecure_SitesHaveUnmaskedBits(t *testing.T) {
	t.Parallel()
	open := siteModels(t)
	masked := siteModels(t, "secure_aggregation.on=true")
	sites := siteModels(t, "secure_aggregation.on=true", "network.sites.count=4", "aggregate.site_rounds=1")
	if !slices.Equal(masked, open) || !slices.Equal(sites, open) {
		t.Error("the models differ")
	}
}

// Sites with own rounds move their models under masks as in the open. There each weighs its four clients by a quarter,
// so the models are the same but for the rounding of sums to 2^-44.
func TestSecure_SitesMoveAsUnmasked(t *testing.T) {
	t.Parallel()
	sets := []string{"network.sites.count=4", "aggregate.site_rounds=3"}
	open := siteModels(t, sets...)
	masked := siteModels(t, append(sets, "secure_aggregation.on=true")...)
	flat := siteModels(t)
	moved := 0.0
	for i := range open {
		if d := math.Abs(float64(masked[i] - open[i])); d > 1e-6 {
			t.Errorf("parameter %d is %v, in the open %v", i, masked[i], open[i])
		}
		moved = max(moved, math.Abs(float64(open[i]-flat[i])))
	}
	if moved < 1e-4 {
		t.Errorf("sites change the model by %v, so that the test says nothing", moved)
	}
}

// Clients that leave sites at any stage leave the run as it goes without learning, and a run that is interrupted and
// resumed has the same bits.
func TestSecure_SitesResumed(t *testing.T) {
	t.Parallel()
	play := func(train, interrupted bool) folder.Summary {
		c := runtest.Small(t, "clients=60", "cohort=40", "stop.rounds=8", "secure_aggregation.on=true", "task=logistic",
			"dropout.probability=0.15", "network.sites={count: 5, upload_mbps: 20}", "aggregate.site_rounds=2",
			fmt.Sprint("train=", train))
		if interrupted {
			return mustResume(t, c)
		}
		return mustRun(t, c, run.Options{})
	}
	want := play(true, false)
	resumed := play(true, true)
	timed := play(false, false)
	checkSameHistory(t, want, resumed, timed)
	if want.Outcomes[round.Accepted] == 0 || want.Outcomes[round.Refused]+want.Outcomes[round.Cancelled] == 0 {
		t.Errorf("outcomes %v, want some updates that count and some own rounds that are not recovered", want.Outcomes)
	}
}

// Sites of two clients would show single updates, and buffers are not added up at sites.
func TestSecure_SitesRefuse(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"network.sites.count=8":                              "secure_aggregation",
		"model=[flatten, dense: 4, batch_norm, relu, dense]": "values that are not trained",
	} {
		c := runtest.Small(t, "clients=16", "cohort=16", "secure_aggregation.on=true", "network.sites.count=4",
			"aggregate.site_rounds=2", set)
		if _, err := run.Run(t.Context(), c, run.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
	}
}
