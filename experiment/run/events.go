package run

import (
	"errors"
	"fedpace/experiment/folder"
	"fmt"
	"io"
	"strconv"
	"time"

	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/tables"
	"fedpace/metrics/timeline"
)

// keptSlowest is how many of a round's slowest tasks are kept.
const keptSlowest = 10

// flushEvery is how long, in wall time, events may stay in memory.
const flushEvery = time.Second

// recorder keeps what a run's clients do: the tasks that are shown, the event
// log and the accounts of all clients. It belongs to the run's goroutine.
type recorder struct {
	p       *problem
	version string
	tasks   *timeline.Collector
	clients *tables.Clients
	log     *eventlog.Writer // nil: there is none
	flushed time.Time
}

// newRecorder is the recorder of a run; shown is how many tasks a round others
// want to see beside the slowest.
func newRecorder(p *problem, o Options, shown int) (*recorder, error) {
	c := &p.config
	tasks, err := timeline.New(timeline.Config{Seed: c.Seed, Slowest: keptSlowest, Sample: max(shown, c.Events.Sample), Class: p.fleet.Class, Real: c.IsDevice})
	if err != nil {
		return nil, err
	}
	return &recorder{p: p, version: o.Version, tasks: tasks, clients: tables.NewClients(c.Clients + len(c.Devices.Names))}, nil
}

// open begins the event log in the run's folder, or goes on with it.
func (k *recorder) open(r *folder.Results) error {
	if k.p.config.Events.Sample == config.NoEvents {
		return nil
	}
	out, err := r.Append(folder.EventsFile)
	if err != nil {
		return err
	}
	if out.Size > 0 {
		k.log = eventlog.Append(out, out.Size)
	} else if k.log, err = eventlog.NewWriter(out, k.about()); err != nil {
		return fmt.Errorf("results: %s: %w", folder.EventsFile, err)
	}
	out.Flush = k.log.Flush
	return nil
}

// about is whose log it is.
func (k *recorder) about() eventlog.Run {
	c := &k.p.config
	run := eventlog.Run{
		Name: c.Name, Task: string(c.Task), Schedule: c.Schedule.Name(), Seed: c.Seed, Clients: c.Clients, Cohort: c.Cohort,
		Close: c.Close.Rule, Slowest: keptSlowest, Sample: c.Events.Sample, Version: k.version,
	}
	run.Deadline = closing(c.Close).Deadline()
	if classes := k.p.fleet.Classes(); len(classes) > 1 {
		run.Classes = classes
	}
	return run
}

// settled takes a task that has its outcome.
func (k *recorder) settled(e *round.Ended) {
	k.tasks.Settled(e)
	k.clients.Settled(e)
}

// report closes a round and returns what is kept of it, until the next call.
func (k *recorder) report(r *round.Report) (*timeline.Record, error) {
	k.clients.Report()
	kept := k.tasks.Report(r)
	if k.log == nil {
		return kept, nil
	}
	err := k.log.Round(kept)
	if now := time.Now(); err == nil && now.Sub(k.flushed) >= flushEvery {
		k.flushed = now
		err = k.log.Flush()
	}
	if err != nil {
		err = fmt.Errorf("results: %w", err)
	}
	return kept, err
}

// savedEvents is what of a recorder a checkpoint keeps.
type savedEvents struct {
	Open    timeline.Open
	Clients tables.State
}

func (k *recorder) save() savedEvents { return savedEvents{k.tasks.Save(), k.clients.State()} }

func (k *recorder) restore(s savedEvents) error {
	k.tasks.Restore(s.Open)
	return k.clients.Restore(s.Clients)
}

// tables writes the tables of a run that has ended.
func (k *recorder) tables(r *folder.Results) error {
	c := &k.p.config
	meta := tables.Meta{
		"run": c.Name, "task": string(c.Task), "schedule": c.Schedule.Name(), "seed": strconv.FormatUint(c.Seed, 10),
		"clients": strconv.Itoa(c.Clients), "version": k.version,
	}
	// From the file, which holds all rounds, also those of the run's earlier lives.
	err := r.Write(folder.RoundsTable, func(w io.Writer) error {
		return tables.WriteRounds(w, meta, folder.Reports(r.Path(folder.RoundsFile)))
	})
	k.clients.End()
	class := func(int) string { return "" }
	if classes := k.p.fleet.Classes(); len(classes) > 1 {
		class = func(client int) string {
			if c.IsDevice(client) {
				return ""
			}
			return classes[k.p.fleet.Class(client)]
		}
	}
	return errors.Join(err, r.Write(folder.ClientTable, func(w io.Writer) error {
		return k.clients.Write(w, meta, class, c.IsDevice)
	}))
}
