package external

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"fedpace/internal/names"
	"fedpace/learn"
	"fedpace/learn/metric"
)

// Greeting is what a process says of itself.
type Greeting struct {
	Protocol   int          `json:"protocol"`
	Name       string       `json:"name"`  // of the script, for people
	Class      string       `json:"class"` // of its arithmetic
	Digest     string       `json:"digest"`
	Tensors    []Tensor     `json:"tensors"`
	Metrics    []MetricName `json:"metrics"`
	Optimizers []string     `json:"optimizers"`
	Data       *OwnedData   `json:"data"`
	State      int          `json:"state,omitempty"` // bytes that it has each client keep from task to task, at most
}

// Tensor is a part of the model.
type Tensor struct {
	Name      string `json:"name"`
	Shape     []int  `json:"shape"`
	Trainable bool   `json:"trainable"`
	Frozen    bool   `json:"frozen,omitempty"` // it never changes, and no task transfers it
}

// MetricName is a quantity besides the loss.
type MetricName struct {
	Name   string `json:"name"`
	Better string `json:"better"`
}

// OwnedData is about the samples that a process brings itself.
type OwnedData struct {
	Names   []string `json:"names"`
	Samples []int    `json:"samples"`
	HeldOut int      `json:"held_out"`
	Digest  string   `json:"digest"`
	Tokens  int      `json:"tokens,omitempty"` // of a sample
}

// Limits of a greeting.
const (
	maxText    = 256 // characters of a name
	maxTensors = 1 << 16
	maxRank    = 32
	maxMetrics = 16
	maxKinds   = 64
	maxState   = 1 << 30 // bytes
	maxTokens  = 1 << 20 // of a sample
)

// check says what is wrong with a greeting, and puts the class into the form that the
// messages of a run have.
func (g *Greeting) check() error {
	g.Class = strings.NewReplacer(".", "_", "+", "_").Replace(g.Class)
	if g.Protocol != version {
		return fmt.Errorf("it speaks protocol %d, want %d", g.Protocol, version)
	}
	if err := checkText("name", g.Name); err != nil || strings.Contains(g.Name, "@") {
		return fmt.Errorf("its name %.40q is not one: 1 to %d characters without @", g.Name, maxText)
	}
	switch err := cmp.Or(
		names.CheckToken("class", g.Class),
		checkDigest(g.Digest),
		g.checkTensors(),
		g.checkMetrics(),
	); {
	case err != nil:
		return err
	case len(g.Optimizers) > maxKinds:
		return fmt.Errorf("it lists %d optimizers, want at most %d", len(g.Optimizers), maxKinds)
	case g.State < 0 || g.State > maxState:
		return fmt.Errorf("it has a client keep %d bytes, want 0 to %d", g.State, maxState)
	}
	return g.Data.check()
}

func checkText(field, s string) error {
	if s == "" ||
		len(s) > maxText ||
		!utf8.ValidString(s) ||
		strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s %.40q: want 1 to %d bytes that can be printed", field, s, maxText)
	}
	return nil
}

func checkDigest(s string) error {
	if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size {
		return fmt.Errorf("digest %.80q: want %d hexadecimal digits of a SHA-256", s, 2*sha256.Size)
	}
	return nil
}

func (g *Greeting) checkTensors() error {
	if len(g.Tensors) == 0 || len(g.Tensors) > maxTensors {
		return fmt.Errorf("a model of %d tensors, want 1 to %d", len(g.Tensors), maxTensors)
	}
	seen := map[string]bool{}
	total := 0
	for i, t := range g.Tensors {
		if err := checkText("tensor", t.Name); err != nil {
			return err
		}
		if seen[t.Name] {
			return fmt.Errorf("tensor %q is there twice", t.Name)
		}
		seen[t.Name] = true
		if len(t.Shape) > maxRank {
			return fmt.Errorf("tensor %q has %d dimensions, want at most %d", t.Name, len(t.Shape), maxRank)
		}
		values := 1
		for _, n := range t.Shape {
			if n < 1 || n > learn.MaxParams || values > learn.MaxParams/n {
				return fmt.Errorf(
					"tensor %q has the shape %v, want sizes from 1 and at most %d numbers",
					t.Name,
					t.Shape,
					learn.MaxParams,
				)
			}
			values *= n
		}
		total += values
		if total > learn.MaxParams {
			return fmt.Errorf("a model of more than %d numbers", learn.MaxParams)
		}
		if t.Trainable && i > 0 && !g.Tensors[i-1].Trainable {
			return fmt.Errorf(
				"tensor %q is trainable and lies behind %q, which is not: trainable ones come first",
				t.Name,
				g.Tensors[i-1].Name,
			)
		}
	}
	if i := slices.IndexFunc(g.Tensors, func(t Tensor) bool { return t.Frozen }); i >= 0 &&
		slices.ContainsFunc(g.Tensors[i:], func(t Tensor) bool { return !t.Frozen && !t.Trainable }) {
		return fmt.Errorf("tensor %q is frozen, and one behind it is not: frozen ones come last", g.Tensors[i].Name)
	}
	if i := slices.IndexFunc(g.Tensors, func(t Tensor) bool { return t.Frozen && t.Trainable }); i >= 0 {
		return fmt.Errorf("tensor %q is frozen and trainable: want one of the two", g.Tensors[i].Name)
	}
	if !g.Tensors[0].Trainable {
		return fmt.Errorf("no tensor is trainable")
	}
	return nil
}

func (g *Greeting) checkMetrics() error {
	if len(g.Metrics) > maxMetrics {
		return fmt.Errorf("it lists %d metrics, want at most %d", len(g.Metrics), maxMetrics)
	}
	var list []metric.Metric
	for _, m := range g.Metrics {
		if m.Better != metric.Higher && m.Better != metric.Lower {
			return fmt.Errorf("metric %.40q: better is %.40q, want higher or lower", m.Name, m.Better)
		}
		list = append(list, metric.Metric{Name: m.Name, Lower: m.Better == metric.Lower})
	}
	return metric.CheckNames(list)
}

func (d *OwnedData) check() error {
	if d == nil {
		return nil
	}
	if len(d.Names) == 0 || len(d.Names) != len(d.Samples) {
		return fmt.Errorf(
			"data of %d clients with %d numbers of samples, want as many, at least one",
			len(d.Names),
			len(d.Samples),
		)
	}
	if d.HeldOut < 1 || d.HeldOut > math.MaxInt32 {
		return fmt.Errorf("data with %d samples held out, want 1 to %d", d.HeldOut, math.MaxInt32)
	}
	if d.Tokens < 0 || d.Tokens > maxTokens {
		return fmt.Errorf("samples of %d tokens, want 0 to %d", d.Tokens, maxTokens)
	}
	total := d.HeldOut
	for i, n := range d.Samples {
		if err := checkText("client", d.Names[i]); err != nil {
			return err
		}
		if n < 1 || n > math.MaxInt32-total {
			return fmt.Errorf(
				"client %q has %d samples, want at least 1, and at most %d in all",
				d.Names[i],
				n,
				math.MaxInt32,
			)
		}
		total += n
	}
	return checkDigest(d.Digest)
}

// differs says in what two greetings differ that should be of one run; "" where nothing.
func (g *Greeting) differs(restarted *Greeting) string {
	switch {
	case g.Digest != restarted.Digest:
		return fmt.Sprintf("its script is another (digest %.12s, it was %.12s)", restarted.Digest, g.Digest)
	case !reflect.DeepEqual(g.Tensors, restarted.Tensors):
		return "its model has other tensors"
	case g.State != restarted.State:
		return fmt.Sprintf("it has clients keep up to %d bytes, it was %d", restarted.State, g.State)
	case !slices.Equal(g.Metrics, restarted.Metrics):
		return "its metrics are others"
	case g.Class != restarted.Class:
		return fmt.Sprintf("its arithmetic is of class %s, it was %s", restarted.Class, g.Class)
	case (g.Data == nil) != (restarted.Data == nil) || g.Data != nil && g.Data.Digest != restarted.Data.Digest:
		return "its data is another"
	}
	return ""
}
