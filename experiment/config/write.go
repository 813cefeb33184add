package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"fedpace/internal/registry"
)

// YAML is the resolved configuration as a file that [Load] reads back to the
// same Config. It is the same text for the same Config.
func (c Config) YAML() []byte {
	var b strings.Builder
	b.WriteString("# The configuration of a run, complete: fedpace run --config reads it.\n")
	v := reflect.ValueOf(c)
	for _, o := range registry.Options(v.Type()) {
		writeKey(&b, &o, v.FieldByIndex(o.Index))
	}
	return []byte(b.String())
}

// Part is some keys of the configuration as a file, such as fleet or devices.names, in the
// order of all keys.
func (c Config) Part(keys ...string) []byte {
	var b strings.Builder
	v := reflect.ValueOf(c)
	for _, o := range registry.Options(v.Type()) {
		f := v.FieldByIndex(o.Index)
		if slices.Contains(keys, o.Key) {
			writeKey(&b, &o, f)
			continue
		}
		if f.Kind() != reflect.Struct {
			continue
		}
		var lines []string
		for _, below := range registry.Options(f.Type()) {
			if slices.Contains(keys, join(o.Key, below.Key)) {
				lines = append(lines, below.Key+": "+flow(&below, f.FieldByIndex(below.Index)))
			}
		}
		if lines != nil {
			fmt.Fprintf(&b, "%s:\n  %s\n", o.Key, strings.Join(lines, "\n  "))
		}
	}
	return []byte(b.String())
}

// writeKey writes a key of the file: a group or a choice with its keys below it,
// a list of maps with a line for each, anything else on one line.
func writeKey(b *strings.Builder, o *registry.Option, v reflect.Value) {
	var lines []string
	switch text := flow(o, v); {
	case v.Kind() == reflect.Struct && registry.Short(v.Type()) == nil:
		lines = fields(v, false)
	case v.Kind() == reflect.Interface && strings.HasPrefix(text, "{"):
		lines = entryFields(v)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && !o.Keyed && v.Len() > 0:
		for i := range v.Len() {
			lines = append(lines, "- "+flow(&registry.Option{}, v.Index(i)))
		}
	default:
		fmt.Fprintf(b, "%s: %s\n", o.Key, text)
		return
	}
	fmt.Fprintf(b, "%s:\n", o.Key)
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
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
		if p.Word == "" {
			return element(name, v.Elem())
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
		list, short := make([]string, v.Len()), true
		for i := range list {
			list[i] = flow(&registry.Option{}, v.Index(i))
			short = short && !strings.HasPrefix(list[i], "{")
		}
		if o.Keyed && !short {
			return "{" + strings.Join(pairs(v), ", ") + "}"
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

// pairs writes structs as the first of their options to the second.
func pairs(v reflect.Value) []string {
	options := registry.Options(v.Type().Elem())
	list := make([]string, v.Len())
	for i := range list {
		text := func(o registry.Option) string { return flow(&o, v.Index(i).FieldByIndex(o.Index)) }
		list[i] = text(options[0]) + ": " + text(options[1])
	}
	return list
}

// element writes an entry that stands in a list: its name, and what it is set to.
func element(name string, v reflect.Value) string {
	if len(registry.Options(v.Type())) == 0 {
		return quote(name)
	}
	if text, ok := shortText(v); ok {
		return quote(name) + ": " + text
	}
	return quote(name) + ": {" + strings.Join(fields(v, true), ", ") + "}"
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
		if text = flow(&o, f); i > 0 && text != before {
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
			f, at := v.FieldByIndex(o.Index), join(path, o.Key)
			switch {
			case f.Kind() == reflect.Struct && registry.Short(f.Type()) == nil:
				add(f, at)
			case f.Kind() == reflect.Interface && !f.IsNil():
				p := registry.For(f.Type())
				if o.Flat {
					at = path
				}
				list = append(list, Change{Key: join(at, p.Word), To: quote(p.NameOf(f.Interface())), Inert: o.Inert})
				add(f.Elem(), at)
			default:
				list = append(list, Change{Key: at, To: flow(&o, f), Inert: o.Inert})
			}
		}
	}
	add(reflect.ValueOf(c).Elem(), "")
	return list
}

// Change is one key that differs between two configurations, with its values as
// YAML writes them.
type Change struct {
	Key, From, To string
	Inert         bool // it changes nothing that a run computes
}

// Changes lists the keys of which another configuration differs, in their order.
// An option that one of the two does not have is null there.
func (c Config) Changes(other Config) (list []Change) {
	mine, theirs := c.leaves(), other.leaves()
	text := func(in []Change, key string) string {
		if i := slices.IndexFunc(in, func(l Change) bool { return l.Key == key }); i >= 0 {
			return in[i].To
		}
		return "null"
	}
	for _, l := range slices.Concat(theirs, mine) {
		change := Change{l.Key, text(mine, l.Key), text(theirs, l.Key), l.Inert}
		if change.From != change.To && !slices.Contains(list, change) {
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
			list = append(list, change.Key+"="+change.To)
		}
	}
	return list, nil
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
