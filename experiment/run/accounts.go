package run

import (
	"fedpace/experiment/folder"
	"slices"

	"fedpace/actors/device"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/metrics/timeline"
)

// spending is what some tasks came to.
type spending struct {
	time   folder.Split[int64] // nanoseconds
	steps  folder.Split[int64]
	bytes  folder.Split[int64]
	down   int64 // of the bytes, those downloaded
	joules folder.Split[float64]
}

func (s *spending) add(more *spending) {
	s.time.Add(more.time)
	s.steps.Add(more.steps)
	s.bytes.Add(more.bytes)
	s.down += more.down
	s.joules.Add(more.joules)
}

// accounts follows what a run's clients spend. A round's spending counts when
// the round does; what is open at the end was for nothing.
type accounts struct {
	modelBytes int64
	fleet      *device.Fleet
	watts      []config.Watts // by class; nil: no power is known
	device     func(client int) bool
	holds      bool // who gets a task holds the model already
	overlaps   bool // rounds wait for nobody

	total, open spending
	times       []round.Time // of the open round's accepted tasks
	share       float64      // sum of the rounds' straggler shares
	shares      int
	waited      float64 // sum of the rounds' seconds from the median client to the slowest
}

func newAccounts(p *problem) *accounts {
	a := &accounts{
		modelBytes: p.modelBits / 8, fleet: p.fleet, device: p.config.IsDevice,
		holds: p.config.Select.Rule == config.PowerOfChoice, overlaps: p.config.Close.Rule == config.Buffered,
	}
	known := false
	for _, k := range p.config.Fleet {
		a.watts = append(a.watts, k.Watts)
		known = known || k.Watts != config.Watts{}
	}
	if !known {
		a.watts = nil
	}
	return a
}

// settled takes a task that has its outcome.
func (a *accounts) settled(e *round.Ended) {
	took := e.End - e.Start
	parts := timeline.Split(e)
	download, compute, upload := parts[timeline.Download], parts[timeline.Compute], parts[timeline.Upload]

	// A phase without a length is done as soon as it is reached.
	done := func(part, whole round.Time, reached bool) float64 {
		switch {
		case whole > 0:
			return float64(part) / float64(whole)
		case reached:
			return 1
		}
		return 0
	}
	uploads := download == e.Plan.Download && compute == e.Plan.Compute
	bytes := int64(0)
	if e.Probe || !a.holds {
		bytes = int64(float64(a.modelBytes) * done(download, e.Plan.Download, true))
		a.open.down += bytes
	}
	steps := timeline.Steps(e, &parts)
	if !e.Probe { // which only finds a loss
		bytes += int64(float64(a.modelBytes) * done(upload, e.Plan.Upload, uploads && e.Outcome == round.Accepted))
	}
	joules := 0.0
	if a.watts != nil && !a.device(e.Client) { // nobody knows what a device draws
		w := a.watts[a.fleet.Class(e.Client)]
		joules = float64(w.Download*download.Seconds()) + float64(w.Compute*compute.Seconds()) + float64(w.Upload*upload.Seconds())
	}
	if e.Outcome != round.Accepted {
		a.open.time.Wasted += int64(took)
		a.open.steps.Wasted += steps
		a.open.bytes.Wasted += bytes
		a.open.joules.Wasted += joules
		return
	}
	a.open.time.Useful += int64(took)
	a.open.steps.Useful += steps
	a.open.bytes.Useful += bytes
	a.open.joules.Useful += joules
	if !e.Probe && !a.overlaps {
		a.times = append(a.times, took)
	}
}

// report closes a round: what its clients spent counts.
func (a *accounts) report(r *round.Report) {
	a.total.add(&a.open)
	a.open = spending{}
	if n := len(a.times); n > 0 && r.End > r.Start {
		slices.Sort(a.times) // mostly sorted: they came in that order
		median := (float64(a.times[(n-1)/2]) + float64(a.times[n/2])) / 2
		a.share += (float64(a.times[n-1]) - median) / float64(r.End-r.Start)
		a.shares++
		a.waited += (float64(a.times[n-1]) - median) / 1e9
	}
	a.times = a.times[:0]
}

// write puts the accounts in a summary.
func (a *accounts) write(s *folder.Summary) {
	all := a.total
	all.add(&spending{time: a.open.time.AsWaste(), steps: a.open.steps.AsWaste(), bytes: a.open.bytes.AsWaste(), down: a.open.down, joules: a.open.joules.AsWaste()})
	s.ClientSeconds = folder.Split[float64]{Useful: round.Time(all.time.Useful).Seconds(), Wasted: round.Time(all.time.Wasted).Seconds()}
	s.ClientSteps, s.Bytes = all.steps, all.bytes
	if a.watts != nil {
		s.EnergyJoules = &all.joules
	}
	if a.shares > 0 {
		s.StragglerShare = folder.Measured(a.share / float64(a.shares))
	}
}
