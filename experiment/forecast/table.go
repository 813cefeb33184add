package forecast

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"fedpace/experiment/folder"
	"fedpace/internal/table"
)

// Row is a row of prediction.csv: the time of a round, or the mean of one of its phases over the
// tasks that devices answered in it, in seconds to the nanosecond; NaN: nothing was measured.
type Row struct {
	Round    int     `csv:"round"`
	Phase    string  `csv:"phase"`
	Measured float64 `csv:"measured_seconds"`
	P05      float64 `csv:"predicted_p05"`
	P50      float64 `csv:"predicted_p50"`
	P95      float64 `csv:"predicted_p95"`
}

// wholeRound stands in the place of a phase.
const wholeRound = "round"

// Whole are the rows of whole rounds.
func Whole(rows []Row) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Phase != wholeRound })
}

// WriteCSV writes prediction.csv.
func (c *Comparison) WriteCSV(w io.Writer) error { return table.Encode(w, c.Rows, -1) }

// exact is a time in seconds to the nanosecond.
func exact(seconds float64) float64 { return math.Round(seconds*1e9) / 1e9 }

// ReadRows reads a run's prediction.csv; none where there is no file.
func ReadRows(dir string) ([]Row, error) {
	rows, err := table.Read[Row](filepath.Join(dir, folder.PredictionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rows, err
}
