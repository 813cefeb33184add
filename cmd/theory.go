package cmd

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/coordinator/theory"
	"fedpace/metrics/figure"
	"fedpace/study/advise"
)

// theoryCommand makes "fedpace theory", a group of commands about the paper's analysis of K and of
// the learning rate.
func theoryCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "theory",
		Short: "See what the paper's theory says of K and the learning rate",
		Example: `  fedpace theory advise
  fedpace theory errata`,
	}, adviseCommand(), labCommand(), errataCommand())
}

// convexFlags are --config and --set for commands whose task is quadratic unless one is named.
type convexFlags struct{ configFlags }

// load returns the configuration that the flags describe. Its task is quadratic unless a file or a
// --set names another, since the theory is about convex problems.
func (f *convexFlags) load() (config.Config, error) {
	sets := f.sets
	named := slices.ContainsFunc(sets, func(s string) bool { return strings.HasPrefix(s, "task=") })
	// A set at the front gives way to any later one.
	if len(f.config) == 0 && !named {
		sets = append([]string{"task=" + string(config.TaskQuadratic)}, sets...)
	}
	return config.LoadFiles(f.config, sets)
}

// adviceFlags are the flags of "fedpace theory advise".
type adviceFlags struct {
	convexFlags
	// given holds the problem's constants from flags; nil: the flag is not given.
	given advise.Given
	// gap names the form of the optimality gap: proof, stated or appendix.
	gap string
	// run is the folder of a finished run that brings its own constants; empty: none.
	run string
	// figure is the file for the figure of K* and eta*; empty: none is drawn.
	figure string
	// points is how many lines the table has.
	points int
}

// adviseCommand makes "fedpace theory advise", which prints the K (Eq. 9) and the learning rate
// (Eq. 11) that are best at each time, for constants from flags, a configuration or a finished run.
func adviseCommand() *cobra.Command {
	f := adviceFlags{}
	c := &cobra.Command{
		Use:   "advise",
		Short: "Print the best K and learning rate at each time",
		Long: `Print the local steps (Eq. 9) and learning rate (Eq. 11) that are best at each
time by the paper's theory, corrected and as printed.

Constants come from a convex problem (quadratic, the default here, or logistic),
the configuration's theory keys, flags, or roughly from a finished run (--run).
W is the time since the start, or with theory.time: ahead to the end.`,
		Example: `  fedpace theory advise
  fedpace theory advise --set task=femnist --l 4 --mu 0.1 --g 2 --loss 4.1 --figure k.svg
  fedpace theory advise --run runs/demo`,
		RunE: func(c *cobra.Command, _ []string) error { return f.advise(c) },
	}
	f.add(c)
	s := c.Flags()
	for _, n := range []struct {
		name, meaning string
		value         **float64
	}{
		// Each constant of the problem has a flag; one that is not given stays nil.
		{"l", "smoothness L", &f.given.L},
		{"mu", "strong convexity mu", &f.given.Mu},
		{"g", "largest norm of client gradients, G", &f.given.G},
		{"variance", "sum of p_c² sigma_c²", &f.given.Variance},
		{"gamma", "Gamma, how far clients differ", &f.given.Gamma},
		{"f-star", "least loss F*", &f.given.FStar},
		{"loss", "loss F from which to look ahead", &f.given.Loss},
	} {
		// A flag's own function tells a number that was given from none.
		s.Func(n.name, "`number`: "+n.meaning, func(text string) error {
			x, err := strconv.ParseFloat(text, 64)
			// The configuration has the same bounds; the negation also refuses NaN.
			if err != nil || !(math.Abs(x) <= 1e30) {
				return fmt.Errorf("%.40q is not a number from -1e30 to 1e30", text)
			}
			*n.value = &x
			return nil
		})
	}
	s.StringVar(&f.gap, "gap", advise.Forms[0], "form of the gap: proof, stated or appendix")
	s.StringVar(&f.run, "run", "", "take what is known from the finished run in `DIR`")
	s.IntVar(&f.points, "points", 12, "lines of the table")
	cli.InRange(c, "points", 2, 1000)
	s.StringVar(&f.figure, "figure", "", "draw K* and eta* over time, as .svg")
	cli.Check(c, "figure", figure.Check)
	cli.JSONFlag(c, "")
	cli.OneOf(c, "gap", advise.Forms...)
	return c
}

// advise prints the advice for a configuration or for a finished run, by the flags of the command
// c, and draws the figure if one is asked for. A constant that no source gives is an error of usage
// that names it.
func (f *adviceFlags) advise(c *cobra.Command) (err error) {
	if f.run != "" && (len(f.config) > 0 || len(f.sets) > 0) {
		return cli.Usage(c, errors.New("--run brings its own configuration: leave --config and --set out"))
	}
	// advise.Forms has the names of the forms in the order of the values of theory.Form.
	f.given.Form = theory.Form(slices.Index(advise.Forms, f.gap))
	var a *advise.Advice
	// A finished run has measured constants of its own.
	if f.run != "" {
		a, err = advise.AlongRun(c.Context(), f.run, f.given, f.points)
	} else {
		var config config.Config
		config, err = f.load()
		if err == nil {
			a, err = advise.Advise(config, f.given, f.points)
		}
	}
	// The user can give the constant by its flag.
	if missing := (*advise.MissingError)(nil); errors.As(err, &missing) {
		return cli.Usage(c, missing)
	}
	if err != nil {
		return cli.Interruption(c.Context(), err, "")
	}
	if f.figure != "" {
		if err := a.Draw(f.figure); err != nil {
			return fmt.Errorf("--figure: %w", err)
		}
	}
	return cli.Print(c, a, a.Write)
}

// labCommand makes a hidden command that tells users of the former "theory lab" where it is now. It
// accepts any flags, which it does not read.
func labCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "lab",
		Short:              "Run schedules on a convex problem (now an example)",
		Hidden:             true,
		Args:               cobra.ArbitraryArgs,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.Usage(c, errors.New("the laboratory is an example now: "+
				"in a checkout of fedpace, write go run ./examples/theory with the same flags"))
		},
	}
}

// errataCommand makes "fedpace theory errata", which lists what the paper prints that does not
// hold, each with its place, the correction and the reason.
func errataCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "errata",
		Short:   "List what the paper prints wrong",
		Example: "  fedpace theory errata",
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.PrintTable(c, theory.Errata(), func(w io.Writer) {
				fmt.Fprintln(w, "WHERE\tPRINTED\tHOLDS\tWHY")
				for _, e := range theory.Errata() {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Place, e.Printed, e.Holds, e.Why)
				}
			})
		},
	}
	cli.JSONFlag(c, "")
	return c
}
