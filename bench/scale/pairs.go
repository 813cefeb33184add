package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"fedpace/experiment/config"
	"fedpace/internal/robust"
)

// compared are the lines that are compared: the smallest population, and full scale
// of equal clients, where a task costs least beside its messages.
var compared = []int{0, len(populations) + 1}

// compare does lines through NATS and in memory, in turn, so that what else the
// machine does hits both, and writes the median of the ratios: of their paces, and of
// the processor time of a client-round, which depends less on what else is done.
func compare(ctx context.Context, all []line, pairs int, out, told io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "run\tclients\tNATS: each s\tmemory\tratio\tNATS: CPU µs\tmemory\tratio\t")
	for _, number := range compared {
		var paces, costs [3][]float64 // through NATS, in memory, their ratio
		for i := range pairs {
			fmt.Fprintf(told, "%s, %d clients, pair %d\n", all[number].Name, all[number].Clients, i+1)
			var pair [2]line
			for j, server := range []string{config.Embedded, config.None} {
				pair[j] = all[number]
				if err := pair[j].measure(ctx, number, server, 1); err != nil {
					return err
				}
				paces[j], costs[j] = append(paces[j], pair[j].Pace), append(costs[j], pair[j].each(pair[j].CPU))
			}
			paces[2] = append(paces[2], pair[1].Pace/pair[0].Pace)
			costs[2] = append(costs[2], pair[0].CPU/pair[1].CPU)
		}
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.1f\t%.2f\t%.2f\t%.1f\t\n", all[number].Name, all[number].Clients,
			robust.Median(paces[0]), robust.Median(paces[1]), robust.Median(paces[2]), robust.Median(costs[0]), robust.Median(costs[1]), robust.Median(costs[2]))
	}
	return w.Flush()
}
