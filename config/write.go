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

// YAML returns the resolved configuration as the text of a file, with every key. [Load] reads it
// back to the same Config, and equal configurations have equal texts.
func (c Config) YAML() []byte {
	return append([]byte("# The configuration of a run, complete: fedpace run --config reads it.\n"), c.Part()...)
}

// Part returns the named keys of the configuration as the text of a file, in the order of all keys.
// A key is that of a group or choice, such as fleet, or one within a group, such as devices.names;
// without arguments all keys are written. A group or a choice has its keys on lines below it, a
// list of maps has a line for each element, and anything else is on one line.
func (c Config) Part(keys ...string) []byte {
	var b strings.Builder
	v := reflect.ValueOf(c)
	for _, o := range registry.Options(v.Type()) {
		f := v.FieldByIndex(o.Index)
		named := keys == nil || slices.Contains(keys, o.Key)
		var lines []string
		switch {
		// A group is written with those of its keys that are asked for, or whole if it is itself.
		case f.Kind() == reflect.Struct && registry.Short(f.Type()) == nil:
			lines = slices.DeleteFunc(fieldLines(f, writeNulls), func(line string) bool {
				key, _, _ := strings.Cut(line, ":")
				return !named && !slices.Contains(keys, join(o.Key, key))
			})
		case !named:
		// A choice that a single word does not describe has its name and options on lines of their
		// own.
		case f.Kind() == reflect.Interface && strings.HasPrefix(flowText(&o, f), "{"):
			lines = entryLines(f)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && f.Len() > 0:
			for i := range f.Len() {
				lines = append(lines, "- "+flowText(&registry.Option{}, f.Index(i)))
			}
		default:
			fmt.Fprintf(&b, "%s: %s\n", o.Key, flowText(&o, f))
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "%s:\n  %s\n", o.Key, strings.Join(lines, "\n  "))
		}
	}
	return []byte(b.String())
}

// nullKeys says what becomes of options that are null when a struct is written.
type nullKeys int

const (
	// writeNulls writes them.
	writeNulls nullKeys = iota
	// omitNulls leaves them out, because the text is read back to the same without them.
	omitNulls
)

// fieldLines returns the options of the struct v as "key: value", with those of a flat option's entry
// among them. nulls says whether options that are null are among them.
func fieldLines(v reflect.Value, nulls nullKeys) []string {
	var list []string
	for _, o := range registry.Options(v.Type()) {
		// A flat entry has no key of its own: its options stand among the others.
		if o.Flat {
			list = append(list, entryLines(v.FieldByIndex(o.Index))...)
			continue
		}
		text := flowText(&o, v.FieldByIndex(o.Index))
		if text == "null" && nulls == omitNulls {
			continue
		}
		list = append(list, o.Key+": "+text)
	}
	return list
}

// entryLines returns the options of the entry that the choice v holds, as "key: value". The name
// of the entry comes first, unless it is the default one, which a map without a name means.
func entryLines(v reflect.Value) []string {
	p := registry.For(v.Type())
	list := fieldLines(v.Elem(), omitNulls)
	if name := p.NameOf(v.Interface()); name != p.Default {
		list = append([]string{p.Word + ": " + quote(name)}, list...)
	}
	return list
}

// flowText returns a value of the configuration on one line of YAML (in its flow style), as config.yaml has
// it: read back, the text gives the same value. o is the option whose value it is; an empty option is for
// elements, which have neither null nor a word.
func flowText(o *registry.Option, v reflect.Value) string {
	switch {
	// The zero value of such an option is null, which for lists is written as an empty one.
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
		return flowText(&registry.Option{}, v.Elem())
	case reflect.Interface:
		return choiceText(v)
	case reflect.Struct:
		if text, ok := shortText(v); ok {
			return text
		}
		return "{" + strings.Join(fieldLines(v, omitNulls), ", ") + "}"
	case reflect.Slice:
		return listText(o, v)
	case reflect.String:
		return quote(v.String())
	case reflect.Bool, reflect.Int, reflect.Uint64:
		return fmt.Sprint(v)
	case reflect.Float64:
		return yamlNumber(v.Float())
	}
	panic(fmt.Sprintf("config: a %v cannot be written", v.Type()))
}

// choiceText returns the entry that the choice v holds, such as a closing rule, on one line: its short form,
// its name alone if it has no options that are set, or a map of the name and the options.
func choiceText(v reflect.Value) string {
	if v.IsNil() {
		return "null"
	}
	p := registry.For(v.Type())
	name := p.NameOf(v.Interface())
	// Entries of lists, such as layers, have no word for their name: they are maps of the name to the
	// options, or the name alone.
	isListElement := p.Word == ""
	switch {
	case isListElement && len(registry.Options(v.Elem().Type())) > 0:
		return quote(name) + ": " + flowText(&registry.Option{}, v.Elem())
	case isListElement:
		return quote(name)
	}
	// A short form that reads like the name of an entry would be taken for that entry.
	if text, ok := shortText(v.Elem()); ok && !slices.Contains(p.Names(), text) {
		return text
	}
	// An entry whose options all are null needs no map: its name is enough.
	list := entryLines(v)
	hasOptions := len(fieldLines(v.Elem(), omitNulls)) > 0
	if len(list) == 1 && name != p.Default && !hasOptions {
		return quote(name)
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// listText returns a list, the value of option o, on one line. A keyed list, such as devices.names, is
// written as a map from the first option of each element to its second, unless each element has a short form.
func listText(o *registry.Option, v reflect.Value) string {
	list := make([]string, v.Len())
	hasOnlyShort := true
	for i := range list {
		list[i] = flowText(&registry.Option{}, v.Index(i))
		hasOnlyShort = hasOnlyShort && !strings.HasPrefix(list[i], "{")
	}
	if !o.Keyed || hasOnlyShort {
		return "[" + strings.Join(list, ", ") + "]"
	}
	// The elements are structs of two options: an id, and what belongs to it.
	pair := registry.Options(v.Type().Elem())
	for i := range list {
		key := flowText(&pair[0], v.Index(i).FieldByIndex(pair[0].Index))
		value := flowText(&pair[1], v.Index(i).FieldByIndex(pair[1].Index))
		list[i] = key + ": " + value
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// shortText returns the scalar that may stand in place of the map of the struct v, as in `trainer: COMMAND`
// for `trainer: {command: COMMAND}`. The result is false if the struct has no such form, or if the scalar
// would not be read back to the same struct because another option is set, too.
func shortText(v reflect.Value) (text string, ok bool) {
	short := registry.Short(v.Type())
	if short == nil {
		return "", false
	}
	// readBack is the struct that the scalar would be read back to: it has the defaults, but for the short
	// options.
	readBack := reflect.New(v.Type()).Elem()
	// The place and the path are for messages about missing options, and nobody reads these here. The struct is
	// no registered entry.
	var r reader
	r.setDefaults(readBack, "", "", "")
	for i, o := range short {
		f := v.FieldByIndex(o.Index)
		before := text
		text = flowText(&o, f)
		// One scalar sets all short options, so it exists only if they have the same text.
		if i > 0 && text != before {
			return "", false
		}
		readBack.FieldByIndex(o.Index).Set(f)
	}
	return text, reflect.DeepEqual(v.Interface(), readBack.Interface())
}

// MarshalJSON returns the resolved configuration as one JSON object, with every key of the file
// nested as it is there. It implements [json.Marshaler].
func (c Config) MarshalJSON() ([]byte, error) {
	text, err := yaml.YAMLToJSON(c.YAML())
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return json.RawMessage(text), nil
}

// leafValues lists all keys of the configuration that hold a value, as appendLeaves does.
func (c *Config) leafValues() []Change {
	return appendLeaves(nil, reflect.ValueOf(c).Elem(), "")
}

// appendLeaves appends to list the keys of the struct v that hold a value, each with the value in NewValue; OldValue
// stays empty. path is the path of the struct in the configuration. For a group the list has the group's keys, and
// for a choice the name of the chosen entry and then the entry's options.
func appendLeaves(list []Change, v reflect.Value, path string) []Change {
	for _, o := range registry.Options(v.Type()) {
		f := v.FieldByIndex(o.Index)
		leafPath := join(path, o.Key)
		isGroup := f.Kind() == reflect.Struct && registry.Short(f.Type()) == nil
		isChoice := f.Kind() == reflect.Interface && !f.IsNil()
		switch {
		case isGroup:
			list = appendLeaves(list, f, leafPath)
		case isChoice:
			p := registry.For(f.Type())
			// The options of a flat entry stand beside those of the surrounding struct.
			if o.Flat {
				leafPath = path
			}
			list = append(list, Change{
				Key:      join(leafPath, p.Word),
				NewValue: quote(p.NameOf(f.Interface())),
				Inert:    o.Inert,
			})
			list = appendLeaves(list, f.Elem(), leafPath)
		default:
			list = append(list, Change{Key: leafPath, NewValue: flowText(&o, f), Inert: o.Inert})
		}
	}
	return list
}

// Change is a key whose value differs between two configurations. The values are texts, as YAML
// writes them.
type Change struct {
	Key, OldValue, NewValue string
	// Inert says that the key changes nothing that a run computes.
	Inert bool
}

// Changes lists the keys whose values in another configuration, changed, differ from those in c, in
// their order there and then in c. An option that one of the two does not have, because it belongs
// to an entry that only the other chose, is null there.
func (c Config) Changes(changed Config) (list []Change) {
	mine := c.leafValues()
	theirs := changed.leafValues()
	// valueIn returns the value of a key in one of the two configurations.
	valueIn := func(in []Change, key string) string {
		if i := slices.IndexFunc(in, func(l Change) bool { return l.Key == key }); i >= 0 {
			return in[i].NewValue
		}
		return "null"
	}
	// Keys that both have come up twice, and are listed once.
	for _, l := range slices.Concat(theirs, mine) {
		change := Change{l.Key, valueIn(mine, l.Key), valueIn(theirs, l.Key), l.Inert}
		if change.OldValue != change.NewValue && !slices.Contains(list, change) {
			list = append(list, change)
		}
	}
	return list
}

// Differences lists, as "key=value" in the order of the keys, where the configuration deviates from
// the defaults of its task in what a run computes. Two configurations of the same task with the
// same differences are one run. A key that a later version adds does not change the list while it
// has its default, so the list can identify old runs.
func (c Config) Differences() ([]string, error) {
	standard, err := Defaults(c.Task)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, change := range standard.Changes(c) {
		// Inert keys, such as the name, change nothing that is computed.
		if !change.Inert {
			list = append(list, change.Key+"="+change.NewValue)
		}
	}
	return list, nil
}

// Settings lists, as "key=value", all keys that decide what the run computes, whether they have their defaults or
// not.
func (c Config) Settings() (list []string) {
	for _, l := range c.leafValues() {
		if !l.Inert {
			list = append(list, l.Key+"="+l.NewValue)
		}
	}
	return list
}

// plainWord matches words that every YAML reader takes for text without quotes, apart from those that
// quote lists by name.
var plainWord = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)

// quote returns a string as a YAML scalar that is read back as text: as it stands if it is a plain
// word, and otherwise as a double-quoted JSON string, which is also YAML.
func quote(s string) string {
	// YAML readers take these words for truth values, null or numbers, so they need quotes.
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", ".nan", ".inf":
	default:
		if plainWord.MatchString(s) {
			return s
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	// Conditions such as a >= b stay legible without the escapes that JSON has for HTML.
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("config: a string cannot be written as JSON")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// yamlNumber returns a number in a form that all YAML readers take for one. Readers of YAML 1.1
// take 1e6 for text, so a point is put before the exponent.
func yamlNumber(v float64) string {
	text := registry.Number(v)
	if mantissa, exponent, ok := strings.Cut(text, "e"); ok && !strings.Contains(mantissa, ".") {
		return mantissa + ".0e" + exponent
	}
	return text
}
