package coordinator_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"fedpace/algorithm"
	"fedpace/coordinator"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/round"
	"fedpace/internal/testkit/slow"
)

// Over runs whose sites differ in size, and whose clients leave under way, every next model is
// that of hierarchical FedAvg (Liu et al. 2020, Algorithm 1), written out here in float64 over the
// clients' own models, to 1e-6 of the way that it moves; on three hosts and from four jobs.
func TestSites_HierarchicalFedAvg(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	l, fleet := newLab(t), ruleFleet(t)
	const sites = 4
	for _, rounds := range []int{1, 2, 3} {
		for _, bySamples := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d rounds of a site, by samples %v", rounds, bySamples), func(t *testing.T) {
				c := ruleConfig(l, fleet, closing.All{}, nil)
				c.SiteRounds, c.Cohort = rounds, 11
				c.Server = round.Bandwidth{Sites: sites}
				models := ruleModels(t, l, algorithm.FedAvg{Rate: 1}, func(change func(*coordinator.Config)) {
					ruleRunWith(t, l, fleet, c, 3, 4, func(c *coordinator.Config) {
						if change(c); bySamples {
							c.Learning.Samples = l.problem.Set.Samples
						}
					})
				})
				trainer := newTrainer(t, l)
				left, sizes := 0, map[int]bool{}
				referenceWith(t, l, fleet, c, func(tasks []round.Task, versions [][]float32) ([]float32, []float64) {
					newest := versions[len(versions)-1]
					weight := func(client int) float64 {
						if bySamples {
							return float64(l.problem.Set.Samples(client))
						}
						return 1
					}
					moved, all := make([]float64, len(newest)), 0.0
					for s := range sites {
						own := slices.DeleteFunc(slices.Clone(tasks), func(x round.Task) bool { return x.Client%sites != s })
						x, of := slices.Clone(newest), 0.0
						for size := 0; len(own) > 0; {
							// The first task of each client in the list is of the site's next round.
							sum, now := make([]float64, len(x)), map[int]bool{}
							of = 0
							own = slices.DeleteFunc(own, func(task round.Task) bool {
								if now[task.Client] {
									return false
								}
								now[task.Client] = true
								of += weight(task.Client)
								for j, y := range ownModel(t, trainer, x, task) {
									sum[j] += weight(task.Client) * (float64(y) - float64(x[j]))
								}
								return true
							})
							for j := range x {
								x[j] = float32(float64(x[j]) + sum[j]/of)
							}
							if size > len(now) {
								left++
							}
							size = len(now)
							sizes[size] = true
						}
						all += of
						for j := range x {
							moved[j] += of * (float64(x[j]) - float64(newest[j]))
						}
					}
					got := models[len(versions)-1]
					most := 0.0
					for _, d := range moved {
						most = max(most, math.Abs(d/all))
					}
					for j, d := range moved {
						want := float64(newest[j]) + d/all
						if off := math.Abs(float64(got[j]) - want); off > 1e-6*most+0x1p-24*math.Abs(want) {
							t.Fatalf("model %d, parameter %d: %g, the formula gives %g, and the model moves by up to %g", len(versions), j, got[j], want, most)
						}
					}
					return got, slices.Repeat([]float64{1}, len(tasks))
				})
				if len(sizes) < 3 || rounds > 1 && left == 0 {
					t.Errorf("sites of %d sizes, %d of them lose a client: the test says little", len(sizes), left)
				}
			})
		}
	}
}

// Sites with one round each lead to the bits of clients that send to the server, and to other
// times; the same on one host as on three.
func TestSites_OneRoundKeepsBits(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), stayingFleet(t)
	play := func(siteRounds, hosts, jobs int) (models [][]float32, fingerprint uint64) {
		c := ruleConfig(l, fleet, closing.All{}, nil)
		c.Available, c.NextChange, c.SiteRounds, c.Cohort = nil, nil, siteRounds, 11
		up, _ := fairshare.Need(ruleBits, 3)
		c.Server = round.Bandwidth{Sites: 4, SiteUpload: up}
		models = ruleModels(t, l, algorithm.FedAvgM{Rate: 1, Momentum: 0.5}, func(change func(*coordinator.Config)) {
			fingerprint = ruleRunWith(t, l, fleet, c, hosts, jobs, change).Fingerprint
		})
		return models, fingerprint
	}
	flat, slow := play(0, 1, 3)
	one, other := play(1, 3, 4)
	if len(flat) != 12 || !slices.EqualFunc(one, flat, slices.Equal) {
		t.Errorf("%d models of sites with one round are others than those %d of none", len(one), len(flat))
	}
	if slow == other {
		t.Error("sites send what their clients do: the clock has one history")
	}
	two, want := play(2, 3, 4)
	again, got := play(2, 1, 1)
	if got != want || !slices.EqualFunc(two, again, slices.Equal) {
		t.Error("hosts and jobs decide")
	}
	if slices.EqualFunc(two, flat, slices.Equal) {
		t.Error("two rounds of a site lead to the models of one: the test says little")
	}
}
