package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/coordinator/schedule"
)

func compareCommand(p program) *cobra.Command {
	var f flags
	var wide sweepFlags
	var server cli.Connection
	var schedules []string
	c := &cobra.Command{
		Use:   "compare",
		Short: "Run several schedules on the same cohorts and print one table",
		Long: `Run the same experiment with several schedules, on the same cohorts and for the
same virtual time, and print one table. A comparison that was interrupted goes
on with the same command. The schedules are
` + strings.Join(schedule.Names(), ", ") + `.`,
		Example: `  fedpace compare
  fedpace compare --set task=femnist --schedules dsgd,fixed,k-rounds,k-error,k-step
  fedpace compare --schedules fixed,k-rounds --grid network.upload_mbps=1,5,20 --seeds 5 --figure upload.svg`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := f.load(c)
			if err == nil {
				err = server.Check(c)
			}
			if err != nil {
				return err
			}
			for _, name := range schedules {
				if _, err := config.Schedule.Named(name); err != nil {
					return cli.Usage(c, fmt.Errorf("--%w", err))
				}
			}
			if wide.asked() {
				return wide.sweep(c, p, &f, &server, config, schedules)
			}
			show := cli.NewDisplay(c.ErrOrStderr(), f.quiet)
			result, err := p.compare(c.Context(), config, schedules, f.study(show, &server))
			show.Close()
			if err != nil {
				return interrupted(err, config.Out+sameCommand)
			}
			if err := cli.Print(c, f.json, result, result.WriteTable); err != nil {
				return err
			}
			return result.Diverged()
		},
	}
	f.add(c)
	wide.add(c)
	server.Add(c)
	cli.JSONFlag(c, &f.json, "a summary for each schedule; of a sweep its rows")
	c.Flags().StringSliceVar(&schedules, "schedules", []string{"fixed", "k-rounds"}, "`SCHEDULES` to run, separated by commas")
	cli.Complete(c, "schedules", scheduleList)
	return c
}
