package learn

import (
	"encoding/json"
	"fmt"
	"slices"
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
	var m Model
	if err == nil {
		m, err = a.Model(0, 0, 0)
	}
	if err == nil && m.String() != spec { // equal models have equal names
		err = fmt.Errorf("want widths and mu in their shortest form, %s", m)
	}
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", spec, err)
	}
	return m, nil
}

// scan reads numbers with commas, or x in an image's, between them into an array or
// slice. form names each number.
func scan(sizes, form string, numbers any) error {
	sizes = strings.ReplaceAll(sizes, "x", ",")
	tooWide := func(s string) bool {
		width, err := strconv.ParseFloat(s, 64) // 9e9 is one, too
		return err == nil && width > maxWidth
	}
	switch n := strings.Count(sizes, ",") + 1; {
	case n > maxLayers:
		return fmt.Errorf("%d widths are more than %d", n, maxLayers)
	case slices.ContainsFunc(strings.Split(sizes, ","), tooWide):
		return fmt.Errorf("%q has a width above %d", sizes, maxWidth)
	case !strings.Contains(form, "...") && n != len(strings.FieldsFunc(form, func(r rune) bool { return r == ',' || r == 'x' })),
		json.Unmarshal([]byte("["+sizes+"]"), numbers) != nil:
		return fmt.Errorf("%q is not %s (widths from 1 to %d)", sizes, form, maxWidth)
	}
	return nil
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
