package lab

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"

	"fedpace/coordinator/theory"
)

// Forms names the forms of the gap on command lines.
var Forms = []string{"proof", "stated", "appendix"}

// ParseForm reads one of Forms.
func ParseForm(name string) (theory.Form, error) {
	for i, f := range Forms {
		if f == name {
			return theory.Form(i), nil
		}
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
	for _, b := range text {
		if b == '{' || b == '[' || b == '&' || b == '*' {
			return fmt.Errorf("a file of constants has lines such as \"l: 4\" and no %q", b)
		}
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
	for _, s := range []struct {
		from *float64
		to   *float64
	}{{file.L, &g.L}, {file.Mu, &g.Mu}, {file.G, &g.G}, {file.Variance, &g.Variance}, {file.Gamma, &g.Gamma}, {file.FStar, &g.FStar}, {file.Loss, &g.Loss}} {
		if s.from != nil {
			*s.to = *s.from
		}
	}
	if file.Gap != nil {
		g.Form, err = ParseForm(*file.Gap)
	}
	return err
}
