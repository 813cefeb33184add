package cmd

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/metrics/figure"
)

// predictCommand makes "fedpace predict", which predicts a run with real devices. With the folder
// of a finished run as its argument, it compares the prediction with what was measured. p predicts.
func predictCommand(p program) *cobra.Command {
	var f predictFlags
	c := &cobra.Command{
		Use:   "predict [DIR]",
		Short: "Predict a run with real devices, or compare what one took with its prediction",
		Long: `Compare the time of a run, each round, phase and device with a prediction: a
simulation with a client of its class in place of each real device. --config
tries another fleet. Intervals hold 90 % of the draws.

Without a folder the run of --config and --set is predicted; where K_r follows
losses, it stays at K_0.`,
		Example: `  fedpace predict --config exp.yaml
  fedpace predict runs/pis
  fedpace predict runs/pis --config fleet.yaml --figure pis.svg
  fedpace predict runs/pis --json | jq .rounds_inside`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			// Notices appear beside the progress, and results only after the display is closed.
			display := cli.NewDisplay(c)
			o := run.Options{
				Version:      cli.Version(),
				Callbacks:    run.Callbacks{Notice: display.Notice},
				Continuation: run.Continuation{Trust: f.trust},
			}
			// The command takes at most one folder; without it the flags describe the run.
			dir := strings.Join(args, "")
			found, err := p.predict(c.Context(), dir, f.config, f.sets, o)
			display.Close()
			if err != nil {
				return cli.Interruption(c.Context(), err, "")
			}
			// Without a folder, the figure is about "the run" of the flags.
			return f.write(c, cmp.Or(dir, "the run"), found)
		},
	}
	f.add(c)
	s := c.Flags()
	s.StringVar(&f.csv, "csv", "", "write the table by round to a file, - for standard output")
	s.StringVar(&f.figure, "figure", "", "draw the rounds, as .svg")
	cli.Check(c, "figure", figure.Check)
	trustFlag(c, &f.trust)
	cli.JSONFlag(c, "")
	return c
}

// predictFlags are the flags of "fedpace predict".
type predictFlags struct {
	configFlags
	// csv and figure are files to write; empty: none.
	csv, figure string
	// trust lets the trainer's command of the folder's configuration be executed.
	trust bool
}

// write prints a comparison, and writes its table and its figure to the files that the flags name.
// subject is the title of the figure. A table on standard output is printed alone.
func (f *predictFlags) write(c *cobra.Command, subject string, found *forecast.Comparison) error {
	// A table on standard output must not be mixed with the text for people.
	if f.csv != "" {
		if err := writeFile(c, f.csv, found.WriteCSV); err != nil || f.csv == "-" {
			return err
		}
	}
	if f.figure != "" {
		if err := figure.Save(f.figure, forecast.Panel(subject+": how long rounds take", found.Rows)); err != nil {
			return err
		}
	}
	return cli.Print(c, found.Prediction, found.Write)
}
