package learn

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of an architecture: what a mistyped number may at most ask for.
const (
	maxWidth  = 1 << 20
	maxLayers = 64
	maxParams = 1 << 28
)

// Parse reads an architecture:
//
//	linear:5000,2          one layer on a sparse bag of words (Sent140)
//	mlp:784,200,200,62     dense layers with ReLU between them (FEMNIST);
//	                       mlp:784,62 is a dense linear model
func Parse(spec string) (Model, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	fail := func(format string, args ...any) (Model, error) {
		return nil, fmt.Errorf("model %q: %s", spec, fmt.Sprintf(format, args...))
	}
	switch kind {
	case "linear", "mlp":
	default:
		return fail("%q is not an architecture (linear:FEATURES,CLASSES or mlp:FEATURES,HIDDEN,...,CLASSES)", kind)
	}
	var widths []int
	for _, s := range strings.Split(rest, ",") {
		w, err := strconv.Atoi(s)
		if err != nil || w < 1 || w > maxWidth {
			return fail("width %q is not a number from 1 to %d", s, maxWidth)
		}
		widths = append(widths, w)
	}
	switch {
	case kind == "linear" && len(widths) != 2:
		return fail("linear takes two widths, features and classes, not %d", len(widths))
	case len(widths) < 2:
		return fail("mlp takes at least two widths, features and classes")
	case len(widths) > maxLayers:
		return fail("%d widths are more than %d", len(widths), maxLayers)
	}
	params := 0
	for l := 1; l < len(widths); l++ {
		params += (widths[l-1] + 1) * widths[l]
		if params > maxParams {
			return fail("more than %d parameters", maxParams)
		}
	}
	if widths[len(widths)-1] < 2 {
		return fail("a classifier needs at least 2 classes")
	}
	if kind == "linear" {
		return newLinear(widths[0], widths[1]), nil
	}
	return newMLP(widths), nil
}
