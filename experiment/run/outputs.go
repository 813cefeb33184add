package run

import (
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
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/experiment/policies"
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

// minSampledTasks is how many tasks of a round outputs see at least, beside the slowest and those of
// real devices.
const minSampledTasks = 10

// sinks lists the outputs of the run: the usual ones, and those that the configuration adds. It is an
// error if the configuration names one twice, or if two write the same file.
func (p *experiment) sinks() ([]metrics.Sink, error) {
	c := &p.Config
	list := []metrics.Sink{folder.Rounds{}, tables.Sink{}, outputs.Progress{}}
	if c.Train {
		list = append(list, outputs.Models{})
	}
	// Fairness compares clients, so it needs evaluations on their own samples.
	if c.Train && c.Evaluate.Clients.Any() {
		list = append(list, outputs.Fairness{})
	}
	if c.Events.Sample != config.NoEvents {
		list = append(list, eventlog.Sink(c.Events))
	}
	// The log is written only where real devices answer; a replay reads one.
	if len(c.Devices.Names) > 0 && p.options.Replay == "" {
		list = append(list, devicelog.Sink{})
	}
	if p.Policies != nil {
		list = append(list, policies.Sink{})
	}
	if c.HTTP != "" {
		list = append(list, prometheus.Sink{})
	}
	for i, s := range c.Outputs {
		name := metrics.Sinks.NameOf(s)
		// Outputs are the same if they have the same name, whatever their options.
		isSame := func(other metrics.Sink) bool { return metrics.Sinks.NameOf(other) == name }
		if slices.ContainsFunc(c.Outputs[:i], isSame) {
			return nil, fmt.Errorf("outputs[%d]: %q is there already", i, name)
		}
		_, isEventLog := s.(eventlog.Sink)
		if isEventLog && c.Events.Sample == config.NoEvents {
			return nil, fmt.Errorf("outputs[%d]: events.sample is off (set it to a number)", i)
		}
		// An output that the configuration names may be among the usual ones already. The page, which every
		// run has, is added below.
		_, isPage := s.(live.Sink)
		if !isPage && !slices.ContainsFunc(list, isSame) {
			list = append(list, s)
		}
	}
	// The page is written last: on a disk that is full by then, the models and tables are kept.
	list = append(list, live.Sink{})
	if err := folder.CheckFiles(list); err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	return list, nil
}

// about describes the run to its outputs: its names, limits, metrics and fleet, and how a model is
// written. limit is the virtual time at which the run ends, 0 for none, and started the wall time at
// which this attempt began.
func (p *experiment) about(limit round.Time, started time.Time) *metrics.Run {
	c := &p.Config
	run := folder.About(c)
	run.Version = p.options.Version
	run.Kernel = p.Kernel
	run.Started = started
	run.Notice = p.options.Notify
	run.Metrics = p.Metrics
	run.Quality = p.Quality
	run.Targets = p.Targets
	run.Tokens = p.Tokens() > 0
	run.Secure = c.Secure.On
	run.CountsUse = c.CountsUse()
	_, run.ClosesByFormula = p.Config.Close.(closing.PerRound)
	run.CohortByFormula = c.Schedule.Cohort != ""
	_, run.LateByFormula = p.Config.Late.(closing.PerRoundLateness)
	_, run.Steered = p.Config.Schedule.K.(schedule.Reasoning)
	run.TestsChanges = run.Steered && c.Train && !c.PrivateLosses()
	run.Classes = p.Fleet.Classes()
	run.Class = p.Fleet.Class
	run.DeviceClass = p.Fleet.DeviceClass
	run.Power = p.Power()
	run.VirtualSeconds = limit.Seconds()
	run.Slowest = config.KeptSlowest
	run.Sample = minSampledTasks
	run.MeanPlan = func(class, steps int) (round.Plan, error) {
		d, err := p.Fleet.MeanOf(class, steps, p.DeviceBits())
		return round.Plan{
			Download: round.Time(d.Download),
			Compute:  round.Time(d.Compute),
			Upload:   round.Time(d.Upload),
		}, err
	}
	// Outputs show epsilon round by round where the run has differential privacy.
	if v := p.Privacy; v != nil {
		run.Delta = c.Privacy.Delta
		run.Epsilon = v.Epsilon
	}
	// The rate of local steps of fixed K, per virtual second, is what relative steps are measured
	// by.
	if duration := p.comparedRound(); duration > 0 {
		run.FixedSteps = float64(c.Schedule.K0) / duration.Seconds()
	}
	if c.Train {
		run.Data = describe(p.Set.Info())
		// The clients of made data have no names of their own.
		if !p.Set.Info().Synthetic {
			run.Client = p.Set.Client
		}
		run.WriteModel = func(w io.Writer, params []float32, kind string) error {
			return folder.EncodeModel(w, p.Model.Tensors(), params, map[string]string{
				"producer": "fedpace", "task": run.Task, "schedule": run.Schedule, "model": p.Model.String(),
				"data": run.Data, "which": kind, "kernel": p.Kernel,
			})
		}
	}
	return run
}

// roundsSoFar yields the reports of the rounds in a folder's rounds.csv, for the outputs of a resumed run. Each has its
// WindowLoss, the mean loss over the schedule's window.
func (p *experiment) roundsSoFar(dir string) iter.Seq2[round.Report, error] {
	return func(yield func(round.Report, error) bool) {
		for r, err := range (&folder.Run{Dir: dir, Config: p.Config}).Follow() {
			if !yield(r.Report, err) {
				return
			}
		}
	}
}

// serve serves the pages of the outputs at the configuration's http. The page of a run that was
// interrupted still shows how it ended, so only Close ends the server, not ctx.
func (r *recorder) serve(ctx context.Context, notify func(string)) (*web.Server, error) {
	return serve(ctx, r.outputs, r.p.Config.HTTP, notify)
}

// closePages ends the server of the outputs' pages. It first lets Prometheus scrape how the run ended, for
// as long as the run's options say.
func (r *recorder) closePages(ctx context.Context, server *web.Server) error {
	for _, m := range metrics.Outputs[*prometheus.Metrics](r.outputs) {
		m.AwaitScrape(ctx, r.p.options.ScrapeGrace)
	}
	return server.Close()
}

// serve serves the web pages of the outputs at an address, such as localhost:8080, and returns the
// server, which the caller closes. notify is told where the pages are; it may be nil. The server
// does not end with ctx, so that the end of a run can still be seen.
func serve(
	ctx context.Context,
	outputs *metrics.Recorder,
	address string,
	notify func(string),
) (*web.Server, error) {
	var pages []web.Page
	for _, o := range metrics.Outputs[web.Pager](outputs) {
		pages = append(pages, o.Pages()...)
	}
	server, err := web.Serve(context.WithoutCancel(ctx), address, pages...)
	// The message names the process that holds the port, where that can be found out.
	if errors.Is(err, web.ErrInUse) {
		holder := names.PortHolder(address)
		return nil, fmt.Errorf("http: %w (%s; set http to another address, or to \"\" for no page)", err, holder)
	}
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if notify != nil {
		notify("The run is shown on http://" + server.Addr() + "/, its metrics on /metrics.")
		// A page that other machines can reach is read by anybody, so the user is warned.
		if !names.Loopback(server.Addr()) {
			notify("Other machines reach that page: it is not encrypted and asks nobody who he is, and it can only " +
				"be read.")
		}
	}
	return server, nil
}

// noticeBuffer gives the notices for the user to the outputs as well. Lines that come before the
// outputs are open are kept until then. It is safe for concurrent use.
type noticeBuffer struct {
	mu sync.Mutex
	// recorder is where lines go; it is nil until the outputs are open.
	recorder *metrics.Recorder
	// lines are the lines that came before the outputs were open.
	lines []string
}

// withBuffer returns the callbacks o, changed so that their notices also come to this buffer. Callbacks of
// the caller that are nil stay without effect.
func (n *noticeBuffer) withBuffer(o Callbacks) Callbacks {
	notify := o.Notice
	notifyOfHosts := o.HostNotice
	// A line goes to the buffer first, and then to the caller.
	o.Notice = func(line string) {
		n.add(line)
		if notify != nil {
			notify(line)
		}
	}
	o.HostNotice = func(notice bus.Notice) {
		// Without a callback for hosts their lines go the way of all others.
		if notifyOfHosts == nil {
			o.Notice(notice.Text)
			return
		}
		n.add(notice.Text)
		notifyOfHosts(notice)
	}
	return o
}

// add gives a line to the outputs, or keeps it until they are open.
func (n *noticeBuffer) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.recorder == nil {
		n.lines = append(n.lines, line)
		return
	}
	n.recorder.Notice(line)
}

// open notes that the outputs are open: it gives the recorder the lines that were kept, and add gives it later
// ones. It is called once.
func (n *noticeBuffer) open(recorder *metrics.Recorder) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recorder = recorder
	for _, line := range n.lines {
		recorder.Notice(line)
	}
	n.lines = nil
}
