package folder

import "math"

// PredictionFile compares each round of a run with real devices with its prediction.
const PredictionFile = "prediction.csv"

// Prediction is what a run with real devices took beside what was predicted of it: many
// draws of the same run with a simulated client of its class in place of each device.
type Prediction struct {
	Draws   int       `json:"draws"`
	Rounds  int       `json:"rounds"`          // that are compared, from the first on
	Inside  int       `json:"rounds_inside"`   // whose time is within the interval, which holds 90 % of the draws
	Seconds Predicted `json:"seconds"`         // of those rounds together
	Phases  []Phase   `json:"phases"`          // of a task of a device, in their mean
	Devices []Device  `json:"devices"`         // of a task, in its mean; if they are many, those that are furthest off
	Unknown []string  `json:"what_is_unknown"` // in sentences
}

// Predicted is a time that was measured and predicted: the median of the draws and
// the interval that 90 % of them are in. Measured is null where nothing was.
type Predicted struct {
	Measured *float64 `json:"measured"`
	P05      float64  `json:"p05"`
	P50      float64  `json:"p50"`
	P95      float64  `json:"p95"`
	Ratio    *float64 `json:"ratio"` // measured over the median; null without one of them
}

// NewPredicted is what was measured, NaN for nothing, beside the median and the interval
// of the draws.
func NewPredicted(measured, p05, p50, p95 float64) Predicted {
	p := Predicted{P05: p05, P50: p50, P95: p95}
	if !math.IsNaN(measured) {
		p.Measured = &measured
		if ratio := measured / p50; p50 > 0 {
			p.Ratio = &ratio
		}
	}
	return p
}

// Inside reports whether the measured value is in the interval.
func (p *Predicted) Inside() bool {
	return p.Measured != nil && *p.Measured >= p.P05 && *p.Measured <= p.P95
}

// Phase is a phase of the devices' tasks.
type Phase struct {
	Phase    string  `json:"phase"`
	Overhead float64 `json:"overhead"` // seconds of it that the classes give as overhead, in the mean over the tasks
	Predicted
}

// Device is a real device.
type Device struct {
	Device   string    `json:"device"`
	Class    string    `json:"class"`
	Tasks    int       `json:"tasks"` // that it has answered
	Seconds  Predicted `json:"seconds"`
	Download Predicted `json:"download"`
	Compute  Predicted `json:"compute"`
	Upload   Predicted `json:"upload"`
}
