package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
)

// A kind is a run that is measured, with what watching it may cost.
type kind struct {
	name  string
	sets  []string
	limit float64 // part of the processor time
}

// kinds are sized for some ten seconds each on two cores, so that starting and
// the last page weigh what they weigh in a run of its kind.
var kinds = []kind{
	{"training", []string{"stop.rounds=60", "clients=500", "cohort=30", "schedule.k0=40", "schedule.k=fixed", "evaluate.every=10"}, 0.03},
	{"timing only", []string{"train=false", "stop.rounds=40000", "clients=10000", "cohort=60", "schedule.k=fixed"}, 0.10},
}

// memoryLimit is how much more memory a run may take for being watched.
const memoryLimit = 64 << 20

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, told io.Writer) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	flags.SetOutput(told)
	pairs := flags.Int("pairs", 7, "pairs of each kind of run")
	binary := flags.String("binary", "", "fedpace to measure; without it the one of this module is built")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *pairs < 1 || flags.NArg() > 0 {
		return errors.New("only flags are taken, and --pairs is at least 1")
	}
	dir, err := os.MkdirTemp("", "fedpace-watch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *binary == "" {
		*binary = filepath.Join(dir, "fedpace")
		if text, err := exec.CommandContext(ctx, "go", "build", "-o", *binary, "fedpace/cmd/fedpace").CombinedOutput(); err != nil {
			return fmt.Errorf("building fedpace: %w\n%s", err, text)
		}
	}
	var all []comparison
	for _, k := range kinds {
		c := comparison{kind: k}
		for i := range *pairs {
			if err := c.pair(ctx, *binary, dir, i%2 == 1); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			last := c.watched[i]
			fmt.Fprintf(told, "%s, pair %d of %d: %.2f s watched, %.2f s not; %d scrapes, %d frames\n",
				k.name, i+1, *pairs, last.cpu, c.alone[i].cpu, last.scrapes, last.frames)
		}
		all = append(all, c)
	}
	return report(out, all)
}

// report prints the medians, and fails where one is over its limit.
func report(out io.Writer, all []comparison) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "run\tCPU s watched\tnot\tcost\tlimit\twall s watched\tnot\tpeak MB watched\tnot\t")
	var problems []error
	for _, c := range all {
		on, off := c.medians()
		cost := on.cpu/off.cpu - 1
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.1f %%\t%.0f %%\t%.2f\t%.2f\t%.0f\t%.0f\t\n", c.kind.name,
			on.cpu, off.cpu, 100*cost, 100*c.kind.limit, on.wall, off.wall, on.memory/1e6, off.memory/1e6)
		if cost > c.kind.limit {
			problems = append(problems, fmt.Errorf("%s: watching costs %.1f %% of the processor time, the limit is %.0f %%", c.kind.name, 100*cost, 100*c.kind.limit))
		}
		if more := on.memory - off.memory; more > memoryLimit {
			problems = append(problems, fmt.Errorf("%s: watching takes %.0f MB more, the limit is %.0f", c.kind.name, more/1e6, float64(memoryLimit)/1e6))
		}
	}
	return errors.Join(append(problems, t.Flush())...)
}
