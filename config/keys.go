package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"fedpace/registry"
)

// Key is a key of the configuration with all that help, completion, messages about unknown keys and
// the reference page say about it.
type Key struct {
	registry.Option
	// Name is the full path of the key, such as "schedule.k0"; "fleet[].name" stands in each
	// element of a list.
	Name string
	// Point is the plug point whose entries the key chooses from, or holds a list of. It is nil for
	// keys that choose no entry.
	Point *registry.Point
	// Required says that the value which contains the key must set it.
	Required bool
	// Entries names the entries of a plug point that have this option. It is nil for keys that
	// stand in every configuration.
	Entries []string
}

// Origin says where a struct of the configuration has the values from that a file does not set.
type Origin int

const (
	// Inherited means that the struct stands in every configuration, so that it has the values of the task.
	Inherited Origin = iota
	// MadeAnew means that the struct begins with the defaults of its keys alone, as an entry of a plug point, an
	// element of a list or what a pointer leads to does.
	MadeAnew
)

// KeysOf lists the keys of the configuration that the struct type t stands for, such as close or
// devices.names, and those of all structs within it, in the order of their fields. path is the struct's own
// path in the configuration, empty for the whole. origin says where the struct has its values from: in one that is
// MadeAnew, keys without a default are marked as required. A key that chooses an entry, such as a closing rule, is
// listed without the options of the entries.
func KeysOf(path string, t reflect.Type, origin Origin) (list []Key) {
	for _, o := range registry.Options(t) {
		// Whether the key is required depends on what contains it, and on its own default.
		k := Key{
			Option:   o,
			Name:     join(path, o.Key),
			Point:    registry.For(o.Type),
			Required: origin == MadeAnew && !o.Optional,
		}
		name := k.Name
		inner := o.Type
		// The keys of a list's elements, and of what a pointer leads to, are those of the type
		// below.
		switch o.Type.Kind() {
		case reflect.Slice:
			name = name + "[]"
			inner = o.Type.Elem()
			k.Point = registry.For(inner)
		case reflect.Pointer:
			inner = o.Type.Elem()
		}
		// A field without help is a group: it has keys and no value of its own.
		if o.Help != "" {
			list = append(list, k)
		}
		// A struct that is made anew, as in a list, behind a pointer or in place of a scalar, has
		// nothing to inherit, so what has no default must be set.
		if inner.Kind() == reflect.Struct {
			innerOrigin := origin
			if inner != o.Type || registry.Short(inner) != nil {
				innerOrigin = MadeAnew
			}
			list = append(list, KeysOf(name, inner, innerOrigin)...)
		}
	}
	return list
}

// KnownKeys lists all keys, in the order of the file that [Config.YAML] writes. The keys of a
// choice are followed by the options of its entries; an option that several entries share, with the
// same help, is listed once with all their names. Callers must not change the list.
var KnownKeys = sync.OnceValue(func() (list []Key) {
	for _, k := range KeysOf("", reflect.TypeFor[Config](), Inherited) {
		list = append(list, k)
		if k.Point == nil {
			continue
		}
		var options []Key
		// Options of the same name and help are one key, which notes every entry that has it.
		for _, e := range k.Point.Entries {
			for _, o := range KeysOf(k.optionsPath(), e.Type(), MadeAnew) {
				i := slices.IndexFunc(options, func(k Key) bool { return k.Name == o.Name && k.Help == o.Help })
				if i < 0 {
					i = len(options)
					options = append(options, o)
				}
				options[i].Entries = append(options[i].Entries, e.Name)
			}
		}
		list = append(list, options...)
	}
	return list
})

// optionsPath returns the path in the configuration below which the options of a chosen entry stand, for a
// key that chooses one: the key's own, as in close.seconds; its elements', as in outputs[], where it is a
// list; and that of the surrounding group where the options stand among the group's keys (they are flat), as
// those of a data reader do.
func (k *Key) optionsPath() string {
	switch {
	case k.Flat:
		return strings.TrimSuffix(strings.TrimSuffix(k.Name, k.Key), ".")
	case k.Type.Kind() == reflect.Slice:
		return k.Name + "[]"
	}
	return k.Name
}

// HasName reports whether a full path means this key: its own name, or the key within its map that
// holds the name of the chosen entry, such as close.rule for close.
func (k *Key) HasName(name string) bool {
	return k.Name == name || k.Point != nil && join(k.optionsPath(), k.Point.Word) == name
}

// InList reports whether the key belongs to the elements of a list, so that its path has an index.
func (k *Key) InList() bool { return strings.Contains(k.Name, "[]") }

// Offered returns the words that completion offers for the key: the names of entries, the words
// that it is limited to, the word beside its numbers, or true and false. Other values may be
// allowed, too.
func (k *Key) Offered() []string {
	words := slices.Clip(k.Words)
	switch {
	case k.Point != nil:
		words = k.Point.Names()
	case k.Word != "":
		words = append(words, k.Word)
	case k.Type.Kind() == reflect.Bool:
		words = []string{"true", "false"}
	}
	return words
}

// IsPath reports whether the key, or the scalar that stands for its map, may be the path of a file
// or folder. Completion then offers files.
func (k *Key) IsPath() bool {
	return k.Path || slices.ContainsFunc(structsOf(k.Type), func(t reflect.Type) bool {
		return slices.ContainsFunc(registry.Short(t), func(s registry.Option) bool { return s.Path })
	})
}

// About returns the help of the key on one line. In front of it stand the entries of a plug point that have the
// key, if it is the option of some, and behind it the words that the key may hold.
func (k *Key) About() string {
	text := k.Help
	if k.Entries != nil {
		text = strings.Join(k.Entries, ", ") + ": " + text
	}
	// The word beside a number, and true and false, need no list.
	if words := k.Offered(); k.Point != nil || k.Words != nil {
		text += ": " + strings.Join(words, ", ")
	}
	return text
}

// Value describes the values that the key may hold, such as "a whole number from 1 to 10". It is
// empty for maps and for entries of a plug point.
func (k *Key) Value() string { return valueText(&k.Option, k.Type) }

// Explain returns the help on a path, which is that of a key, of a group of keys, or of an entry of
// a choice, such as close.deadline or deadline alone. The result is false if the configuration has none of that
// name.
func Explain(path string) (string, bool) {
	var b strings.Builder
	// Several keys may choose from the same entries; an entry is explained at the first of them.
	explained := false
	for _, k := range KnownKeys() {
		keyName := strings.ReplaceAll(k.Name, "[]", "")
		// A group is explained by all the keys below it.
		if keyName == path || strings.HasPrefix(keyName, path+".") {
			fmt.Fprintf(&b, "%s: %s\n", keyName, k.About())
			if value := k.Value(); value != "" && k.Optional && k.Default != "" {
				fmt.Fprintf(&b, "  %s; default %s\n", value, k.Default)
			} else if value != "" {
				fmt.Fprintf(&b, "  %s\n", value)
			}
		}
		if k.Point == nil || explained {
			continue
		}
		// The path may also name an entry of the key's plug point, alone or behind the path of its options.
		name, _ := strings.CutPrefix(path, strings.ReplaceAll(k.optionsPath(), "[]", "")+".")
		if e, help, ok := k.Point.Entry(name); ok {
			explained = true
			explain(&b, "", path, help, reflect.TypeOf(e))
		}
	}
	return strings.TrimSpace(b.String()), b.Len() > 0
}

// explain writes the help of an entry with this name, and a line for each of its options. For an
// option that lists entries of another plug point, such as layers, the entries are explained below
// it, one level deep.
func explain(b *strings.Builder, indent, name, help string, options reflect.Type) {
	fmt.Fprintf(b, "%s%s: %s\n", indent, name, help)
	for _, o := range KeysOf("", options, MadeAnew) {
		text := o.Help
		if value := o.Value(); value != "" {
			text += " (" + value + ")"
		}
		fmt.Fprintf(b, "%s  %s: %s\n", indent, o.Name, text)
		// Only entries that are written under their own names, as layers are, are explained here: a plug point
		// with a Word (such as name) is one choice, with help of its own. Entries within entries are not explained
		// again, or a plug point that holds its own kind would never end.
		if o.Point == nil || o.Point.Word != "" || indent != "" {
			continue
		}
		for _, e := range o.Point.Entries {
			explain(b, "    ", e.Name, e.Help, e.Type())
		}
	}
}

// valueText describes the values that an option may hold, where t is its type or that of its
// elements. It is empty for maps and for entries of a plug point.
func valueText(o *registry.Option, t reflect.Type) string {
	text := kindText(o, t)
	limits := ""
	// The kinds that contain other values describe those; the rest have limits or words of their
	// own.
	switch t.Kind() {
	case reflect.Pointer:
		return valueText(o, t.Elem())
	case reflect.Interface:
		return ""
	case reflect.Struct:
		// A struct with a short form may be written as a scalar, whose values are described.
		for _, short := range registry.Short(t) {
			return valueText(&short, short.Type) + ", or a map"
		}
		return ""
	case reflect.Slice:
		if o.Keyed {
			return "a list or a map"
		}
		if element := valueText(o, t.Elem()); element != "" {
			return "a list, each " + element
		}
		return "a list"
	case reflect.Uint64:
		limits = "from 0 to 18446744073709551615"
	}
	if o.Path {
		text = "a path"
	}
	if o.Ranged {
		limits = strings.TrimRight(o.Range.String()+" "+o.Unit, " ")
	}
	// Limits of fractional numbers stand in brackets, those of whole numbers follow the words.
	switch {
	case limits != "" && t.Kind() == reflect.Float64:
		text += " (" + limits + ")"
	case limits != "":
		text += " " + limits
	}
	if o.Word != "" {
		text += ", or " + o.Word
	}
	return text
}

// kindText names the kind of scalar that an option holds, as messages say it: "a number", or "a word"
// with the choice of words. Limits are not part of it.
func kindText(o *registry.Option, t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	// What is left is text, of any words or of a few.
	if len(o.Words) > 0 {
		return "a word, " + orList(o.Words)
	}
	return "text"
}
