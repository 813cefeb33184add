package cmd

import (
	"context"

	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/study"
)

// program is what the commands call; tests put their own in its place.
type program struct {
	run     func(context.Context, config.Config, run.Options) (folder.Summary, error)
	resume  func(context.Context, string, run.Options) (run.Resumed, error)
	host    func(context.Context, run.HostOptions) error
	dryRun  func(context.Context, config.Config, run.Options) (run.Estimate, error)
	sweep   func(context.Context, study.Sweep, study.Options) ([]study.Cell, error)
	compare func(context.Context, config.Config, []string, study.Options) (*study.Comparison, error)
}

// library is the program that users have.
var library = program{
	run:     run.Run,
	resume:  run.Resume,
	host:    run.Host,
	dryRun:  run.DryRun,
	sweep:   study.RunSweep,
	compare: study.Compare,
}
