package schedule

import (
	"math"
	"strings"
	"sync"

	"fedpace/internal/expression"
	"fedpace/internal/portable/exact"
	"fedpace/registry"
)

// formula is an expression over numbers (package expression). It is compiled and checked when a configuration is
// read. Its functions round alike on every architecture, so that equal values give equal results.
type formula struct{ *expression.Program }

// environment holds the values of the variables of a formula, by their names in it. All numbers are real.
type environment struct {
	Round          float64 `expr:"r"`
	Seconds        float64 `expr:"t"`
	Loss           float64 `expr:"F"`
	F0             float64 `expr:"F0"`
	Accuracy       float64 `expr:"accuracy"`
	Converged      bool    `expr:"converged"`
	StragglerShare float64 `expr:"straggler_share"`
	K0             float64 `expr:"k0"`
	Eta0           float64 `expr:"eta0"`
	K              float64 `expr:"k"`
	Eta            float64 `expr:"eta"`
	Pi             float64 `expr:"pi"`
}

// Functions are the functions that a formula may call, by their names in it. They round alike on every
// architecture, and their results are NaN where an argument is.
var Functions = map[string]expression.Function{
	"abs":   expression.OneNumber(math.Abs),
	"cbrt":  expression.OneNumber(exact.Cbrt),
	"ceil":  expression.OneNumber(math.Ceil),
	"cos":   expression.OneNumber(exact.Cos),
	"exp":   expression.OneNumber(exact.Exp),
	"floor": expression.OneNumber(math.Floor),
	"log":   expression.OneNumber(exact.Log),
	"max":   {From: 1, To: math.MaxInt, Value: largest},
	"min":   {From: 1, To: math.MaxInt, Value: smallest},
	"pow":   expression.TwoNumbers(exact.Pow),
	"round": expression.OneNumber(math.Round),
	"sqrt":  expression.OneNumber(math.Sqrt),
}

// largest returns the largest of some numbers, NaN if one is NaN. Those of package slices may return
// another number where one is NaN.
func largest(numbers []float64) float64 {
	result := numbers[0]
	for _, number := range numbers {
		result = max(result, number)
	}
	return result
}

// smallest returns the smallest of some numbers, of which there is at least one. It is NaN if one is NaN.
func smallest(numbers []float64) float64 {
	result := numbers[0]
	for _, number := range numbers {
		result = min(result, number)
	}
	return result
}

// compile reads a formula of a schedule. An error is a *[registry.OptionError] that names the character
// at which it is wrong.
func compile(text string) (*formula, error) {
	program, err := Compile(text, environment{})
	if err != nil {
		return nil, registry.Errorf("formula", "%v", err)
	}
	return &formula{program}, nil
}

// Compile reads a formula whose variables are the fields of a struct with tags expr (see
// [expression.Compile]), and which may call [Functions]. An error says at which character the formula is
// wrong.
func Compile(text string, variables any) (*expression.Program, error) {
	// Python's division with a rounded quotient is not in the language.
	if position := strings.Index(text, "//"); position >= 0 {
		return nil, &expression.Error{
			Position: position,
			Message:  "// is no operator of a formula (floor(a / b) rounds down)",
		}
	}
	tree, err := expression.Parse(text)
	if err != nil {
		return nil, err
	}
	return expression.Compile(tree, variables, Functions)
}

// compiledFormulas are the formulas compiled so far, by their text, since a schedule asks once a round.
var compiledFormulas sync.Map

// compileOnce returns the compiled formula of a text. It keeps formulas, so each text is compiled once. A
// text that is no formula gives the same error each time.
func compileOnce(text string) (*formula, error) {
	if f, ok := compiledFormulas.Load(text); ok {
		return f.(*formula), nil
	}
	f, err := compile(text)
	if err == nil {
		compiledFormulas.Store(text, f)
	}
	return f, err
}

// checkedFormula returns the compiled formula of a text that Validate has found to be one. It returns nil
// if the text is none.
func checkedFormula(text string) *formula {
	f, _ := compileOnce(text)
	return f
}

// needs returns what the variables of the formula need from the run. A nil formula needs nothing.
func (f *formula) needs() Needs {
	if f == nil {
		return Needs{}
	}
	return Needs{
		Losses:     f.Reads["F"] || f.Reads["F0"],
		Validation: f.Reads["accuracy"] || f.Reads["converged"],
		Accuracy:   f.Reads["accuracy"],
		Stragglers: f.Reads["straggler_share"],
	}
}

// value returns the value of the formula in the round that starts. Where the run counts epochs, the K's
// that the formula reads are in epochs, as its result then is.
//
// ok is false as long as a variable that the formula reads is not known: the window has no loss, the model
// was not evaluated, no round had a straggler share, or there was no round before that had a K.
func (f *formula) value(progress *Progress) (x float64, ok bool) {
	reads := f.Reads
	lacksLoss := (reads["F"] || reads["F0"]) && !progress.HasLoss
	lacksAccuracy := reads["accuracy"] && !progress.HasAccuracy
	lacksStragglers := reads["straggler_share"] && math.IsNaN(progress.StragglerShare)
	lacksLastK := reads["k"] && progress.Previous.LocalSteps == 0
	if lacksLoss || lacksAccuracy || lacksStragglers || lacksLastK {
		return 0, false
	}
	partsPerUnit := float64(progress.partsPerUnit())
	now := environment{}
	now.Round = float64(progress.Round)
	now.Seconds = progress.Seconds
	now.Loss = progress.Loss
	now.F0 = progress.F0
	now.Accuracy = progress.Accuracy
	now.Converged = progress.Converged
	now.K0 = float64(progress.K0) / partsPerUnit
	now.Eta0 = progress.Eta0
	now.K = float64(progress.Previous.LocalSteps) / partsPerUnit
	now.Eta = progress.LearningRate
	now.StragglerShare = progress.StragglerShare
	now.Pi = math.Pi
	return f.Value(now), true
}
