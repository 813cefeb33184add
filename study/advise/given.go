package advise

import (
	"fmt"
	"io"
	"text/tabwriter"

	"fedpace/config"
	"fedpace/coordinator/theory"
)

// Given holds the constants that the caller gives. A nil pointer means that the constant is not
// given and must be found in another way.
type Given struct {
	// These are the constants of Theorem 1, with the names of the paper; FStar is the least loss
	// F*.
	L, Mu, G, Variance, Gamma, FStar *float64

	// Loss is the training loss F. It is used where no run says what the loss is.
	Loss *float64
	// Form is the form of the gap between F and F* in the bound.
	Form theory.Form
}

// constants are those of Theorem 1, with their keys below theory in a configuration. pointers returns two pointers
// to a constant: to its field in theory.Constants, which is never nil, and to the given value, nil if none is given.
var constants = []struct {
	name, unit, key string
	pointers        func(*theory.Constants, *Given) (found, given *float64)
}{
	{"L", "loss/length²", "l", func(k *theory.Constants, g *Given) (*float64, *float64) { return &k.L, g.L }},
	{"mu", "loss/length²", "mu", func(k *theory.Constants, g *Given) (*float64, *float64) { return &k.Mu, g.Mu }},
	{
		"variance", "loss²/length²", "variance",
		func(k *theory.Constants, g *Given) (*float64, *float64) { return &k.Variance, g.Variance },
	},
	{"Gamma", "loss", "gamma", func(k *theory.Constants, g *Given) (*float64, *float64) { return &k.Gamma, g.Gamma }},
	{"G", "loss/length", "g", func(k *theory.Constants, g *Given) (*float64, *float64) { return &k.G, g.G }},
	{"F*", "loss", "f_star", func(k *theory.Constants, g *Given) (*float64, *float64) { return &k.FStar, g.FStar }},
}

// Source says where a constant comes from.
type Source struct {
	// Name is the constant's symbol in the paper.
	Name string `json:"name"`
	// Value is the constant's value in Unit.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Origin says in words where the value comes from. It is empty while the value is not known.
	Origin string `json:"from"`
}

// sources pairs each constant in k with its origin, in the order of [constants]: origins[i] says in
// words where constants[i] comes from.
func sources(k theory.Constants, origins ...string) (list []Source) {
	for i, c := range constants {
		found, _ := c.pointers(&k, &Given{})
		list = append(list, Source{c.name, *found, c.unit, origins[i]})
	}
	return list
}

// WriteSources prints the constants of list to w, a line for each: name, value, unit, and where it
// comes from.
func WriteSources(w io.Writer, list []Source) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%.5g\t%s\t%s\n", s.Name, s.Value, s.Unit, s.Origin)
	}
	return t.Flush()
}

// settle decides the value of each constant: the one in g or else in the configuration's theory keys (keys), or else
// the one that was found, calculated or estimated, or else 0. It writes the value to theorem1, and the value with
// its origin to sourceList, which is in the order of [constants]; before, both hold what was found. A run of a
// convex task writes the calculated constants into its configuration. They are not given by anybody, so a key with
// just the value that was found leaves its origin as it is.
func settle(sourceList []Source, g Given, keys config.Theory, theorem1 *theory.Constants) {
	theorem1.Form = g.Form
	configured := Given{
		L:     keys.L,
		Mu:    keys.Mu,
		G:     keys.G,
		FStar: keys.FStar,
	}
	for i, c := range constants {
		source := &sourceList[i]
		origin := "given"
		constant, value := c.pointers(theorem1, &g)
		isConfigured := false
		if value == nil {
			_, value = c.pointers(theorem1, &configured)
			origin = "given: theory." + c.key
			isConfigured = true
		}
		wasFound := source.Origin != ""
		// Nothing is given in place of what was found.
		if value == nil && wasFound {
			continue
		}
		if value == nil {
			value = new(float64)
			origin = "not given: 0"
		}
		// The run itself has written the value that was found into its configuration.
		if isConfigured && wasFound && *value == source.Value {
			continue
		}
		source.Value = *value
		source.Origin = origin
		*constant = *value
	}
}

// Forms names the forms of the gap on command lines.
var Forms = []string{"proof", "stated", "appendix"}
