package policy

import (
	"fmt"
	"reflect"

	"fedpace/registry"
)

// Asker puts questions to one policy, whose class and options it knows. It is for one goroutine.
type Asker interface {
	// Ask puts a question to a method of the policy and reads the answer into a pointer. Both are
	// as encoding/json writes them. It reports false where there is no answer: the policy has
	// failed, the asker keeps the reason, and the run ends with it after the step under way. The
	// component then answers anything that does no harm.
	Ask(method string, question, answer any) bool
	// AskVectors is Ask for questions about vectors.
	AskVectors(method string, question any, vectors *Vectors, answer any) bool
	// Fail says that an answer cannot be used. It gives the policy's method, and what would be
	// right.
	Fail(method, format string, args ...any)
	// Has reports whether the policy has a method that its kind does not demand.
	Has(method string) bool
}

// Vectors are long vectors that go with a question, in the order in which the policy gets them.
// Each is an []int64, a []float64 or a []float32.
type Vectors struct {
	// Read are those that the policy reads.
	Read []any
	// Written are those that it may change. They hold what it wrote after the answer.
	Written []any
}

// Python is the options that every component has which is a policy in Python: where the class is,
// and what it may use.
type Python struct {
	Path      string  `key:"path" is:"path" help:"Python file of the class"`
	Class     string  `key:"class" default:"" help:"class name; empty: the only one in the file"`
	Arguments string  `key:"arguments" default:"" help:"its arguments, as n=30, share=0.5"`
	Patience  float64 `key:"answer_seconds" default:"10" range:"(0,86400]" unit:"seconds" is:"inert" help:"maximum wall time of an answer"`
	Megabytes int     `key:"memory_mb" default:"2048" range:"[16,1000000]" is:"inert" help:"maximum memory of its process"`

	// asker is what the component asks in a run.
	asker Asker
}

// Asker returns what the component asks in a run. It is nil if none is bound, as on a host.
func (p Python) Asker() Asker { return p.asker }

// bind makes a the asker of the component. Only [Bind] calls it, since no other package may change
// the asker.
func (p *Python) bind(a Asker) { p.asker = a }

// Source returns the options themselves. By it a struct that embeds [Python] is a [Policy].
func (p Python) Source() Python { return p }

// String names the policy for messages, as path:class(arguments); class and arguments are left out
// where the configuration gives none.
func (p Python) String() string {
	text := p.Path
	if p.Class != "" {
		text += ":" + p.Class
	}
	if p.Arguments != "" {
		text += "(" + p.Arguments + ")"
	}
	return text
}

// Policy is a component whose decisions are made in Python: a struct that embeds [Python].
type Policy interface {
	Source() Python
	// Kind is the name of the base class in the module fedpace that the policy's class must have.
	Kind() string
}

// Bind hands an asker to every policy in a value of options, at any depth. v is settable, as the
// value behind a pointer to a configuration. start is called for each policy, with its key in the
// configuration such as schedule.k.
//
// Configurations of runs that go on side by side share lists and pointers, so Bind never writes into
// these: one with a policy in it is replaced by a copy, and all others stay as they are.
func Bind(v reflect.Value, start func(key string, p Policy) (Asker, error)) error {
	_, err := bind(v, "", start)
	return err
}

// bind is [Bind] for a value that stands at this key of the configuration; the key of the configuration
// itself is empty. It reports whether the value has a policy, at any depth. If not, it is only read.
func bind(value reflect.Value, key string, start func(string, Policy) (Asker, error)) (changed bool, err error) {
	switch value.Kind() {
	case reflect.Slice:
		return bindElements(value, key, start)
	case reflect.Pointer:
		if value.IsNil() {
			return false, nil
		}
		target := reflect.New(value.Elem().Type())
		target.Elem().Set(value.Elem())
		changed, err = bind(target.Elem(), key, start)
		if changed && err == nil {
			value.Set(target)
		}
		return changed, err
	case reflect.Interface:
		return bindComponent(value, key, start)
	case reflect.Struct:
		for _, option := range registry.Options(value.Type()) {
			below := option.Key
			if key != "" {
				below = key + "." + option.Key
			}
			// The options of a flat field stand at the level above, without a key of its own.
			if option.Flat {
				below = key
			}
			fieldChanged, err := bind(value.FieldByIndex(option.Index), below, start)
			if err != nil {
				return changed, err
			}
			changed = changed || fieldChanged
		}
	}
	return changed, nil
}

// bindElements is bind for a slice. If an element has a policy, the slice is replaced by a copy, because
// other configurations may share it.
func bindElements(
	value reflect.Value,
	key string,
	start func(string, Policy) (Asker, error),
) (changed bool, err error) {
	for i := range value.Len() {
		element := reflect.New(value.Type().Elem()).Elem()
		element.Set(value.Index(i))
		elementChanged, err := bind(element, fmt.Sprintf("%s[%d]", key, i), start)
		if err != nil {
			return changed, err
		}
		if !elementChanged {
			continue
		}
		// The first change replaces the slice, so that others who share it do not see the change.
		if !changed {
			copied := reflect.MakeSlice(value.Type(), value.Len(), value.Len())
			reflect.Copy(copied, value)
			value.Set(copied)
			changed = true
		}
		value.Index(i).Set(element)
	}
	return changed, nil
}

// bindComponent is bind for an interface value, such as a closing rule, which may be a policy or have
// policies among its options. start is called with the key of each policy and returns the asker for it.
func bindComponent(
	value reflect.Value,
	key string,
	start func(string, Policy) (Asker, error),
) (changed bool, err error) {
	// Only structs have options, and so policies.
	if value.IsNil() || value.Elem().Kind() != reflect.Struct {
		return false, nil
	}
	// What an interface holds cannot be set, so a copy takes its place.
	component := reflect.New(value.Elem().Type()).Elem()
	component.Set(value.Elem())
	changed, err = bind(component, key, start)
	if err != nil {
		return changed, err
	}
	// The component itself comes after those within it.
	if p, ok := component.Interface().(Policy); ok {
		asker, err := start(key, p)
		if err != nil {
			return changed, err
		}
		component.Addr().Interface().(interface{ bind(Asker) }).bind(asker)
		changed = true
	}
	if changed {
		value.Set(component)
	}
	return changed, nil
}

// Rebound returns a copy of component in which each policy, at any depth, has another asker: replace
// returns it for the present one. A policy without an asker stays as it is.
func Rebound[T any](component T, replace func(Asker) Asker) T {
	copied := reflect.New(reflect.TypeFor[T]()).Elem()
	value := reflect.ValueOf(component)
	// A nil interface holds no component.
	if !value.IsValid() {
		return component
	}
	copied.Set(value)
	// The function returns no error, so neither does bind.
	_, _ = bind(copied, "", func(_ string, p Policy) (Asker, error) {
		if p.Source().asker == nil {
			return nil, nil
		}
		return replace(p.Source().asker), nil
	})
	return copied.Interface().(T)
}

// In returns the policies of a configuration v, each with its key, in the order of the keys. The
// configuration is not changed.
func In(v reflect.Value) (list []Named) {
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	// Bind writes into a copy; the function returns no error.
	_ = Bind(copied, func(key string, p Policy) (Asker, error) {
		list = append(list, Named{key, p})
		return p.Source().asker, nil
	})
	return list
}

// Named is a policy with its key in the configuration, such as schedule.k or close.
type Named struct {
	Key    string
	Policy Policy
}
