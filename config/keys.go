package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"fedpace/registry"
)

// Key is a key of the configuration as help, completion, the messages about unknown keys and the
// reference page describe it.
type Key struct {
	registry.Option
	Name     string          // "schedule.k0", or "fleet[].name" in the elements of a list
	Point    *registry.Point // whose entries it chooses from, or holds a list of; nil: of none
	Required bool            // what holds it is not whole without it
	Entries  []string        // of whose options it is one, among those of a choice
}

// KeysOf lists the keys of a struct that stands at a path, and of the structs within it. The
// options of the entries of choices are not among them.
func KeysOf(path string, t reflect.Type, required bool) (list []Key) {
	for _, o := range registry.Options(t) {
		k := Key{
			Option:   o,
			Name:     join(path, o.Key),
			Point:    registry.For(o.Type),
			Required: required && !o.Optional,
		}
		name := k.Name
		below := o.Type
		switch o.Type.Kind() {
		case reflect.Slice:
			name = name + "[]"
			below = o.Type.Elem()
			k.Point = registry.For(below)
		case reflect.Pointer:
			below = o.Type.Elem()
		}
		if o.Help != "" { // else it is a group of keys
			list = append(list, k)
		}
		if below.Kind() == reflect.Struct {
			list = append(list, KeysOf(name, below, required || below != o.Type || registry.Short(below) != nil)...)
		}
	}
	return list
}

// KnownKeys lists all keys in the order of the file that YAML writes. Behind a choice are the
// options of its entries, those that say the same of themselves once. The list is shared.
var KnownKeys = sync.OnceValue(func() (list []Key) {
	for _, k := range KeysOf("", reflect.TypeFor[Config](), false) {
		list = append(list, k)
		if k.Point == nil {
			continue
		}
		var options []Key
		for _, e := range k.Point.Entries {
			for _, o := range KeysOf(k.optionsPath(), e.Type(), true) {
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

// optionsPath is the path of the options of a choice's entries.
func (k *Key) optionsPath() string {
	switch {
	case k.Flat:
		return strings.TrimSuffix(strings.TrimSuffix(k.Name, k.Key), ".")
	case k.Type.Kind() == reflect.Slice:
		return k.Name + "[]"
	}
	return k.Name
}

// HasName reports whether the key has this name, or that of the word in a choice's map.
func (k *Key) HasName(name string) bool {
	return k.Name == name || k.Point != nil && join(k.optionsPath(), k.Point.Word) == name
}

// Listed reports whether the key stands in the elements of a list.
func (k *Key) Listed() bool { return strings.Contains(k.Name, "[]") }

// Offered are the words that the key may hold, beside or in place of other values.
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

// IsPath reports whether the key may hold the path of a file or folder.
func (k *Key) IsPath() bool {
	return k.Path || slices.ContainsFunc(structsOf(k.Type), func(t reflect.Type) bool {
		return slices.ContainsFunc(registry.Short(t), func(s registry.Option) bool { return s.Path })
	})
}

// About is what help says of the key.
func (k *Key) About() string {
	text := k.Help
	if k.Entries != nil {
		text = strings.Join(k.Entries, ", ") + ": " + text
	}
	if words := k.Offered(); k.Point != nil || k.Words != nil {
		text += ": " + strings.Join(words, ", ")
	}
	return text
}

// Value is what the key may hold; "" for maps and entries.
func (k *Key) Value() string { return valueText(&k.Option, k.Type) }

// Explain describes a key, a group of keys, or an entry of a choice such as
// close.deadline; false if the configuration has none of that name.
func Explain(path string) (string, bool) {
	var b strings.Builder
	explained := false // the entry, which several keys may have
	for _, k := range KnownKeys() {
		keyName := strings.ReplaceAll(k.Name, "[]", "")
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
		name, _ := strings.CutPrefix(path, strings.ReplaceAll(k.optionsPath(), "[]", "")+".")
		if e, help, ok := k.Point.Entry(name); ok {
			explained = true
			explain(&b, "", path, help, reflect.TypeOf(e))
		}
	}
	return strings.TrimSpace(b.String()), b.Len() > 0
}

// explain describes an entry and its options, and of options that are lists of entries each.
func explain(b *strings.Builder, indent, name, help string, options reflect.Type) {
	fmt.Fprintf(b, "%s%s: %s\n", indent, name, help)
	for _, o := range KeysOf("", options, true) {
		text := o.Help
		if value := o.Value(); value != "" {
			text += " (" + value + ")"
		}
		fmt.Fprintf(b, "%s  %s: %s\n", indent, o.Name, text)
		if o.Point == nil || o.Point.Word != "" || indent != "" {
			continue
		}
		for _, e := range o.Point.Entries {
			explain(b, "    ", e.Name, e.Help, e.Type())
		}
	}
}

// valueText is what an option of a type may hold; "" for maps and entries.
func valueText(o *registry.Option, t reflect.Type) string {
	text := wanted(o, t)
	limits := ""
	switch t.Kind() {
	case reflect.Pointer:
		return valueText(o, t.Elem())
	case reflect.Interface:
		return ""
	case reflect.Struct:
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

// wanted is what an option of a type may hold, in a message.
func wanted(o *registry.Option, t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	if len(o.Words) > 0 {
		return "a word, " + orList(o.Words)
	}
	return "text"
}
