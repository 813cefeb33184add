package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"fedpace/experiment/config"
)

// compared are the lines that are compared: the smallest population, and full scale
// of equal clients, where a task costs least beside its messages.
var compared = []int{0, len(populations) + 1}

// compare does lines through NATS and in memory, in turn, so that what else the
// machine does hits both, and writes the median of the ratios of their paces.
func compare(ctx context.Context, all []line, pairs int, out, told io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "run\tclients\tthrough NATS\tin memory\tclient-rounds/s, ratio\tlowest\thighest\t")
	for _, number := range compared {
		var ratios []float64
		var best [2]float64
		for i := range pairs {
			fmt.Fprintf(told, "%s, %d clients, pair %d\n", all[number].Name, all[number].Clients, i+1)
			var pace [2]float64
			for j, server := range []string{config.Embedded, config.None} {
				m := all[number]
				if err := m.measure(ctx, number, server, 1); err != nil {
					return err
				}
				pace[j] = m.Pace
				best[j] = max(best[j], m.Pace)
			}
			ratios = append(ratios, pace[1]/pace[0])
		}
		slices.Sort(ratios)
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t\n",
			all[number].Name, all[number].Clients, best[0], best[1], ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	}
	return w.Flush()
}
