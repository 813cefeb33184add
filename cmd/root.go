package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/cmd/internal/dataset"
	"fedpace/cmd/internal/folders"
	"fedpace/config"
	"fedpace/data/fetch"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/study"
	"fedpace/study/plan"
)

// program holds the functions of the library that commands call. Tests replace them by functions of
// their own, so that the command line is tested without running anything.
type program struct {
	// run plays one experiment.
	run func(context.Context, config.Config, run.Options) (folder.Summary, error)
	// resume continues the run in a folder.
	resume func(context.Context, string, run.Options) (run.Resumed, error)
	// host works for runs that coordinators elsewhere drive.
	host func(context.Context, run.HostOptions) error
	// dryRun predicts the run of a configuration without playing it.
	dryRun func(context.Context, config.Config, run.Options) (forecast.Forecast, error)
	// compare plays a study of several settings.
	compare func(context.Context, study.Plan, study.Options) (*study.Comparison, error)
	// predict predicts the run in dir, or that of the files and sets if dir is empty.
	predict func(ctx context.Context, dir string, files, sets []string, o run.Options) (*forecast.Comparison, error)
	// plan compares settings of a deployment; progress is called after each draw of the fleet.
	plan func(
		ctx context.Context,
		q plan.Request,
		outDir string,
		o study.Options,
		progress func(done, total int),
	) (*plan.Plan, error)
}

// library is the program of real users: every function is the library's own.
var library = program{
	run:     run.Run,
	resume:  run.Resume,
	host:    run.Host,
	dryRun:  run.DryRun,
	compare: study.Run,
	predict: run.Predict,
	plan:    plan.Make,
}

// Main runs fedpace with the arguments of the process and exits.
func Main() { cli.Main(rootCommand(library)) }

// sameCommand ends the note on an interruption of a command that continues its work when it is
// called again.
const sameCommand = ", the same command goes on"

// rootCommand builds the whole command line, in the groups that help shows, with p for the
// functions of the library. A new command is one entry of the list.
func rootCommand(p program) *cobra.Command {
	root := cli.Group(&cobra.Command{
		Use:   "fedpace",
		Short: "Federated learning on a simulated clock",
		Long: `fedpace runs federated learning on a simulated clock: every client has a link
and a speed, a round takes as long as its slowest client, and the number of
local SGD steps decays by a schedule.`,
		Example: `  fedpace run
  fedpace run --set task=femnist --set schedule.k=error --dry-run
  fedpace ls
  fedpace resume runs/demo
  fedpace compare --set task=femnist --schedules dsgd,fixed,rounds`,
	})
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"run", "Run an experiment:", []*cobra.Command{
			dataset.InitCommand(),
			runCommand(p),
			flowerCommand(p),
			resumeCommand(p),
		}},
		{"compare", "Compare many:", []*cobra.Command{
			compareCommand(p),
			tuneCommand(),
			planCommand(p),
			paperCommand(),
			theoryCommand(),
		}},
		{"see", "See what is in folders:", []*cobra.Command{
			folders.LsCommand(),
			folders.RmCommand(),
			folders.UICommand(),
			reportCommand(),
			exportCommand(),
			verifyCommand(),
		}},
		{"deploy", "Deploy over machines and devices:", []*cobra.Command{
			coordinatorCommand(p),
			hostCommand(p),
			cli.ActorCommand("fedpace"),
			cli.DoctorCommand("fedpace"),
			enrollCommand(),
			certificateCommand(),
			calibrateCommand(),
			fitCommand(),
			predictCommand(p),
			validateCommand(),
		}},
		{"data", "Data:", []*cobra.Command{dataset.Command(fetch.Archives, fetch.Fetcher{})}},
		{"more", "More:", []*cobra.Command{configurationTopic(), manCommand(), cli.VersionCommand("fedpace")}},
	} {
		// Help shows the groups in this order.
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	// Help and completion are commands of cobra's, which belong to no group by themselves.
	root.SetHelpCommand(helpCommand(root))
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	return root
}
