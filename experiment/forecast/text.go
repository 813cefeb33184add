package forecast

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/internal/table"
	"fedpace/metrics"
	"fedpace/metrics/figure"
)

// Write writes a comparison for people: its sentences, then a table of the phases of a task, and a
// table of devices.
func (c *Comparison) Write(w io.Writer) error {
	for _, line := range Lines(&c.Prediction) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if c.Draws == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nseconds a task\tpredicted\t90 %\tmeasured\tmeasured/predicted\toverhead\t")
	// cells writes the four columns of a prediction, each with its tab.
	for i := range c.Phases {
		p := &c.Phases[i]
		fmt.Fprintf(t, "%s\t%s%.4g\t\n", p.Phase, cells(&p.Predicted), p.Overhead)
	}
	fmt.Fprintln(
		t,
		"\ndevice\tclass\ttasks\tpredicted\t90 %\tmeasured\tmeasured/predicted\tdownload\tcompute\tupload\t",
	)
	for i := range c.Devices {
		d := &c.Devices[i]
		fmt.Fprintf(
			t,
			"%s\t%s\t%d\t%s%s\t%s\t%s\t\n",
			d.Device,
			d.Class,
			d.Tasks,
			cells(&d.Seconds),
			ratioOf(&d.Download),
			ratioOf(&d.Compute),
			ratioOf(&d.Upload),
		)
	}
	return t.Flush()
}

// cells returns the cells of a table row for one predicted quantity: the median, the interval, the
// measured value, and that value over the median. Each ends with a tab.
func cells(p *folder.Predicted) string {
	return fmt.Sprintf(
		"%.4g\t%.4g to %.4g\t%s\t%s\t",
		p.P50,
		p.P05,
		p.P95,
		human.Known("%.4g", metrics.Value(p.Measured)),
		ratioOf(p),
	)
}

// ratioOf writes how long the run took relative to its prediction, or that it is not known.
func ratioOf(p *folder.Predicted) string {
	return human.Known("%.3f", metrics.Value(p.Ratio))
}

// Lines puts a prediction into sentences: what was predicted, what the run took, how many rounds
// lay in their intervals, and what the prediction does not know.
func Lines(p *folder.Prediction) (list []string) {
	switch s := &p.Seconds; {
	// Nothing was simulated, as where a device has no class. The sentences on what is unknown say so.
	case p.Draws == 0:
	// The run is still to come.
	case s.Measured == nil:
		list = append(
			list,
			fmt.Sprintf(
				"%d %s are predicted to take %s; 90 %% of %d draws are from %s to %s.",
				p.Rounds,
				human.Plural(p.Rounds, "round"),
				secondsText(s.P50),
				p.Draws,
				secondsText(s.P05),
				secondsText(s.P95),
			),
		)
	default:
		list = append(list,
			fmt.Sprintf("%d %s took %s, predicted were %s (90 %%: %s to %s): "+
				"%s of it.", p.Rounds, human.Plural(p.Rounds, "round"),
				secondsText(*s.Measured), secondsText(s.P50), secondsText(s.P05), secondsText(s.P95), ratioOf(s)),
			fmt.Sprintf("%d of %d rounds are within the interval of 90 %% of %d draws.", p.Inside, p.Rounds, p.Draws))
	}
	return append(list, p.Unknown...)
}

// secondsText writes a time with four digits, below ten minutes in seconds and else in minutes.
func secondsText(seconds float64) string {
	if seconds < 600 {
		return fmt.Sprintf("%.4g s", seconds)
	}
	return fmt.Sprintf("%.4g min", seconds/60)
}

// maxPoints bounds the rounds of a figure: of more every n-th is drawn.
const maxPoints = 1000

// Panel draws the time of each round: the interval of the draws as a band, their median, and what
// was measured. It thins out long runs.
func Panel(title string, rows []Row) figure.Panel {
	panel := figure.Panel{
		Title:    title,
		X:        "round",
		Y:        "seconds",
		Steps:    true,
		FromZero: true,
	}
	band := figure.Band{Name: "90 % of the draws"}
	rows = RoundRows(rows)
	each := 1 + (len(rows)-1)/maxPoints
	for i := 0; i < len(rows); i += each {
		s := &rows[i]
		x := float64(rows[i].Round)
		band.Points = append(band.Points, figure.Interval{X: x, Low: s.P05, High: s.P95})
		panel.Add("predicted", figure.Point{X: x, Y: s.P50})
		panel.Add("measured", figure.Point{X: x, Y: s.Measured})
	}
	panel.Bands = append(panel.Bands, band)
	return panel
}

// Row is a row of prediction.csv: the time of a round, or the mean of one of its phases over the
// tasks that devices answered in it. Times are in seconds to the nanosecond. Phase is [wholeRound] for the
// time of a round, and Measured is NaN if nothing was measured.
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

// RoundRows returns those rows that are about whole rounds.
func RoundRows(rows []Row) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Phase != wholeRound })
}

// WriteCSV writes prediction.csv.
func (c *Comparison) WriteCSV(w io.Writer) error { return table.Encode(w, c.Rows, -1) }

// toNanosecond rounds a time in seconds to the nanosecond.
func toNanosecond(seconds float64) float64 { return math.Round(seconds*1e9) / 1e9 }

// ReadRows reads the prediction of each round that the run in folder dir has left. It returns none
// if the run left no such file.
func ReadRows(dir string) ([]Row, error) {
	rows, err := table.Read[Row](filepath.Join(dir, folder.PredictionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rows, err
}
