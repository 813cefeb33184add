package learn

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"fedpace/learn/network"
	"fedpace/registry"
)

// A model's name is its architecture's, a colon and the architecture's fields in their order, as
// in mlp:784,200,200,62. A list of layers has its samples before it:
//
//	layers:image=3x32x32,classes=100;conv(16,3,1,1),relu,residual([conv(16,3,1,1)]),average,flatten,dense(100)
//
// The readers of parts take more than is ever written; [Parse] refuses what it would not write.

// maxName bounds a name: a message has room for no more.
const maxName = registry.MaxText

// NameOf returns the name of an architecture that leaves no size open. Its fields are numbers, words, and
// lists of numbers or of layers.
func NameOf(a Architecture) string {
	return Models.NameOf(a) + ":" + strings.Join(nameWords(a), ",")
}

// Parse makes the model of a name. It accepts only the form that [ModelInfo.String] writes, so that
// equal models have equal names.
func Parse(name string) (model Model, err error) {
	a, samples, err := parseArchitecture(name)
	if err == nil {
		model, err = a.Model(samples)
	}
	// Equal models must have equal names, so only the canonical spelling is accepted.
	if err == nil && model.String() != name {
		err = fmt.Errorf("its shortest form is %s", model)
	}
	if err != nil {
		return nil, fmt.Errorf("model %.80q: %w", name, err)
	}
	return model, nil
}

// parseArchitecture parses the name of a model. It returns the architecture and, for a list of layers, the
// samples that precede the list; the names of other architectures have no samples.
func parseArchitecture(name string) (_ Architecture, samples Samples, err error) {
	kind, text, _ := strings.Cut(name, ":")
	entry, ok := Models.Entry(kind)
	if !ok {
		return nil, samples, fmt.Errorf("%q is not an architecture (%s)", kind, strings.Join(Models.Names(), ", "))
	}
	// Messages of other machines hold names, so their length is bounded before they are parsed.
	if len(name) > maxName {
		return nil, samples, fmt.Errorf("it takes %d bytes (at most %d)", len(name), maxName)
	}
	// Only a list of layers has its samples in its name, before a semicolon.
	if before, list, ok := strings.Cut(text, ";"); ok {
		samples, err = parseSamples(before)
		if err != nil {
			return nil, samples, err
		}
		text = "[" + list + "]"
	}
	a, err := parseComponent(entry, text)
	if err != nil {
		return nil, samples, err
	}
	return a.(Architecture), samples, nil
}

// nameFields returns the fields of a component that its name has, in their order: all exported ones but the
// option frozen.
func nameFields(component reflect.Type) (list []reflect.StructField) {
	for _, f := range reflect.VisibleFields(component) {
		if f.IsExported() && !f.Anonymous && f.Name != frozenField {
			list = append(list, f)
		}
	}
	return list
}

// frozenField is the field of [network.Freezing]. A name has the word frozen behind the other options
// of a layer, and only if the layer is frozen.
const frozenField, frozen = "Frozen", "frozen"

var numbers = reflect.TypeFor[[]int]()

// takesSeveralWords reports whether fields[0] is a list of numbers of which each is a word of the name, as
// in 784,200,62. That is so for the last list of numbers among the fields; any other one is a single word
// with x between its numbers, as in 3x32x32.
func takesSeveralWords(fields []reflect.StructField) bool {
	if fields[0].Type != numbers {
		return false
	}
	for _, f := range fields[1:] {
		if f.Type == numbers {
			return false
		}
	}
	return true
}

// nameWords returns the words that stand in a name for the options of a component, a kind of model or a layer, in the
// order of its fields: 784,200,62 for the list of sizes of mlp:784,200,62.
func nameWords(component any) (list []string) {
	value := reflect.ValueOf(component)
	all := nameFields(value.Type())
	for i, f := range all {
		text := fmt.Sprint(value.FieldByIndex(f.Index))
		switch x := value.FieldByIndex(f.Index).Interface().(type) {
		case []int:
			// A list of numbers is one word, such as 3x32x32, but the last list is as many words as it has numbers.
			between := "x"
			if takesSeveralWords(all[i:]) {
				between = ","
			}
			text = strings.ReplaceAll(strings.Trim(text, "[]"), " ", between)
		case []network.Layer:
			text = "[" + layersText(x) + "]"
		}
		list = append(list, text)
	}
	// The word is written only for a frozen layer, so that other names stay as they are.
	if f := value.FieldByName(frozenField); f.IsValid() && f.Bool() {
		list = append(list, frozen)
	}
	return list
}

// layersText writes a list of layers with their options as text, such as
// conv(16,3,1,1),relu,flatten,dense(100), which is part of a model's name.
func layersText(layers []network.Layer) string {
	var list []string
	for _, l := range layers {
		text := network.Layers.NameOf(l)
		if options := nameWords(l); len(options) > 0 {
			text += "(" + strings.Join(options, ",") + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, ",")
}

// parseComponent parses the words of text into the fields of a component, such as a layer, and checks them.
// It returns a value of the type of entry, the component as it is registered.
func parseComponent(entry any, text string) (any, error) {
	value := reflect.New(reflect.TypeOf(entry)).Elem()
	all := nameFields(value.Type())
	unread := splitOutsideBrackets(text)
	if f := value.FieldByName(frozenField); f.IsValid() && len(unread) > 0 && unread[len(unread)-1] == frozen {
		f.SetBool(true)
		unread = unread[:len(unread)-1]
	}
	for i, field := range all {
		// Each field behind a list of several words takes one, and the list has the others.
		n := 1
		if takesSeveralWords(all[i:]) {
			n = len(unread) - len(all[i+1:])
		}
		if n < 1 || n > len(unread) {
			return nil, wordCountError(text, all)
		}
		if err := parseField(
			value.FieldByIndex(field.Index).Addr().Interface(),
			strings.Join(unread[:n], ","),
		); err != nil {
			return nil, registry.Below(fieldName(field), err)
		}
		unread = unread[n:]
	}
	// All words must be used, or two names would stand for one model.
	if len(unread) > 0 {
		return nil, wordCountError(text, all)
	}
	return value.Interface(), registry.Check(value.Interface())
}

// wordCountError returns the error for a text with too few or too many words for the fields of a component,
// which it names.
func wordCountError(text string, fields []reflect.StructField) error {
	var names []string
	for _, f := range fields {
		names = append(names, fieldName(f))
	}
	return fmt.Errorf("%.40q is not (%s)", text, strings.Join(names, ","))
}

// fieldName returns the name of a field in messages: its configuration key, if it has one.
func fieldName(f reflect.StructField) string {
	return cmp.Or(f.Tag.Get("key"), strings.ToLower(f.Name))
}

// parseField sets the variable that field points to from its part of a name. A number or word is accepted
// only in its shortest form.
func parseField(field any, text string) error {
	switch to := field.(type) {
	case *[]int:
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == 'x' }) {
			var n int
			if err := parseField(&n, word); err != nil {
				return err
			}
			*to = append(*to, n)
		}
	// A layer may hold a list of layers, whose brackets are not part of its words.
	case *[]network.Layer:
		for _, word := range splitOutsideBrackets(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")) {
			name, options, _ := strings.Cut(word, "(")
			entry, ok := network.Layers.Entry(name)
			if !ok {
				return fmt.Errorf("%.40q is not a layer (%s)", name, strings.Join(network.Layers.Names(), ", "))
			}
			l, err := parseComponent(entry, strings.TrimSuffix(options, ")"))
			if err != nil {
				return registry.Below(name, err)
			}
			*to = append(*to, l.(network.Layer))
		}
	// A number must be written as it would be printed, so that equal models have equal names.
	default:
		v := reflect.ValueOf(to).Elem()
		if _, err := fmt.Sscan(text, to); err != nil || fmt.Sprint(v) != text {
			return fmt.Errorf("%.40q is no %v in its shortest form", text, v.Kind())
		}
	}
	return nil
}

// splitOutsideBrackets splits a text at the commas that are not within round or square brackets; an empty
// text has no parts.
func splitOutsideBrackets(text string) (words []string) {
	if text == "" {
		return nil
	}
	depth := 0
	start := 0
	for i, r := range text {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		// Commas within brackets belong to the options of a layer.
		case ',':
			if depth == 0 {
				words = append(words, text[start:i])
				start = i + 1
			}
		}
	}
	return append(words, text[start:])
}

// samplesText writes what a list of layers reads and answers as text, such as
// image=3x32x32,classes=100, which is part of a model's name.
func samplesText(samples Samples) string {
	text := fmt.Sprintf("values=%d", samples.Features)
	switch {
	case samples.Input == Tokens:
		text = fmt.Sprintf("tokens=%dx%d", samples.Features, samples.Vocabulary)
	case samples.Input == Sparse:
		text = fmt.Sprintf("words=%d", samples.Features)
	case samples.Image != [3]int{}:
		text = fmt.Sprintf("image=%dx%dx%d", samples.Image[0], samples.Image[1], samples.Image[2])
	}
	if samples.Targets > 0 {
		return fmt.Sprintf("%s,targets=%d", text, samples.Targets)
	}
	return fmt.Sprintf("%s,classes=%d", text, samples.Classes)
}

// parseSamples returns the samples that a text of [samplesText] describes. It does not check the sizes.
func parseSamples(text string) (samples Samples, err error) {
	// matches reads numbers at the beginning of the text.
	matches := func(format string, fields ...any) bool {
		_, err := fmt.Sscanf(text, format, fields...)
		return err == nil
	}
	switch image := &samples.Image; {
	case matches("values=%d,", &samples.Features):
	case matches("image=%dx%dx%d,", &image[0], &image[1], &image[2]):
		samples.Features = int(network.Product(image[:]...))
	case matches("words=%d,", &samples.Features):
		samples.Input = Sparse
	case matches("tokens=%dx%d,", &samples.Features, &samples.Vocabulary):
		samples.Input = Tokens
	default:
		return samples, fmt.Errorf(
			"%.40q does not begin with values=N, image=CxHxW, words=N or tokens=LENGTHxVOCABULARY",
			text,
		)
	}
	_, text, _ = strings.Cut(text, ",")
	if !matches("classes=%d", &samples.Classes) && !matches("targets=%d", &samples.Targets) {
		err = fmt.Errorf("%.40q is not classes=N or targets=N", text)
	}
	return samples, err
}
