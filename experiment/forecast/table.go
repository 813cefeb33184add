package forecast

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"

	"fedpace/experiment/folder"
	"fedpace/internal/table"
	"fedpace/metrics"
)

// line is a row of prediction.csv: a round's time, or one of its phases.
type line struct {
	Round    int     `csv:"round"`
	Phase    string  `csv:"phase"`
	Measured float64 `csv:"measured_seconds"`
	P05      float64 `csv:"predicted_p05"`
	P50      float64 `csv:"predicted_p50"`
	P95      float64 `csv:"predicted_p95"`
}

// wholeRound stands in the place of a phase.
const wholeRound = "round"

// WriteCSV writes prediction.csv: for each round its time, and the mean of each phase
// over the tasks that devices answered in it. Seconds are to the nanosecond.
func (c *Comparison) WriteCSV(w io.Writer) error {
	var lines []line
	for i := range c.Rows {
		row := &c.Rows[i]
		add := func(phase string, p *folder.Predicted) {
			if measured := metrics.Value(p.Measured); !math.IsNaN(measured) || !math.IsNaN(p.P50) {
				lines = append(lines, line{row.Round, phase, exact(measured), exact(p.P05), exact(p.P50), exact(p.P95)})
			}
		}
		add(wholeRound, &row.Seconds)
		for p := range row.Phases {
			add(phases[p].String(), &row.Phases[p])
		}
	}
	return table.Encode(w, lines, -1)
}

// exact is a time in seconds to the nanosecond.
func exact(seconds float64) float64 { return math.Round(seconds*1e9) / 1e9 }

// ReadRows reads the rounds of a run's prediction.csv, without their phases; none where there is
// no file.
func ReadRows(dir string) (rows []Row, err error) {
	lines, err := table.Read[line](filepath.Join(dir, folder.PredictionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, l := range lines {
		if l.Phase == wholeRound {
			rows = append(rows, Row{Round: l.Round, Seconds: folder.NewPredicted(l.Measured, l.P05, l.P50, l.P95)})
		}
	}
	return rows, err
}
