package lab

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"

	"fedpace/coordinator/theory"
	"fedpace/experiment/config"
)

// Given are constants that somebody gives; nil: not given.
type Given struct {
	L        *float64    `yaml:"l"`
	Mu       *float64    `yaml:"mu"`
	G        *float64    `yaml:"g"`
	Variance *float64    `yaml:"variance"`
	Gamma    *float64    `yaml:"gamma"`
	FStar    *float64    `yaml:"f_star"`
	Loss     *float64    `yaml:"loss"` // F, where no run says it
	Form     theory.Form `yaml:"-"`
}

// keys are the names of Given.values in files, and below theory in a configuration.
var keys = []string{"l", "mu", "variance", "gamma", "g", "f_star", "loss"}

// values are all numbers of g: first those of constants, in their order.
func (g *Given) values() []**float64 {
	return []**float64{&g.L, &g.Mu, &g.Variance, &g.Gamma, &g.G, &g.FStar, &g.Loss}
}

// Merge takes from other what is given there.
func (g *Given) Merge(other Given) {
	for i, v := range other.values() {
		*g.values()[i] = cmp.Or(*v, *g.values()[i])
	}
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

// maxGiven bounds a file of constants, in bytes.
const maxGiven = 16 << 10

// ReadGiven reads constants from a YAML file: l, mu, g, variance, gamma,
// f_star, loss and gap, of which any may be missing.
func ReadGiven(path string) (g Given, err error) {
	f, err := os.Open(path)
	if err != nil {
		return g, err
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxGiven+1))
	if err != nil {
		return g, err
	}
	if len(text) > maxGiven {
		return g, fmt.Errorf("%s is larger than %d bytes", path, maxGiven)
	}
	if err := g.decode(text); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return g, fmt.Errorf("%s: %s", path, line)
	}
	return g, nil
}

func (g *Given) decode(text []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // the parser is a library fed with a user's bytes
			err = fmt.Errorf("not YAML that can be read (%v)", p)
		}
	}()
	if i := bytes.IndexAny(text, "{[&*"); i >= 0 {
		return fmt.Errorf("a file of constants has lines such as \"l: 4\" and no %q", text[i])
	}
	var file struct {
		Given `yaml:",inline"`
		Gap   *string `yaml:"gap"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return err
	}
	*g = file.Given
	for i, v := range g.values() {
		if *v != nil && (math.IsNaN(**v) || math.IsInf(**v, 0)) {
			return fmt.Errorf("%s is %v, want a finite number", keys[i], **v)
		}
	}
	if file.Gap != nil {
		g.Form, err = ParseForm(*file.Gap)
	}
	return err
}
