package paper

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/coordinator/schedule"
	"fedpace/internal/atomicfile"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/metrics/figure"
	"fedpace/study"
)

// The figures' files.
const (
	Figure1File = "figure1.svg"
	Figure2File = "figure2.svg"
	// GainsFile shows the differences that the claims of a folder are about.
	GainsFile = "gains.svg"
)

// Draw draws the figures of the curves into a folder, in the style of the paper: a panel for each task.
// Figure 1 is the lowest training error so far (Eq. 15's mean of first-step losses) against
// simulated minutes, the mean over seeds; Figure 2 the highest validation accuracy so far, with its
// 95% confidence interval. A vertical line is where the validation error of K-eta-fixed has
// converged. A run that was cut has its line as far as it went, and says so. Where nothing was
// evaluated it draws nothing.
func Draw(dir string, curves []Curve) error {
	for _, f := range []struct {
		file, y       string
		withIntervals bool
		value         func(*Point) float64
	}{
		{Figure1File, "lowest training loss so far", false, func(p *Point) float64 { return p.BestLoss }},
		{Figure2File, "highest validation accuracy so far", true, func(p *Point) float64 { return p.BestAccuracy }},
	} {
		panels := panels(curves, f.y, f.withIntervals, f.value)
		for i := range panels {
			panels[i].Share = f.file == Figure2File
		}
		// Nothing was evaluated, so there is no curve.
		if len(panels) == 0 {
			return nil
		}
		if err := figure.Save(filepath.Join(dir, f.file), panels...); err != nil {
			return err
		}
	}
	return nil
}

// panels draws curves, a panel for each task and data set. value is the quantity on the y axis, which is
// labelled y, and withIntervals says whether the intervals of its means are shown.
func panels(curves []Curve, y string, withIntervals bool, value func(*Point) float64) []figure.Panel {
	var list []figure.Panel
	index := map[string]int{}
	for _, g := range groups(curves) {
		if len(g[0].Points) == 0 {
			continue
		}
		// Groups that can be compared share a panel.
		i, ok := index[g.comparisonKey()]
		if !ok {
			i = len(list)
			index[g.comparisonKey()] = i
			list = append(list, figure.Panel{
				Title: g.title(),
				X:     "simulated minutes",
				Y:     y,
				Steps: true,
			})
		}
		p := &list[i]
		p.Lines = append(p.Lines, g.line(withIntervals, value))
		// A vertical line marks when the validation error of fixed K had converged.
		if g[0].Schedule == "fixed" {
			converged := g.mean(func(c *Curve) float64 { return c.Plateaued / 60 })
			p.Marks = append(p.Marks, figure.Mark{X: converged.Mean, Name: "fixed: converged"})
		}
	}
	return list
}

// DrawGains draws into a file in dir, for each folder of runs, how far above fixed K each schedule
// ends that a verdict compares with it: the mean with its interval, and a dot for each seed.
// Without such a verdict it draws nothing.
func DrawGains(dir string, list []Verdict) error {
	var panels []figure.Panel
	for i := range list {
		if name, gain, bySeed := list[i].gainOverFixed(); name != "" {
			panels = study.Dots(
				panels,
				list[i].Folder,
				"tail accuracy above fixed K's",
				strings.ReplaceAll(name, "-", "-\n"),
				bySeed,
				gain,
			)
		}
	}
	if len(panels) == 0 {
		return nil
	}
	// Two panels stand side by side in each row.
	return atomicfile.Write(filepath.Join(dir, GainsFile), func(w io.Writer) error {
		return figure.Write(w, slices.Collect(slices.Chunk(panels, 2))...)
	})
}

// gainOverFixed returns the schedule that the verdict compares with fixed K by their tail accuracies, and the gains of
// that schedule: its accuracy less that of fixed K, with each seed and as a mean. If the verdict compares something
// else, or no seed has the runs of both, name is empty.
func (v *Verdict) gainOverFixed() (name string, mean statistics.Estimated, bySeed []float64) {
	switch {
	case v.Quantity != "tail_accuracy" || v.N == 0:
	case v.Against == schedule.Fixed:
		return v.Schedule, v.Estimated, v.bySeed
	// The verdict has fixed K first, so its differences change their sign.
	case v.Schedule == schedule.Fixed:
		for _, d := range v.bySeed {
			bySeed = append(bySeed, -d)
		}
		return v.Against, statistics.EstimateMean(bySeed), bySeed
	}
	return "", mean, nil
}

// title returns the title of a panel: the task, the number of seeds, and how the runs differ from the
// paper's evaluation, such as fewer rounds. The data are on lines of their own.
func (g group) title() string {
	title := fmt.Sprintf("%s, %d %s", g[0].Task, len(g), human.Plural(len(g), "seed"))
	if g[0].FixedRounds != FullRounds {
		title += fmt.Sprintf(", %d of %d rounds", g[0].FixedRounds, FullRounds)
	}
	if d := g[0].Devices; d != "" {
		title += ", devices: " + d
	}
	return title + "\n" + wrap(g.dataText(), 60)
}

// line returns the line of a value against virtual time, as the mean over the group's seeds.
// value returns the value of one point.
func (g group) line(withIntervals bool, value func(*Point) float64) figure.Line {
	runs := make([][]Point, len(g))
	for i, c := range g {
		runs[i] = c.Points
	}
	line := figure.MeanLine(g.name(), runs, func(p *Point) (float64, float64) { return p.VirtualSeconds, value(p) })
	for i := range line.Points {
		if !withIntervals {
			line.Points[i].Half = math.NaN()
		}
	}
	return line
}
