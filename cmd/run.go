package cmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/bus/natsconn"
	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/policies"
	"fedpace/experiment/run"
	"fedpace/internal/names"
	"fedpace/internal/table"
	"fedpace/metrics"
)

// runCommand makes "fedpace run", which plays one experiment. With --dry-run it says what the run
// would do, and with --replay it plays a run with real devices again without the devices. p runs
// the experiment.
func runCommand(p program) *cobra.Command {
	var f runFlags
	var dry bool
	var replay string
	c := &cobra.Command{
		Use:   "run",
		Short: "Run one experiment",
		Long: `Run one experiment, with its results in runs/NAME, or the first of runs/NAME-2,
runs/NAME-3, ... that is free. Without arguments it is the demonstration: FedAvg
with the schedule rounds on synthetic FEMNIST.

--replay plays a run with real devices again without them, from devices.log.

The exit status is 3 where --expect or the key expect is missed, 4 where
evaluate.target is never reached, and 5 where no update counted in any round.`,
		Example: `  fedpace run
  fedpace run --config exp.yaml --set schedule.k=error --name error --tag paper
  fedpace run --set task=sent140 --dry-run
  fedpace run --set task=shakespeare --set train=false --set stop.equal_runtime_rounds=10000`,
		RunE: func(c *cobra.Command, _ []string) error {
			config, options, display, err := f.load(c, replay)
			if err != nil {
				return err
			}
			options.Replay = replay
			// To predict a run the external trainer must be started, and a command that only a file
			// names may be somebody else's.
			startsTrainer := config.External() && !f.givesTrainer()
			scripts := policies.Files(&config)
			if dry && !f.trust && (startsTrainer || len(scripts) > 0) {
				display.Close()
				// What a stranger's file names is shown, not executed.
				look := wouldStart{Configuration: config, Command: config.Trainer.Command, Policies: scripts}
				return cli.Print(c, look, look.write)
			}
			if dry {
				predicted, err := p.dryRun(c.Context(), config, options)
				display.Close()
				if err != nil {
					return cli.Interruption(c.Context(), err, "")
				}
				return cli.Print(c, predicted, predicted.Write)
			}
			return f.run(c, p, config, standardFolder(config, replay), options, display)
		},
	}
	f.flags.add(c)
	f.add(c)
	c.Flags().StringVar(&replay, "replay", "", "play the run in `DIR` again, into DIR-replay or --out")
	trustFlag(c, &f.trust)
	c.Flags().BoolVar(&dry, "dry-run", false, "only print the resolved configuration and what to expect")
	return c
}

// wouldStart is what a dry run prints if the configuration's file names a trainer's command.
// Nothing is executed then, so that looking at a file of somebody else is safe.
type wouldStart struct {
	// Configuration is the resolved one of the run.
	Configuration config.Config `json:"configuration"`
	// Command is the trainer's, which --trust would start.
	Command string `json:"would_start"`
	// Policies are the files in Python that --trust would execute.
	Policies []string `json:"would_execute,omitempty"`
}

// write prints to w the resolved configuration, the trainer's command and the policies that the run
// would execute.
func (s wouldStart) write(w io.Writer) error {
	var lines strings.Builder
	if s.Command != "" {
		fmt.Fprintf(&lines, "# This run would start the trainer %q.\n", s.Command)
	}
	for _, path := range s.Policies {
		fmt.Fprintf(&lines, "# This run would execute the policy %s.\n", names.Printable(path))
	}
	_, err := fmt.Fprintf(w, "%s\n%s"+
		"# Nothing was started, so the model's size and the run's time are not known: --trust starts it.\n",
		s.Configuration.YAML(), lines.String())
	return err
}

// givesTrainer reports whether the command line itself, and not a file, names the trainer's command.
func (f *runFlags) givesTrainer() bool {
	return f.trainer != "" || slices.ContainsFunc(f.sets, func(set string) bool {
		key, _, _ := strings.Cut(set, "=")
		return key == "trainer" || key == "trainer.command"
	})
}

// runFlags are the flags of commands that play a single run: run, coordinator and resume.
type runFlags struct {
	flags
	// server is an existing NATS server; without a URL the run's configuration decides.
	server natsconn.Config
	// keys is the folder of the keys; empty: this user's.
	keys string
	// trust lets the trainer's command of a folder's configuration be executed.
	trust bool
	// stream makes --json print a line for each round before the summary.
	stream bool
}

// add defines the flags of a single run on the command c.
func (f *runFlags) add(c *cobra.Command) {
	cli.AddServer(c, &f.server)
	c.Flags().StringVar(&f.keys, "keys", "", "folder of the keys (default this user's)")
	cli.JSONFlag(c, "")
	c.Flags().BoolVar(&f.stream, "stream", false, "with --json: a line for each round before it, as in rounds.csv")
}

// streamed returns the options o of the command c with a callback that prints each round as one
// JSON object, with the columns of rounds.csv.
func streamed(c *cobra.Command, o run.Options) run.Options {
	var columns table.Columns[*round.Report]
	// The metrics of the run are known when they are checked, before its first round.
	check := o.Check
	// The first name is the metric by which runs are compared. It stands again among those of the model's metrics,
	// which follow and have the columns.
	o.Check = func(loaded *config.Config, names []string) error {
		for _, m := range metrics.ColumnsOf(names[1:]...) {
			columns = append(
				columns,
				table.Column[*round.Report]{Name: m.Name, Of: func(r *round.Report) any { return m.Of(r) }},
			)
		}
		return check(loaded, names)
	}
	// A line that cannot be written fails the command at its end.
	o.Round = func(r *round.Report) { _ = cli.PrintJSON(c, columns.Objects([]*round.Report{r})[0]) }
	return o
}

// noReplay is the argument replay for a run that plays no other run again.
const noReplay = ""

// load returns the configuration of the run and its options. The configuration is that of the flags
// or, with a replay, that of the run in this folder, which is played again. display is never nil, also
// beside an error.
func (f *runFlags) load(
	c *cobra.Command,
	replay string,
) (loaded config.Config, o run.Options, display *cli.Display, err error) {
	f.sets = withServer(&f.server, f.sets)
	switch {
	case replay == "":
		loaded, err = f.flags.load(c)
	// A replay with another configuration would be another run.
	case len(f.config) > 0:
		err = cli.Usage(c, errors.New("--replay takes the configuration of the run that it plays again, not --config"))
	default:
		loaded, err = run.LoadReplay(replay, f.setsOf(c), f.trust)
	}
	display = cli.NewDisplay(c)
	return loaded, f.options(display), display, err
}

// options returns the options of the library for a single run with these flags. Progress and
// notices go to the display.
func (f *runFlags) options(display *cli.Display) run.Options {
	o := options(display, f.force)
	o.NATS = f.server
	o.Keys = f.keys
	o.Trust = f.trust
	// A minute lets Prometheus scrape the last values after the end.
	o.ScrapeGrace = time.Minute
	return o
}

// standardFolder returns the folder for the results of a run with configuration c if nothing names
// one: beside the run that is played again, if replay is the folder of one, else the one of the
// configuration's name.
func standardFolder(c config.Config, replay string) string {
	if replay != "" {
		return run.ReplayFolder(replay)
	}
	return config.OutFolder(c.Name)
}

// run plays the experiment of this configuration by p and prints its results. standard is the
// folder that the configuration has if nothing names one; a run in it gets a free folder of its
// own. o are the options. run closes the display.
func (f *runFlags) run(
	c *cobra.Command,
	p program,
	config config.Config,
	standard string,
	o run.Options,
	display *cli.Display,
) error {
	note, release, err := f.chooseFolder(c, &config, standard)
	if err != nil {
		return err
	}
	o.Check = noticeChecked(o.Check, note, display)
	// A folder that stayed empty is removed again.
	defer release()
	const nothingSaved = ""
	return f.play(c, nothingSaved, o, display, func(o run.Options) (run.Resumed, error) {
		summary, err := p.run(c.Context(), config, o)
		return run.Resumed{Config: config, Summary: summary}, err
	})
}

// noticeChecked returns a check of a run that calls check and, the first time that this succeeds, shows a note: in
// which folder the run's results go. A run whose data or settings are refused has no results, so it gets no such note.
// An empty note is not shown.
func noticeChecked(
	check func(*config.Config, []string) error,
	note string,
	display *cli.Display,
) func(*config.Config, []string) error {
	return func(c *config.Config, metrics []string) error {
		err := check(c, metrics)
		if err == nil && note != "" {
			display.Notice(note)
			note = ""
		}
		return err
	}
}

// play plays a run by calling the function play, which starts or resumes it, and prints the results, also of an
// interrupted run. savedIn is the folder that already holds part of the run, or empty for a new one. The error
// says how to go on, and what was expected and missed.
func (f *runFlags) play(
	c *cobra.Command,
	savedIn string,
	o run.Options,
	display *cli.Display,
	play func(run.Options) (run.Resumed, error),
) error {
	// A signal asks a run for a checkpoint while it is played.
	checkpoints, stop := checkpointSignals()
	defer stop()
	o.Checkpoint = checkpoints
	if f.stream && !cli.AsJSON(c) {
		return cli.Usage(c, errors.New("--stream goes with --json"))
	} else if f.stream {
		o = streamed(c, o)
	}
	r, err := play(o)
	display.Close()
	// A learning rate that is too large is the usual cause.
	if errors.Is(err, coordinator.ErrDiverged) {
		err = fmt.Errorf("%w (a lower schedule.eta0 may help)", err)
	}
	// Only a complete run can miss what is expected of it.
	var missed error
	if err == nil && r.Summary.Completed {
		missed = f.checkExpected(&r.Config, r.Config.Out, &r.Summary)
	}
	switch {
	// A resumed run that was complete before has nothing to do.
	case r.Complete && cli.AsJSON(c):
		return errors.Join(cli.PrintJSON(c, reported{r.Summary, savedIn}), missed)
	case r.Complete && cli.Quiet(c):
		return missed
	case r.Complete:
		_, err = fmt.Fprintf(
			c.OutOrStdout(),
			"%s holds a complete run: %d rounds, nothing to do.\n",
			names.Printable(savedIn),
			r.Summary.Rounds,
		)
		return errors.Join(err, missed)
	// A summary with a version means that the run left results in its folder.
	case savedIn == "" && r.Summary.Version != "":
		savedIn = r.Config.Out
	}
	// The user learns how to go on with what was saved.
	if savedIn != "" {
		savedIn = o.NextStep(savedIn)
	}
	return errors.Join(cli.Interruption(c.Context(), err, savedIn), printSummary(c, r.Config, r.Summary, err), missed)
}
