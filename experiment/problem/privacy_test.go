package problem

import (
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/runtest"
)

var private = []string{"privacy.clip=0.05", "privacy.noise_multiplier=0.5"}

// What clients do to a round decides what it costs.
func TestPrivacy_CostOfRounds(t *testing.T) {
	t.Parallel()
	privacy := func(sets ...string) *Privacy {
		p, err := Prepare(t.Context(), runtest.Small(t, append(private[:2:2], sets...)...), false, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.Privacy
	}
	sampled := privacy()
	absent := privacy("availability={model: markov, on_seconds: 30, off_seconds: 10}")
	everybody := privacy("clients=10", "cohort=10")
	if sampled.draw.Rate >= 1 || absent.draw.Rate != 1 || everybody.draw.Rate != 1 {
		t.Errorf("rates %g, %g and %g", sampled.draw.Rate, absent.draw.Rate, everybody.draw.Rate)
	}
	ofSample, ofAbsent, ofAll := sampled.Epsilon(10), absent.Epsilon(10), everybody.Epsilon(10)
	if !(ofSample < ofAbsent && ofAll < ofAbsent) {
		t.Errorf("epsilon %g of a sample, %g of clients that may be away, %g of all", ofSample, ofAbsent, ofAll)
	}
	if all, first := privacy().updates, privacy("close={rule:first,n:7}").updates; all != 10 || first != 7 {
		t.Errorf("sums are divided by %d and, where the first 7 close a round, by %d", all, first)
	}
	if got := privacy("schedule.k=error").uncovered; len(got) != 1 || !strings.HasPrefix(got[0], "schedule.k follows the clients' training losses") {
		t.Errorf("a schedule that follows losses: %q", got)
	}
	for sets, want := range map[string]int{
		"compress=top_k": 1, "compress={method:top_k,error_feedback:false}": 0, "compress=top_k clients=10 cohort=10": 0, "compress=top_k clients=10 cohort=10 close={rule:first,n:9}": 1,
		"local={momentum:0.9,keep:true}": 1, "local={momentum:0.9}": 0, "aggregate.algorithm=streaming": 1, "personal=[0]": 1,
	} {
		if got := privacy(strings.Fields(sets)...).uncovered; len(got) != want || want > 0 && !strings.Contains(got[0], "from task to task") {
			t.Errorf("%s: not covered is %q", sets, got)
		}
	}
	for sets, want := range map[string]int{"select=round_robin": 1, "select=round_robin clients=10 cohort=10": 0, "availability={model:markov,on_seconds:30,off_seconds:10}": 1} {
		if got := privacy(strings.Fields(sets)...).uncovered; len(got) != want || want > 0 && !strings.Contains(got[0], "who else is asked") {
			t.Errorf("%s: not covered is %q", sets, got)
		}
	}
	if got := privacy("stop.validation_accuracy=0.9").uncovered; len(got) != 1 || !strings.HasPrefix(got[0], "the run's end follows validations") {
		t.Errorf("an end by accuracy: %q", got)
	}
	for formula, want := range map[string]int{"k0 / r": 0, "k0 * F / F0": 1, "k0 * (1 - accuracy)": 1, "k0 * (1 - straggler_share)": 1, "k0 * F / F0 * (1 - accuracy) * (1 - straggler_share)": 3} {
		if got := privacy("schedule.k={rule: expression, formula: " + formula + "}").uncovered; len(got) != want {
			t.Errorf("%s: not covered is %q", formula, got)
		}
	}
}

func TestPrivacy_Refusals(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]string{
		"aggregate.weights=samples":                           "aggregate.weights: with differential privacy no client counts more than another (set equal)",
		"aggregate.combine=median":                            "aggregate.combine: how far one client moves",
		"aggregate.clip=median":                               "aggregate.clip: privacy.clip is the bound on updates",
		"aggregate.algorithm=scaffold":                        "privacy.clip: is for updates of one vector",
		"aggregate.algorithm=fednova":                         `privacy.clip: "privacy.clip" takes updates as they are`,
		"late=use close={rule:deadline,seconds:1}":            "late: a late update would count",
		"close={rule:buffered,n:2}":                           "close: whether others' updates count",
		"close={rule:first,n:2} network.server_upload_mbps=9": "close: clients that share",
		"select=fit":                       "select: the steps of a round's clients follow the times of the others",
		"compress={method:sign,step:0.01}": "privacy.clip: does not go with compress: sign",
		"privacy.delta=0.09":               "privacy.delta: 0.09 may be the loss of one",
		"privacy.noise_multiplier=null":    "privacy: clip and noise_multiplier belong together",
		"select={rule:oort,seconds:1}":     "select: oort chooses clients by what their samples are",
	} {
		c, err := config.Load("", slices.Concat([]string{"task=femnist", "clients=200", "cohort=10"}, private, strings.Fields(sets)))
		if err == nil {
			_, err = Prepare(t.Context(), c, false, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", sets, err, want)
		}
	}
}
