package lab

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"fedpace/coordinator/theory"
	"fedpace/experiment/config"
)

// Given are constants that somebody gives; nil: not given.
type Given struct {
	L, Mu, G, Variance, Gamma, FStar *float64

	Loss *float64 // F, where no run says it
	Form theory.Form
}

// keys are the names of Given.values below theory in a configuration.
var keys = []string{"l", "mu", "variance", "gamma", "g", "f_star", "loss"}

// values are all numbers of g: first those of constants, in their order.
func (g *Given) values() []**float64 {
	return []**float64{&g.L, &g.Mu, &g.Variance, &g.Gamma, &g.G, &g.FStar, &g.Loss}
}

// constants are those of Theorem 1, in the order of Given.values.
var constants = []struct {
	name, unit string
	of         func(*theory.Constants) *float64
}{
	{"L", "loss/length²", func(k *theory.Constants) *float64 { return &k.L }},
	{"mu", "loss/length²", func(k *theory.Constants) *float64 { return &k.Mu }},
	{"variance", "loss²/length²", func(k *theory.Constants) *float64 { return &k.Variance }},
	{"Gamma", "loss", func(k *theory.Constants) *float64 { return &k.Gamma }},
	{"G", "loss/length", func(k *theory.Constants) *float64 { return &k.G }},
	{"F*", "loss", func(k *theory.Constants) *float64 { return &k.FStar }},
}

// Source says where a constant comes from.
type Source struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	From  string  `json:"from"` // empty: it is not known yet
}

// sources says where each of the constants comes from.
func sources(k theory.Constants, from ...string) (list []Source) {
	for i, c := range constants {
		list = append(list, Source{c.name, *c.of(&k), c.unit, from[i]})
	}
	return list
}

// writeSources writes a table of them.
func writeSources(w io.Writer, list []Source) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%.5g\t%s\t%s\n", s.Name, s.Value, s.Unit, s.From)
	}
	return t.Flush()
}

// settle puts what is given, in g or else in the configuration, in place of what was found. A convex
// run's configuration has what was calculated, which keeps its source.
func settle(found []Source, g Given, t config.Theory, k *theory.Constants) {
	k.Form = g.Form
	configured := Given{L: t.L, Mu: t.Mu, G: t.G, FStar: t.FStar}
	for i, c := range constants {
		s, v, from := &found[i], *g.values()[i], "given"
		if v == nil {
			v, from = *configured.values()[i], "given: theory."+keys[i]
		}
		switch known := s.From != ""; {
		case v == nil && !known:
			v, from = new(float64), "not given: 0"
		case v == nil, from != "given" && known && *v == s.Value:
			continue
		}
		s.Value, s.From, *c.of(k) = *v, from, *v
	}
}

// Forms names the forms of the gap on command lines.
var Forms = []string{"proof", "stated", "appendix"}

// ParseForm reads one of Forms.
func ParseForm(name string) (theory.Form, error) {
	if i := slices.Index(Forms, name); i >= 0 {
		return theory.Form(i), nil
	}
	return 0, fmt.Errorf("%.40q is no form of the gap, want one of %s", name, strings.Join(Forms, ", "))
}
