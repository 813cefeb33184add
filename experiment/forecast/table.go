package forecast

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"

	"fedpace/experiment/folder"
	"fedpace/internal/csvtable"
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
// over the tasks that devices answered in it.
func (c *Comparison) WriteCSV(to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprintln(w, "round,phase,measured_seconds,predicted_p05,predicted_p50,predicted_p95")
	for _, row := range c.Rows {
		write := func(phase string, p *folder.Predicted) {
			measured := ""
			switch {
			case p.Measured != nil:
				measured = number(*p.Measured)
			case math.IsNaN(p.P50):
				return
			}
			fmt.Fprintf(w, "%d,%s,%s,%s,%s,%s\n", row.Round, phase, measured, number(p.P05), number(p.P50), number(p.P95))
		}
		write(wholeRound, &row.Seconds)
		for i := range row.Phases {
			write(phases[i].String(), &row.Phases[i])
		}
	}
	return w.Flush()
}

// number is a cell: seconds to the nanosecond; empty: none.
func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(math.Round(v*1e9)/1e9, 'f', -1, 64)
}

// ReadRows reads the rounds of a run's prediction.csv, without their phases; none where there is
// no file.
func ReadRows(dir string) (rows []Row, err error) {
	lines, err := csvtable.Read[line](filepath.Join(dir, folder.PredictionFile))
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
