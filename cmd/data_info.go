package cmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"fedpace/actors/data/federated"
	"fedpace/cmd/internal/cli"
	"fedpace/internal/atomicfile"
)

func dataInfoCommand() *cobra.Command {
	var s source
	var figure string
	var asJSON bool
	c := &cobra.Command{
		Use:   "info PATH",
		Short: "Say what a set is like",
		Long: `Say what is at PATH: clients, samples, samples per client, classes, how far the
clients' labels differ (mean Jensen-Shannon divergence), and size in memory.
PATH is a file or a folder in any layout that run reads; synthetic:TASK is the
set that run makes for a task. --partition shows what dealing the samples to
other clients would come to, and writes nothing.`,
		Example: `  fedpace data info femnist.parquet
  fedpace data info sent140.csv --min-tweets 3 --plot sent140.svg
  fedpace data info cifar-100-binary --partition dirichlet --alpha 0.3 --clients 100
  fedpace data info synthetic:femnist --heterogeneity 4 --clients 300`,
		Args: one("the set's path, or synthetic:TASK"),
		RunE: func(c *cobra.Command, args []string) error {
			s.path = args[0]
			if err := s.check(c); err != nil {
				return err
			}
			format := ""
			if c.Flags().Changed("plot") {
				var err error
				if format, err = figureFormat(figure); err != nil {
					return cli.Usage(c, fmt.Errorf("--plot: %w", err))
				}
			}
			set, err := s.open(c.Context())
			if err != nil {
				return err
			}
			stats, err := federated.Describe(set)
			if err := errors.Join(err, set.Close(), c.Context().Err()); err != nil {
				return interrupted(err, "", false)
			}
			if format != "" {
				if err := atomicfile.Write(figure, func(f io.Writer) error { return drawStats(f, format, stats) }); err != nil {
					return fmt.Errorf("--plot: %w", err)
				}
			}
			if asJSON {
				return cli.PrintJSON(c, stats)
			}
			if _, err := io.WriteString(c.OutOrStdout(), stats.String()); err != nil {
				return err
			}
			if format != "" {
				_, err = fmt.Fprintf(c.OutOrStdout(), "figure     %s\n", figure)
			}
			return err
		},
	}
	s.add(c)
	s.addPartition(c, "partition")
	c.Flags().Float64Var(&s.heterogeneity, "heterogeneity", 1, "how far the clients of a synthetic set differ")
	cli.JSONFlag(c, &asJSON, "what the set is like")
	c.Flags().StringVar(&figure, "plot", "", "draw samples per client and classes to this .svg or .png file")
	return c
}
