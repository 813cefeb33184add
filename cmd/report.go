package cmd

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/report"
	"fedpace/experiment/ui"
	"fedpace/internal/names"
)

// formats lists the formats of a report: the HTML page first, then those of figures.
var formats = []string{"html", "svg"}

// reportCommand makes "fedpace report", which shows runs in the folders of its arguments as one
// HTML page or as figures for print. Damaged runs are left out.
func reportCommand() *cobra.Command {
	var outPath, format string
	c := &cobra.Command{
		Use:   "report DIR...",
		Short: "Show one or several runs as one HTML file, or as figures",
		Long: `Write the page of fedpace ui as one HTML file, or with --format svg figures for
print: lowest training loss and best validation against virtual time, K_r, and
times of rounds. Folders are searched for runs. Runs that differ in their seed
alone are one curve, with 95% confidence intervals.`,
		Example: `  fedpace report runs/demo
  fedpace report runs/fixed runs/rounds -o comparison.html
  fedpace report runs/demo --format svg`,
		RunE: func(c *cobra.Command, args []string) error {
			// The format is settled before any run is read.
			kind, path, err := reportFile(format, outPath)
			if err != nil {
				return cli.Usage(c, err)
			}
			// Folders without a run are found before a file is made.
			if _, err := report.Folders(args...); err != nil {
				return err
			}
			var e ui.Exported
			err = writeFile(c, path, func(w io.Writer) error {
				e, err = writeReport(w, kind, args)
				return err
			})
			// Damaged runs are left out with a note, and the others are shown all the same.
			for _, d := range e.Damaged {
				fmt.Fprintf(c.ErrOrStderr(), "%s\n", names.Printable(fmt.Sprintf("%s is left out: %v", d.Dir, d.Err)))
			}
			if err != nil || path == "-" {
				return err
			}
			shown := names.Printable(path)
			_, err = fmt.Fprintf(c.ErrOrStderr(), "%s: %d of %d runs finished\n", shown, e.Finished, e.Runs)
			return err
		},
	}
	c.Flags().StringVarP(&outPath, "out", "o", "", "file to write, - for standard output (default report.FORMAT)")
	c.Flags().StringVar(
		&format,
		"format",
		"",
		strings.Join(formats, ", ")+" (default that of the file's name, else html)",
	)
	cli.OneOf(c, "format", formats...)
	return c
}

// writeReport writes the runs in the folders dirs to w, as an HTML page if kind is "html", else as
// figures in the format kind. It returns how many runs there are, how many are finished and which
// are damaged.
func writeReport(w io.Writer, kind string, dirs []string) (e ui.Exported, err error) {
	if kind == "html" {
		library, err := ui.Open(cli.Version(), dirs...)
		if err != nil {
			return e, err
		}
		return library.Export(w, nil)
	}
	// Figures are drawn from the runs that could be read.
	runs, damaged, err := report.Find(dirs...)
	if err != nil {
		return e, err
	}
	return ui.Exported{
		Runs:     len(runs),
		Finished: report.Finished(runs),
		Damaged:  damaged,
	}, report.Figures(w, runs)
}

// reportFile returns the format of a report and the path of its file. format and outPath are the
// flags --format and --out, or "". Without --format the extension of outPath decides; without
// either it is report.html.
func reportFile(format, outPath string) (kind, path string, err error) {
	kind = cmp.Or(format, strings.ToLower(strings.TrimPrefix(filepath.Ext(outPath), ".")))
	if format == "" && (outPath == "" || outPath == "-") {
		kind = "html"
	}
	if !slices.Contains(formats, kind) {
		return "", "", fmt.Errorf(
			"--out %s: the name ends in none of .%s; say --format",
			outPath,
			strings.Join(formats, ", ."),
		)
	}
	return kind, cmp.Or(outPath, "report."+kind), nil
}
