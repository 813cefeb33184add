package lab

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"fedpace/coordinator/theory"
	"fedpace/experiment/config"
)

// Given are constants that somebody gives; NaN: not given.
type Given struct {
	L, Mu, G, Variance, Gamma, FStar float64
	Loss                             float64 // F, where no run says it
	Form                             theory.Form
}

// Nothing is given.
func Nothing() Given {
	nan := math.NaN()
	return Given{L: nan, Mu: nan, G: nan, Variance: nan, Gamma: nan, FStar: nan, Loss: nan}
}

// values are all numbers of g.
func (g *Given) values() []*float64 {
	return []*float64{&g.L, &g.Mu, &g.Variance, &g.Gamma, &g.G, &g.FStar, &g.Loss}
}

// Merge takes from other what is given there.
func (g *Given) Merge(other Given) {
	for i, v := range other.values() {
		if !math.IsNaN(*v) {
			*g.values()[i] = *v
		}
	}
}

// constants are those of Theorem 1, in the order of Given.values.
var constants = []struct {
	name, unit string
	of         func(*theory.Constants) *float64
	key        string // of the configuration; empty: none
	configured func(*config.Theory) *float64
}{
	{"L", "loss/length²", func(k *theory.Constants) *float64 { return &k.L }, "theory.l", func(t *config.Theory) *float64 { return t.L }},
	{"mu", "loss/length²", func(k *theory.Constants) *float64 { return &k.Mu }, "theory.mu", func(t *config.Theory) *float64 { return t.Mu }},
	{"variance", "loss²/length²", func(k *theory.Constants) *float64 { return &k.Variance }, "", nil},
	{"Gamma", "loss", func(k *theory.Constants) *float64 { return &k.Gamma }, "", nil},
	{"G", "loss/length", func(k *theory.Constants) *float64 { return &k.G }, "theory.g", func(t *config.Theory) *float64 { return t.G }},
	{"F*", "loss", func(k *theory.Constants) *float64 { return &k.FStar }, "theory.f_star", func(t *config.Theory) *float64 { return t.FStar }},
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

// configure puts what the configuration gives for its schedule in place of what was found. A convex
// run's configuration has what was calculated, which keeps its source.
func (s *sources) configure(t config.Theory, k *theory.Constants) {
	for _, c := range constants {
		if c.key == "" || c.configured(&t) == nil {
			continue
		}
		if v := *c.configured(&t); s.index(c.name) < 0 || v != *c.of(k) {
			*c.of(k) = v
			s.put(Source{c.name, v, c.unit, "given: " + c.key})
		}
	}
}

// take puts what is given in place of what was found.
func (s *sources) take(g Given, k *theory.Constants) {
	k.Form = g.Form
	for i, c := range constants {
		v, from := *g.values()[i], "given"
		if math.IsNaN(v) {
			if s.index(c.name) >= 0 {
				continue
			}
			v, from = 0, "not given: 0"
		}
		*c.of(k) = v
		s.put(Source{c.name, v, c.unit, from})
	}
	if !math.IsNaN(g.Loss) && s.index("F") < 0 {
		s.put(Source{"F", g.Loss, "loss", "given"})
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
func ReadGiven(path string) (Given, error) {
	g := Nothing()
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
		L        *float64 `yaml:"l"`
		Mu       *float64 `yaml:"mu"`
		G        *float64 `yaml:"g"`
		Variance *float64 `yaml:"variance"`
		Gamma    *float64 `yaml:"gamma"`
		FStar    *float64 `yaml:"f_star"`
		Loss     *float64 `yaml:"loss"`
		Gap      *string  `yaml:"gap"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return err
	}
	for i, v := range []*float64{file.L, file.Mu, file.Variance, file.Gamma, file.G, file.FStar, file.Loss} {
		if v != nil {
			*g.values()[i] = *v
		}
	}
	if file.Gap != nil {
		g.Form, err = ParseForm(*file.Gap)
	}
	return err
}
