package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/experiment/run"
	"fedpace/study"
)

// Exit statuses, as those of fedpace.
const (
	failed     = 1
	wrongUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "theory:", err)
		if errors.Is(err, errUsage) {
			os.Exit(wrongUsage)
		}
		os.Exit(failed)
	}
}

// errUsage marks an error in the command line.
var errUsage = errors.New("see go run ./examples/theory --help")

// command runs the program with the arguments behind its name. It prints the result to stdout, and to
// stderr a line for each run that ends.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var configs []string
	var sets []string
	var force bool
	var asJSON bool
	// The defaults compare all schedules with enough seeds for an interval.
	plan := Plan{Schedules: Schedules, Seeds: 5, Folder: "runs/theory"}
	flags := flag.NewFlagSet("theory", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Func("config", "configuration `FILE`; may be repeated", func(text string) error {
		configs = append(configs, text)
		return nil
	})
	flags.Func("set", "set `KEY=VALUE`, as in schedule.eta0=0.005; may be repeated", func(text string) error {
		sets = append(sets, text)
		return nil
	})
	flags.Func("schedules", "`LIST` of schedules, separated by commas", func(text string) (err error) {
		plan.Schedules, err = study.Split(text)
		return err
	})
	flags.IntVar(&plan.Seeds, "seeds", plan.Seeds, "`NUMBER` of seeds of each schedule")
	flags.StringVar(&plan.Folder, "out", plan.Folder, "`DIR` for tables, CSV files, figures and runs")
	flags.BoolVar(&force, "force", false, "replace what the folder holds")
	flags.BoolVar(&asJSON, "json", false, "print the result as JSON")
	err := flags.Parse(args)
	// The flag package has printed the help already.
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w (%w)", err, errUsage)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag (%w)", flags.Arg(0), errUsage)
	}
	if plan.Seeds < 1 {
		return fmt.Errorf("--seeds is %d, want at least 1 (%w)", plan.Seeds, errUsage)
	}
	plan.Config, err = load(configs, sets)
	if err != nil {
		return err
	}
	// A schedule that --set chooses would be replaced by those of the list.
	if err := study.Overridden(sets, plan.Schedules, plan.Config.Schedule); err != nil {
		return fmt.Errorf("%w (%w)", err, errUsage)
	}
	notice := func(line string) { fmt.Fprintln(stderr, line) }
	result, err := plan.Run(ctx, study.Options{Run: run.Options{Force: force,
		Callbacks: run.Callbacks{Notice: notice}}})
	// Complete runs are kept, so the user needs to know only how to go on.
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted: the same command continues")
	}
	if err != nil {
		return err
	}
	if err := result.Save(plan.Folder); err != nil {
		return err
	}
	if asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	if err := result.Write(stdout); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nTables, curves and figures: %s\n", plan.Folder)
	return nil
}

// load reads the configuration of the runs. Its task is quadratic unless a file or a set names another.
func load(configs, sets []string) (config.Config, error) {
	namesTask := slices.ContainsFunc(sets, func(s string) bool { return strings.HasPrefix(s, "task=") })
	if len(configs) == 0 && !namesTask {
		sets = append([]string{"task=" + string(config.TaskQuadratic)}, sets...)
	}
	return config.LoadFiles(configs, sets)
}
