package lab

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

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
	key        string // of the configuration; empty: none
}{
	{"L", "loss/length²", func(k *theory.Constants) *float64 { return &k.L }, "theory.l"},
	{"mu", "loss/length²", func(k *theory.Constants) *float64 { return &k.Mu }, "theory.mu"},
	{"variance", "loss²/length²", func(k *theory.Constants) *float64 { return &k.Variance }, ""},
	{"Gamma", "loss", func(k *theory.Constants) *float64 { return &k.Gamma }, ""},
	{"G", "loss/length", func(k *theory.Constants) *float64 { return &k.G }, "theory.g"},
	{"F*", "loss", func(k *theory.Constants) *float64 { return &k.FStar }, "theory.f_star"},
}

// Source says where a constant comes from.
type Source struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	From  string  `json:"from"`
}

// sources has one of each constant.
type sources []Source

func (s sources) index(name string) int {
	return slices.IndexFunc(s, func(f Source) bool { return f.Name == name })
}

// put adds a source, in place of the one of that name.
func (s *sources) put(n Source) {
	if i := s.index(n.Name); i >= 0 {
		(*s)[i] = n
	} else {
		*s = append(*s, n)
	}
}

// take puts what is given, in g or else in the configuration, in place of what was found. A convex
// run's configuration has what was calculated, which keeps its source.
func (s *sources) take(g Given, t config.Theory, k *theory.Constants) {
	k.Form = g.Form
	configured := Given{L: t.L, Mu: t.Mu, G: t.G, FStar: t.FStar}
	for i, c := range constants {
		v, from, known := *g.values()[i], "given", s.index(c.name) >= 0
		if v == nil {
			v, from = *configured.values()[i], "given: "+c.key
		}
		switch {
		case v == nil && !known:
			v, from = new(float64), "not given: 0"
		case v == nil, from != "given" && known && *v == *c.of(k):
			continue
		}
		*c.of(k) = *v
		s.put(Source{c.name, *v, c.unit, from})
	}
	if g.Loss != nil && s.index("F") < 0 {
		s.put(Source{"F", *g.Loss, "loss", "given"})
	}
}

// calculated are the constants of a convex problem.
func calculated(k theory.Constants) (s sources) {
	for _, c := range constants {
		from := "calculated"
		if c.name == "G" {
			from += ": the largest client gradient at the start and at x*"
		}
		s = append(s, Source{c.name, *c.of(&k), c.unit, from})
	}
	return s
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
	if file.Gap != nil {
		g.Form, err = ParseForm(*file.Gap)
	}
	return err
}
