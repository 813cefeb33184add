package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/deploy/grafana/dashboards"
	"fedpace/experiment/folder"
	"fedpace/experiment/report"
	"fedpace/internal/atomicfile"
	"fedpace/internal/names"
)

// exportCommand makes "fedpace export", a group of commands that write a run, or the dashboards, in
// the formats of other programs.
func exportCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "export",
		Short: "Write for other programs: a Perfetto trace, OpenMetrics, Grafana's dashboards",
		Example: `  fedpace export perfetto runs/demo
  fedpace export openmetrics runs/demo
  fedpace export dashboards dashboards`,
	}, exportPerfettoCommand(), exportOpenMetricsCommand(), exportDashboardsCommand())
}

// exportDashboardsCommand makes "fedpace export dashboards", which writes the Grafana dashboards
// that are embedded in the program into a folder. Existing files of the same names are replaced.
func exportDashboardsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "dashboards DIR",
		Short:   "Write the dashboards for Grafana into a folder",
		Long:    `Write dashboards for Grafana (Dashboards, New, Import).`,
		Example: "  fedpace export dashboards dashboards",
		Args:    cli.OneArgument("the folder for the dashboards"),
		RunE: func(c *cobra.Command, args []string) error {
			files, err := fs.Glob(dashboards.Files, "*.json")
			err = errors.Join(err, os.MkdirAll(args[0], 0o777))
			if err != nil {
				return err
			}
			// The dashboards are part of the program, so they fit its metrics.
			for _, name := range files {
				text, err := dashboards.Files.ReadFile(name)
				if err != nil {
					return err
				}
				if err := atomicfile.Write(filepath.Join(args[0], name), atomicfile.Bytes(text)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d dashboards in %s\n", len(files), names.Printable(args[0]))
			return err
		},
	}
}

// exportPerfettoCommand makes "fedpace export perfetto", which turns the timelines in a run's
// events.log into a trace for Perfetto's viewer. All times of the trace are virtual, not those of
// this machine.
func exportPerfettoCommand() *cobra.Command {
	var rounds string
	var firstRound, lastRound int
	c := exportTo(folder.TraceFile, &cobra.Command{
		Use:   "perfetto DIR",
		Short: "Write a run's timelines as a trace for Perfetto's viewer",
		Long: `Write the timelines in events.log as a trace for Perfetto (ui.perfetto.dev,
which uploads nothing), on virtual time: a track for each client that
events.sample keeps, and for rounds, K_r, eta_r, losses and accuracy. Beyond
round 1023 only some rounds are kept.`,
		Example: `  fedpace export perfetto runs/demo
  fedpace export perfetto runs/demo --rounds 100-200 -o trace.pftrace`,
		// Flags are checked before the run is read or a file is made.
		PreRunE: func(c *cobra.Command, _ []string) (err error) {
			firstRound, lastRound, err = roundRange(rounds)
			return cli.Usage(c, err)
		},
	}, func(c *cobra.Command, dir string, w io.Writer) (string, error) {
		// torn says that the last line of the log is incomplete.
		t, torn, err := report.ExportTrace(dir, w, firstRound, lastRound)
		if torn && err == nil {
			fmt.Fprintln(c.ErrOrStderr(), "The run goes on or was killed: the trace ends with what it had written.")
		}
		return fmt.Sprintf("%d rounds, %d tasks of %d clients", t.Rounds, t.Tasks, t.Clients), err
	})
	c.Flags().StringVar(&rounds, "rounds", "", "only these rounds, as in 100-200 or 7")
	return c
}

// futureWarning returns the warning for an import of samples that end later than now, or an empty
// string. Prometheus refuses samples older than its newest block minus its out-of-order window, so
// samples ahead of now would block all scrapes until then.
func futureWarning(end, now time.Time) string {
	if !end.After(now) {
		return ""
	}
	return ", which is ahead of now: a Prometheus that loads this takes no scrape any more until then (choose an " +
		"earlier --epoch)"
}

// exportOpenMetricsCommand makes "fedpace export openmetrics", which writes the rounds of a run as
// OpenMetrics text for Prometheus. A timestamp is the time of --epoch plus virtual time; without
// the flag the run ends now.
func exportOpenMetricsCommand() *cobra.Command {
	var epoch string
	var start time.Time
	c := exportTo(folder.OpenMetricsFile, &cobra.Command{
		Use:   "openmetrics DIR",
		Short: "Write a run at its virtual time, for Prometheus to load",
		Long: `Write a run's rounds as OpenMetrics text, so that Grafana shows curves against
virtual time. Load it into Prometheus' data folder DATA:

  promtool tsdb create-blocks-from openmetrics DIR/openmetrics.txt DATA

Prometheus removes what is older than its retention (15 days unless told).`,
		Example: `  fedpace export openmetrics runs/demo
  fedpace export openmetrics runs/demo --epoch 2026-01-01T00:00:00Z -o -`,
		PreRunE: func(c *cobra.Command, _ []string) (err error) {
			// Without --epoch the start stays zero, and the export lets the run end now.
			if epoch == "" {
				return nil
			}
			start, err = time.Parse(time.RFC3339, epoch)
			if err != nil {
				err = fmt.Errorf("--epoch %q: want a time as in 2026-01-01T00:00:00Z", epoch)
			}
			return cli.Usage(c, err)
		},
	}, func(_ *cobra.Command, dir string, w io.Writer) (string, error) {
		// The warning is part of the description, so that it is read with the times.
		e, err := report.ExportOpenMetrics(dir, w, start)
		return fmt.Sprintf(
			"%d rounds from %s to %s%s",
			e.Rounds,
			e.Begin.UTC().Format(time.RFC3339),
			e.End.UTC().Format(time.RFC3339),
			futureWarning(e.End, time.Now()),
		), err
	})
	c.Flags().StringVar(
		&epoch,
		"epoch",
		"",
		"time of the run's start, as 2026-01-01T00:00:00Z (default: the run ends now)",
	)
	return c
}

// exportTo turns c into a command that writes something about a run to the file called name in the
// run's folder, or to --out. export writes it for the run in dir to w and returns a description of
// what it wrote. A folder without a run is an error.
func exportTo(
	name string,
	c *cobra.Command,
	export func(c *cobra.Command, dir string, w io.Writer) (string, error),
) *cobra.Command {
	var outPath string
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := folder.HoldsRun(args[0]); err != nil {
			return err
		}
		// A run whose files were changed is exported all the same, with a note.
		if _, _, err := (&folder.Run{Dir: args[0]}).State(); errors.Is(err, folder.ErrChanged) {
			fmt.Fprintf(c.ErrOrStderr(), "note: %s\n", names.Printable(err.Error()))
		}
		path := cmp.Or(outPath, filepath.Join(args[0], name))
		// The description is printed only after the file is complete.
		written := ""
		err := writeFile(c, path, func(w io.Writer) (err error) {
			written, err = export(c, args[0], w)
			return err
		})
		if err != nil {
			return err
		}
		if path == "-" {
			path = "standard output"
		}
		_, err = fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", names.Printable(path), written)
		return err
	}
	c.Flags().StringVarP(&outPath, "out", "o", "", "file to write, - for standard output (default DIR/"+name+")")
	return c
}

// writeFile writes the file at path by calling write, so that the file is complete or not there at
// all. The path "-" is the standard output of c. A pipe or a device at the path is written to
// directly.
func writeFile(c *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(c.OutOrStdout())
	}
	// A rename, as of an atomic write, would replace the pipe or device by a file.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	// A missing folder is a common mistake, which an error of the temporary file would hide.
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s cannot be written: there is no folder %s", path, filepath.Dir(path))
	}
	return atomicfile.Write(path, write)
}

// roundRange parses a range of rounds such as 100-200, 100- or 7. Rounds count from 1. An empty
// text means all rounds, and an end of 0 means that the range is open.
func roundRange(s string) (begin, end int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	first, last, isRange := strings.Cut(s, "-")
	// A single number is a range of one round.
	if !isRange {
		last = first
	}
	// Thirty bits are enough for any round, and fit an int.
	firstRound, err1 := strconv.ParseUint(first, 10, 30)
	lastRound, err2 := strconv.ParseUint(cmp.Or(last, "0"), 10, 30)
	isReversed := last != "" && lastRound < firstRound
	if err := errors.Join(err1, err2); err != nil || firstRound == 0 || isReversed {
		return 0, 0, fmt.Errorf("--rounds %q: want rounds as in 100-200, 100- or 7", s)
	}
	return int(firstRound), int(lastRound), nil
}
