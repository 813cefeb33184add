package expression_test

import (
	"errors"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/internal/expression"
	_ "fedpace/internal/testkit/testseed"
)

// values are the variables of these tests.
type values struct {
	X     float64                 `expr:"x"`
	On    bool                    `expr:"on"`
	Twice func(x float64) float64 `expr:"twice"`
}

var some = values{X: 3, On: true, Twice: func(x float64) float64 { return 2 * x }}

var functions = map[string]expression.Function{"abs": expression.OneNumber(math.Abs)}

func compile(text string) (*expression.Program, error) {
	tree, err := expression.Parse(text)
	if err != nil {
		return nil, err
	}
	return expression.Compile(tree, values{}, functions)
}

// arithmetic draws an expression of whole numbers that means the same in Go, where it is calculated exactly.
func arithmetic(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{"0", "1", "2", "7", "10"}).Draw(t, "number")
	}
	left := arithmetic(t, depth-1)
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return "(" + left + ")"
	case 1:
		return "-(" + left + ")"
	case 2:
		return "- " + left
	}
	return left + rapid.SampledFrom([]string{" + ", " - ", "*"}).Draw(t, "operator") + arithmetic(t, depth-1)
}

// Sums and products are those of Go's constants.
func TestCompile_GoArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := arithmetic(t, rapid.IntRange(0, 4).Draw(t, "depth"))
		want, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
		if err != nil {
			t.Fatal(err)
		}
		program, err := compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		exact, _ := constant.Float64Val(constant.ToFloat(want.Value))
		if got := program.Value(some); got != exact {
			t.Errorf("%s = %v, want %v", text, got, exact)
		}
	})
}

// Comparisons and conditions are those of Go's constants.
func TestCompile_GoConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		comparison := func() string {
			operator := rapid.SampledFrom([]string{" < ", " <= ", " > ", " >= ", " == ", " != "}).Draw(t, "comparison")
			return arithmetic(t, 1) + operator + arithmetic(t, 1)
		}
		not := rapid.SampledFrom([]string{"", "!"}).Draw(t, "not")
		join := rapid.SampledFrom([]string{" && ", " || "})
		text := comparison() + join.Draw(t, "join") + not + "(" + comparison() + ")" + join.Draw(t, "join") + comparison()
		want, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
		if err != nil {
			t.Fatal(err)
		}
		program, err := compile(text + " ? 1 : 0")
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := program.Value(some); (got == 1) != constant.BoolVal(want.Value) {
			t.Errorf("%s is %v, want %v", text, got, want.Value)
		}
	})
}

// Values worked out by hand.
func TestCompile_Values(t *testing.T) {
	for text, want := range map[string]float64{
		"-x ** 2":                              -9,
		"2 ** 3 ** 2":                          512,
		"2 ** -1":                              0.5,
		"not on == false ? 1 : 2":              1, // (not on) == false
		"on ? 1 : on ? 2 : 3":                  1,
		"!on ? 1 : !on ? 2 : 3":                3,
		"if x > 5 {1} else if on {2} else {3}": 2,
		"let a = x; let b = a + 1; a * b":      12,
		"let yes = not on; yes ? 1 : 2":        2,
		"(let a = 1; a) + (let a = 2; a)":      3,
		"twice(abs(-x))":                       6,
		"0x1F + 0b11 + 1_000 + .5e1":           1039,
		"1e-2 * 1E+2":                          1,
	} {
		program, err := compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := program.Value(some); got != want {
			t.Errorf("%s = %v, want %v", text, got, want)
		}
	}
}

// An error names the character at which an expression is wrong.
func TestCompile_Refused(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "character 1: unexpected end",
		"x +":                     "character 3: unexpected end",
		"x x":                     "character 3: unexpected x",
		"1 + * 2":                 "character 5: unexpected *",
		"x % 2":                   "character 3: unexpected %",
		"y":                       "character 1: unknown name y (a formula may name abs, on, twice, x)",
		"z(y)":                    "character 1: unknown name z",
		"abs":                     "character 1: unknown name abs",
		"twice":                   "character 1: twice is a function",
		"x(1)":                    "character 1: x is no function",
		"abs(1, 2)":               "character 1: abs takes one number",
		"abs(on)":                 "character 5: want a number, not a condition",
		"x ? 1 : 2":               "character 1: want a condition, not a number",
		"on":                      "character 1: want a number, not a condition",
		"on + 1":                  "character 4: invalid operation: + between a condition and a number",
		"let x = 1; x":            "character 1: x has a meaning already",
		"(let a = 1; a) + a":      "character 18: unknown name a",
		"let 1 = 2; 3":            "character 5: want let name = value; expression",
		"'a'":                     "character 1: a formula has numbers",
		"'a":                      "character 1: the text has no end",
		"1e400":                   "character 1: 1e400 is no number",
		"08x":                     "character 1: 08x is no number",
		strings.Repeat("x", 2000): "2000 characters are too many (at most 1000)",
	} {
		_, err := compile(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.30s: %v, want %s", text, err, want)
		}
	}
}

// Whatever the text is, an error stands at a place in it.
func TestParse_AnyText(t *testing.T) {
	word := rapid.SampledFrom(strings.Fields("+ - ** < == ! not and ( ) , ? : ; { } let if else a = 1 2.5 'b' \" é . # x"))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(word, 0, 12).Draw(t, "words"), " ")
		tree, err := expression.Parse(text)
		var wrong *expression.Error
		switch {
		case err == nil && tree == nil:
			t.Errorf("%q has no tree", text)
		case errors.As(err, &wrong) && (wrong.Position < 0 || wrong.Position > len(text)):
			t.Errorf("%q: %v", text, err)
		}
	})
}
