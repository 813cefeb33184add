package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"fedpace/experiment/forecast"
	"fedpace/learn/metric"
	"fedpace/metrics/figure"
)

// resolution bounds the points at which a distribution is drawn.
const resolution = 300

// Figures draws the runs to w as SVG, with a row of panels for each task. It is an error if no run has a
// complete round.
func Figures(w io.Writer, runs []Run) error {
	all, err := Groups(runs)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var rows [][]figure.Panel
	for i, g := range all {
		sameTask := func(o Group) bool { return o.task == g.task }
		if slices.ContainsFunc(all[:i], sameTask) {
			continue
		}
		task := section(slices.DeleteFunc(slices.Clone(all), func(o Group) bool { return !sameTask(o) }))
		if p := task.Panels(); len(p) > 0 {
			rows = append(rows, p)
		}
	}
	if len(rows) == 0 {
		return errors.New("report: no round is complete")
	}
	return figure.Write(w, rows...)
}

// section is the groups of one task, which share a row of panels.
type section []Group

// Panels are a task's figures; those of which no run has anything are left out.
func (s section) Panels() []figure.Panel {
	task := string(s[0].task)
	list := []figure.Panel{s.curve(
		task+": lowest training loss so far",
		"training loss",
		func(p *point) float64 { return p.loss },
	)}
	for _, q := range s.qualities() {
		title := fmt.Sprintf("%s: %s validation %s so far", task, q.Best(), q.Name)
		list = append(list, s.curve(title, "validation "+q.Name, func(p *point) float64 { return p.best }, q))
	}
	for i, c := range figured() {
		list = append(list, s.curve(task+": "+c.Title, c.Title, func(p *point) float64 { return p.values[i] }))
	}
	list = append(list, s.distribution(task+": how long rounds take"))
	list = append(list, s.predictions()...)
	return slices.DeleteFunc(list, isEmpty)
}

// isEmpty reports whether no line of a panel has a point with a value.
func isEmpty(p figure.Panel) bool {
	for _, line := range p.Lines {
		for _, point := range line.Points {
			if !math.IsNaN(point.Y) {
				return false
			}
		}
	}
	return true
}

// maxPredictions bounds the runs that have a figure of their prediction.
const maxPredictions = 6

// predictions lists the panels of runs with real devices beside what was predicted of them.
func (s section) predictions() (list []figure.Panel) {
	for _, g := range s {
		for _, r := range g.Runs {
			if r.predicted != nil && len(list) < maxPredictions {
				list = append(list, forecast.Panel(r.Config.Name+": rounds, measured and predicted", r.predicted))
			}
		}
	}
	return list
}

// qualities lists the metrics by which the groups' models are compared.
func (s section) qualities() (list []metric.Metric) {
	for _, g := range s {
		if q := g.Runs[0].quality.Metric; !slices.Contains(list, q) {
			list = append(list, q)
		}
	}
	return list
}

// curve is a panel against virtual minutes: a line for each group, with a band where it has several
// seeds. value is what is drawn of a point. With a quality only groups that are compared by it are drawn.
func (s section) curve(title, y string, value func(*point) float64, quality ...metric.Metric) figure.Panel {
	panel := figure.Panel{
		Title: title,
		X:     "virtual minutes",
		Y:     y,
		Steps: true,
	}
	for _, g := range s {
		if len(quality) == 0 || g.Runs[0].quality.Metric == quality[0] {
			panel.Lines = append(panel.Lines, g.line(value))
		}
	}
	panel.Share = len(quality) > 0 && metric.IsShare(quality[0].Name)
	return panel
}

// line returns the mean of a value over the group's seeds, against virtual time. At each time a seed counts with its
// last round that had ended by then. The line ends where the first of the seeds ends.
func (g *Group) line(value func(*point) float64) figure.Line {
	runs := make([][]point, len(g.Runs))
	for i, r := range g.Runs {
		runs[i] = r.points
	}
	return figure.MeanLine(g.Name, runs, func(p *point) (float64, float64) { return p.seconds, value(p) })
}

// distribution is, for each duration, the share of rounds that took no longer.
func (s section) distribution(title string) figure.Panel {
	panel := figure.Panel{
		Title:    title,
		X:        "seconds",
		Y:        "share of rounds",
		Steps:    true,
		FromZero: true,
	}
	for _, g := range s {
		var all []float64
		for _, r := range g.Runs {
			all = append(all, r.durations...)
		}
		slices.Sort(all)
		line := figure.Line{Name: g.Name}
		if n := len(all); n > 0 {
			line.Points = append(line.Points, figure.Point{X: all[0]})
			for i := range min(resolution, n) {
				// count rounds took no longer than the last of them, all[count-1].
				count := (i + 1) * n / min(resolution, n)
				line.Points = append(line.Points, figure.Point{X: all[count-1], Y: float64(count) / float64(n)})
			}
		}
		panel.Lines = append(panel.Lines, line)
	}
	return panel
}
