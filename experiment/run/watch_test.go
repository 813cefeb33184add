package run

import (
	"bufio"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// scraped is a scrape in text: values by series, labels of the run left out.
type scraped map[string]float64

func scrapeOf(t *testing.T, address string) scraped {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	own := regexp.MustCompile(`(run|task|schedule|seed)="[^"]*",?`)
	s := scraped{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		series, text, ok := strings.Cut(lines.Text(), "} ")
		if !ok || strings.HasPrefix(series, "#") {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		s[strings.Replace(strings.TrimSuffix(own.ReplaceAllString(series, ""), ","), "{", " ", 1)] = v
	}
	return s
}

// sum adds the series of a name with a label.
func (s scraped) sum(name, label string) (sum float64) {
	for series, v := range s {
		if of, labels, _ := strings.Cut(series, " "); of == name && strings.Contains(labels, label) {
			sum += v
		}
	}
	return sum
}

// What a run's metrics say at its end is what its summary says.
func TestMetrics_Summary(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	for name, sets := range map[string][]string{
		"alike": nil,
		"stragglers": {
			"close={rule: deadline, seconds: 2.2}", "dropout.probability=0.1",
			"fleet=[{name: phone, weight: 3, seconds_per_step: {dist: lognormal, mean: 0.03, sigma: 1}, watts: 4}, {name: board, weight: 1, upload_mbps: 8, watts: 6}]",
		},
		"overlapping": {"close={rule: buffered, n: 5, staleness_limit: 2}", "compute.std=0.01", "stop.rounds=12"},
		"asked":       {"select={rule: power_of_choice, candidates: 20}"},
	} {
		t.Run(name, func(t *testing.T) {
			var base string
			var got scraped
			s := mustRun(t, runtest.Small(t, append(sets, "http=127.0.0.1:0")...), Options{
				Callbacks: Callbacks{Notice: func(line string) {
					if m := regexp.MustCompile(`http://[^/]+/`).FindString(line); m != "" {
						base = m
					}
				}, Progress: func(p Progress) {
					if p.Done {
						got = scrapeOf(t, base+"metrics")
					}
				}},
			})
			if got == nil {
				t.Fatal("the run is not scraped at its end")
			}
			wasted := func(of, use string) string { return fmt.Sprintf(`fedpace_client_%s_total use="%s"`, of, use) }
			want := map[string]float64{
				"fedpace_round ":                  float64(s.Rounds),
				"fedpace_virtual_time_seconds ":   s.VirtualSeconds,
				"fedpace_sgd_steps_total ":        float64(s.SGDSteps),
				"fedpace_validation_loss ":        *s.ValidationLoss,
				"fedpace_validation_accuracy ":    *s.ValidationAccuracy,
				`fedpace_actors kind="simulated"`: 200,
				wasted("time_seconds", "useful"):  s.ClientSeconds.Useful,
				wasted("sgd_steps", "useful"):     float64(s.ClientSteps.Useful),
			}
			if name != "overlapping" { // which leaves work open at its end, and that is waste
				want[wasted("time_seconds", "wasted")] = s.ClientSeconds.Wasted
				want[wasted("sgd_steps", "wasted")] = float64(s.ClientSteps.Wasted)
			}
			if s.StragglerShare != nil {
				want["fedpace_straggler_ratio "] = *s.StragglerShare
			}
			if s.EnergyJoules != nil {
				want[`fedpace_client_energy_joules_total use="useful"`] = s.EnergyJoules.Useful
			}
			if s.RelativeSGDSteps != nil {
				want["fedpace_fixed_sgd_steps_total "] = float64(s.SGDSteps) / *s.RelativeSGDSteps
			}
			for series, v := range want {
				if g, ok := got[series]; !ok || math.Abs(g-v) > 1e-9*math.Abs(v) {
					t.Errorf("%s is %v, the summary has %v", series, g, v)
				}
			}
			if name != "overlapping" {
				if g, v := got.sum("fedpace_transfer_bytes_total", ""), float64(s.Bytes.Useful+s.Bytes.Wasted); g != v {
					t.Errorf("%v bytes, the summary has %v", g, v)
				}
			}
			for o, n := range s.Outcomes {
				if name == "overlapping" && round.Outcome(o) == round.Cancelled {
					continue // when the run ends
				}
				if g := got.sum("fedpace_updates_total", `outcome="`+round.Outcome(o).String()+`"`); g != float64(n) {
					t.Errorf("%v tasks are %s, the summary has %d", g, round.Outcome(o), n)
				}
			}
			if g := got[`fedpace_round_duration_seconds_count `]; g != float64(s.Rounds) {
				t.Errorf("the histogram has %v rounds of %d", g, s.Rounds)
			}
			if name == "alike" { // every client is the slowest: Eq. 3 and 4
				slowest := got.sum("fedpace_slowest_client_seconds_total", "")
				if math.Abs(slowest-s.VirtualSeconds) > 1e-9*slowest {
					t.Errorf("the slowest clients took %v s of %v", slowest, s.VirtualSeconds)
				}
			}
			if name == "stragglers" && (got.sum("fedpace_client_phase_seconds_count", `class="phone"`) == 0 || got.sum("fedpace_client_phase_seconds_count", `class="board"`) == 0) {
				t.Error("a class has no phases")
			}
		})
	}
}
