package plan

import (
	"math"

	"fedpace/experiment/forecast"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
	"fedpace/metrics/figure"
)

// maxLines is the most settings that a figure shows.
const maxLines = 8

// Panels draws how the settings end, against time, energy and bytes, if they were trained, and otherwise
// how many rounds and bytes fit into the plan's time.
func (p *Plan) Panels() ([]figure.Panel, error) {
	if p.trained() == 0 {
		return p.timePanels(), nil
	}
	quantity := metric.Title(p.quality.Name)
	isShare := metric.IsShare(p.quality.Name)
	time := figure.Panel{
		Title: "against time",
		X:     "virtual minutes",
		Y:     quantity,
		Share: isShare,
	}
	energy := figure.Panel{Title: "against energy", X: "kJ", Y: "tail " + quantity, Share: isShare}
	bytes := figure.Panel{Title: "against bytes", X: "MB", Y: "tail " + quantity, Share: isShare}
	// Only a limited number of settings are drawn, the best of those that were trained.
	for _, s := range p.Settings {
		trained := s.Trained
		if trained == nil || trained.Tail.N == 0 || len(time.Lines) == maxLines {
			continue
		}
		line, err := s.curve()
		if err != nil {
			return nil, err
		}
		time.Lines = append(time.Lines, line)
		energy.Add(s.Name, figure.Point{X: trained.Joules.Mean / 1e3, Y: trained.Tail.Mean, Half: trained.Tail.Half})
		bytes.Add(s.Name, figure.Point{X: trained.Bytes.Mean / 1e6, Y: trained.Tail.Mean, Half: trained.Tail.Half})
	}
	panels := []figure.Panel{time, bytes}
	// The energy is known only if the classes give their watts.
	if !math.IsNaN(p.Chosen.Joules.P50) {
		panels = append(panels, energy)
	}
	return panels, nil
}

// curve returns the line of the setting's quality against virtual time: the mean over its seeds,
// with intervals. Very long runs are thinned. It reads the runs from their folders.
func (s *Setting) curve() (figure.Line, error) {
	type point struct{ seconds, quality float64 }
	var runs [][]point
	for i := range s.Trained.cells {
		// A run that diverged is in no mean.
		if s.Trained.cells[i].Diverged != "" {
			continue
		}
		thin := statistics.Thin[point](1 << 12)
		for r, err := range s.Trained.cells[i].Run().Follow() {
			if err != nil {
				return figure.Line{}, err
			}
			// A round without an evaluation has no value.
			if !math.IsNaN(r.Quality) {
				thin.Add(point{r.End.Seconds(), r.Quality})
			}
		}
		runs = append(runs, thin.All())
	}
	return figure.MeanLine(s.Name, runs, func(p *point) (float64, float64) { return p.seconds, p.quality }), nil
}

// timePanels returns the panels of a plan in which nothing was trained: rounds and bytes within the
// plan's time, for the first settings of the table side by side, with the interval of 90 % over
// draws of the fleet.
func (p *Plan) timePanels() []figure.Panel {
	rounds := figure.Panel{Title: "rounds in the plan's time", Y: "rounds", FromZero: true}
	bytes := figure.Panel{Title: "bytes", Y: "MB", FromZero: true}
	for i, s := range p.Settings[:min(maxLines, len(p.Settings))] {
		// Each setting adds one point with its interval to both panels.
		for _, series := range []struct {
			panel    *figure.Panel
			interval forecast.Interval
			unit     float64
		}{{&rounds, s.Rounds, 1}, {&bytes, s.Bytes, 1e-6}} {
			v := series.interval
			series.panel.Add(s.Name, figure.Point{
				X:    float64(i + 1),
				Y:    series.unit * v.P50,
				Half: series.unit * (v.P95 - v.P05) / 2,
			})
		}
	}
	return []figure.Panel{rounds, bytes}
}
