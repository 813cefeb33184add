package learn

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"fedpace/actors/learn/network"
	"fedpace/internal/registry"
)

// The name of a list in messages holds the samples and, by the order of their options, all
// layers:
//
//	layers:image=3x32x32,classes=100;conv(16,3,1,1),relu,residual([conv(16,3,1,1)]),average,flatten,dense(100)

// maxName bounds a name: a message has room for no more.
const maxName = registry.MaxText

// nameOf is the name of a list of layers on samples.
func nameOf(of Samples, list []network.Layer) (string, error) {
	var b strings.Builder
	b.WriteString("layers:")
	switch {
	case of.Input == Tokens:
		fmt.Fprintf(&b, "tokens=%dx%d", of.Features, of.Vocabulary)
	case of.Input == Sparse:
		fmt.Fprintf(&b, "words=%d", of.Features)
	case of.Image != [3]int{}:
		fmt.Fprintf(&b, "image=%dx%dx%d", of.Image[0], of.Image[1], of.Image[2])
	default:
		fmt.Fprintf(&b, "values=%d", of.Features)
	}
	if of.Targets > 0 {
		fmt.Fprintf(&b, ",targets=%d;", of.Targets)
	} else {
		fmt.Fprintf(&b, ",classes=%d;", of.Classes)
	}
	if err := writeList(&b, list); err != nil {
		return "", err
	}
	if b.Len() > maxName {
		return "", fmt.Errorf("a list of layers whose name takes %d bytes is too long (at most %d)", b.Len(), maxName)
	}
	return b.String(), nil
}

func writeList(b *strings.Builder, list []network.Layer) error {
	for i, l := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(network.Layers.NameOf(l))
		v := reflect.ValueOf(l)
		for j, o := range registry.Options(v.Type()) {
			b.WriteByte("(,"[min(j, 1)])
			switch x := v.FieldByIndex(o.Index).Interface().(type) {
			case int, string, bool:
				fmt.Fprint(b, x)
			case float64:
				b.WriteString(strconv.FormatFloat(x, 'g', -1, 64))
			case []network.Layer:
				b.WriteByte('[')
				if err := writeList(b, x); err != nil {
					return err
				}
				b.WriteByte(']')
			default:
				return fmt.Errorf("layer %d (%s): its option %s is a %T, which has no place in a model's name", i+1, network.Layers.NameOf(l), o.Key, x)
			}
		}
		if len(registry.Options(v.Type())) > 0 {
			b.WriteByte(')')
		}
	}
	return nil
}

// Parse reads what stands behind the colon of a name.
func (Sequential) Parse(text string) (Architecture, error) {
	head, list, ok := strings.Cut(text, ";")
	samples, answers, more := strings.Cut(head, ",")
	if !ok || !more || len(text) > maxName {
		return nil, fmt.Errorf("%.80q is not SAMPLES,ANSWERS;LAYER,... of at most %d bytes", text, maxName)
	}
	of, err := samplesOf(samples, answers)
	if err != nil {
		return nil, err
	}
	r := nameReader{rest: list}
	a := Sequential{of: of, Layers: r.list(1)}
	if r.err == nil && r.rest != "" {
		r.fail("the end")
	}
	return a, r.err
}

// samplesOf reads the samples of a name, as in "image=3x32x32" and "classes=100".
func samplesOf(samples, answers string) (of Samples, err error) {
	kind, sizes, _ := strings.Cut(samples, "=")
	var n []int
	for s := range strings.SplitSeq(sizes, "x") {
		v, err := strconv.Atoi(s)
		if err != nil || v < 1 || v > maxWidth {
			return of, fmt.Errorf("%q is not sizes from 1 to %d", samples, maxWidth)
		}
		n = append(n, v)
	}
	switch {
	case kind == "values" && len(n) == 1:
		of = Samples{Input: Dense, Features: n[0]}
	case kind == "image" && len(n) == 3:
		of = Samples{Input: Dense, Features: int(network.Product(n...)), Image: [3]int(n)}
	case kind == "words" && len(n) == 1:
		of = Samples{Input: Sparse, Features: n[0]}
	case kind == "tokens" && len(n) == 2:
		of = Samples{Input: Tokens, Features: n[0], Vocabulary: n[1]}
	default:
		return of, fmt.Errorf("%q is not values=N, image=CxHxW, words=N or tokens=LENGTHxVOCABULARY", samples)
	}
	what, number, _ := strings.Cut(answers, "=")
	v, err := strconv.Atoi(number)
	switch {
	case err != nil || v < 1 || v > maxWidth:
		err = fmt.Errorf("%q is not a number from 1 to %d", answers, maxWidth)
	case what == "classes":
		of.Classes = v
	case what == "targets":
		of.Targets = v
	default:
		err = fmt.Errorf("%q is not classes=N or targets=N", answers)
	}
	return of, err
}

// nameReader reads the layers of a name.
type nameReader struct {
	rest string
	err  error
}

// fail keeps the first error.
func (r *nameReader) fail(want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%.40q stands where %s is wanted", r.rest, want)
	}
}

// take reads a piece of text that must come next.
func (r *nameReader) take(text string) bool {
	rest, ok := strings.CutPrefix(r.rest, text)
	r.rest = rest
	return ok
}

// word reads up to one of some ends, which stays.
func (r *nameReader) word() string {
	end := strings.IndexAny(r.rest, "(),[]")
	if end < 0 {
		end = len(r.rest)
	}
	word := r.rest[:end]
	r.rest = r.rest[end:]
	return word
}

func (r *nameReader) list(depth int) (list []network.Layer) {
	if depth > network.MaxNesting {
		r.fail("a shallower list")
	}
	for r.err == nil {
		list = append(list, r.layer(depth))
		if !r.take(",") {
			break
		}
	}
	return list
}

// layer reads a name and its options.
func (r *nameReader) layer(depth int) network.Layer {
	name := r.word()
	entry, ok := network.Layers.Entry(name)
	if !ok {
		if r.err == nil {
			r.err = fmt.Errorf("%.40q is not a layer (%s)", name, strings.Join(network.Layers.Names(), ", "))
		}
		return entry
	}
	v := reflect.New(reflect.TypeOf(entry)).Elem()
	options := registry.Options(v.Type())
	for i, o := range options {
		if !r.take("(,"[min(i, 1):][:1]) {
			r.fail(name + "'s " + o.Key)
			return entry
		}
		r.option(v.FieldByIndex(o.Index).Addr().Interface(), depth)
	}
	if len(options) > 0 && !r.take(")") {
		r.fail("the end of " + name)
	}
	if r.err == nil {
		r.err = registry.Below(name, registry.Check(v.Interface()))
	}
	return v.Interface().(network.Layer)
}

// option reads one value.
func (r *nameReader) option(to any, depth int) {
	if list, ok := to.(*[]network.Layer); ok {
		if !r.take("[") {
			r.fail("a list of layers")
			return
		}
		*list = r.list(depth + 1)
		if !r.take("]") {
			r.fail("the end of a list")
		}
		return
	}
	word, want := r.word(), "a number"
	var err error
	switch to := to.(type) {
	case *int:
		*to, err = strconv.Atoi(word)
	case *float64:
		*to, err = strconv.ParseFloat(word, 64)
	case *bool:
		*to, err = strconv.ParseBool(word)
		want = "true or false"
	case *string:
		*to = word
	default:
		err, want = errors.ErrUnsupported, "another layer"
	}
	if err != nil {
		r.rest = word + r.rest
		r.fail(want)
	}
}
