package validation

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"fedpace/internal/statistics"
	"fedpace/internal/table"
	"fedpace/learn/metric"
	"fedpace/metrics/figure"
)

// columns returns the columns of the settings, for people, for CSV and for JSON.
func (v *Validation) columns() table.Columns[Setting] {
	tail := ""
	if v.Metric != "" {
		tail = "tail " + metric.Title(v.Metric)
	}
	// Columns without a title stand in files alone.
	simulatedTail := tail
	if tail != "" {
		simulatedTail = "simulated"
	}
	number := func(quantity func(Setting) float64) func(Setting) string {
		return func(s Setting) string { return digits(quantity(s)) }
	}
	ratio := func(s Setting) float64 { return s.RoundSeconds.Simulated / s.RoundSeconds.Measured }
	return table.Columns[Setting]{
		{Name: "setting", Title: "setting", Of: func(s Setting) any { return s.Name }},
		{Name: "seeds", Title: "seeds", Of: func(s Setting) any { return s.Seeds }},
		{
			Name:  "round_seconds",
			Title: "s a round",
			Of:    func(s Setting) any { return s.RoundSeconds.Measured },
			Text:  number(func(s Setting) float64 { return s.RoundSeconds.Measured }),
		},
		{
			Name:  "simulated_round_seconds",
			Title: "simulated",
			Of:    func(s Setting) any { return s.RoundSeconds.Simulated },
			Text:  number(func(s Setting) float64 { return s.RoundSeconds.Simulated }),
		},
		{Title: "ratio", Of: func(s Setting) any { return ratio(s) }, Text: number(ratio)},
		{
			Name:  "tail",
			Title: tail,
			Of:    func(s Setting) any { return s.Tail.Measured },
			Text:  number(func(s Setting) float64 { return s.Tail.Measured }),
		},
		{
			Name:  "simulated_tail",
			Title: simulatedTail,
			Of:    func(s Setting) any { return s.Tail.Simulated },
			Text:  number(func(s Setting) float64 { return s.Tail.Simulated }),
		},
		{Name: "version", Of: func(s Setting) any { return s.Version }},
		{Name: "configuration", Of: func(s Setting) any { return s.Configuration }},
		{Name: "data_digest", Of: func(s Setting) any { return s.DataDigest }},
		{Name: "kernel", Of: func(s Setting) any { return s.Kernel }},
	}
}

// digits returns a number for people with four digits, "-" for NaN.
func digits(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Write writes the comparison for people: the settings, how well the orders agree, and the classes.
func (v *Validation) Write(w io.Writer) error {
	if err := table.WriteText(w, v.columns().Texts(v.Settings)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	v.RoundOrder.write(w, "seconds a round")
	if v.Metric != "" {
		v.TailOrder.write(w, "tail "+metric.Title(v.Metric))
	}
	if len(v.Classes) == 0 {
		return nil
	}
	rows := [][]string{{"class", "tasks", "measured/predicted", "download", "compute", "upload"}}
	for _, c := range v.Classes {
		rows = append(rows, []string{
			c.Name,
			strconv.Itoa(c.Tasks),
			c.Seconds.String(),
			c.Download.String(),
			c.Compute.String(),
			c.Upload.String(),
		})
	}
	fmt.Fprintln(w)
	return table.WriteText(w, rows)
}

// write writes a sentence on how well the simulation orders the settings by a quantity.
func (o *Order) write(w io.Writer, quantity string) {
	fmt.Fprintf(w, "By %s the simulation has %d of %d pairs of settings in the measured order: Kendall's τ is %s, "+
		"Spearman's ρ %s.\n", quantity, o.Same, o.Pairs, correlation(o.Kendall), correlation(o.Spearman))
}

// correlation returns a correlation with its interval for people.
func correlation(c statistics.Correlation) string {
	if math.IsNaN(c.Value) {
		return "not known"
	}
	if math.IsNaN(c.Low) {
		return fmt.Sprintf("%.2f", c.Value)
	}
	return fmt.Sprintf("%.2f (95 %%: %.2f to %.2f)", c.Value, c.Low, c.High)
}

// String returns the ratios for people: the median, and the ends.
func (r Ratios) String() string {
	if math.IsNaN(r.Median) {
		return "-"
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", r.Median, r.Low, r.High)
}

// WriteCSV writes a row for each setting.
func (v *Validation) WriteCSV(w io.Writer) error {
	return table.WriteCSV(w, v.columns().Records(v.Settings, -1))
}

// MarshalJSON returns the settings, both orders and the classes. What does not exist is null.
func (v *Validation) MarshalJSON() ([]byte, error) {
	order := func(o Order) map[string]any {
		return map[string]any{
			"kendall":  interval(o.Kendall.Value, o.Kendall.Low, o.Kendall.High),
			"spearman": interval(o.Spearman.Value, o.Spearman.Low, o.Spearman.High),
			"pairs":    o.Pairs,
			"same":     o.Same,
		}
	}
	classes := []map[string]any{}
	for _, c := range v.Classes {
		classes = append(classes, map[string]any{
			"class":    c.Name,
			"tasks":    c.Tasks,
			"seconds":  interval(c.Seconds.Median, c.Seconds.Low, c.Seconds.High),
			"download": interval(c.Download.Median, c.Download.Low, c.Download.High),
			"compute":  interval(c.Compute.Median, c.Compute.Low, c.Compute.High),
			"upload":   interval(c.Upload.Median, c.Upload.Low, c.Upload.High),
		})
	}
	return json.Marshal(map[string]any{
		"metric":   v.Metric,
		"settings": v.columns().Objects(v.Settings),
		"rounds":   order(v.RoundOrder),
		"tails":    order(v.TailOrder),
		"classes":  classes,
	})
}

// interval is a value with its ends as JSON has them.
func interval(value, low, high float64) map[string]any {
	return map[string]any{"value": table.Object(value), "low": table.Object(low), "high": table.Object(high)}
}

// Panels returns the pictures of the comparison: each setting as a dot, measured against simulated,
// beside the line on which both are equal. They are the seconds a round and, where something was trained,
// the tail of the metric, its mean in the last tenth of the time.
func (v *Validation) Panels() []figure.Panel {
	panels := []figure.Panel{v.panel("Seconds a round", func(s *Setting) Pair { return s.RoundSeconds })}
	if v.Metric != "" {
		panels = append(panels, v.panel("Tail "+metric.Title(v.Metric), func(s *Setting) Pair { return s.Tail }))
	}
	return panels
}

// panel draws one quantity of the settings: a dot for each setting, measured against simulated, and the line on which
// both are equal, through the range of all values. Nothing has an error bar. Settings without a value are left out.
func (v *Validation) panel(title string, quantity func(*Setting) Pair) figure.Panel {
	p := figure.Panel{Title: title, X: "simulated", Y: "measured by devices"}
	low := math.Inf(1)
	high := math.Inf(-1)
	for i := range v.Settings {
		s := &v.Settings[i]
		q := quantity(s)
		if math.IsNaN(q.Measured) || math.IsNaN(q.Simulated) {
			continue
		}
		low = min(low, q.Measured, q.Simulated)
		high = max(high, q.Measured, q.Simulated)
		p.Add(s.Name, figure.Point{X: q.Simulated, Y: q.Measured, Half: math.NaN()})
	}
	if low < high {
		p.Add("equal", figure.Point{X: low, Y: low, Half: math.NaN()})
		p.Add("equal", figure.Point{X: high, Y: high, Half: math.NaN()})
	}
	return p
}
