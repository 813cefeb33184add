package cmd

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/metrics/figure"
)

func predictCommand(p program) *cobra.Command {
	var f predictFlags
	c := &cobra.Command{
		Use:   "predict [DIR]",
		Short: "Predict a run with real devices, or compare what one took with its prediction",
		Long: `Predict the run in a folder by its twin, the same run with a simulated client of
its class in place of each real device, and compare: the time of the run, each
round, each phase, each device. Every run whose devices have classes ends with
this comparison (prediction.csv, summary.json); the command makes it again.

Intervals hold 90 % of the draws. A draw has each device somewhere within its class's
uncertainty for the whole run, and its tasks vary as the class says; what the class
gives as first_task is in the first task of each device.

With --config another fleet is tried, such as one that fedpace fit has made.

Without a folder the run that --config and --set describe is predicted, before it
is run. What K_r follows is not known then: where losses decide, it stays at K_0.`,
		Example: `  fedpace predict --config exp.yaml
  fedpace predict runs/pis
  fedpace predict runs/pis --config fleet.yaml --figure pis.svg
  fedpace predict runs/pis --json | jq .rounds_inside`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.OneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			if f.figure != "" {
				if _, err := figure.Format(f.figure); err != nil {
					return cli.Usage(c, fmt.Errorf("--figure %w", err))
				}
			}
			show := cli.NewDisplay(c)
			o := run.Options{Version: cli.Version(), Shown: run.Shown{Notice: show.Notice}, Again: run.Again{Trust: f.trust}}
			dir := strings.Join(args, "") // at most one
			found, err := p.predict(c.Context(), dir, f.config, f.sets, o)
			show.Close()
			if err != nil {
				return cli.Interruption(c.Context(), err, "")
			}
			return f.write(c, cmp.Or(dir, "the run"), found)
		},
	}
	f.add(c, "YAML `FILE` of the run, or with another fleet; may be repeated", "set `KEY=VALUE` of the run's configuration; may be repeated")
	s := c.Flags()
	s.StringVar(&f.csv, "csv", "", "write the table by round to a file, - for standard output")
	s.StringVar(&f.figure, "figure", "", "draw the rounds, as .svg or .png")
	trustFlag(c, &f.trust)
	cli.JSONFlag(c, "the comparison, as in summary.json")
	return c
}

type predictFlags struct {
	configFlags
	csv, figure string
	trust       bool
}

// write prints a comparison and writes what else the flags ask for.
func (f *predictFlags) write(c *cobra.Command, of string, found *forecast.Comparison) error {
	if f.csv != "" {
		if err := writeFile(c, f.csv, found.WriteCSV); err != nil || f.csv == "-" {
			return err
		}
	}
	if f.figure != "" {
		if err := figure.Save(f.figure, forecast.Panel(of+": how long rounds take", found.Rows)); err != nil {
			return err
		}
	}
	return cli.Print(c, found.Prediction, found.Write)
}
