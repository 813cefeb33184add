package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/bus/natsconn"
	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/config/expect"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/report"
	"fedpace/experiment/ui"
	"fedpace/internal/atomicfile"
	"fedpace/internal/human"
	"fedpace/internal/names"
	"fedpace/study"
	"fedpace/study/tune"
)

// compareCommand makes "fedpace compare", one study of several schedules at equal virtual time,
// with its table, figure and page. p runs the study. The exit status tells whether an expectation
// was missed.
func compareCommand(p program) *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare",
		Short: "Run several schedules on the same cohorts and print one table",
		Long: `Run several schedules on the same cohorts and for the same virtual time, and
compare them in a table (compare.txt, compare.csv) and on a page (compare.html).
Repeat the command to continue. Schedules: ` + strings.Join(schedule.Names(), ", ") + `.

The exit status is 3 where --expect or the key expect is missed.`,
		Example: `  fedpace compare
  fedpace compare --set task=femnist --schedules dsgd,fixed,rounds,error,step
  fedpace compare --schedules fixed,rounds --grid network.upload_mbps=1,5,20 --seeds 5 --figure upload.svg`,
		RunE: func(c *cobra.Command, _ []string) error { return f.compare(c, p) },
	}
	f.flags.add(c)
	f.sweep.add(c)
	cli.AddServer(c, &f.server)
	cli.JSONFlag(c, "")
	f.schedules.add(c, []string{"fixed", "rounds"}, "")
	c.Flags().StringVar(
		&f.tuned,
		"tuned",
		"",
		"`DIR` of fedpace tune, with each schedule's best keys; other seeds are used",
	)
	return c
}

// compareFlags are the flags of "fedpace compare".
type compareFlags struct {
	flags
	// sweep varies keys, seeds and controls, and schedules are those that are compared.
	sweep     sweepFlags
	schedules scheduleFlag
	// server is the NATS server of hosts that do the work; without a URL this process does.
	server natsconn.Config
	// tuned is the folder of a tuning, from which each schedule takes its keys; empty: none.
	tuned string
}

// compare plays the study that the flags of the command c describe, by p, prints and saves its table, and draws
// its page and figure.
func (f *compareFlags) compare(c *cobra.Command, p program) error {
	loaded, plan, err := f.studyPlan(c, "-compare", &f.sweep, &f.schedules)
	if err != nil {
		return err
	}
	// Mistakes in the expectations are found before anything runs.
	if err := study.CheckExpected(&loaded, plan.Names(), plan.Seeds); err != nil {
		return cli.Usage(c, err)
	}
	if f.tuned != "" {
		best, err := tune.Read(f.tuned)
		err = cmp.Or(err, best.Apply(&plan))
		if err != nil {
			return cli.Usage(c, fmt.Errorf("--tuned: %w", err))
		}
	}
	display := cli.NewDisplay(c)
	o := f.studyOptions(display, f.server)
	// Of a single run the run's own progress is shown instead.
	if !plan.IsSingle() {
		o.Progress = func(p study.Progress) { display.Show(statusOfStudy(p)) }
	}
	result, err := p.compare(c.Context(), plan, o)
	if err == nil {
		noticeReplaced(display, plan.Folder, result)
	}
	display.Close()
	if err != nil {
		return cli.Interruption(c.Context(), err, plan.Folder+sameCommand)
	}
	return f.show(c, result, plan.Folder)
}

// show prints a comparison, saves it in the folder dir and draws the figure of --figure. A run that diverged or
// missed an expectation fails the command, but only after the results are kept.
func (f *compareFlags) show(c *cobra.Command, result *study.Comparison, dir string) error {
	if err := cli.Print(c, result, result.Write); err != nil {
		return err
	}
	page, err := saveStudy(dir, result)
	if err != nil {
		return err
	}
	// With --json standard output holds one JSON value and nothing else.
	if page != "" && !cli.AsJSON(c) {
		fmt.Fprintf(c.OutOrStdout(), "\nAs a picture, with all runs: %s\n", names.Printable(page))
	}
	if f.sweep.figure != "" {
		if err := result.Table().Figure(f.sweep.figure); err != nil {
			return err
		}
	}
	if err := study.Diverged(result.Runs); err != nil {
		return err
	}
	if err := expect.Missed(result.Expected()); err != nil {
		return cli.StatusError{Status: cli.ExitMissed, Problem: err}
	}
	return nil
}

// sweepFlags are the flags that turn a comparison into a sweep over keys, seeds and controls.
type sweepFlags struct {
	// grids holds each --grid as it was written: a key with its values or its range.
	grids []string
	// seeds is how many seeds each setting runs with.
	seeds int
	// figure is the file of the sweep's figure; empty: none is drawn.
	figure string

	// equal is what the runs use alike: virtual time, or energy, bytes, carbon or client_time.
	equal string
	// controls is "all", "constant" or empty for none.
	controls string
	// until describes how seeds are added until the difference is known well enough; a Half of zero
	// adds none.
	until study.Until
}

// add defines the flags of a study that varies keys, seeds and controls on the command c. Their
// values go to f, and apply puts them into the plan.
func (f *sweepFlags) add(c *cobra.Command) {
	s := c.Flags()
	s.StringArrayVar(&f.grids, "grid", nil, "sweep a key over values, `KEY=VALUE,...`, or a range, KEY=LOW..HIGH/N; "+
		"may be repeated")
	s.StringVar(&f.equal, "equal", "time", "what all schedules get as much of as stop.rounds of fixed K: time, "+
		"energy, bytes, carbon or client_time")
	cli.OneOf(c, "equal", "time", "energy", "bytes", "carbon", "client_time")
	s.StringVar(&f.controls, "controls", "", controlsUsage+"; =constant: the first alone")
	// The flag may stand without a value, which means all kinds of controls.
	s.Lookup("controls").NoOptDefVal = "all"
	cli.OneOf(c, "controls", "all", "constant")
	s.IntVar(&f.seeds, "seeds", 1, seedsUsage)
	cli.InRange(c, "seeds", 1, maxSeeds)
	s.Float64Var(&f.until.Half, "until", 0, "add seeds until differences in tails are known to ± this (Stein's "+
		"two stages; --seeds of 5 or more first)")
	s.IntVar(&f.until.MaxSeeds, "until-seeds", 100, "maximum seeds with --until")
	cli.Complete(c, "grid", assignments)
	s.StringVar(&f.figure, "figure", "", "draw the sweep against its first --grid, as .svg")
}

// apply puts the sweep's flags into a plan. It returns an error for flags that contradict each
// other, before anything runs. A grid over schedule.k, schedule.eta or schedule takes the place of
// the list of schedules.
func (f *sweepFlags) apply(c *cobra.Command, p *study.Plan) error {
	// Half is the half width of the interval that is wanted. The negation also refuses NaN, which no
	// comparison holds for.
	isNoWidth := !(f.until.Half >= 0)
	hasBadLimit := f.until.Half > 0 && (f.until.MaxSeeds < 2 || f.until.MaxSeeds > 1000)
	if isNoWidth || hasBadLimit {
		return fmt.Errorf(
			"--until %g, --until-seeds %d: want a width of 0 or more and 2 to 1000 seeds",
			f.until.Half,
			f.until.MaxSeeds,
		)
	}
	p.Seeds = f.seeds
	p.Until = f.until
	// Without --controls there are none.
	switch f.controls {
	case "all":
		p.Controls = study.Kinds
	case "constant":
		p.Controls = study.Kinds[:1]
	}
	for _, text := range f.grids {
		// A grid is a key with values, or with a range of them.
		g, err := study.ParseGrid(text)
		if err != nil {
			return err
		}
		// Some keys cannot be swept, since flags or the study itself set them for each run.
		switch g.Key {
		case "schedule.k", "schedule.eta", "schedule":
			if c.Flags().Changed("schedules") {
				return fmt.Errorf("--grid %s and --schedules both choose the schedule: give one of them", g.Key)
			}
			p.Schedules = nil
		case "seed":
			return errors.New("--grid seed: use --seeds N for runs with several seeds")
		case "out", "name":
			return fmt.Errorf("--grid %s: each run has a folder of its own under --out", g.Key)
		}
		p.Grids = append(p.Grids, g)
	}
	if f.figure == "" {
		return nil
	}
	return p.CheckFigure(f.figure)
}

// studyPlan makes the plan of a study from the configuration that the flags ask for. The folder
// gets the suffix unless a flag names a folder, so that it differs from that of a single run.
// Errors in the flags are marked as errors of usage.
func (f *flags) studyPlan(
	c *cobra.Command,
	suffix string,
	sweep *sweepFlags,
	schedules *scheduleFlag,
) (loaded config.Config, p study.Plan, err error) {
	loaded, err = f.load(c)
	if err != nil {
		return loaded, p, err
	}
	// The strategy of a Flower app takes the place of a schedule.
	if loaded.PlaysFlower() && !schedules.given {
		schedules.list = nil
	}
	// Each setting of the study loads the configuration again, with the key=value sets of that setting.
	p = study.Plan{
		Load: func(sets ...string) (config.Config, error) {
			if sweep.equal != "" && sweep.equal != "time" {
				sets = append([]string{"stop.equal=" + sweep.equal}, sets...)
			}
			return f.read(c, sets...)
		},
		Schedules: schedules.list,
		Folder:    loaded.Out,
	}
	if p.Folder == standardFolder(loaded, noReplay) && !f.namesOut(c) {
		p.Folder += suffix
	}
	// A grid may have removed the schedules, so those that remain are checked.
	err = sweep.apply(c, &p)
	if err == nil {
		schedules.list = p.Schedules
		err = schedules.check(f.sets, loaded.Schedule)
	}
	return loaded, p, cli.Usage(c, err)
}

// noticeReplaced shows a notice if the folder dir has the table and the page of an earlier comparison with runs
// that this comparison does not have: both files are replaced.
func noticeReplaced(display *cli.Display, dir string, comparison *study.Comparison) {
	if len(comparison.Runs) == 0 {
		return
	}
	if missing := comparison.CountMissing(dir); missing > 0 {
		display.Notice(fmt.Sprintf("%s had the table and page of another comparison, with %d %s that this one lacks: "+
			"they are replaced, the runs stay (the earlier command makes them again; --out DIR keeps both).",
			dir, missing, human.Plural(missing, "run")))
	}
}

// saveStudy saves the comparison in the folder dir, and draws its runs on one HTML page. page is
// the path of that page. It is empty if the comparison has more runs than a page can show, or none:
// then nothing is saved either.
func saveStudy(dir string, comparison *study.Comparison) (page string, err error) {
	if len(comparison.Runs) == 0 {
		return "", nil
	}
	// A page has at most report.MaxRuns runs. The command fedpace report can draw parts of a larger
	// study.
	if err := comparison.Save(dir); err != nil || len(comparison.Runs) > report.MaxRuns {
		return "", err
	}
	folders := names.Of(comparison.Runs, func(cell study.Cell) string { return cell.Config.Out })
	// The page is that of the workbench, with the runs of this study alone.
	library, err := ui.Open(cli.Version(), folders...)
	if err != nil {
		return "", err
	}
	webpage, err := comparison.Webpage()
	if err != nil {
		return "", err
	}
	page = filepath.Join(dir, study.PageFile)
	return page, atomicfile.Write(page, func(w io.Writer) error {
		_, err := library.Export(w, webpage)
		return err
	})
}
