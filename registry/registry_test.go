package registry

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type shape interface{ Area() float64 }

type square struct {
	edge
	Name string `key:"name" default:"plain" words:"plain,fancy"`
	File string `key:"file" is:"null,path,inert"`
	own  int
}

type edge struct {
	Side float64 `key:"side" range:"(0,10]" unit:"m" help:"length of a side" is:"short"`
}

func (s square) Area() float64 { return s.Side * s.Side }
func (square) Needs() Needs    { return Needs{Losses: true} }

type point struct{}

func (point) Area() float64 { return 0 }

var shapes = New[shape]("shape", "form")

func init() {
	shapes.Register("square", "four equal sides", square{})
	shapes.Register("point", "no side", point{})
}

func TestTable_Entries(t *testing.T) {
	if diff := cmp.Diff([]string{"point", "square"}, shapes.Names()); diff != "" {
		t.Error(diff)
	}
	if got := shapes.NameOf(square{edge: edge{3}, own: 1}); got != "square" {
		t.Errorf("a square is registered as %q", got)
	}
	p := For(reflect.TypeFor[shape]())
	if p == nil || p.Kind != "shape" || p.Word != "form" {
		t.Fatalf("the table of shapes is %+v", p)
	}
	value, help, ok := p.Entry("square")
	if !ok || help != "four equal sides" || value != any(square{}) {
		t.Errorf("Entry = %v, %q, %v", value, help, ok)
	}
	if got := shapes.Text(square{edge: edge{3}, Name: "plain"}) + shapes.Text(point{}); got != "square(side 3, name plain)point" {
		t.Error(got)
	}
	full := square{edge: edge{3}, Name: "fancy", File: "f"}
	text, err := shapes.Encode(full)
	if err != nil || text != `{"file":"f","form":"square","name":"fancy","side":3}` {
		t.Errorf("Encode = %s, %v", text, err)
	}
	if got, err := shapes.Decode(text); err != nil || got != shape(full) {
		t.Errorf("Decode = %+v, %v", got, err)
	}
	for _, bad := range []string{
		``, `{}`, `{"form":"circle"}`, `{"form":"square","side":3}`, `{"file":"f","form":"square","name":"fancy","side":30}`,
		`{"file":"f","form":"square","name":"fancy","side":"3"}`, `{"file":"f","form":"square","name":"fancy","width":3}`,
	} {
		if got, err := shapes.Decode(bad); err == nil {
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
	if p.Default != "" {
		t.Error("a shape without a name is a shape")
	}
	if shapes.Standard("point"); p.Default != "point" {
		t.Error("a shape without a name is no point")
	}
	if _, _, ok := p.Entry("circle"); ok {
		t.Error("a circle was never registered")
	}
	if NeedsOf(square{}) != (Needs{Losses: true}) || NeedsOf(point{}) != (Needs{}) {
		t.Error("a square needs losses, a point nothing")
	}
}

func TestPlugin_MistakesPanic(t *testing.T) {
	for name, register := range map[string]func(){
		"name twice":   func() { shapes.Register("point", "", struct{ point }{}) },
		"type twice":   func() { shapes.Register("dot", "", point{}) },
		"a pointer":    func() { shapes.Register("pointer", "", &point{}) },
		"second table": func() { New[shape]("shape", "form") },
		"no interface": func() { New[point]("shape", "form") },
		"word as key": func() {
			shapes.Register("w", "", struct {
				point
				F int `key:"form"`
			}{})
		},
		"bad range": func() {
			Options(reflect.TypeFor[struct {
				F int `key:"f" range:"1..2"`
			}]())
		},
		"bad attribute": func() {
			Options(reflect.TypeFor[struct {
				F int `key:"f" is:"nul"`
			}]())
		},
		"not exported": func() {
			Options(reflect.TypeFor[struct {
				f int `key:"f"`
			}]())
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			register()
		})
	}
}

func TestOptions_HeldToTags(t *testing.T) {
	for _, test := range []struct {
		value square
		want  string
	}{
		{square{edge: edge{10}, Name: "fancy"}, ""},
		{square{edge: edge{0}, Name: "fancy"}, "side: 0 is out of range (more than 0 and at most 10 m)"},
		{square{edge: edge{math.NaN()}, Name: "fancy"}, "side: NaN is out of range (more than 0 and at most 10 m)"},
		{square{edge: edge{1}, Name: "ugly"}, `name: "ugly" is not one of plain, fancy`},
	} {
		err := Check(test.value)
		got := ""
		var o *OptionError
		if err != nil {
			if !errors.As(err, &o) {
				t.Fatalf("%v is no *OptionError", err)
			}
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("Check(%+v) = %q, want %q", test.value, got, test.want)
		}
	}
	type drawing struct {
		Ground shape     `key:"ground"`
		Shapes []square  `key:"shapes"`
		Widths []float64 `key:"widths" range:"[1,2]"`
		Frame  *square   `key:"frame" is:"null"`
	}
	good := square{edge: edge{1}, Name: "plain"}
	for _, test := range []struct {
		value drawing
		want  string
	}{
		{drawing{Shapes: []square{good, {}}}, "shapes[1].side: 0 is out of range (more than 0 and at most 10 m)"},
		{drawing{Widths: []float64{1, 0}}, "widths[1]: 0 is out of range (from 1 to 2)"},
		{drawing{Frame: &square{}}, "frame.side: 0 is out of range (more than 0 and at most 10 m)"},
		{drawing{Ground: square{edge: edge{20}}}, "ground.side: 20 is out of range (more than 0 and at most 10 m)"},
	} {
		if err := Check(test.value); err == nil || err.Error() != test.want {
			t.Errorf("Check(%+v) = %v, want %q", test.value, err, test.want)
		}
	}
	if err := Check(drawing{Ground: good, Shapes: []square{good}, Widths: []float64{1, 2}, Frame: &good}); err != nil {
		t.Error(err)
	}
	list := Options(reflect.TypeFor[square]())
	if len(list) != 3 || list[0].Optional || !list[0].Short || list[1].Short || !list[1].Optional || list[1].Default != "plain" ||
		!list[2].Null || !list[2].Path || !list[2].Inert || list[2].Default != "null" {
		t.Errorf("Options = %+v", list)
	}
}

func TestBelow_WholePath(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{Errorf("sigma", "is missing"), "factor.sigma: is missing"},
		{Errorf("[2].weight", "is 0"), "factor[2].weight: is 0"},
		{Errorf("", "is wrong"), "factor: is wrong"},
		{errors.New("no such file"), "factor: no such file"},
	} {
		var o *OptionError
		if err := Below("factor", test.err); !errors.As(err, &o) || err.Error() != test.want {
			t.Errorf("Below = %v, want %s", err, test.want)
		}
	}
	if Below("factor", nil) != nil {
		t.Error("nothing is an error")
	}
}

func TestRanges(t *testing.T) {
	for _, test := range []struct {
		text, want string
		in, out    []float64
	}{
		{"[1,100]", "from 1 to 100", []float64{1, 50, 100}, []float64{0.9, 101, math.NaN()}},
		{"(0,1e6]", "more than 0 and at most 1000000", []float64{1e-9, 1e6}, []float64{0, -1, math.Inf(1)}},
		{"[0,1)", "0 or more and less than 1", []float64{0, 0.99}, []float64{1}},
		{"(0, 1)", "more than 0 and less than 1", []float64{0.5}, []float64{0, 1}},
		{"[0,Inf]", "0 or more", []float64{0, 1e300}, []float64{-1}},
	} {
		r, err := ParseRange(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if r.String() != test.want {
			t.Errorf("%s reads %q, want %q", test.text, r, test.want)
		}
		for _, v := range test.in {
			if !r.Contains(v) {
				t.Errorf("%v lies outside %s", v, test.text)
			}
		}
		for _, v := range test.out {
			if r.Contains(v) {
				t.Errorf("%v lies within %s", v, test.text)
			}
		}
	}
	for _, bad := range []string{"", "1,2", "[1]", "[2,1]", "[a,b]", "[1,2"} {
		if r, err := ParseRange(bad); err == nil {
			t.Errorf("%q is read as %v", bad, r)
		}
	}
}
