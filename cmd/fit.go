package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/fit"
	"fedpace/internal/atomicfile"
)

// fitCommand makes "fedpace fit", which fits classes of devices to the real devices of a finished
// run, and writes them as a configuration to --out or standard output. The folder of the run is its
// argument.
func fitCommand() *cobra.Command {
	var pool bool
	var outPath string
	c := &cobra.Command{
		Use:   "fit DIR",
		Short: "Turn a run's real devices into classes of devices",
		Long: `Fit classes of devices to a run's real devices, complete or not: a file for
--config after the run's own. Comments say how sure each number is.`,
		Example: `  fedpace fit runs/exp --out fleet.yaml
  fedpace run --config exp.yaml --config fleet.yaml --dry-run
  fedpace fit runs/exp --pool --json | jq .check`,
		RunE: func(c *cobra.Command, args []string) error {
			// With --pool, devices of one class are fitted together.
			f, err := fit.Run(args[0], pool)
			if err != nil {
				return err
			}
			classes := atomicfile.Bytes(f.YAML())
			// Without --out the classes go to standard output alone, so that they can be
			// redirected.
			if outPath == "" {
				return cli.Print(c, f, classes)
			}
			if err := atomicfile.Write(outPath, classes); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			// With --out, standard output is free for the table of the fit.
			return cli.PrintWith(
				c,
				f,
				f.Write,
				"\nThe classes: %s, to be given behind the run's configuration (--config exp.yaml --config %s)\n",
				outPath,
				outPath,
			)
		},
	}
	c.Flags().StringVarP(&outPath, "out", "o", "", "`FILE` to write the classes to")
	c.Flags().BoolVar(&pool, "pool", false, "one class for all devices of a class in devices.names")
	cli.JSONFlag(c, "")
	return c
}
