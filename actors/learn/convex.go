package learn

// Quadratic and Logistic are the strongly convex models in numbers, for those
// who calculate what theory says of them.
type (
	// Quadratic is a "quadratic:DIMENSIONS" model. A sample's values are b, the
	// eigenvalues of A, and the unit vector of the reflection that turns them.
	Quadratic struct{ Dimension int }
	// Logistic is a "logistic:FEATURES,CLASSES,MU" model.
	Logistic struct {
		Features, Classes int
		Mu                float64
	}
)

// Convex is a Quadratic or a Logistic; nil for a model that is neither.
func Convex(m Model) any {
	switch m := m.(type) {
	case *quadratic:
		return Quadratic{m.size}
	case *logistic:
		return Logistic{m.features, m.classes, float64(m.mu)}
	}
	return nil
}
