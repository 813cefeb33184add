package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/bus/natsconn"
	"fedpace/cmd/internal/cli"
	"fedpace/cmd/internal/dataset"
	"fedpace/config"
	"fedpace/config/expect"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/internal/names"
	"fedpace/study"
	"fedpace/study/choice"
)

// scheduleFlag is the value of --schedules: a list of schedules, by their names or written out as
// formulas or mappings.
type scheduleFlag struct {
	// list holds the schedules to run; it begins as the standard list.
	list []string
	// given says that the flag occurred, so that further ones add to the list.
	given bool
}

// schedulesUsage is the help of --schedules.
const schedulesUsage = "`SCHEDULES` to run, separated by commas: names, or formulas as 'mine=max(5,k0/(1+t/5))'"

// controlsUsage is the help of --controls.
const controlsUsage = "also run controls of decaying schedules: a constant K of as much work, and K reversed " +
	"and shuffled"

// add defines --schedules on the command c. standard is the list without the flag; nil lets the
// command choose. more ends the flag's help.
func (f *scheduleFlag) add(c *cobra.Command, standard []string, more string) {
	f.list = standard
	c.Flags().Var(f, "schedules", schedulesUsage+more)
	cli.Complete(c, "schedules", scheduleList)
}

// String implements [pflag.Value]: the schedules with commas between them.
func (f *scheduleFlag) String() string { return strings.Join(f.list, ",") }

// Type names the flag's type in help, as pflag asks.
func (f *scheduleFlag) Type() string { return "strings" }

// Set takes the text of one --schedules, a list with commas. The first replaces the standard list;
// each further one adds to it.
func (f *scheduleFlag) Set(text string) error {
	list, err := study.Split(text)
	if err != nil {
		return err
	}
	// The standard list is dropped as soon as the user gives one.
	if f.given {
		list = append(f.list, list...)
	}
	f.list = list
	f.given = true
	return nil
}

// check returns an error for a text that is no schedule, and for a --set of a schedule that the
// list would replace. base is the configuration's own schedule, whose options the listed ones start
// from.
func (f *scheduleFlag) check(sets []string, base config.Schedule) error {
	for _, text := range f.list {
		if _, err := base.Named(text); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	return study.Overridden(sets, f.list, base)
}

// configFlags are --config and --set, which together give a configuration: files first, in
// their order, then single keys.
type configFlags struct {
	// config lists the configuration files, in the order in which they apply.
	config []string
	// sets lists single keys as KEY=VALUE; they apply after the files.
	sets []string
}

// add defines --config and --set on the command c, and refuses a --set without a key. Their values
// go to f.
func (f *configFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.config, "config", nil, cli.ConfigUsage)
	c.Flags().StringArrayVar(
		&f.sets,
		"set",
		nil,
		"set `KEY=VALUE`, as in schedule.k=error; may be repeated (keys: fedpace help configuration)",
	)
	cli.Check(c, "set", func(text string) error {
		if key, _, ok := strings.Cut(text, "="); !ok || key == "" {
			return fmt.Errorf("%q: want key=value, e.g. schedule.k=error", text)
		}
		return nil
	})
	cli.Complete(c, "set", assignments)
}

// flags are the flags that the commands run, coordinator, compare, tune and plan share.
type flags struct {
	configFlags
	// outDir is the folder of the results; empty unless --out is given.
	outDir string
	// name is the run's name.
	name string
	// tags are words by which ls and ui find the run.
	tags []string
	// expect holds what must be true of the results in the end; nil: the configuration's.
	expect []string
	// trainer is the command line of an external trainer; empty: none is given.
	trainer string
	// force lets a run replace what its folder holds.
	force bool
	// proposals caches proposed configurations for tables that have none, by the path of the table.
	proposals map[string][]byte
}

// add defines the flags on the command c that every command has which plays runs: those of the
// configuration, the folder, the name, the tags, the expectations and the trainer.
func (f *flags) add(c *cobra.Command) {
	f.configFlags.add(c)
	s := c.Flags()
	s.StringVarP(
		&f.outDir,
		"out",
		"o",
		"",
		"`DIR` for the results (default runs/NAME, followed by -compare, -tune or -plan)",
	)
	s.StringVar(&f.name, "name", "", "`NAME` of the run")
	s.StringArrayVar(&f.tags, "tag", nil, "`TAG` by which ls and ui find the run; may be repeated")
	s.StringArrayVar(&f.expect, "expect", nil, expectUsage)
	s.StringVar(&f.trainer, "trainer", "", cli.TrainerUsage)
	s.BoolVar(&f.force, "force", false, "replace what the folder holds")
	// Names and tags are checked when they are read, since folders and pages use them.
	cli.Check(c, "name", names.CheckName)
	cli.Check(c, "tag", names.CheckTag)
	cli.QuietFlag(c)
}

// maxSeeds bounds --seeds of every study.
const maxSeeds = 1000

// seedsUsage is the help of --seeds.
const seedsUsage = "seeds of each, for means with 95% confidence intervals"

// expectUsage is the help of --expect.
const expectUsage = "`EXPRESSION` that must hold in the end, as 'tail_accuracy >= 0.75'; may be repeated"

// load returns the configuration that the flags of the command c ask for. An expectation that
// cannot be evaluated for it is an error of usage, so that it is found before the run.
func (f *flags) load(c *cobra.Command) (config.Config, error) {
	loaded, err := f.read(c)
	if err == nil {
		err = cli.Usage(c, study.CheckExpected(&loaded, nil, 0))
	}
	return loaded, err
}

// tableWithoutConfig returns the path of the user's own table if --set data=TABLE or data.path=TABLE, perhaps
// with data.decimal, is all that the sets say of task and data, and the sets without the path. Otherwise the
// path is empty, and the sets must be used as they are.
func tableWithoutConfig(sets []string) (path string, remaining []string) {
	for _, set := range sets {
		// The decimal sign says nothing of what columns mean.
		if strings.HasPrefix(set, "data.decimal=") {
			remaining = append(remaining, set)
			continue
		}
		// Only the keys of task and data decide whether something is guessed.
		key, value, _ := strings.Cut(set, "=")
		namesData := key == "data" || key == "data.path"
		switch {
		case namesData && value != config.TrainerData && data.IsTable(value):
			path = value
		// An explicit task or option of the data describes the table already: nothing is to be
		// guessed.
		case key == "task", strings.HasPrefix(key, "data."):
			return "", nil
		default:
			remaining = append(remaining, set)
		}
	}
	return path, remaining
}

// read makes the configuration of the files, the flags' sets and more sets behind them. A table of
// the user's own that has no configuration gets the one that fedpace init would propose; the
// proposal is made once for each table, and a notice says so.
func (f *flags) read(c *cobra.Command, more ...string) (config.Config, error) {
	sets := slices.Concat(f.setsOf(c), more)
	table, remaining := tableWithoutConfig(sets)
	// With a configuration, nothing is guessed.
	if table == "" || len(f.config) > 0 {
		return config.LoadFiles(f.config, sets)
	}
	proposal := f.proposals[table]
	// A study reads its configuration once for each setting, so the guess is kept.
	if proposal == nil {
		// An external trainer takes the place of the proposed model.
		modelLine := ""
		if slices.ContainsFunc(sets, func(set string) bool { return strings.HasPrefix(set, "trainer") }) {
			modelLine = "# the trainer"
		}
		proposed, err := dataset.Propose(table, dataset.Named{}, modelLine, federated.Options{Seed: 1})
		if err != nil {
			return config.Config{}, err
		}
		if f.proposals == nil {
			f.proposals = map[string][]byte{}
		}
		proposal = []byte(proposed.Text)
		f.proposals[table] = proposal
		if !cli.Quiet(c) {
			fmt.Fprintf(
				c.ErrOrStderr(),
				"%s: what its columns mean, and what else is not set, is guessed: fedpace init %s writes it down.\n",
				table,
				table,
			)
		}
	}
	return config.Parse("guess for "+table, proposal, remaining...)
}

// checkExpected compares the summary of a complete run with what is expected of it, by --expect or else by
// the configuration, and with evaluate.target. It returns an error that carries the exit status of
// the first one missed, or nil. dir is the run's folder.
func (f *flags) checkExpected(c *config.Config, dir string, s *folder.Summary) error {
	expected := f.expect
	if expected == nil {
		expected = c.Expect
	}
	// The expectations of the flags replace those that the summary has.
	if len(expected) > 0 {
		if err := study.ExpectedOf(expected, dir, s); err != nil {
			return err
		}
	}
	if err := expect.Missed(s.Expected); err != nil {
		return cli.StatusError{Status: cli.ExitMissed, Problem: err}
	}
	// A run without a single update is a failure even where nothing was expected.
	if s.NoUpdates() {
		return cli.StatusError{
			Status: cli.ExitNoUpdates,
			Problem: fmt.Errorf("no update counted in any round, so nothing was learned (%s)",
				forecast.MoreUpdatesAfter(s.Outcomes)),
		}
	}
	// A target that was not reached has a status of its own.
	if t := c.Evaluate.Target; t != nil && s.TimeToTarget == nil {
		return cli.StatusError{
			Status:  cli.ExitNotReached,
			Problem: fmt.Errorf("evaluate.target: %g was never reached", *t),
		}
	}
	return nil
}

// setsOf returns the flags' sets, with those flags added that stand for a key, such as --name. The
// latter come last, so they win over a --set of the same key.
func (f *flags) setsOf(c *cobra.Command) []string {
	sets := slices.Clone(f.sets)
	// quoted returns texts as a list in YAML.
	quoted := func(list []string) string { return "[" + strings.Join(names.Of(list, strconv.Quote), ", ") + "]" }
	for _, flag := range []struct{ name, set string }{
		{"out", "out=" + f.outDir},
		{"name", fmt.Sprintf("name=%q", f.name)},
		{"trainer", fmt.Sprintf("trainer.command=%q", f.trainer)},
		{"tag", "tags=" + quoted(f.tags)},
		{"expect", "expect=" + quoted(f.expect)},
	} {
		// Only flags that were given count, since an empty default would erase a file's value.
		if c.Flags().Changed(flag.name) {
			sets = append(sets, flag.set)
		}
	}
	return sets
}

// namesOut reports whether a flag, --out or --set out=DIR, names the folder of the results.
func (f *flags) namesOut(c *cobra.Command) bool {
	return c.Flags().Changed("out") ||
		slices.ContainsFunc(f.sets, func(set string) bool { return strings.HasPrefix(set, "out=") })
}

// chooseFolder chooses the folder of a run for which no flag and no configuration names one: the
// first of DIR, DIR-2, DIR-3, ... that does not exist, where DIR is standard. It makes the folder
// and puts its path into loaded.Out. note says that the run does not go where the one before went; it is
// empty if there was none. release, which is never nil, removes the folder again if it has stayed empty.
func (f *flags) chooseFolder(
	c *cobra.Command,
	loaded *config.Config,
	standard string,
) (note string, release func(), err error) {
	// A folder that was asked for is used as it is.
	if f.force || loaded.Out != standard || f.namesOut(c) {
		return "", func() {}, nil
	}
	// Done tells cli.Main that this command looks for signals. So a signal does not end the process at once, and
	// release can still remove an empty folder.
	_ = c.Context().Done()
	dir, before, release, err := folder.Claim(loaded.Out)
	if err != nil {
		return "", release, err
	}
	// The user may look for the results in the folder of the run before.
	if before != "" && folder.HoldsRun(before) == nil {
		held := folder.Inspect(before)
		note = fmt.Sprintf("%s: this run goes to %s.", held.Sentence(), dir)
	}
	loaded.Out = dir
	return note, release, nil
}

// options returns the options of runs that report their progress to the display. With force, a run
// replaces what its folder holds.
func options(display *cli.Display, force bool) run.Options {
	// The display asks by itself for the progress of reading data and of a silent round.
	reading := new(federated.Reading)
	display.Watch(cli.ReadingStatus(reading.State))
	last := new(lastProgress)
	display.Watch(last.status)
	return run.Options{
		Version: cli.Version(),
		Force:   force,
		// Names in expectations are checked once the metrics of the run are known. A single run has no schedules
		// to compare over seeds.
		Check: func(c *config.Config, metrics []string) error { return study.CheckExpected(c, nil, 0, metrics...) },
		Callbacks: run.Callbacks{Reading: reading, Notice: display.Notice, Progress: func(p run.Progress) {
			last.set(p)
			display.Show(statusOf(p))
		}},
	}
}

// studyOptions returns the options of a study. Where server has a URL, hosts in other processes do the
// work.
func (f *flags) studyOptions(display *cli.Display, server natsconn.Config) study.Options {
	o := study.Options{Run: options(display, f.force)}
	o.Run.NATS = server
	return o
}

// withServer adds the server of the flags to the sets as nats.url, so that the run's configuration
// names it. The password is left out, since results may be shown to others. The list that is passed
// is never changed.
func withServer(f *natsconn.Config, sets []string) []string {
	if f.URL == "" {
		return sets
	}
	// The bounded capacity makes append copy the list.
	return append(sets[:len(sets):len(sets)], fmt.Sprintf("nats.url=%q", names.Redacted(f.URL)))
}

// addSearch adds the flags of a search among settings: how many seeds it may take, and how many confirm it.
func addSearch(c *cobra.Command, limits *choice.Limits) {
	s := c.Flags()
	s.IntVar(&limits.MaxSeeds, "most-seeds", 12, "maximum seeds of settings that are not distinguished")
	s.IntVar(&limits.Fresh, "fresh", 5, "fresh seeds that confirm the choice; 0: none")
	cli.InRange(c, "most-seeds", 1, maxSeeds)
	cli.InRange(c, "fresh", 0, maxSeeds)
}
