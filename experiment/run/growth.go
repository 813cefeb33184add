package run

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"fedpace/actors/clientmodel"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
)

// Growth is a file that grows with the rounds of a run.
type Growth struct {
	File  string  `json:"file"`
	Bytes float64 `json:"bytes"` // about how large it becomes
}

// growth is about how large the files become that grow with the rounds of a run with real
// devices, in so many rounds.
func (p *experiment) growth(o *Options, rounds float64) (list []Growth) {
	c, devices := &p.Config, p.updates()
	run := p.about(o, 0, time.Time{})
	usual := p.usualRound(run, devices, rounds/2)
	if o.Replay == "" {
		list = append(list, Growth{devicelog.File, rounds * devicelog.Bytes(float64(devices), float64(p.Model.Params()), c.Devices.KeepUpdates)})
	}
	if c.Events.Sample != config.NoEvents {
		list = append(list, Growth{eventlog.File, eventlog.Sink(c.Events).Foresee(run, usual, rounds)})
	}
	return append(list, Growth{folder.RoundsFile, rounds * float64(folder.RowBytes(&usual.Report, len(p.Metrics)))})
}

// updates is how many devices answer in a round.
func (p *experiment) updates() int {
	c := &p.Config
	n := len(c.Devices.Names)
	switch {
	case closing.Overlaps(c.Close): // as many as close a round, whoever sends them
		const most = 1 << 20
		return 1 + sort.Search(most, func(n int) bool {
			return c.Close.Close(closing.Standing{Cohort: c.Cohort, Accepted: n + 1})
		})
	case c.DrawsDevices():
		return min(n, c.Cohort)
	}
	return n
}

// usualRound is a round as outputs see it, behind so many others, with times that have all
// their digits and as many tasks of devices.
func (p *experiment) usualRound(run *metrics.Run, devices int, before float64) *metrics.Round {
	c, k := &p.Config, p.InitialSteps()
	plan, err := run.MeanPlan(clientmodel.NoClass, k)
	if err != nil {
		plan = round.Plan{Download: 1e9, Compute: 1e9, Upload: 1e9}
	}
	plan.Download, plan.Compute, plan.Upload = plan.Download|1, plan.Compute|1, plan.Upload|1
	r := &metrics.Round{Report: round.Report{
		Round: int(before) + 1, Start: round.Time(before * float64(plan.Total())), LocalSteps: k, LearningRate: c.Schedule.Eta0,
		TrainingLoss: 1. / 3, WindowLoss: 1. / 3, ValidationLoss: math.NaN(), SGDSteps: int64(before) * int64(k),
	}}
	r.End = r.Start + plan.Total()
	simulated := 0
	if !c.DrawsDevices() {
		simulated = min(c.Cohort, keptSlowest+max(keptSample, c.Events.Sample))
	}
	r.Cohort = devices + max(simulated, c.Cohort*min(simulated, 1))
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

// aboutGrowth says how large the files of a run with real devices become, and what the log
// of these is good for.
func (p *experiment) aboutGrowth(o *Options) string {
	text := "A round takes about " + sizes(p.growth(o, 1))
	if n := p.Config.Stop.Rounds; n > 0 {
		text += fmt.Sprintf("; %d rounds take %s", n, sizes(p.growth(o, float64(n))))
	}
	if !p.Config.Devices.KeepUpdates {
		text += fmt.Sprintf(". %s keeps no updates, so the run cannot be played again (devices.keep_updates)", devicelog.File)
	}
	return text + "."
}

// sizes lists files with their sizes.
func sizes(list []Growth) string {
	var parts []string
	for _, g := range list {
		parts = append(parts, human.Size(int64(math.Round(g.Bytes)))+" of "+g.File)
	}
	return strings.Join(parts, ", ")
}
