package learn

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"fedpace/internal/names"
	"fedpace/registry"
)

// Personal is a model of which each client keeps some tensors to itself (FedPer, Arivazhagan et al.
// 2019). Its parameters are those of the model in another order: what travels, what is personal, and
// what is frozen. In a model that is shared, the personal ones have their first values.
type Personal struct {
	ModelInfo    // as local steps have it
	name         string
	tensors      []Tensor
	places       []int // by tensor, where it begins in ModelInfo
	trainable    int
	communicated int
	personal     int // parameters that are personal
}

// NewPersonal makes of a model one of which the tensors of these names are personal. Each names a
// tensor, or what its name begins with before a dot, or is a pattern of [path.Match] for either.
func NewPersonal(m ModelInfo, patterns []string, headSteps int) (*Personal, error) {
	p := &Personal{ModelInfo: m, name: fmt.Sprintf("%s;personal=%s", m, strings.Join(patterns, ","))}
	if headSteps > 0 {
		p.name += fmt.Sprintf(";head_steps=%d", headSteps)
	}
	if len(p.name) > registry.MaxText {
		return nil, registry.Errorf(
			"names",
			"the names are too long (with the model's name at most %d bytes; take patterns, such as head.*)",
			registry.MaxText,
		)
	}
	parts, err := personalParts(m, patterns)
	if err != nil {
		return nil, err
	}
	n := 0
	bounds := [4]int{}
	for i, part := range parts {
		for _, t := range part {
			p.places = append(p.places, t.Offset)
			t.Offset = n
			p.tensors = append(p.tensors, t)
			n += t.Len()
		}
		bounds[i] = n
	}
	p.trainable = bounds[0]
	p.communicated = bounds[1]
	p.personal = bounds[2] - bounds[1]
	if p.trainable == 0 {
		return nil, registry.Errorf(
			"names",
			"all that trains is personal, and nothing is learned together (leave some out)",
		)
	}
	return p, nil
}

// personalParts are a model's tensors that are shared, shared and not trained, personal by one of
// these names, and frozen.
func personalParts(m ModelInfo, patterns []string) (parts [4][]Tensor, err error) {
	found := make([]bool, len(patterns))
	var trainedNames []string
	for _, t := range m.Tensors() {
		if t.Offset >= Communicated(m) {
			parts[3] = append(parts[3], t)
			continue
		}
		part := 0
		if t.Offset >= m.Trainable() {
			part = 1
		}
		for i, name := range patterns {
			matchesName, err := path.Match(name, t.Name)
			if err != nil {
				return parts, registry.Errorf("names", "%q is no pattern (%v)", name, err)
			}
			if before, _ := path.Match(name+".*", t.Name); matchesName || before { // a pattern as the one before
				found[i] = true
				part = 2
			}
		}
		parts[part] = append(parts[part], t)
		for i, r := range t.Name {
			if prefix := t.Name[:i]; r == '.' && !slices.Contains(trainedNames, prefix) {
				trainedNames = append(trainedNames, prefix)
			}
		}
		trainedNames = append(trainedNames, t.Name)
	}
	if i := slices.Index(found, false); i >= 0 {
		hint := "want one of " + strings.Join(trainedNames[:min(len(trainedNames), 12)], ", ")
		if near := names.Nearest(patterns[i], trainedNames); near != "" {
			hint = "did you mean " + near + "?"
		}
		return parts, registry.Errorf("names", "%q is nothing of the model that trains (%s)", patterns[i], hint)
	}
	return parts, nil
}

func (p *Personal) String() string      { return p.name }
func (p *Personal) Trainable() int      { return p.trainable }
func (p *Personal) Frozen() int         { return p.Params() - p.communicated }
func (p *Personal) PersonalParams() int { return p.personal }
func (p *Personal) Tensors() []Tensor   { return p.tensors }

// ToModelOrder writes parameters in the order of ModelInfo.
func (p *Personal) ToModelOrder(dst, params []float32) {
	for i, t := range p.tensors {
		copy(dst[p.places[i]:][:t.Len()], params[t.Offset:])
	}
}

// FromModelOrder undoes Whole.
func (p *Personal) FromModelOrder(dst, params []float32) {
	for i, t := range p.tensors {
		copy(dst[t.Offset:][:t.Len()], params[p.places[i]:])
	}
}

// Stepped is a model as local steps have it.
func Stepped(m ModelInfo) ModelInfo {
	if p, ok := m.(*Personal); ok {
		return p.ModelInfo
	}
	return m
}
