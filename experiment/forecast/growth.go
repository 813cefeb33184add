package forecast

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"fedpace/actors/clientmodel"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/internal/human"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
)

// Growth is about how large the files become that grow with the rounds of a run.
type Growth []File

// File is one of them.
type File struct {
	Name  string  `json:"file"`
	Bytes float64 `json:"bytes"`
}

// GrowthOf is that of a run with real devices in so many rounds; run is as its outputs know it.
// A replay has no log of devices.
func GrowthOf(p *problem.Problem, run *metrics.Run, rounds float64, replay bool) (list Growth) {
	c, devices := &p.Config, devicesOf(&p.Config)
	usual := usualRound(p, run, devices, rounds/2)
	if !replay {
		list = append(list, File{devicelog.File, rounds * devicelog.Bytes(float64(devices), float64(p.Model.Params()), c.Devices.KeepUpdates)})
	}
	if c.Events.Sample != config.NoEvents {
		list = append(list, File{eventlog.File, eventlog.Sink(c.Events).Bytes(run, usual, rounds)})
	}
	return append(list, File{folder.RoundsFile, rounds * float64(folder.RowBytes(&usual.Report, len(p.Metrics)))})
}

// String lists the files with their sizes.
func (g Growth) String() string {
	var parts []string
	for _, f := range g {
		parts = append(parts, human.Size(int64(math.Round(f.Bytes)))+" of "+f.Name)
	}
	return strings.Join(parts, ", ")
}

// AboutGrowth says how large the files of a run with real devices become, and what the log
// of these is good for.
func AboutGrowth(p *problem.Problem, run *metrics.Run) string {
	text := fmt.Sprintf("A round takes about %s", GrowthOf(p, run, 1, false))
	if n := p.Config.Stop.Rounds; n > 0 {
		text += fmt.Sprintf("; %d rounds take %s", n, GrowthOf(p, run, float64(n), false))
	}
	if !p.Config.Devices.KeepUpdates {
		text += fmt.Sprintf(". %s keeps no updates, so the run cannot be played again (devices.keep_updates)", devicelog.File)
	}
	return text + "."
}

// devicesOf is how many devices answer in a round.
func devicesOf(c *config.Config) int {
	n := len(c.Devices.Names)
	switch {
	case closing.Overlaps(c.Close):
		return updatesOf(c.Close, c.Cohort)
	case c.DrawsDevices():
		return min(n, c.Cohort)
	}
	return n
}

// usualRound is a round as outputs see it, behind so many others, with times that have all
// their digits and as many tasks of devices.
func usualRound(p *problem.Problem, run *metrics.Run, devices int, before float64) *metrics.Round {
	c, k := &p.Config, p.InitialSteps()
	plan, err := run.MeanPlan(clientmodel.NoClass, k)
	if err != nil {
		plan = round.Plan{Download: 1e9, Compute: 1e9, Upload: 1e9}
	}
	plan.Download, plan.Compute, plan.Upload = plan.Download|1, plan.Compute|1, plan.Upload|1
	r := &metrics.Round{Report: round.Report{
		Round: int(before) + 1, Start: round.Time(before * float64(plan.Total())), LocalSteps: k, LearningRate: c.Schedule.Eta0,
		TrainingLoss: 1. / 3, WindowLoss: 1. / 3, ValidationLoss: math.NaN(), SGDSteps: int64(before) * int64(k), Cohort: devices,
	}}
	r.End = r.Start + plan.Total()
	simulated := 0
	if !c.DrawsDevices() {
		simulated = min(c.Cohort, run.Slowest+max(run.Sample, c.Events.Sample))
		r.Cohort += c.Cohort
	}
	r.Outcomes[round.Accepted], r.Ended = r.Cohort, r.Cohort
	for i := range devices + simulated {
		t := metrics.Task{Real: i < devices, Slow: i >= devices, TaskReport: round.TaskReport{
			Task: uint64(before)*uint64(r.Cohort) + uint64(i), Client: c.Clients + i - devices, LocalSteps: k, Start: r.Start, End: r.End, Plan: plan,
		}}
		if t.Real {
			t.TaskReport.Task, t.Client = t.TaskReport.Task+round.FirstDeviceTask, c.Clients+i
		}
		r.Tasks = append(r.Tasks, t)
	}
	return r
}

// mostUpdates is more updates than any round waits for.
const mostUpdates = 1 << 20

// updatesOf is how many updates close a round that overlaps others, whoever sends them.
func updatesOf(rule closing.Rule, cohort int) int {
	return 1 + sort.Search(mostUpdates, func(n int) bool {
		return rule.Close(closing.Standing{Cohort: cohort, Accepted: n + 1})
	})
}
