package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
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

// writeKey writes a key of the file: a group or a choice with its keys below it,
// a list of maps with a line for each, anything else on one line.
func writeKey(b *strings.Builder, o *registry.Option, v reflect.Value) {
	var lines []string
	switch {
	case v.Kind() == reflect.Struct && shortOf(v.Type()) == nil:
		lines = fields(v, false)
	case v.Kind() == reflect.Interface && !v.IsNil() && !strings.HasPrefix(flow(o, v), "{"):
	case v.Kind() == reflect.Interface && !v.IsNil():
		lines = entryFields(v)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && v.Len() > 0:
		b.WriteString(o.Key + ":\n")
		for i := range v.Len() {
			b.WriteString("  - " + flow(&registry.Option{}, v.Index(i)) + "\n")
		}
		return
	}
	if lines == nil {
		b.WriteString(o.Key + ": " + flow(o, v) + "\n")
		return
	}
	b.WriteString(o.Key + ":\n")
	for _, line := range lines {
		b.WriteString("  " + line + "\n")
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
		if text, ok := shortText(v.Elem()); ok && !isEntry(p, text) {
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
		for i := range list {
			list[i] = flow(&registry.Option{}, v.Index(i))
		}
		return "[" + strings.Join(list, ", ") + "]"
	case reflect.String:
		return quote(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Float64:
		return registry.Number(v.Float())
	}
	panic(fmt.Sprintf("config: a %v cannot be written", v.Type()))
}

func isEntry(p *registry.Point, text string) bool {
	_, _, ok := p.Entry(text)
	return ok
}

// shortText is the scalar that stands for a struct: false where it has none, or
// where an option beside those of the scalar is set.
func shortText(v reflect.Value) (text string, ok bool) {
	short := shortOf(v.Type())
	if short == nil {
		return "", false
	}
	same := reflect.New(v.Type()).Elem()
	var r reader
	r.begin(same, "", "")
	for i, o := range short {
		f := v.FieldByIndex(o.Index)
		if t := flow(&o, f); i > 0 && t != text {
			return "", false
		} else {
			text = t
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

// leaf is one key with its value as YAML writes it.
type leaf struct {
	key, text string
	inert     bool
}

// leaves lists the keys of a configuration with their values: those of groups
// and of the entries of choices by themselves.
func (c *Config) leaves() []leaf {
	var list []leaf
	var add func(v reflect.Value, path string)
	add = func(v reflect.Value, path string) {
		for _, o := range registry.Options(v.Type()) {
			f, at := v.FieldByIndex(o.Index), join(path, o.Key)
			switch {
			case f.Kind() == reflect.Struct && shortOf(f.Type()) == nil:
				add(f, at)
			case f.Kind() == reflect.Interface && !f.IsNil():
				p := registry.For(f.Type())
				if o.Flat {
					at = path
				}
				list = append(list, leaf{join(at, p.Word), quote(p.NameOf(f.Interface())), o.Inert})
				add(f.Elem(), at)
			default:
				list = append(list, leaf{at, flow(&o, f), o.Inert})
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
func (c Config) Changes(other Config) []Change {
	var list []Change
	mine, theirs := c.leaves(), other.leaves()
	find := func(in []leaf, key string) (string, bool) {
		for _, l := range in {
			if l.key == key {
				return l.text, true
			}
		}
		return "null", false
	}
	for _, l := range theirs {
		if from, _ := find(mine, l.key); from != l.text {
			list = append(list, Change{l.key, from, l.text, l.inert})
		}
	}
	for _, l := range mine {
		if _, ok := find(theirs, l.key); !ok && l.text != "null" {
			list = append(list, Change{l.key, l.text, "null", l.inert})
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
