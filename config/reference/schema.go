package reference

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"

	"fedpace/config"
	"fedpace/registry"
)

// object is a JSON Schema, or a part of one, by its keywords.
type object = map[string]any

// Schema returns a JSON Schema (draft 2020-12) by which editors complete and check a configuration
// file whose keys are nested. It knows the limits of single values, not those between keys.
func Schema() []byte {
	defs := schema{}
	root := defs.record(filledStruct, reflect.TypeFor[config.Config](), nil)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Configuration of a fedpace run"
	root["$defs"] = defs
	// By now the definitions have been added of all plug points that a key refers to.
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		// It holds only texts and finite numbers, so this is a mistake of this program.
		panic("config: " + err.Error())
	}
	return append(text, '\n')
}

// schema holds the definitions of plug points by the names of their types. Other parts refer to
// them, so that each stands in the schema once.
type schema object

// destination says what a map of options is read into.
type destination bool

// A map is read into a new struct, whose options without a default are then required, or into one that holds values
// already.
const (
	newStruct    destination = true
	filledStruct destination = false
)

// record returns the schema of a map with the options of the struct t and, beside them, those of an
// entry of a plug point; entry is nil where there is none. Keys that are no options are not allowed. into is what
// the options of t are read into: in a newStruct, those without a default are required. An entry is always a new
// struct.
func (s schema) record(into destination, t, entry reflect.Type) object {
	properties := object{}
	required := []string{}
	add := func(into destination, t reflect.Type) {
		for _, o := range registry.Options(t) {
			// The options of a flat entry are added by the caller, for each entry that it may be.
			if o.Flat {
				continue
			}
			properties[o.Key] = s.option(&o, into)
			lacksDefault := !o.Optional && o.Type.Kind() != reflect.Struct
			if into == newStruct && lacksDefault {
				required = append(required, o.Key)
			}
		}
	}
	add(into, t)
	if entry != nil {
		add(newStruct, entry)
	}
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// option returns the schema of the value of a key, with its help and its default for editors.
// into is what the struct that has the option is read into.
func (s schema) option(o *registry.Option, into destination) object {
	forms := s.forms(o, o.Type, into)
	isGroup := o.Type.Kind() == reflect.Struct || o.Type.Kind() == reflect.Interface
	// Null is allowed where it is a value, where it keeps a group as it is, and where it means the
	// default.
	keepsGroup := isGroup && into == filledStruct
	meansDefault := !isGroup && o.Optional
	if o.Null || keepsGroup || meansDefault {
		forms = append(forms, object{"type": "null"})
	}
	result := object{"anyOf": forms}
	if len(forms) == 1 {
		result = forms[0]
	}
	if o.Help != "" {
		result["description"] = strings.TrimSuffix(o.Help+" ("+o.Unit+")", " ()")
	}
	// A default that is no JSON, such as a word, is a text.
	if json.Valid([]byte(o.Default)) {
		result["default"] = json.RawMessage(o.Default)
	} else if o.Optional {
		result["default"] = o.Default
	}
	return result
}

// forms returns a schema for each form that a value of type t may have as the option o, such as a
// number and a word. into is what the struct that has the option is read into.
func (s schema) forms(o *registry.Option, t reflect.Type, into destination) (list []object) {
	// The kinds that are no scalars return schemas of their own.
	scalar := object{"type": "integer"}
	switch t.Kind() {
	case reflect.Pointer:
		return s.forms(o, t.Elem(), into)
	case reflect.Slice:
		items := s.forms(o, t.Elem(), newStruct)
		list = []object{{"type": "array", "items": object{"anyOf": items}}}
		// A scalar may stand in place of a list of one.
		if e := t.Elem().Kind(); e != reflect.Struct && e != reflect.Interface {
			list = append(list, items...)
		}
		if o.Keyed {
			value := registry.Options(t.Elem())[1]
			list = append(list, object{"type": "object", "additionalProperties": s.option(&value, newStruct)})
		}
		return list
	case reflect.Interface:
		return []object{{"$ref": "#/$defs/" + s.define(t)}}
	case reflect.Struct:
		list = s.shortForms(t)
		// A struct that a scalar may stand for is made anew from each value.
		if list != nil {
			into = newStruct
		}
		return append(list, s.records(into, t)...)
	case reflect.Bool:
		scalar["type"] = "boolean"
	case reflect.String:
		// A number without quotes is read as text, too.
		scalar["type"] = []string{"string", "number"}
		scalar["maxLength"] = registry.MaxText
		if o.Words != nil {
			scalar = object{"enum": o.Words}
		} else if o.Path && !o.Null {
			scalar["minLength"] = 1
		}
	case reflect.Float64:
		scalar["type"] = "number"
	case reflect.Uint64:
		scalar["minimum"] = 0
		scalar["maximum"] = uint64(math.MaxUint64)
	}
	// A range without an upper limit ends at infinity, which JSON cannot write.
	if r := o.Range; o.Ranged {
		scalar[bound("minimum", r.OpenLo)] = r.Lo
		scalar[bound("maximum", r.OpenHi)] = r.Hi
		if math.IsInf(r.Hi, 1) {
			delete(scalar, "maximum")
		}
	}
	list = append(list, scalar)
	if o.Unit == "seconds" || o.Unit == "hours" {
		list = append(
			list,
			object{
				"type":        "string",
				"pattern":     "^[-+.0-9a-zµ]+[smhd]$",
				"description": "a time such as 90s, 1h30m or 2d",
			},
		)
	}
	if o.Word != "" {
		list = append(list, object{"const": o.Word})
	}
	return list
}

// bound returns the keyword of a limit: name itself, which is "minimum" or "maximum", or its
// exclusive form where the limit is open, that is, not allowed itself.
func bound(name string, isOpen bool) string {
	if isOpen {
		return "exclusiveM" + name[1:]
	}
	return name
}

// shortForms returns the schemas of the scalar or list that may stand in place of the map of the struct
// t. There are none for a struct without a short form.
func (s schema) shortForms(t reflect.Type) []object {
	short := registry.Short(t)
	if len(short) == 0 {
		return nil
	}
	// All short options take the same value, so the forms of one of them are enough.
	last := short[len(short)-1]
	return s.forms(&last, last.Type, newStruct)
}

// records returns the schemas of the maps that the struct t may be written as: a single one, or one
// for each entry of its flat option, whose options stand beside those of t. into is what t is read into.
func (s schema) records(into destination, t reflect.Type) (list []object) {
	for _, o := range registry.Options(t) {
		if o.Flat {
			list = s.entries(registry.For(o.Type), o.Default, t)
			if !o.Null {
				return []object{{"oneOf": list}}
			}
			return append(list, s.record(into, t, nil))
		}
	}
	return []object{s.record(into, t, nil)}
}

// entries returns the schema of a map for each entry of a plug point, in which the options of the
// struct t stand beside the entry's own; struct{} stands for no such options. The entry named standard is
// the default, whose name may be left out.
func (s schema) entries(p *registry.Point, standard string, t reflect.Type) (list []object) {
	for _, e := range p.Entries {
		r := s.record(filledStruct, t, e.Type())
		r["description"] = e.Help
		r["properties"].(object)[p.Word] = object{"const": e.Name}
		if e.Name != standard {
			r["required"] = append(r["required"].([]string), p.Word)
		}
		list = append(list, r)
	}
	return list
}

// define adds the definition of the plug point of type t, unless it has one already, and returns
// its name for references. An entry may be a word, if it requires no option, or its short form, or
// a map.
func (s schema) define(t reflect.Type) string {
	key := t.String()
	p := registry.For(t)
	if s[key] != nil {
		return key
	}
	// An entry may hold another one of the same plug point, which must find the definition begun.
	s[key] = object{}
	if p.Word == "" {
		s[key] = object{"oneOf": s.elements(p)}
		return key
	}
	list := []object{}
	// No options of a struct around the plug point stand beside those of an entry.
	noOptions := reflect.TypeFor[struct{}]()
	entries := s.entries(p, p.Default, noOptions)
	for i, e := range p.Entries {
		// An entry that requires no option but its name may be a word.
		required := entries[i]["required"].([]string)
		requiresNameAlone := len(required) == 1 && required[0] == p.Word
		if len(required) == 0 || requiresNameAlone {
			list = append(list, object{"const": e.Name, "description": e.Help})
		}
		list = append(list, s.shortForms(e.Type())...)
	}
	s[key] = object{"oneOf": append(list, entries...)}
	return key
}

// elements returns the schemas of the entries of a plug point that stand in lists, such as layers.
// An entry is a word, if it requires no option, or a map of its name to its options or their short
// form.
func (s schema) elements(p *registry.Point) (list []object) {
	for _, e := range p.Entries {
		options := s.record(newStruct, e.Type(), nil)
		if len(options["required"].([]string)) == 0 {
			list = append(list, object{"const": e.Name, "description": e.Help})
		}
		forms := append([]object{options}, s.shortForms(e.Type())...)
		list = append(list, object{"type": "object", "description": e.Help, "required": []string{e.Name},
			"properties": object{e.Name: object{"anyOf": forms}}, "additionalProperties": false})
	}
	return list
}
