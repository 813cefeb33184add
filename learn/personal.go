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
// 2019). Its parameters are those of the model in another order: shared, personal, frozen. The shared
// ones travel first. In the model that the server holds, the personal ones have their initial values.
type Personal struct {
	// ModelInfo is the whole model, as local steps have it.
	ModelInfo
	name    string
	tensors []Tensor
	// places holds, for each of tensors, the index in ModelInfo's parameters where it begins.
	places []int
	// trainable is the number of shared parameters that train, which come first.
	trainable int
	// communicated is the number of parameters that a task transfers, which are all of the shared
	// ones.
	communicated int
	// personal is the number of parameters that each client keeps to itself.
	personal int
}

// NewPersonal returns a model in which the tensors that match a pattern are personal. A pattern is matched
// by [path.Match] against a tensor's name and against each prefix of it that ends before a dot. headSteps
// is the number of local steps in which only personal tensors train; it is a part of the model's name.
func NewPersonal(model ModelInfo, patterns []string, headSteps int) (*Personal, error) {
	personal := &Personal{ModelInfo: model, name: fmt.Sprintf("%s;personal=%s", model, strings.Join(patterns, ","))}
	if headSteps > 0 {
		personal.name += fmt.Sprintf(";head_steps=%d", headSteps)
	}
	// The name travels in messages, whose texts are bounded.
	if len(personal.name) > registry.MaxText {
		return nil, registry.Errorf(
			"names",
			"the names are too long (with the model's name at most %d bytes; take patterns, such as head.*)",
			registry.MaxText,
		)
	}
	parts, err := personalParts(model, patterns)
	if err != nil {
		return nil, err
	}
	// The parts follow each other in the new order. places has for each tensor its offset in the model that is
	// split, and ends[part] is the number of parameters up to the end of the part.
	n := 0
	var ends [tensorParts]int
	for part, tensors := range parts {
		for _, t := range tensors {
			personal.places = append(personal.places, t.Offset)
			t.Offset = n
			personal.tensors = append(personal.tensors, t)
			n += t.Len()
		}
		ends[part] = n
	}
	personal.trainable = ends[sharedTrained]
	personal.communicated = ends[sharedOther]
	personal.personal = ends[personalPart] - ends[sharedOther]
	if personal.trainable == 0 {
		return nil, registry.Errorf(
			"names",
			"all that trains is personal, and nothing is learned together (leave some out)",
		)
	}
	return personal, nil
}

// The parts of a model with personal tensors, in their order: shared tensors that train, shared ones that do not,
// such as buffers, personal ones, and frozen ones.
const (
	sharedTrained = iota
	sharedOther
	personalPart
	frozenPart
	tensorParts
)

// personalParts divides a model's tensors into parts. A tensor is personal if a pattern matches its name, or a
// prefix of the name that ends before a dot. It is an error if a pattern matches no tensor.
func personalParts(model ModelInfo, patterns []string) (parts [tensorParts][]Tensor, err error) {
	found := make([]bool, len(patterns))
	var trainedNames []string
	for _, tensor := range model.Tensors() {
		// A frozen tensor never changes, so it can be neither shared nor personal.
		if tensor.Offset >= Communicated(model) {
			parts[frozenPart] = append(parts[frozenPart], tensor)
			continue
		}
		// A tensor is shared unless a pattern matches it; one that does not train lies behind those
		// that do.
		part := sharedTrained
		if tensor.Offset >= model.Trainable() {
			part = sharedOther
		}
		for i, name := range patterns {
			matchesName, err := path.Match(name, tensor.Name)
			if err != nil {
				return parts, registry.Errorf("names", "%q is no pattern (%v)", name, err)
			}
			// The pattern also matches a prefix of the name that ends before a dot. An error would
			// be that of the match above.
			if before, _ := path.Match(name+".*", tensor.Name); matchesName || before {
				found[i] = true
				part = personalPart
			}
		}
		parts[part] = append(parts[part], tensor)
		// Every prefix that ends before a dot may be named, too, and is proposed for a mistyped one.
		for i, r := range tensor.Name {
			if prefix := tensor.Name[:i]; r == '.' && !slices.Contains(trainedNames, prefix) {
				trainedNames = append(trainedNames, prefix)
			}
		}
		trainedNames = append(trainedNames, tensor.Name)
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

// The methods of [ModelInfo] speak of the parameters in their new order.

// String implements [ModelInfo].
func (p *Personal) String() string { return p.name }

// Trainable implements [ModelInfo].
func (p *Personal) Trainable() int { return p.trainable }

// Frozen returns the number of values that no task transfers, the last ones; [Communicated] finds it by this method.
func (p *Personal) Frozen() int { return p.Params() - p.communicated }

// Tensors implements [ModelInfo].
func (p *Personal) Tensors() []Tensor { return p.tensors }

// PersonalParams returns the number of values that a client keeps to itself.
func (p *Personal) PersonalParams() int { return p.personal }

// ToModelOrder writes parameters that lie in p's order into dst in the order of ModelInfo, as local
// steps take them.
func (p *Personal) ToModelOrder(dst, params []float32) {
	for i, t := range p.tensors {
		copy(dst[p.places[i]:][:t.Len()], params[t.Offset:])
	}
}

// FromModelOrder copies params, in the order of the model, to dst in the order of p. It is the inverse of
// ToModelOrder.
func (p *Personal) FromModelOrder(dst, params []float32) {
	for i, t := range p.tensors {
		copy(dst[t.Offset:][:t.Len()], params[p.places[i]:])
	}
}

// Stepped returns the model on which local steps are taken. A [Personal] has another order of parameters than the model
// within it, in which the personal ones are not apart: for it Stepped returns the model within. Any other model is
// returned itself.
func Stepped(m ModelInfo) ModelInfo {
	if p, ok := m.(*Personal); ok {
		return p.ModelInfo
	}
	return m
}
