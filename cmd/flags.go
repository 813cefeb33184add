package cmd

import (
	"errors"
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
	"fedpace/experiment/run"
	"fedpace/internal/names"
	"fedpace/study"
)

// scheduleFlag lists schedules, of which some may be one's own.
type scheduleFlag struct {
	list  []string
	given bool
}

const schedulesUsage = "`SCHEDULES` to run, separated by commas: names, or one's own as 'mine=max(5,k0/(1+t/5))' " +
	"or 'mine={k: {power: 1/2}, eta0: 0.1}'"

const controlsUsage = "play controls of each schedule whose K decays, too: a constant K of as much work, and its K " +
	"reversed and shuffled"

// add defines --schedules. standard is the list without the flag, and more ends the flag's
// help.
func (f *scheduleFlag) add(c *cobra.Command, standard []string, more string) {
	f.list = standard
	c.Flags().Var(f, "schedules", schedulesUsage+more)
	cli.Complete(c, "schedules", scheduleList)
}

// String implements [pflag.Value]: the schedules with commas between them.
func (f *scheduleFlag) String() string { return strings.Join(f.list, ",") }

// Type names the flag's type in help, as pflag asks.
func (f *scheduleFlag) Type() string { return "strings" }

// Set takes one --schedules. The first replaces the standard list; each further one adds to
// it.
func (f *scheduleFlag) Set(text string) error {
	list, err := study.Split(text)
	if err != nil {
		return err
	}
	if f.given {
		list = append(f.list, list...)
	}
	f.list = list
	f.given = true
	return nil
}

// check finds schedules that are none, and a --set that they override.
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
	// Files.
	config []string
	sets   []string
}

// add defines --config and --set, and refuses a --set without a key.
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

// flags are those that run and compare share.
type flags struct {
	configFlags
	outDir string
	name   string
	tags   []string
	expect []string
	// trainer is the command of an external one.
	trainer string
	force   bool
	// Configurations for tables without one, by their paths.
	guesses map[string][]byte
}

// add defines the flags that every command has which plays runs.
func (f *flags) add(c *cobra.Command) {
	f.configFlags.add(c)
	s := c.Flags()
	s.StringVarP(
		&f.outDir,
		"out",
		"o",
		"",
		"`DIR` for the results, as --set out= (default runs/NAME, followed by -compare, -tune or -plan)",
	)
	s.StringVar(&f.name, "name", "", "`NAME` of the run, as --set name=")
	s.StringArrayVar(&f.tags, "tag", nil, "`TAG` by which ls and ui find the run; may be repeated")
	s.StringArrayVar(&f.expect, "expect", nil, expectUsage)
	s.StringVar(&f.trainer, "trainer", "", cli.TrainerUsage)
	s.BoolVar(&f.force, "force", false, "replace what the folder holds")
	cli.Check(c, "name", names.CheckName)
	cli.Check(c, "tag", names.CheckTag)
	cli.QuietFlag(c)
}

const maxSeeds = 1000

const seedsUsage = "seeds that each is run with, for means with 95% confidence intervals"

const expectUsage = "what must hold in the end, an `EXPRESSION` as 'tail_accuracy >= 0.75'; may be repeated"

// load makes the configuration that the flags ask for.
func (f *flags) load(c *cobra.Command) (config.Config, error) {
	loaded, err := f.read(c)
	if err == nil {
		err = cli.Usage(c, study.CheckExpected(&loaded, nil, 0))
	}
	return loaded, err
}

// ownTable is a table of one's own that is all that the sets say of task and data; "": none.
func ownTable(sets []string) (path string, remaining []string) {
	for _, set := range sets {
		switch key, value, _ := strings.Cut(set, "="); {
		case key == "task", strings.HasPrefix(key, "data."):
			return "", nil
		case key == "data" && value != config.TrainerData && data.IsTable(value):
			path = value
		default:
			remaining = append(remaining, set)
		}
	}
	return path, remaining
}

// read makes the configuration of the files and sets, with more sets. A table without a
// configuration has that which init would write.
func (f *flags) read(c *cobra.Command, more ...string) (config.Config, error) {
	sets := slices.Concat(f.setsOf(c), more)
	table, remaining := ownTable(sets)
	if table == "" || len(f.config) > 0 {
		return config.LoadFiles(f.config, sets)
	}
	guess := f.guesses[table]
	if guess == nil {
		instead := ""
		if slices.ContainsFunc(sets, func(set string) bool { return strings.HasPrefix(set, "trainer") }) {
			instead = "# the trainer"
		}
		p, err := dataset.Propose(table, "", instead, federated.Options{Seed: 1})
		if err != nil {
			return config.Config{}, err
		}
		if f.guesses == nil {
			f.guesses = map[string][]byte{}
		}
		guess = []byte(p.Text)
		f.guesses[table] = guess
		if !cli.Quiet(c) {
			fmt.Fprintf(
				c.ErrOrStderr(),
				"%s: what its columns mean, and what else is not set, is guessed: fedpace init %s writes it down.\n",
				table,
				table,
			)
		}
	}
	return config.Parse("guess for "+table, guess, remaining...)
}

// missed holds a complete run against what is expected of it, by the command or else by its
// configuration, and against evaluate.target.
func (f *flags) missed(c *config.Config, dir string, s *folder.Summary) error {
	expected := f.expect
	if expected == nil {
		expected = c.Expect
	}
	if len(expected) > 0 {
		if err := study.ExpectedOf(expected, dir, s); err != nil {
			return err
		}
	}
	if err := expect.Missed(s.Expected); err != nil {
		return cli.StatusError{Status: cli.ExitMissed, Problem: err}
	}
	if s.NoUpdates() {
		return cli.StatusError{
			Status: cli.ExitNoUpdates,
			Problem: errors.New(
				"no update counted in any round, so nothing was learned (give clients more time by close or stop, " +
					"or lower schedule.k0)",
			),
		}
	}
	if t := c.Evaluate.Target; t != nil && s.TimeToTarget == nil {
		return cli.StatusError{
			Status:  cli.ExitNotReached,
			Problem: fmt.Errorf("evaluate.target: %g was never reached", *t),
		}
	}
	return nil
}

// setsOf are the keys that the flags set.
func (f *flags) setsOf(c *cobra.Command) []string {
	sets := slices.Clone(f.sets)
	quoted := func(list []string) string { return "[" + strings.Join(names.Of(list, strconv.Quote), ", ") + "]" }
	for _, flag := range []struct{ name, set string }{
		{"out", "out=" + f.outDir}, {"name", fmt.Sprintf("name=%q", f.name)}, {"trainer", fmt.Sprintf("trainer.command=%q", f.trainer)},
		{"tag", "tags=" + quoted(f.tags)}, {"expect", "expect=" + quoted(f.expect)},
	} {
		if c.Flags().Changed(flag.name) {
			sets = append(sets, flag.set)
		}
	}
	return sets
}

// toldOut reports whether a flag names the folder of the results.
func (f *flags) toldOut(c *cobra.Command) bool {
	return c.Flags().Changed("out") ||
		slices.ContainsFunc(f.sets, func(set string) bool { return strings.HasPrefix(set, "out=") })
}

// settle gives a run that was told no folder one of its own: the first of DIR, DIR-2,
// DIR-3, ... that is not there, for DIR as in its configuration. release removes it again
// if nothing has come into it.
func (f *flags) settle(
	c *cobra.Command,
	loaded *config.Config,
	standard string,
	show *cli.Display,
) (release func(), err error) {
	if f.force || loaded.Out != standard || f.toldOut(c) {
		return func() {}, nil
	}
	_ = c.Context().Done() // from here on the command heeds signals: it removes the folder when one comes
	dir, before, release, err := folder.Claim(loaded.Out)
	if err != nil {
		return release, err
	}
	if before != "" && folder.HoldsRun(before) == nil {
		held := folder.Inspect(before)
		show.Notice(fmt.Sprintf("%s: this run goes to %s.", held.Sentence(), dir))
	}
	loaded.Out = dir
	return release, nil
}

// options are how the library is to do runs; force replaces those that their folders hold.
func options(show *cli.Display, force bool) run.Options {
	reading := new(federated.Reading)
	show.Watch(cli.ReadingStatus(reading.State))
	last := new(lastProgress)
	show.Watch(last.status)
	return run.Options{
		Version: cli.Version(),
		Force:   force,
		Check:   func(c *config.Config, metrics []string) error { return study.CheckExpected(c, nil, 0, metrics...) },
		Callbacks: run.Callbacks{Reading: reading, Notice: show.Notice, Progress: func(p run.Progress) {
			last.set(p)
			show.Show(statusOf(p))
		}},
	}
}

// study are the options of many runs. With a server, hosts in other processes do
// the work.
func (f *flags) study(show *cli.Display, server natsconn.Config) study.Options {
	o := study.Options{Run: options(show, f.force)}
	o.Run.NATS = server
	return o
}

// intoConfig makes the server of the flags the configuration's, without its password,
// which nobody should read in the results.
func intoConfig(f *natsconn.Config, sets []string) []string {
	if f.URL == "" {
		return sets
	}
	return append(sets[:len(sets):len(sets)], fmt.Sprintf("nats.url=%q", names.Redacted(f.URL)))
}
