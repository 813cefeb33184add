package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"

	"fedpace/bench/internal/process"
	"fedpace/experiment/config"
	"fedpace/internal/table"
	"fedpace/metrics/figure"
)

func main() { process.Main("scale", command) }

func command(ctx context.Context, args []string, out, told io.Writer) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(told)
	flags.Usage = func() {
		fmt.Fprint(told, "Usage: scale [--figure scale.svg] [--csv scale.csv] [--repeat 3] [--check]\n\nMeasures timing-only runs of up to a million clients, for example\n\n  go run ./bench/scale --figure scale.svg --check\n\n")
		flags.PrintDefaults()
	}
	drawing := flags.String("figure", "", "draw cost and memory against population (.svg or .png)")
	rows := flags.String("csv", "", "write the table as CSV")
	repeat := flags.Int("repeat", 3, "runs of each line; the fastest counts")
	check := flags.Bool("check", false, "fail where a target is missed")
	number := flags.Int("line", -1, "do one line in this process and print its measurement as JSON")
	server := flags.String("nats", config.Embedded, "nats.url of the runs: embedded or none")
	pairs := flags.Int("pairs", 0, "instead of the table, compare runs through NATS with runs in memory, so many of each line in turn")
	all := lines()
	valid := func() bool { return *repeat > 0 && *number < len(all) && *pairs >= 0 }
	if err := process.Parse(flags, args, valid, fmt.Sprintf("--repeat is at least 1, --line below %d, --pairs at least 0", len(all))); err != nil {
		return err
	}
	if *number >= 0 {
		all[*number].server = *server
		return all[*number].run(ctx, out)
	}
	if *pairs > 0 {
		return compare(ctx, all, *pairs, out, told)
	}
	if *drawing != "" {
		if _, err := figure.Format(*drawing); err != nil {
			return err
		}
	}
	for i := range all {
		fmt.Fprintf(told, "%s, %d clients\n", all[i].Name, all[i].Clients)
		if err := all[i].measure(ctx, i, *server, *repeat); err != nil {
			return err
		}
	}
	if err := write(out, all); err != nil {
		return err
	}
	if *rows != "" {
		if err := table.Write(*rows, all, digits); err != nil {
			return err
		}
	}
	if *drawing != "" {
		if err := figure.Save(*drawing, panels(all)...); err != nil {
			return err
		}
	}
	missed := missed(all)
	for _, m := range missed {
		fmt.Fprintln(out, "missed:", m)
	}
	if *check && len(missed) > 0 {
		return fmt.Errorf("%d targets are missed", len(missed))
	}
	return nil
}

// write writes the table for people.
func write(out io.Writer, all []line) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "run\tclients\tcohort\tclient-rounds\tseconds\tclient-rounds/s\tµs each\tCPU µs each\tpeak MB\t")
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.2f\t%.0f\t%.2f\t%.2f\t%.0f\t\n",
			l.Name, l.Clients, l.Cohort, l.Tasks, l.Seconds, l.Pace, l.each(l.Seconds), l.each(l.CPU), l.Bytes/1e6)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d processors, %s/%s, %s. Targets: %d client-rounds/s and under %.0f MB at full scale; the dearest of the first %d at most %g times the cheapest: it is %.2f times.\n",
		runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version(), leastPace, mostBytes/1e6, len(populations), mostRatio, ratio(all))
	return err
}

// ratio is the dearest client-round of the curve by the cheapest.
func ratio(all []line) float64 {
	low := all[0].each(all[0].Seconds)
	high := low
	for _, l := range all[:len(populations)] {
		low, high = min(low, l.each(l.Seconds)), max(high, l.each(l.Seconds))
	}
	return high / low
}

// missed says which targets are.
func missed(all []line) (list []string) {
	if r := ratio(all); !(r <= mostRatio) {
		list = append(list, fmt.Sprintf("a client-round costs %.2f times as much in one population as in another, want at most %g", r, mostRatio))
	}
	full := all[len(populations)]
	if !(full.Pace >= leastPace) {
		list = append(list, fmt.Sprintf("%.0f client-rounds/s at full scale, want %d", full.Pace, leastPace))
	}
	if full.Bytes >= mostBytes {
		list = append(list, fmt.Sprintf("%.0f MB at full scale, want less than %.0f", full.Bytes/1e6, mostBytes/1e6))
	}
	return list
}

// panels are cost and memory against population.
func panels(all []line) []figure.Panel {
	cost := figure.Panel{Title: "cost of a client-round, cohort 1,000", X: "clients", Y: "µs", LogX: true, FromZero: true}
	memory := figure.Panel{Title: "peak memory of the process", X: "clients", Y: "MB", LogX: true, FromZero: true}
	for _, l := range all[:len(populations)] {
		x := float64(l.Clients)
		cost.Add("wall time", figure.Point{X: x, Y: l.each(l.Seconds)})
		cost.Add("processor time", figure.Point{X: x, Y: l.each(l.CPU)})
		memory.Add("resident", figure.Point{X: x, Y: l.Bytes / 1e6})
	}
	return []figure.Panel{cost, memory}
}
