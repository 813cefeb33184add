package cmd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/experiment/report"
)

func reportCommand() *cobra.Command {
	var out, format string
	c := &cobra.Command{
		Use:   "report DIR...",
		Short: "Show one or several runs as one HTML file, or as figures",
		Long: `Show what one or several runs came to in one HTML file that needs nothing else:
lowest training loss and highest validation accuracy against virtual time, K_r,
how long rounds take, how tasks ended, what was wasted. A folder without a run
is looked through for runs, as that of a comparison. Runs that differ in nothing
but their seed are shown as one, with 95% confidence intervals.

With --format png, svg or pdf the figures are drawn alone.`,
		Example: `  fedpace report runs/demo
  fedpace report runs/fixed runs/k-rounds -o comparison.html
  fedpace report runs/demo --format pdf`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("report wants at least one folder, the results of a run, e.g. fedpace report runs/demo")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(c *cobra.Command, args []string) error {
			kind, path, err := reportFile(format, out)
			if err != nil {
				return cli.Usage(c, err)
			}
			runs, err := report.Find(args...)
			if err != nil {
				return err
			}
			if path == "-" {
				return report.Write(c.OutOrStdout(), kind, runs)
			}
			if err := writeFile(path, func(w io.Writer) error { return report.Write(w, kind, runs) }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.ErrOrStderr(), "%s: %d of %d runs finished\n", path, report.Finished(runs), len(runs))
			return err
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "file to write, - for standard output (default report.FORMAT)")
	c.Flags().StringVar(&format, "format", "", strings.Join(report.Formats, ", ")+" (default that of the file's name, else html)")
	if err := c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(report.Formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("fedpace: report has no flag --format")
	}
	return c
}

// reportFile is the format and the file that the flags ask for.
func reportFile(format, out string) (kind, path string, err error) {
	known := func(f string) bool { return slices.Contains(report.Formats, f) }
	if format != "" && !known(format) {
		return "", "", fmt.Errorf("--format %q: want %s", format, strings.Join(report.Formats, ", "))
	}
	named := strings.ToLower(strings.TrimPrefix(filepath.Ext(out), "."))
	switch {
	case format != "":
		kind = format
	case out == "" || out == "-":
		kind = "html"
	case known(named):
		kind = named
	default:
		return "", "", fmt.Errorf("--out %s: the name ends in none of .%s; say --format", out, strings.Join(report.Formats, ", ."))
	}
	if out == "" {
		out = "report." + kind
	}
	return kind, out, nil
}
