package cmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"fedpace/actors/data/federated"
	"fedpace/cmd/internal/cli"
	"fedpace/metrics/figure"
)

func dataInfoCommand() *cobra.Command {
	var s source
	var plot string
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
			if plot != "" {
				if _, err := figure.Format(plot); err != nil {
					return cli.Usage(c, fmt.Errorf("--plot: %w", err))
				}
			}
			set, err := s.open(c.Context())
			if err != nil {
				return err
			}
			stats, err := federated.Describe(set)
			if err := errors.Join(err, set.Close(), c.Context().Err()); err != nil {
				return interrupted(err, "")
			}
			if plot != "" {
				if err := figure.Save(plot, histograms(stats)...); err != nil {
					return fmt.Errorf("--plot: %w", err)
				}
			}
			return cli.Print(c, asJSON, stats, func(w io.Writer) error {
				text := stats.String()
				if plot != "" {
					text += fmt.Sprintf("figure     %s\n", plot)
				}
				_, err := io.WriteString(w, text)
				return err
			})
		},
	}
	s.add(c)
	s.addPartition(c, "partition")
	c.Flags().Float64Var(&s.heterogeneity, "heterogeneity", 1, "how far the clients of a synthetic set differ")
	cli.JSONFlag(c, &asJSON, "what the set is like")
	c.Flags().StringVar(&plot, "plot", "", "draw samples per client and classes to this .svg or .png file")
	return c
}

// histograms are clients by samples and samples by class, side by side.
func histograms(d federated.Stats) []figure.Panel {
	name := d.Info.Name
	if d.Info.Synthetic {
		name = "SYNTHETIC: " + name
	}
	sizes := figure.Panel{Title: fmt.Sprintf("%s: clients %d", name, d.Clients), X: "training samples of a client", Y: "clients", FromZero: true}
	for _, b := range d.Histogram {
		sizes.Bars = append(sizes.Bars, figure.Bar{From: float64(b.From) - 0.5, To: float64(b.To) + 0.5, Height: float64(b.Clients)})
	}
	labels := figure.Panel{Title: fmt.Sprintf("training samples %d, label skew %.4f", d.Samples, d.Skew), X: "class", Y: "training samples", FromZero: true}
	for class, n := range d.Labels {
		labels.Bars = append(labels.Bars, figure.Bar{From: float64(class) - 0.4, To: float64(class) + 0.4, Height: float64(n)})
	}
	return []figure.Panel{sizes, labels}
}
