package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"fedpace/experiment/calibrate"
	"fedpace/internal/tasks"
)

// CalibrateCommand is the command that measures a device, of the program of this
// name.
func CalibrateCommand(program string) *cobra.Command {
	var task, model, name, out string
	var steps, batch int
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure how long this device takes for a minibatch",
		Long: `Measure how long this device takes for a minibatch of each task, as the paper's
Table 2 does on a Raspberry Pi: mean and standard deviation of 100 steps of SGD,
beside the paper's. --model measures a model of your own on random samples; a dry
run (fedpace run --dry-run) prints it in this form. With --out the measured task is written as a class of devices
that the simulator reads: run --config FILE gives every client this speed, or copy
the class into another configuration's fleet.`,
		Example: "  " + program + ` calibrate
  ` + program + ` calibrate --task femnist --name pi4 --out pi4.yaml
  ` + program + ` calibrate --model mlp:4,16,3 --batch 8
  fedpace run --config pi4.yaml --set stop.rounds=100`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case out != "" && task == "" && model == "":
				return Usage(c, errors.New("--out needs --task or --model: a class of devices is of one"))
			case task != "" && model != "":
				return Usage(c, errors.New("--task and --model: want one of them"))
			case batch < 1 || batch > maxBatch:
				return Usage(c, fmt.Errorf("--batch %d: want 1 to %d", batch, maxBatch))
			}
			if steps < 2 || steps > calibrate.MaxCalibration {
				return Usage(c, fmt.Errorf("--steps %d: want 2 to %d", steps, calibrate.MaxCalibration))
			}
			if err := new(calibrate.Calibration).WriteClass(io.Discard, name); err != nil {
				return Usage(c, fmt.Errorf("--name: %w", err))
			}
			if model != "" {
				return calibrateModel(c, model, batch, steps, name, out)
			}
			var measured []tasks.Task
			known := ""
			for _, p := range tasks.Paper() {
				known += " " + string(p.Task)
				if task == "" || task == string(p.Task) {
					measured = append(measured, p.Task)
				}
			}
			if len(measured) == 0 {
				return Usage(c, fmt.Errorf("--task %q: want one of%s", task, known))
			}
			return calibrateTasks(c, measured, steps, name, out)
		},
	}
	s := c.Flags()
	s.StringVar(&task, "task", "", "measure this task alone: sent140, femnist, cifar100 or shakespeare")
	s.StringVar(&model, "model", "", "measure this model in the place of the tasks', such as mlp:4,16,3")
	s.IntVar(&batch, "batch", 32, "samples of a minibatch of --model")
	s.IntVar(&steps, "steps", 100, "minibatches to measure")
	s.StringVar(&name, "name", "device", "name of the class")
	s.StringVar(&out, "out", "", "`FILE` to write the class to")
	return c
}

// maxBatch bounds --batch.
const maxBatch = 100_000

func calibrateModel(c *cobra.Command, model string, batch, steps int, name, out string) error {
	measured, err := calibrate.Model(c.Context(), model, batch, steps)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s, minibatches of %d: mean %.4g ms, deviation %.4g ms\ncompute.seconds_per_step: %.4g\n", model, batch, 1e3*measured.Mean, 1e3*measured.Std, measured.Mean)
	return writeClass(&measured, name, out)
}

func calibrateTasks(c *cobra.Command, measured []tasks.Task, steps int, name, out string) (err error) {
	const row = "%-12s %12s %12s %12s %12s\n"
	w := c.OutOrStdout()
	fmt.Fprintf(w, row, "task", "mean", "deviation", "paper's", "deviation")
	var last calibrate.Calibration
	for _, task := range measured {
		if last, err = calibrate.Calibrate(c.Context(), task, steps); err != nil {
			return err
		}
		ms := func(seconds float64) string { return fmt.Sprintf("%.4g ms", 1e3*seconds) }
		fmt.Fprintf(w, row, task, ms(last.Mean), ms(last.Std), ms(last.PaperMean), ms(last.PaperStd))
	}
	return writeClass(&last, name, out)
}

func writeClass(measured *calibrate.Calibration, name, out string) error {
	if out == "" {
		return nil
	}
	f, err := os.Create(out)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return errors.Join(measured.WriteClass(f, name), f.Close())
}
