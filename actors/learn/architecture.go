package learn

import (
	"fmt"
	"strconv"
	"strings"

	"fedpace/internal/registry"
)

// Architecture is a kind of model with its sizes.
type Architecture interface {
	// Model makes the model. The samples' kind of input, features and classes give
	// the sizes that the architecture leaves open.
	Model(input Input, features, classes int) (Model, error)
	// Parse reads the sizes behind the colon of a model's String.
	Parse(sizes string) (Architecture, error)
}

// Models are the architectures that a configuration and messages can name.
var Models = registry.New[Architecture]("model", "model").Standard("mlp")

// Limits of an architecture: what a mistyped number may at most ask for.
const (
	maxWidth  = 1 << 20
	maxLayers = 64
	MaxParams = 1 << 28 // parameters of a model
)

// Parse reads what a model's String writes: the name of its architecture, a
// colon and all sizes, as in "mlp:784,200,200,62".
func Parse(spec string) (Model, error) {
	kind, sizes, _ := strings.Cut(spec, ":")
	entry, ok := Models.Entry(kind)
	if !ok {
		return nil, fmt.Errorf("model %q: %q is not an architecture (%s)", spec, kind, strings.Join(Models.Names(), ", "))
	}
	a, err := entry.Parse(sizes)
	if err == nil {
		var m Model
		if m, err = a.Model(0, 0, 0); err == nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("model %q: %w", spec, err)
}

// widths reads whole numbers with commas between them: want of them, or 2 and
// more where want is 0. form says what they mean. With an error it returns want zeros.
func widths(sizes, form string, want int) ([]int, error) {
	fields := strings.Split(sizes, ",")
	if len(fields) > maxLayers {
		return make([]int, want), fmt.Errorf("%d widths are more than %d", len(fields), maxLayers)
	}
	var n []int
	for _, s := range fields {
		w, err := strconv.Atoi(s)
		if err != nil || s != strconv.Itoa(w) || w > maxWidth {
			return make([]int, want), fmt.Errorf("width %q is not a number from 1 to %d", s, maxWidth)
		}
		n = append(n, w)
	}
	if want > 0 && len(n) != want || want == 0 && len(n) < 2 {
		return make([]int, want), fmt.Errorf("%d numbers, want %s", len(n), form)
	}
	return n, nil
}

// checkSizes checks a classifier's widths, classes and number of parameters.
func checkSizes(params int64, classes int, widths ...int) error {
	if params > MaxParams {
		return fmt.Errorf("more than %d parameters", MaxParams)
	}
	for _, w := range widths {
		if w < 1 || w > maxWidth {
			return fmt.Errorf("width %d is not a number from 1 to %d", w, maxWidth)
		}
	}
	if classes < 2 {
		return fmt.Errorf("a classifier needs at least 2 classes")
	}
	return nil
}

// product of sizes that may be too large, but whose product an int64 holds where
// they are not.
func product(factors ...int) int64 {
	p := int64(1)
	for _, f := range factors {
		if p *= int64(f); p > MaxParams {
			return MaxParams + 1
		}
	}
	return p
}
