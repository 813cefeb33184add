package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/metrics/figure"
	"fedpace/study"
	"fedpace/study/validation"
)

// validateCommand makes "fedpace validate", which plays finished runs of real devices once more with
// simulated clients in their place, and says whether the simulation ranks the settings as the devices
// did.
func validateCommand() *cobra.Command {
	var f validateFlags
	c := &cobra.Command{
		Use:   "validate DIR...",
		Short: "Say whether the simulator ranks settings as a deployment does",
		Long: `Simulate finished runs, each real device by a client of its class, and compare
time of a round, tail accuracy and the order of settings (Kendall's and
Spearman's rank correlations). Runs that differ in their seed alone are one
setting. --config and --set change all simulations. Repeat the command to
continue.`,
		Example: `  fedpace validate runs/pis-*
  fedpace validate runs/pis-* --config fleet.yaml --figure ranks.svg`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f.request.Dirs = args
			f.request.ConfigFiles = f.config.config
			f.request.Sets = f.config.sets
			display := cli.NewDisplay(c)
			const force = false
			o := study.Options{Run: options(display, force)}
			o.Progress = func(p study.Progress) { display.Show(statusOfStudy(p)) }
			found, err := validation.Make(c.Context(), f.request, f.out, o)
			display.Close()
			if err != nil {
				return cli.Interruption(c.Context(), err, f.out+sameCommand)
			}
			return f.write(c, found)
		},
	}
	f.config.add(c)
	s := c.Flags()
	s.StringVarP(&f.out, "out", "o", "runs/validate", "folder of the simulations")
	s.StringVar(&f.csv, "csv", "", "write a row for each setting to a file, - for standard output")
	s.StringVar(&f.figure, "figure", "", "draw measured against simulated values, as .svg")
	cli.Check(c, "figure", figure.Check)
	trustFlag(c, &f.request.Trust)
	cli.QuietFlag(c)
	cli.JSONFlag(c, "")
	return c
}

// validateFlags are the flags of "fedpace validate".
type validateFlags struct {
	config  configFlags
	request validation.Request
	// out is the folder of the simulations.
	out string
	// csv and figure are files to write; an empty one is not written.
	csv, figure string
}

// write prints a comparison, and writes the table and the figure that the flags name. A table on
// standard output is printed alone.
func (f *validateFlags) write(c *cobra.Command, found *validation.Validation) error {
	if f.csv != "" {
		err := writeFile(c, f.csv, found.WriteCSV)
		if err != nil || f.csv == "-" {
			return err
		}
	}
	var err error
	if f.figure != "" {
		err = figure.Save(f.figure, found.Panels()...)
	}
	return errors.Join(err, cli.Print(c, found, found.Write))
}
