package learn

// Convex is a strongly convex model in numbers, for those who calculate what
// theory says of it: a [Quadratic] or a [Logistic], nil for a model that is
// neither.
func Convex(m Model) Architecture {
	switch m := m.(type) {
	case *quadratic:
		return Quadratic{m.size}
	case *logistic:
		return Logistic{m.features, m.classes, float64(m.mu)}
	}
	return nil
}
