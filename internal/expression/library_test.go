package expression_test

import (
	"math"
	"testing"

	"github.com/expr-lang/expr"
	"pgregory.net/rapid"
)

// drawNumber draws an expression of numbers of the language that expr-lang.org describes, with variables
// in scope. Its numbers are no integers, with which the library calculates otherwise, and powers are
// whole and small: others are rounded otherwise there.
func drawNumber(t *rapid.T, depth int, variables []string) string {
	if depth == 0 {
		return rapid.SampledFrom(append([]string{"0.0", "1.0", "2.5", "7.", ".5", "1e2"}, variables...)).Draw(t, "number")
	}
	number := func() string { return drawNumber(t, depth-1, variables) }
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return "(" + number() + ")"
	case 1:
		return "-" + number()
	case 2:
		return "+" + number()
	case 3:
		return "abs(" + number() + ")"
	case 4:
		return "(" + drawCondition(t, depth-1, variables) + " ? " + number() + " : " + number() + ")"
	case 5:
		return "(if " + drawCondition(t, depth-1, variables) + " { " + number() + " } else { " + number() + " })"
	case 6:
		name := []string{"a", "b", "c", "d", "e"}[len(variables)-1]
		return "(let " + name + " = " + number() + "; " + drawNumber(t, depth-1, append(variables, name)) + ")"
	case 7:
		return number() + rapid.SampledFrom([]string{" ** 2", " ^ 3", " ** -1"}).Draw(t, "power")
	}
	return number() + rapid.SampledFrom([]string{" + ", " - ", "*", " / "}).Draw(t, "operator") + number()
}

// drawCondition draws a condition on such numbers.
func drawCondition(t *rapid.T, depth int, variables []string) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{"true", "false", "on"}).Draw(t, "truth")
	}
	condition := func() string { return drawCondition(t, depth-1, variables) }
	number := func() string { return drawNumber(t, depth-1, variables) }
	switch rapid.IntRange(0, 4).Draw(t, "condition") {
	case 0:
		return rapid.SampledFrom([]string{"not ", "!"}).Draw(t, "not") + condition()
	case 1:
		return condition() + rapid.SampledFrom([]string{" and ", " || "}).Draw(t, "join") + condition()
	}
	return number() + rapid.SampledFrom([]string{" < ", " <= ", " > ", " >= ", " == ", " != "}).Draw(t, "comparison") + number()
}

// Expressions have the value that the library of expr-lang.org gives them, whose language this is, and what
// it refuses is refused.
func TestCompile_EqualsLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawNumber(t, rapid.IntRange(0, 4).Draw(t, "depth"), []string{"x"})
		environment := map[string]any{
			"x":   some.X,
			"on":  some.On,
			"abs": math.Abs,
		}
		theirs, err := expr.Compile(text, expr.Env(environment), expr.AsFloat64(), expr.DisableBuiltin("abs"))
		if err != nil {
			if _, ours := compile(text); ours == nil {
				t.Errorf("%s is read, and the library says: %v", text, err)
			}
			return
		}
		value, err := expr.Run(theirs, environment)
		if err != nil {
			t.Fatal(err)
		}
		want := value.(float64)
		program, err := compile(text)
		if err != nil {
			t.Fatalf("%s: %v, by the library %v", text, err, want)
		}
		got := program.Value(some)
		areSame := got == want || math.IsNaN(got) && math.IsNaN(want)
		if !areSame && !(math.Abs(got-want) <= 1e-12*math.Abs(want)) {
			t.Errorf("%s = %v, by the library %v", text, got, want)
		}
	})
}
