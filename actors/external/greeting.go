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

// Greeting is what a trainer's process says of itself when it starts. Everything in it is checked
// before it is used.
type Greeting struct {
	// Protocol is the version of the protocol that the process speaks.
	Protocol int `json:"protocol"`
	// Name is that of the script, for people.
	Name string `json:"name"`
	// Class names the arithmetic: processes of one class give the same bits.
	Class string `json:"class"`
	// Digest is the SHA-256 of the script and of the files that it declares, in hexadecimal.
	Digest string `json:"digest"`
	// Tensors are those of the model in their order in the flat model.
	Tensors []Tensor `json:"tensors"`
	// Metrics are what models are measured by besides the loss.
	Metrics []MetricName `json:"metrics"`
	// Optimizers are the names of the local optimizers that the process can take steps with,
	// besides plain SGD.
	Optimizers []string `json:"optimizers"`
	// Data describes the process's own samples. Nil means that it has none.
	Data *OwnedData `json:"data"`
	// State is the maximum number of bytes that each client keeps from task to task.
	State int `json:"state,omitempty"`
	// Steps describes the local steps of a script with an optimizer of its own. Nil means plain SGD, or the
	// optimizer that a job names.
	Steps *OwnSteps `json:"steps,omitempty"`
}

// OwnSteps says which optimizer a script takes its local steps with. Algorithms that assume plain
// steps, such as FedNova's normalisation by the number of steps, refuse another one.
type OwnSteps struct {
	// Optimizer is its name in its library, such as SGD or Adam.
	Optimizer string `json:"optimizer"`
	// Momentum is that of SGD, 0 for none.
	Momentum float64 `json:"momentum"`
	// Plain says that a step is x - rate · gradient, at the rate that the task gives.
	Plain bool `json:"plain"`
}

// ArePlain reports whether a process takes plain steps of SGD wherever the run's key local does not say
// otherwise: it does without an optimizer of its own (nil), or with one that is plain.
func (s *OwnSteps) ArePlain() bool { return s == nil || s.Plain }

// String describes the steps for an error, such as "SGD with momentum 0.9".
func (s *OwnSteps) String() string {
	if s.Momentum == 0 {
		return s.Optimizer
	}
	return fmt.Sprintf("%s with momentum %g", s.Optimizer, s.Momentum)
}

// check returns an error if the description of the trainer's own steps cannot be used: for a bad
// name, or a momentum that is negative or contradicts plain steps. Nil, which stands for no steps
// of its own, is fine.
func (s *OwnSteps) check() error {
	if s == nil {
		return nil
	}
	if err := checkText("optimizer", s.Optimizer); err != nil {
		return err
	}
	if s.Momentum < 0 || math.IsNaN(s.Momentum) || math.IsInf(s.Momentum, 0) {
		return fmt.Errorf("its steps have the momentum %g, want a number from 0", s.Momentum)
	}
	if s.Plain && s.Momentum != 0 {
		return fmt.Errorf("its steps are plain and have the momentum %g: want one of the two", s.Momentum)
	}
	return nil
}

// Tensor is a part of the model. Trainable tensors come first and frozen ones last.
type Tensor struct {
	// Name is the name of the tensor in the script's model.
	Name string `json:"name"`
	// Shape holds the sizes, the outermost dimension first. It is empty for a single number.
	Shape []int `json:"shape"`
	// Trainable says that local steps change the tensor.
	Trainable bool `json:"trainable"`
	// Frozen says that no step changes the tensor, and no task transfers it.
	Frozen bool `json:"frozen,omitempty"`
	// Type and Rule describe a buffer of integers or booleans, or a constant of any type, see
	// [learn.BufferRule]. Both are empty for float32 that is trained, averaged or frozen.
	Type string `json:"type,omitempty"`
	Rule string `json:"rule,omitempty"`
	// Aliases are further names of the tensor, by which a model's file holds it, too.
	Aliases []string `json:"aliases,omitempty"`
}

// learnTensor describes the tensor to the rest of the program, at an offset of the flat model.
func (t Tensor) learnTensor(offset int) learn.Tensor {
	return learn.Tensor{
		Name:   t.Name,
		Shape:  t.Shape,
		Offset: offset,
		Type:   t.Type,
		Rule:   learn.BufferRule(t.Rule),

		Aliases: t.Aliases,
	}
}

// MetricName is a quantity besides the loss by which models are measured. Better is higher or
// lower.
type MetricName struct {
	// Name is that of the metric, for results and people.
	Name string `json:"name"`
	// Better says which values are better: higher or lower.
	Better string `json:"better"`
}

// OwnedData describes samples that a process brings itself: clients, their numbers of training
// samples, the number of held-out samples and a digest of all of them.
type OwnedData struct {
	// Names are the names of the clients.
	Names []string `json:"names"`
	// Samples holds the number of training samples of each client.
	Samples []int `json:"samples"`
	// HeldOut is the number of held-out samples.
	HeldOut int `json:"held_out"`
	// Digest is the SHA-256 of all samples, in hexadecimal.
	Digest string `json:"digest"`
	// Tokens is the number of tokens of a sample, 0 if samples have none.
	Tokens int `json:"tokens,omitempty"`
}

// Limits of a greeting.
const (
	// maxText is the largest number of bytes of a name.
	maxText = 256
	// maxTensors is the largest number of tensors, and of their names and aliases.
	maxTensors = 1 << 16
	// maxRank is the largest number of dimensions of a tensor.
	maxRank    = 32
	maxMetrics = 16
	// maxKinds is the largest number of optimizers.
	maxKinds = 64
	// maxState is the largest number of bytes that a client keeps from one task to the next.
	maxState = 1 << 30
	// maxTokens is the largest number of tokens of a sample.
	maxTokens = 1 << 20
)

// check returns an error for a greeting that cannot be used, and nil for a good one. It also
// replaces the dots and plus signs in the class, because the class becomes part of a message's
// subject, which cannot have them.
func (g *Greeting) check() error {
	g.Class = strings.NewReplacer(".", "_", "+", "_").Replace(g.Class)
	if g.Protocol < oldest || g.Protocol > version {
		return fmt.Errorf("it speaks protocol %d, want %d to %d", g.Protocol, oldest, version)
	}
	if err := checkText("name", g.Name); err != nil || strings.Contains(g.Name, "@") {
		return fmt.Errorf("its name %.40q is not one: 1 to %d characters without @", g.Name, maxText)
	}
	// The first of these errors is returned.
	switch err := cmp.Or(
		names.CheckToken("class", g.Class),
		checkDigest(g.Digest),
		g.checkTensors(),
		g.checkMetrics(),
		g.Steps.check(),
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

// checkText returns an error unless s has 1 to maxText printable bytes. field names it in the
// error.
func checkText(field, s string) error {
	if s == "" ||
		len(s) > maxText ||
		!utf8.ValidString(s) ||
		strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s %.40q: want 1 to %d bytes that can be printed", field, s, maxText)
	}
	return nil
}

// checkDigest returns an error unless s is a SHA-256 in hexadecimal.
func checkDigest(s string) error {
	if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size {
		return fmt.Errorf("digest %.80q: want %d hexadecimal digits of a SHA-256", s, 2*sha256.Size)
	}
	return nil
}

// checkTensors returns an error unless the tensors can be one flat model: their names differ, they
// have at most [learn.MaxParams] numbers together, and they come in the order trainable, other
// floats, integers, frozen.
func (g *Greeting) checkTensors() error {
	if len(g.Tensors) == 0 || len(g.Tensors) > maxTensors {
		return fmt.Errorf("a model of %d tensors, want 1 to %d", len(g.Tensors), maxTensors)
	}
	// seen holds all names and aliases so far, which must differ.
	seen := map[string]bool{}
	total := 0
	for i, t := range g.Tensors {
		for _, name := range append([]string{t.Name}, t.Aliases...) {
			if err := checkText("tensor", name); err != nil {
				return err
			}
			if seen[name] {
				return fmt.Errorf("tensor %q is there twice", name)
			}
			seen[name] = true
		}
		if len(seen) > maxTensors {
			return fmt.Errorf("a model of more than %d names of tensors", maxTensors)
		}
		if len(t.Shape) > maxRank {
			return fmt.Errorf("tensor %q has %d dimensions, want at most %d", t.Name, len(t.Shape), maxRank)
		}
		// The division avoids an overflow of the product of the sizes.
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
		if err := g.checkBuffer(t); err != nil {
			return err
		}
		total += t.len()
		if total > learn.MaxParams {
			return fmt.Errorf("a model of more than %d numbers", learn.MaxParams)
		}
		// The order of the tensors is that of the values in the flat model.
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
	// Buffers of integers that are communicated come behind those of floats.
	const anyOffset = 0
	isSent := func(t Tensor) bool { return t.learnTensor(anyOffset).IsSentInteger() }
	if i := slices.IndexFunc(g.Tensors, isSent); i >= 0 {
		isFloat := func(t Tensor) bool { return !isSent(t) && !t.Frozen }
		if slices.ContainsFunc(g.Tensors[i:], isFloat) {
			return fmt.Errorf(
				"tensor %q is of integers, and one of floats that travels lies behind it",
				g.Tensors[i].Name,
			)
		}
	}
	if !g.Tensors[0].Trainable {
		return fmt.Errorf("no tensor is trainable")
	}
	return nil
}

// checkBuffer returns an error if the type or the rule of a tensor is not known, needs a newer protocol
// than the process speaks, or contradicts what else the tensor says. A tensor without either is fine.
func (g *Greeting) checkBuffer(t Tensor) error {
	if t.Type == "" && t.Rule == "" {
		return nil
	}
	if g.Protocol < versionTyped {
		return fmt.Errorf("tensor %q has a type, and it speaks protocol %d, want %d", t.Name, g.Protocol, versionTyped)
	}
	const anyOffset = 0
	info := t.learnTensor(anyOffset)
	if err := info.CheckType(); err != nil {
		return err
	}
	// Clients send integers with any rule but kept; those that are kept must be declared as frozen.
	isKept := !info.IsSentInteger()
	if t.Trainable || t.Frozen != isKept {
		return fmt.Errorf("tensor %q has the rule %s: want it frozen if it is kept, else neither frozen nor trainable",
			t.Name, t.Rule)
	}
	return nil
}

// checkMetrics returns an error if there are too many metrics, if a name is not one for a metric,
// or if a direction is neither higher nor lower.
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

// check returns an error if the description of the trainer's own data is inconsistent. Nil, which
// stands for no such data, is fine. The number of all samples must fit into an int32, which numbers
// the rows.
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
	// The rows of held-out samples are counted, too.
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

// differs compares the greeting g of the run's first process with that of a later one of the same command, which was
// restarted or is of another worker. It returns what makes the later one unusable for the run, as part of a sentence,
// and "" if nothing does.
func (g *Greeting) differs(later *Greeting) string {
	switch {
	case g.Digest != later.Digest:
		return fmt.Sprintf("its script is another (digest %.12s, it was %.12s)", later.Digest, g.Digest)
	case !reflect.DeepEqual(g.Tensors, later.Tensors):
		return differentTensors(g.Tensors, later.Tensors)
	case !reflect.DeepEqual(g.Steps, later.Steps):
		return "its steps are taken by another optimizer"
	// State is the most bytes that a client keeps between tasks.
	case g.State != later.State:
		return fmt.Sprintf("it has clients keep up to %d bytes, it was %d", later.State, g.State)
	case !slices.Equal(g.Metrics, later.Metrics):
		return "its metrics are others"
	// Processes of one class give the same bits.
	case g.Class != later.Class:
		return fmt.Sprintf("its arithmetic is of class %s, it was %s", later.Class, g.Class)
	// Data is nil where the trainer has none of its own. The digest stands for all of it.
	case (g.Data == nil) != (later.Data == nil) || g.Data != nil && g.Data.Digest != later.Data.Digest:
		return "its data is another"
	}
	return ""
}

// differentTensors describes the first difference of the tensors of two processes, with what to do, as
// part of a sentence. Modules that register tensors in another order, or by chance, are the usual cause.
func differentTensors(first, second []Tensor) string {
	remedy := "the script must make the same model every time, its modules in the same order"
	if len(first) != len(second) {
		return fmt.Sprintf("its model has %d tensors, the first process's %d: %s", len(second), len(first), remedy)
	}
	for i, t := range second {
		if !reflect.DeepEqual(t, first[i]) {
			return fmt.Sprintf("tensor %d of its model is %s, in the first process %s: %s",
				i+1, t.describe(), first[i].describe(), remedy)
		}
	}
	return "its tensors are equal"
}

// describe names a tensor with its shape and, if it has one, its type and its rule.
func (t Tensor) describe() string {
	text := fmt.Sprintf("%s %v", t.Name, t.Shape)
	if t.Type != "" {
		text += fmt.Sprintf(" (%s, %s)", t.Type, t.Rule)
	}
	return text
}
