package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"fedpace/registry"
)

// YAML is the resolved configuration as a file that [Load] reads back to the
// same Config. It is the same text for the same Config.
func (c Config) YAML() []byte {
	return append([]byte("# The configuration of a run, complete: fedpace run --config reads it.\n"), c.Part()...)
}

// Part is some keys of the configuration as a file, such as fleet or devices.names, in the
// order of all keys; without any it is all of them. A group or a choice has its keys below it,
// a list of maps a line for each, anything else is on one line.
func (c Config) Part(keys ...string) []byte {
	var b strings.Builder
	v := reflect.ValueOf(c)
	for _, o := range registry.Options(v.Type()) {
		f := v.FieldByIndex(o.Index)
		named := keys == nil || slices.Contains(keys, o.Key)
		var lines []string
		switch {
		case f.Kind() == reflect.Struct && registry.Short(f.Type()) == nil:
			lines = slices.DeleteFunc(fields(f, false), func(line string) bool {
				key, _, _ := strings.Cut(line, ":")
				return !named && !slices.Contains(keys, join(o.Key, key))
			})
		case !named:
		case f.Kind() == reflect.Interface && strings.HasPrefix(flow(&o, f), "{"):
			lines = entryFields(f)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && f.Len() > 0:
			for i := range f.Len() {
				lines = append(lines, "- "+flow(&registry.Option{}, f.Index(i)))
			}
		default:
			fmt.Fprintf(&b, "%s: %s\n", o.Key, flow(&o, f))
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "%s:\n  %s\n", o.Key, strings.Join(lines, "\n  "))
		}
	}
	return []byte(b.String())
}

// fields are the options of a struct as "key: value", without those that are
// null if brief.
func fields(v reflect.Value, brief bool) []string {
	var list []string
	for _, o := range registry.Options(v.Type()) {
		if o.Flat {
			list = append(list, entryFields(v.FieldByIndex(o.Index))...)
			continue
		}
		if text := flow(&o, v.FieldByIndex(o.Index)); !brief || text != "null" {
			list = append(list, o.Key+": "+text)
		}
	}
	return list
}

// entryFields are an entry's name, unless a map without a name is the same
// entry, and its options.
func entryFields(v reflect.Value) []string {
	p := registry.For(v.Type())
	list := fields(v.Elem(), true)
	if name := p.NameOf(v.Interface()); name != p.Default {
		list = append([]string{p.Word + ": " + quote(name)}, list...)
	}
	return list
}

// flow writes a value on one line.
func flow(o *registry.Option, v reflect.Value) string {
	switch {
	case o.Null && v.IsZero():
		if v.Kind() == reflect.Slice {
			return "[]"
		}
		return "null"
	case o.Word != "" && v.Equal(reflect.ValueOf(o.WordIs).Convert(v.Type())):
		return o.Word
	}
	switch v.Kind() {
	case reflect.Pointer:
		return flow(&registry.Option{}, v.Elem())
	case reflect.Interface:
		p := registry.For(v.Type())
		if v.IsNil() {
			return "null"
		}
		name := p.NameOf(v.Interface())
		if p.Word == "" && len(registry.Options(v.Elem().Type())) > 0 {
			return quote(name) + ": " + flow(&registry.Option{}, v.Elem())
		} else if p.Word == "" {
			return quote(name)
		}
		if text, ok := shortText(v.Elem()); ok && !slices.Contains(p.Names(), text) {
			return text
		}
		list := entryFields(v)
		if len(list) == 1 && name != p.Default && len(fields(v.Elem(), true)) == 0 {
			return quote(name)
		}
		return "{" + strings.Join(list, ", ") + "}"
	case reflect.Struct:
		if text, ok := shortText(v); ok {
			return text
		}
		return "{" + strings.Join(fields(v, true), ", ") + "}"
	case reflect.Slice:
		list := make([]string, v.Len())
		short := true
		for i := range list {
			list[i] = flow(&registry.Option{}, v.Index(i))
			short = short && !strings.HasPrefix(list[i], "{")
		}
		if o.Keyed && !short {
			pair := registry.Options(v.Type().Elem()) // of an id and what it has
			for i := range list {
				list[i] = flow(
					&pair[0],
					v.Index(i).FieldByIndex(pair[0].Index),
				) + ": " + flow(&pair[1], v.Index(i).FieldByIndex(pair[1].Index))
			}
			return "{" + strings.Join(list, ", ") + "}"
		}
		return "[" + strings.Join(list, ", ") + "]"
	case reflect.String:
		return quote(v.String())
	case reflect.Bool, reflect.Int, reflect.Uint64:
		return fmt.Sprint(v)
	case reflect.Float64:
		return yamlNumber(v.Float())
	}
	panic(fmt.Sprintf("config: a %v cannot be written", v.Type()))
}

// shortText is the scalar that stands for a struct: false where it has none, or
// where an option beside those of the scalar is set.
func shortText(v reflect.Value) (text string, ok bool) {
	short := registry.Short(v.Type())
	if short == nil {
		return "", false
	}
	same := reflect.New(v.Type()).Elem()
	var r reader
	r.begin(same, "", "", "")
	for i, o := range short {
		f := v.FieldByIndex(o.Index)
		before := text
		text = flow(&o, f)
		if i > 0 && text != before {
			return "", false
		}
		same.FieldByIndex(o.Index).Set(f)
	}
	return text, reflect.DeepEqual(v.Interface(), same.Interface())
}

// MarshalJSON writes the resolved configuration as one object with the keys of
// the file, nested as there.
func (c Config) MarshalJSON() ([]byte, error) {
	text, err := yaml.YAMLToJSON(c.YAML())
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return json.RawMessage(text), nil
}

// leaves lists the keys of a configuration with their values in To: those of
// groups and of the entries of choices by themselves.
func (c *Config) leaves() (list []Change) {
	var add func(v reflect.Value, path string)
	add = func(v reflect.Value, path string) {
		for _, o := range registry.Options(v.Type()) {
			f := v.FieldByIndex(o.Index)
			leafPath := join(path, o.Key)
			switch {
			case f.Kind() == reflect.Struct && registry.Short(f.Type()) == nil:
				add(f, leafPath)
			case f.Kind() == reflect.Interface && !f.IsNil():
				p := registry.For(f.Type())
				if o.Flat {
					leafPath = path
				}
				list = append(list, Change{Key: join(leafPath, p.Word), NewValue: quote(p.NameOf(f.Interface())), Inert: o.Inert})
				add(f.Elem(), leafPath)
			default:
				list = append(list, Change{Key: leafPath, NewValue: flow(&o, f), Inert: o.Inert})
			}
		}
	}
	add(reflect.ValueOf(c).Elem(), "")
	return list
}

// Change is one key that differs between two configurations, with its values as
// YAML writes them.
type Change struct {
	Key, OldValue, NewValue string
	Inert                   bool // it changes nothing that a run computes
}

// Changes lists the keys of which another configuration differs, in their order.
// An option that one of the two does not have is null there.
func (c Config) Changes(changed Config) (list []Change) {
	mine := c.leaves()
	theirs := changed.leaves()
	text := func(in []Change, key string) string {
		if i := slices.IndexFunc(in, func(l Change) bool { return l.Key == key }); i >= 0 {
			return in[i].NewValue
		}
		return "null"
	}
	for _, l := range slices.Concat(theirs, mine) {
		change := Change{l.Key, text(mine, l.Key), text(theirs, l.Key), l.Inert}
		if change.OldValue != change.NewValue && !slices.Contains(list, change) {
			list = append(list, change)
		}
	}
	return list
}

// Differences lists, as "key=value" in the order of the keys, what the
// configuration computes otherwise than its task's defaults. Two configurations
// with the same task and differences are one run. A key that a later version
// adds does not change the list while it has its default.
func (c Config) Differences() ([]string, error) {
	standard, err := Defaults(c.Task)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, change := range standard.Changes(c) {
		if !change.Inert {
			list = append(list, change.Key+"="+change.NewValue)
		}
	}
	return list, nil
}

// Settings lists all that the configuration computes with, as Differences writes it.
func (c Config) Settings() (list []string) {
	for _, l := range c.leaves() {
		if !l.Inert {
			list = append(list, l.Key+"="+l.NewValue)
		}
	}
	return list
}

// plain matches words that YAML reads as text without quotes.
var plain = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)

// quote writes a string as YAML. A double-quoted JSON string is one.
func quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", ".nan", ".inf":
	default:
		if plain.MatchString(s) {
			return s
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("config: a string cannot be written as JSON")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// yamlNumber writes a number as every reader of YAML takes it for one: those of YAML 1.1 want a
// point before an exponent.
func yamlNumber(v float64) string {
	text := registry.Number(v)
	if mantissa, exponent, ok := strings.Cut(text, "e"); ok && !strings.Contains(mantissa, ".") {
		return mantissa + ".0e" + exponent
	}
	return text
}
