package main

import (
	"context"
	"runtime/debug"

	"fedpace/experiment"
	"fedpace/experiment/config"
)

// program is what the commands call; tests put their own in its place.
type program struct {
	run     func(context.Context, config.Config, experiment.Options) (experiment.Summary, error)
	resume  func(context.Context, string, experiment.Options) (experiment.Resumed, error)
	host    func(context.Context, experiment.HostOptions) error
	dryRun  func(context.Context, config.Config, experiment.Options) (experiment.Estimate, error)
	sweep   func(context.Context, experiment.Sweep, experiment.Options) ([]experiment.Cell, error)
	compare func(context.Context, config.Config, []string, experiment.Options) (*experiment.Comparison, error)
}

// library is the program that users have.
var library = program{
	run:     experiment.Run,
	resume:  experiment.Resume,
	host:    experiment.Host,
	dryRun:  experiment.DryRun,
	sweep:   experiment.RunSweep,
	compare: experiment.Compare,
}

// version names this build: the module's version, or the commit it was built
// from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "development"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
			if s.Key == "vcs.modified" && s.Value == "true" {
				v += " (modified)"
			}
		}
	}
	return v
}
