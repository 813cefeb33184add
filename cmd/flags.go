package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/config"
	"fedpace/experiment/run"
	"fedpace/experiment/study"
	"fedpace/internal/names"
)

// flags are those that run and compare share.
type flags struct {
	config []string // files
	sets   []string
	out    string
	// trainer is the command of an external one.
	trainer string
	force   bool
	quiet   bool
	json    bool
}

func (f *flags) add(c *cobra.Command) {
	s := c.Flags()
	s.StringArrayVar(&f.config, "config", nil, "YAML `FILE` to read, later ones over earlier ones; without any the demonstration is the base")
	s.StringArrayVar(&f.sets, "set", nil, "set `KEY=VALUE`, as in schedule.k=error; may be repeated (keys: fedpace help configuration)")
	s.StringVar(&f.out, "out", "", "`DIR` for the results; the same as --set out=")
	s.StringVar(&f.trainer, "trainer", "", trainerUsage)
	s.BoolVar(&f.force, "force", false, "replace the run that the folder holds")
	s.BoolVar(&f.quiet, "quiet", false, "no progress and no closing summary")
	cli.Complete(c, "config", cli.FilesOf("yaml", "yml"))
	cli.Complete(c, "set", assignments)
	cli.Complete(c, "out", cli.Folders)
}

// trainerUsage explains the flag of those who run a trainer.
const trainerUsage = "`COMMAND` of a program that takes the local steps, such as 'python3 my_model.py' (docs/trainers.md)"

// load makes the configuration that the flags ask for.
func (f *flags) load(c *cobra.Command) (config.Config, error) {
	if err := f.checkSets("schedule.k=error"); err != nil {
		return config.Config{}, cli.Usage(c, err)
	}
	return config.LoadFiles(f.config, f.setsOf(c))
}

// checkSets finds a --set that is no key=value, such as the example.
func (f *flags) checkSets(example string) error {
	for _, s := range f.sets {
		if key, _, ok := strings.Cut(s, "="); !ok || key == "" {
			return fmt.Errorf("--set %q: want key=value, e.g. %s", s, example)
		}
	}
	return nil
}

// setsOf are the keys that the flags set.
func (f *flags) setsOf(c *cobra.Command) []string {
	sets := f.sets
	if c.Flags().Changed("out") {
		sets = append(sets[:len(sets):len(sets)], "out="+f.out)
	}
	if c.Flags().Changed("trainer") {
		sets = append(sets[:len(sets):len(sets)], fmt.Sprintf("trainer.command=%q", f.trainer))
	}
	return sets
}

// options are how the library is to do what the flags ask for.
func (f *flags) options(show *cli.Display) run.Options {
	return run.Options{Version: cli.Version(), Force: f.force, Progress: func(p run.Progress) { show.Show(statusOf(p)) }, Notice: show.Notice}
}

// study are the options of many runs. With a server, hosts in other processes do
// the work.
func (f *flags) study(show *cli.Display, server *cli.Connection) study.Options {
	o := study.Options{Run: f.options(show)}
	o.Run.NATS = remote(server)
	return o
}

// remote is a connection to a server of another process.
func remote(f *cli.Connection) run.Connection {
	return run.Connection{URL: f.URL, Creds: f.Creds, TLS: f.TLS}
}

// intoConfig checks the flags and makes their server the configuration's, without
// its password, which nobody should read in the results.
func intoConfig(f *cli.Connection, c *cobra.Command, sets []string) ([]string, error) {
	if f.URL != "" {
		sets = append(sets[:len(sets):len(sets)], fmt.Sprintf("nats.url=%q", names.Redacted(f.URL)))
	}
	return sets, f.Check(c)
}
