package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/config"
	"fedpace/experiment/run"
)

// loadRun is load, or where a run is played again its configuration.
func (f *flags) loadRun(c *cobra.Command, replay string) (config.Config, error) {
	if replay == "" {
		return f.load(c)
	}
	if f.config != "" {
		return config.Config{}, cli.Usage(c, errors.New("--replay takes the configuration of the run that it plays again, not --config"))
	}
	return run.LoadReplay(replay, f.setsOf(c))
}
