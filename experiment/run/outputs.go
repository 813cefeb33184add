package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"fedpace/bus"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/internal/names"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/live"
	_ "fedpace/metrics/openmetrics" // remote_write
	"fedpace/metrics/outputs"
	"fedpace/metrics/prometheus"
	"fedpace/metrics/tables"
	"fedpace/metrics/web"
)

// keptSample is how many tasks of a round outputs see at least, beside the slowest and those of
// real devices.
const keptSample = 10

// sinks are the outputs of the run: the usual ones, and those that the
// configuration adds.
func (p *experiment) sinks() ([]metrics.Sink, error) {
	c := &p.Config
	list := []metrics.Sink{folder.Rounds{}, tables.Sink{}, outputs.Progress{}, live.Sink{}}
	if c.Train {
		list = append(list, outputs.Models{})
	}
	if c.Train && c.Evaluate.Clients.Any() {
		list = append(list, outputs.Fairness{})
	}
	if c.Events.Sample != config.NoEvents {
		list = append(list, eventlog.Sink(c.Events))
	}
	if len(c.Devices.Names) > 0 && p.options.Replay == "" {
		list = append(list, devicelog.Sink{})
	}
	if c.HTTP != "" {
		list = append(list, prometheus.Sink{})
	}
	for i, s := range c.Outputs {
		name := metrics.Sinks.NameOf(s)
		same := func(other metrics.Sink) bool { return metrics.Sinks.NameOf(other) == name }
		if slices.ContainsFunc(c.Outputs[:i], same) {
			return nil, fmt.Errorf("outputs[%d]: %q is there already", i, name)
		}
		if _, log := s.(eventlog.Sink); log && c.Events.Sample == config.NoEvents {
			return nil, fmt.Errorf("outputs[%d]: events.sample is off (set it to a number)", i)
		}
		if !slices.ContainsFunc(list, same) {
			list = append(list, s)
		}
	}
	if err := folder.CheckFiles(list); err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	return list, nil
}

// about is the run as outputs know it.
func (p *experiment) about(limit round.Time, started time.Time) *metrics.Run {
	c := &p.Config
	run := folder.About(c)
	run.Version = p.options.Version
	run.Kernel = p.Kernel
	run.Started = started
	run.Notice = p.options.Tell
	run.Metrics, run.Quality, run.Targets, run.Tokens = p.Metrics, p.Quality, p.Targets, p.Tokens() > 0
	run.Classes, run.Class, run.DeviceClass, run.Power = p.Fleet.Classes(), p.Fleet.Class, p.Fleet.DeviceClass, p.Power()
	run.VirtualSeconds = limit.Seconds()
	run.Slowest = config.KeptSlowest
	run.Sample = keptSample
	run.MeanPlan = func(class, steps int) (round.Plan, error) {
		d, err := p.Fleet.MeanOf(class, steps, p.DeviceBits())
		return round.Plan{
			Download: round.Time(d.Download),
			Compute:  round.Time(d.Compute),
			Upload:   round.Time(d.Upload),
		}, err
	}
	if v := p.Privacy; v != nil {
		run.Delta = c.Privacy.Delta
		run.Epsilon = v.Epsilon
	}
	if one := p.comparedRound(); one > 0 {
		run.FixedSteps = float64(c.Schedule.K0) / one.Seconds()
	}
	if c.Train {
		run.Data = describe(p.Set.Info())
		if !p.Set.Info().Synthetic {
			run.Client = p.Set.Client
		}
		run.WriteModel = func(w io.Writer, params []float32, which string) error {
			return folder.EncodeModel(w, p.Model.Tensors(), params, map[string]string{
				"producer": "fedpace", "task": run.Task, "schedule": run.Schedule, "model": p.Model.String(),
				"data": run.Data, "which": which, "kernel": p.Kernel,
			})
		}
	}
	return run
}

// roundsSoFar reads the run's rounds.csv, with the mean losses of the window.
func (p *experiment) roundsSoFar(dir string) iter.Seq2[round.Report, error] {
	return func(yield func(round.Report, error) bool) {
		for r, err := range (&folder.Run{Dir: dir, Config: p.Config}).Follow() {
			if !yield(r.Report, err) {
				return
			}
		}
	}
}

// serve shows the pages of the outputs under the configuration's http. The page of
// a run that is interrupted still shows how it ended, so only Close ends it.
func (r *recorder) serve(ctx context.Context, tell func(string)) (*web.WebServer, error) {
	var pages []web.Page
	for _, o := range metrics.Outputs[web.Pager](r.outputs) {
		pages = append(pages, o.Pages()...)
	}
	server, err := web.Serve(context.WithoutCancel(ctx), r.p.Config.HTTP, pages...)
	if errors.Is(err, web.ErrInUse) {
		return nil, fmt.Errorf("http: %w (set http to another address, or to \"\" for no page)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if tell != nil {
		tell("The run is shown on http://" + server.Addr() + "/, its metrics on /metrics.")
		if !names.Loopback(server.Addr()) {
			tell("Other machines reach that page: it is not encrypted and asks nobody who he is, and it can only be read.")
		}
	}
	return server, nil
}

// notices hands the lines that the user is told to the outputs, too, once they are
// open.
type notices struct {
	mu    sync.Mutex
	to    *metrics.Recorder // nil: not open yet
	lines []string          // that it has not had
}

// copied is what the caller sees, with notices that come here, too.
func (n *notices) copied(o Shown) Shown {
	tell := o.Notice
	tellOfHosts := o.HostNotice
	o.Notice = func(line string) {
		n.add(nil, line)
		if tell != nil {
			tell(line)
		}
	}
	o.HostNotice = func(notice bus.Notice) {
		if tellOfHosts == nil {
			o.Notice(notice.Text)
			return
		}
		n.add(nil, notice.Text)
		tellOfHosts(notice)
	}
	return o
}

// add hands lines over, or keeps them until it is told the recorder.
func (n *notices) add(to *metrics.Recorder, lines ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.to = cmp.Or(n.to, to)
	n.lines = append(n.lines, lines...)
	if n.to != nil {
		for _, line := range n.lines {
			n.to.Notice(line)
		}
		n.lines = nil
	}
}
