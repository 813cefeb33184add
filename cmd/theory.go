package cmd

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/coordinator/theory"
	"fedpace/experiment/config"
	"fedpace/experiment/study"
	"fedpace/experiment/study/lab"
	"fedpace/metrics/figure"
)

// theoryFlags are what is asked of the theory.
type theoryFlags struct {
	flags
	given     lab.Given
	constants string
	gap       string
	run       string
	from      string
	figure    string
	points    int
	errata    bool
	lab       bool
	seeds     int
	schedules []string
}

func theoryCommand() *cobra.Command {
	f := theoryFlags{}
	c := &cobra.Command{
		Use:   "theory",
		Short: "Print what the paper's theory says of K and the learning rate",
		Long: `Print the number of local steps (Eq. 9) and the learning rate (Eq. 11) that are
best at each time by the paper's theory, corrected, and beside them as printed.

Constants come from the configuration's problem where it is convex (quadratic,
which is the default here, or logistic), from its theory keys, from flags or a
YAML file, or from a finished run (--run): its loss curve is F_w, its
configuration gives the times, and L, mu, sigma and G are estimated roughly at
its first and last models. W is the time since the start, or to the end with
--set theory.time=ahead.

With --lab schedules run on the convex problem at equal virtual time, with
Theorem 1's bound beside what is measured.`,
		Example: `  fedpace theory
  fedpace theory --set task=femnist --l 4 --mu 0.1 --g 2 --loss 4.1 --figure k.svg
  fedpace theory --run runs/demo
  fedpace theory --lab --seeds 5 --out runs/lab
  fedpace theory --errata`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return cli.Usage(c, err)
			}
			switch {
			case f.errata:
				return f.listErrata(c)
			case f.from != "":
				return lab.Draw(f.from, f.from)
			case f.lab:
				return f.laboratory(c)
			}
			return f.advise(c)
		},
	}
	s := c.Flags()
	s.StringArrayVar(&f.config, "config", nil, "YAML `FILE` to read, later ones over earlier ones; without any and --set task= the task is quadratic")
	s.StringArrayVar(&f.sets, "set", nil, "set `KEY=VALUE`, as in schedule.eta0=0.01; may be repeated (keys: fedpace help configuration)")
	s.StringVar(&f.constants, "constants", "", "YAML `FILE` of constants: l, mu, g, variance, gamma, f_star, loss, gap")
	for _, n := range []struct {
		name, what string
		to         **float64
	}{
		{"l", "smoothness L", &f.given.L},
		{"mu", "strong convexity mu", &f.given.Mu},
		{"g", "largest norm of client gradients, G", &f.given.G},
		{"variance", "sum of p_c² sigma_c²", &f.given.Variance},
		{"gamma", "Gamma, how far clients differ", &f.given.Gamma},
		{"f-star", "least loss F*", &f.given.FStar},
		{"loss", "loss F from which to look ahead", &f.given.Loss},
	} {
		s.Func(n.name, n.what+", a `number`", func(text string) error {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("%.40q is not a number", text)
			}
			*n.to = &x
			return nil
		})
	}
	s.StringVar(&f.gap, "gap", "", "form of the gap: proof, stated or appendix (proof)")
	s.StringVar(&f.run, "run", "", "take losses, times and estimates from the finished run in `DIR`")
	s.IntVar(&f.points, "points", 12, "lines of the table")
	s.StringVar(&f.figure, "figure", "", "draw K* and eta* over time, as .svg or .png")
	s.BoolVar(&f.errata, "errata", false, "list what the paper prints wrong")
	s.BoolVar(&f.lab, "lab", false, "run schedules on a convex problem, beside Theorem 1")
	s.IntVar(&f.seeds, "seeds", 5, "with --lab: seeds of each schedule")
	s.StringSliceVar(&f.schedules, "schedules", lab.Schedules, "with --lab: schedules to run, separated by commas")
	s.StringVar(&f.out, "out", "runs/lab", "with --lab: `DIR` for tables, CSV files, figures and runs")
	s.StringVar(&f.from, "from", "", "draw the figures of --lab anew from the CSV files in `DIR`")
	s.BoolVar(&f.force, "force", false, "with --lab: replace the runs that the folder holds")
	s.BoolVar(&f.quiet, "quiet", false, "no progress")
	cli.JSONFlag(c, &f.json, "what the table says")
	cli.Complete(c, "config", cli.FilesOf("yaml", "yml"))
	cli.Complete(c, "constants", cli.FilesOf("yaml", "yml"))
	cli.Complete(c, "set", assignments)
	cli.Complete(c, "gap", cli.Words(lab.Forms...))
	cli.Complete(c, "run", cli.Folders)
	cli.Complete(c, "from", cli.Folders)
	cli.Complete(c, "out", cli.Folders)
	cli.Complete(c, "figure", cli.FilesOf("svg", "png"))
	cli.Complete(c, "schedules", cli.Words(lab.Names()...))
	return c
}

// check finds what the command line itself gets wrong.
func (f *theoryFlags) check(c *cobra.Command) error {
	set := func(name string) bool { return c.Flags().Changed(name) }
	modes := slices.DeleteFunc([]string{"run", "lab", "errata", "from"}, func(name string) bool { return !set(name) })
	if len(modes) > 1 {
		return errors.New("--run, --lab, --errata and --from ask for different things: give one of them")
	}
	for _, name := range []string{"seeds", "schedules", "out", "force"} {
		if set(name) && !f.lab {
			return fmt.Errorf("--%s goes with --lab", name)
		}
	}
	if f.run != "" && (set("config") || set("set")) {
		return errors.New("--run brings its own configuration: leave --config and --set out")
	}
	if f.points < 2 || f.points > 1000 {
		return fmt.Errorf("--points %d: want 2 to 1000", f.points)
	}
	if f.seeds < 1 || f.seeds > lab.MaxSeeds {
		return fmt.Errorf("--seeds %d: want 1 to %d", f.seeds, lab.MaxSeeds)
	}
	for _, name := range f.schedules {
		if !slices.Contains(lab.Names(), name) {
			return fmt.Errorf("--schedules: %.40q is not one of %s", name, strings.Join(lab.Names(), ", "))
		}
	}
	if f.figure != "" {
		if f.lab || f.errata || f.from != "" {
			return errors.New("--figure draws K* and eta*; a laboratory's figures are in its folder")
		}
		if _, err := figure.Format(f.figure); err != nil {
			return fmt.Errorf("--figure: %w", err)
		}
	}
	return f.checkSets("schedule.eta0=0.01")
}

// load makes the configuration; its task is quadratic unless told.
func (f *theoryFlags) load() (config.Config, error) {
	sets := f.sets
	named := slices.ContainsFunc(sets, func(s string) bool { return strings.HasPrefix(s, "task=") })
	if len(f.config) == 0 && !named {
		sets = append([]string{"task=" + string(config.TaskQuadratic)}, sets...)
	}
	return config.LoadFiles(f.config, sets)
}

// known joins the constants of the file and of the flags, which go first.
func (f *theoryFlags) known(c *cobra.Command) (g lab.Given, err error) {
	if f.constants != "" {
		if g, err = lab.ReadGiven(f.constants); err != nil {
			return g, err
		}
	}
	g.Merge(f.given)
	if f.gap != "" {
		if g.Form, err = lab.ParseForm(f.gap); err != nil {
			return g, cli.Usage(c, fmt.Errorf("--gap: %w", err))
		}
	}
	return g, nil
}

func (f *theoryFlags) advise(c *cobra.Command) error {
	given, err := f.known(c)
	if err != nil {
		return err
	}
	var a *lab.Advice
	if f.run != "" {
		a, err = lab.AdviseRun(c.Context(), f.run, given, f.points)
	} else {
		var config config.Config
		if config, err = f.load(); err == nil {
			a, err = lab.Advise(config, given, f.points)
		}
	}
	if missing := (*lab.MissingError)(nil); errors.As(err, &missing) {
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
	return cli.Print(c, f.json, a, a.Write)
}

func (f *theoryFlags) laboratory(c *cobra.Command) error {
	config, err := f.load()
	if err != nil {
		return err
	}
	show := cli.NewDisplay(c.ErrOrStderr(), f.quiet)
	plan := lab.Plan{Config: config, Schedules: f.schedules, Seeds: f.seeds, Out: f.out}
	result, err := plan.Run(c.Context(), study.Options{Run: f.options(show), Progress: func(p study.Progress) { show.Show(statusOfStudy(p)) }})
	show.Close()
	if err != nil {
		return cli.Interruption(c.Context(), err, f.out+sameCommand)
	}
	if err := result.Save(f.out); err != nil {
		return err
	}
	return cli.Print(c, f.json, result, func(w io.Writer) error {
		if err := result.Write(w); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "\nTables, curves and figures: %s\n", filepath.Clean(f.out))
		return err
	})
}

// listErrata lists where the paper prints something else than holds.
func (f *theoryFlags) listErrata(c *cobra.Command) error {
	return cli.Print(c, f.json, theory.Errata(), func(w io.Writer) error {
		_, err := fmt.Fprintln(w, cli.Aligned(func(w io.Writer) {
			fmt.Fprintln(w, "WHERE\tPRINTED\tHOLDS\tWHY")
			for _, e := range theory.Errata() {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Place, e.Printed, e.Holds, e.Why)
			}
		}))
		return err
	})
}
