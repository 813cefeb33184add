package cmd

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/internal/names"
)

// flowerCommand makes "fedpace flower", which plays an unchanged Flower app on the virtual clock.
// The folder of the app is its argument, and p runs the experiment.
func flowerCommand(p program) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "flower FOLDER",
		Short: "Play a Flower app, unchanged, on the virtual clock",
		Long: `Run an unchanged Flower app on the virtual clock. Without --config: ten equal
clients with 20 Mbit/s down, 5 up and 0.01 s a local step. Keys below flower.run
set the app's run config. It needs a Python with flwr 1.42 (flower.python,
default python3; docs/flower.md). fedpace resume DIR --trust continues a stopped
run.`,
		Example: `  fedpace flower my-app
  fedpace flower my-app --config fleet.yaml --set flower.run.learning-rate=0.05 --out runs/slow
  fedpace flower my-app --set clients=100 --set flower.python=venv/bin/python`,
		Args: cli.OneArgument("the folder of the app"),
		RunE: func(c *cobra.Command, args []string) error {
			// The sets of the user come later and win.
			f.sets = append([]string{"task=flower", fmt.Sprintf("flower.app=%q", args[0])}, f.sets...)
			loaded, options, display, err := f.load(c, noReplay)
			if err != nil {
				return err
			}
			nameAfterApp(&loaded, args[0])
			return f.run(c, p, loaded, config.OutFolder(loaded.Name), options, display)
		},
	}
	f.flags.add(c)
	f.add(c)
	return c
}

// nameAfterApp gives the run of configuration c the name of the app's folder, if c has the standard
// name and that of the folder is allowed. The standard folder of results changes with the name.
func nameAfterApp(c *config.Config, folder string) {
	standard := config.Demonstration().Name
	path, err := filepath.Abs(folder)
	if err != nil || c.Name != standard {
		return
	}
	name := filepath.Base(path)
	// A folder may be called as no run can be.
	if names.CheckName(name) != nil {
		return
	}
	// A folder that the user has set stays.
	if c.Out == config.OutFolder(standard) {
		c.Out = config.OutFolder(name)
	}
	c.Name = name
}
