package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"text/tabwriter"

	"fedpace/internal/atomicfile"
	"fedpace/metrics/figure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil:
	case errors.Is(err, errUsage):
		os.Exit(2)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "scale: interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// errUsage is a mistake in the arguments that has been told.
var errUsage = errors.New("usage")

func command(ctx context.Context, args []string, out, told io.Writer) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(told)
	flags.Usage = func() {
		fmt.Fprint(told, "Usage: scale [--figure scale.svg] [--csv scale.csv] [--repeat 3] [--check]\n\nMeasures timing-only runs of up to a million clients, for example\n\n  go run ./bench/scale --figure scale.svg --check\n\n")
		flags.PrintDefaults()
	}
	drawing := flags.String("figure", "", "draw cost and memory against population (.svg or .png)")
	table := flags.String("csv", "", "write the table as CSV")
	repeat := flags.Int("repeat", 3, "runs of each line; the fastest counts")
	check := flags.Bool("check", false, "fail where a target is missed")
	number := flags.Int("line", -1, "do one line in this process and print its measurement as JSON")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return errUsage
	}
	all := lines()
	if flags.NArg() > 0 || *repeat < 1 || *number >= len(all) {
		fmt.Fprintf(told, "scale: no arguments but flags are taken, --repeat is at least 1, --line below %d\n", len(all))
		return errUsage
	}
	if *number >= 0 {
		return all[*number].run(ctx, out)
	}
	if *drawing != "" {
		if _, err := figure.Format(*drawing); err != nil {
			return err
		}
	}
	results := make([]measurement, len(all))
	for i := range all {
		fmt.Fprintf(told, "%s, %d clients\n", all[i].name, all[i].clients)
		var err error
		if results[i], err = all[i].measure(ctx, i, *repeat); err != nil {
			return err
		}
	}
	if err := write(out, all, results); err != nil {
		return err
	}
	if *table != "" {
		if err := atomicfile.Write(*table, func(w io.Writer) error { return writeCSV(w, all, results) }); err != nil {
			return err
		}
	}
	if *drawing != "" {
		if err := figure.Save(*drawing, panels(all, results)...); err != nil {
			return err
		}
	}
	missed := missed(all, results)
	for _, m := range missed {
		fmt.Fprintln(out, "missed:", m)
	}
	if *check && len(missed) > 0 {
		return fmt.Errorf("%d targets are missed", len(missed))
	}
	return nil
}

// write writes the table for people.
func write(out io.Writer, all []line, results []measurement) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "run\tclients\tcohort\tclient-rounds\tseconds\tclient-rounds/s\tµs each\tCPU µs each\tpeak MB\t")
	for i, l := range all {
		m := results[i]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.2f\t%.0f\t%.2f\t%.2f\t%.0f\t\n",
			l.name, l.clients, l.cohort, m.Tasks, m.Seconds, m.pace(), m.microseconds(), 1e6*m.CPU/float64(m.Tasks), m.Bytes/1e6)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d processors, %s/%s, %s. Targets: %d client-rounds/s and under %.0f MB at full scale; the dearest of the first %d at most %g times the cheapest: it is %.2f times.\n",
		runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version(), leastPace, mostBytes/1e6, len(curve(all)), mostRatio, ratio(all, results))
	return err
}

func writeCSV(out io.Writer, all []line, results []measurement) error {
	w := csv.NewWriter(out)
	rows := [][]string{{"run", "clients", "cohort", "client_rounds", "seconds", "client_rounds_per_second", "cpu_seconds", "peak_bytes"}}
	for i, l := range all {
		m := results[i]
		rows = append(rows, []string{
			l.name, strconv.Itoa(l.clients), strconv.Itoa(l.cohort), strconv.FormatInt(m.Tasks, 10), fmt.Sprintf("%.4f", m.Seconds),
			fmt.Sprintf("%.0f", m.pace()), fmt.Sprintf("%.4f", m.CPU), fmt.Sprintf("%.0f", m.Bytes),
		})
	}
	return w.WriteAll(rows)
}

// curve are the numbers of the lines that make cost against population.
func curve(all []line) (numbers []int) {
	for i := range all {
		if all[i].curve {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// ratio is the dearest client-round of the curve by the cheapest.
func ratio(all []line, results []measurement) float64 {
	low, high := 0.0, 0.0
	for n, i := range curve(all) {
		cost := results[i].microseconds()
		if n == 0 || cost < low {
			low = cost
		}
		high = max(high, cost)
	}
	return high / low
}

// missed says which targets are.
func missed(all []line, results []measurement) (list []string) {
	if r := ratio(all, results); !(r <= mostRatio) {
		list = append(list, fmt.Sprintf("a client-round costs %.2f times as much in one population as in another, want at most %g", r, mostRatio))
	}
	for i := range all {
		if !all[i].target {
			continue
		}
		if pace := results[i].pace(); !(pace >= leastPace) {
			list = append(list, fmt.Sprintf("%.0f client-rounds/s at full scale, want %d", pace, leastPace))
		}
		if b := results[i].Bytes; b >= mostBytes {
			list = append(list, fmt.Sprintf("%.0f MB at full scale, want less than %.0f", b/1e6, mostBytes/1e6))
		}
	}
	return list
}

// panels are cost and memory against population.
func panels(all []line, results []measurement) []figure.Panel {
	cost := figure.Panel{Title: "cost of a client-round, cohort 1,000", X: "clients", Y: "µs", LogX: true}
	memory := figure.Panel{Title: "peak memory of the process", X: "clients", Y: "MB", LogX: true}
	var wall, cpu, resident figure.Line
	wall.Name, cpu.Name, resident.Name = "wall time", "processor time", "resident"
	for _, i := range curve(all) {
		x, m := float64(all[i].clients), results[i]
		wall.Points = append(wall.Points, figure.Point{X: x, Y: m.microseconds()})
		cpu.Points = append(cpu.Points, figure.Point{X: x, Y: 1e6 * m.CPU / float64(m.Tasks)})
		resident.Points = append(resident.Points, figure.Point{X: x, Y: m.Bytes / 1e6})
	}
	cost.Lines, memory.Lines = []figure.Line{wall, cpu}, []figure.Line{resident}
	cost.FromZero, memory.FromZero = true, true
	return []figure.Panel{cost, memory}
}
