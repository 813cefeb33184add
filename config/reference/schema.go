package reference

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"

	"fedpace/config"
	"fedpace/registry"
)

// object is a JSON Schema, or a part of one.
type object = map[string]any

// Schema returns a JSON Schema (draft 2020-12) of a configuration file whose keys
// are nested. It has the limits of single values, not those between keys.
func Schema() []byte {
	defs := schema{}
	root := defs.record(false, reflect.TypeFor[config.Config](), nil)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Configuration of a fedpace run"
	root["$defs"] = defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: " + err.Error()) // texts and finite numbers
	}
	return append(text, '\n')
}

// schema has the plug points that are used, each once.
type schema object

// record is a map with the options of a struct and of an entry beside them; nil:
// none. A map that is read anew, as an entry is, must have what has no default.
func (s schema) record(complete bool, t, entry reflect.Type) object {
	properties := object{}
	required := []string{}
	add := func(t reflect.Type, whole bool) {
		for _, o := range registry.Options(t) {
			if o.Flat {
				continue
			}
			properties[o.Key] = s.option(&o, whole)
			if whole && !o.Optional && o.Type.Kind() != reflect.Struct {
				required = append(required, o.Key)
			}
		}
	}
	add(t, complete)
	if entry != nil {
		add(entry, true)
	}
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// option is what a key may hold, and what help says about it.
func (s schema) option(o *registry.Option, complete bool) object {
	forms := s.forms(o, o.Type, complete)
	group := o.Type.Kind() == reflect.Struct || o.Type.Kind() == reflect.Interface
	if o.Null ||
		!complete && group ||
		!group && o.Optional {
		forms = append(forms, object{"type": "null"})
	}
	v := object{"anyOf": forms}
	if len(forms) == 1 {
		v = forms[0]
	}
	if o.Help != "" {
		v["description"] = strings.TrimSuffix(o.Help+" ("+o.Unit+")", " ()")
	}
	if json.Valid([]byte(o.Default)) {
		v["default"] = json.RawMessage(o.Default)
	} else if o.Optional {
		v["default"] = o.Default
	}
	return v
}

// forms are the forms of a value of a type.
func (s schema) forms(o *registry.Option, t reflect.Type, complete bool) (list []object) {
	v := object{"type": "integer"}
	switch t.Kind() {
	case reflect.Pointer:
		return s.forms(o, t.Elem(), complete)
	case reflect.Slice:
		items := s.forms(o, t.Elem(), true)
		list = []object{{"type": "array", "items": object{"anyOf": items}}}
		if e := t.Elem().Kind(); e != reflect.Struct && e != reflect.Interface { // a list of one
			list = append(list, items...)
		}
		if o.Keyed {
			value := registry.Options(t.Elem())[1]
			list = append(list, object{"type": "object", "additionalProperties": s.option(&value, true)})
		}
		return list
	case reflect.Interface:
		return []object{{"$ref": "#/$defs/" + s.point(t)}}
	case reflect.Struct:
		list = s.short(t)
		return append(list, s.records(complete || list != nil, t)...)
	case reflect.Bool:
		v["type"] = "boolean"
	case reflect.String:
		v["type"] = []string{"string", "number"} // a number is read as text, too
		v["maxLength"] = registry.MaxText
		if o.Words != nil {
			v = object{"enum": o.Words}
		} else if o.Path && !o.Null {
			v["minLength"] = 1
		}
	case reflect.Float64:
		v["type"] = "number"
	case reflect.Uint64:
		v["minimum"] = 0
		v["maximum"] = uint64(math.MaxUint64)
	}
	if r := o.Range; o.Ranged {
		v[bound("minimum", r.OpenLo)] = r.Lo
		v[bound("maximum", r.OpenHi)] = r.Hi
		if math.IsInf(r.Hi, 1) {
			delete(v, "maximum")
		}
	}
	list = append(list, v)
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

// bound is a JSON schema's keyword of a limit: "minimum" becomes "exclusiveMinimum" where the
// limit itself is not allowed.
func bound(name string, open bool) string {
	if open {
		return "exclusiveM" + name[1:]
	}
	return name
}

// short are the forms of the scalar or list that may stand in place of a struct's map.
func (s schema) short(t reflect.Type) (list []object) {
	for _, o := range registry.Short(t) {
		list = s.forms(&o, o.Type, true)
	}
	return list
}

// records are the maps that a struct may be written as: one, or one for each entry
// of its flat option.
func (s schema) records(complete bool, t reflect.Type) (list []object) {
	for _, o := range registry.Options(t) {
		if o.Flat {
			list = s.entries(registry.For(o.Type), o.Default, t)
			if !o.Null {
				return []object{{"oneOf": list}}
			}
			return append(list, s.record(complete, t, nil))
		}
	}
	return []object{s.record(complete, t, nil)}
}

// entries are the entries of a plug point as maps, with the options of t beside
// their own. standard needs no name.
func (s schema) entries(p *registry.Point, standard string, t reflect.Type) (list []object) {
	for _, e := range p.Entries {
		r := s.record(false, t, e.Type())
		r["description"] = e.Help
		r["properties"].(object)[p.Word] = object{"const": e.Name}
		if e.Name != standard {
			r["required"] = append(r["required"].([]string), p.Word)
		}
		list = append(list, r)
	}
	return list
}

// point defines a plug point and returns its name: a word, which is enough for an
// entry that needs no option, a short form, or a map.
func (s schema) point(t reflect.Type) string {
	key := t.String()
	p := registry.For(t)
	if s[key] != nil {
		return key
	}
	s[key] = object{} // an entry may hold another of its own kind
	if p.Word == "" {
		s[key] = object{"oneOf": s.elements(p)}
		return key
	}
	list := []object{}
	entries := s.entries(p, p.Default, reflect.TypeFor[struct{}]())
	for i, e := range p.Entries {
		if required := entries[i]["required"].([]string); len(required) == 0 ||
			len(required) == 1 && required[0] == p.Word {
			list = append(list, object{"const": e.Name, "description": e.Help})
		}
		list = append(list, s.short(e.Type())...)
	}
	s[key] = object{"oneOf": append(list, entries...)}
	return key
}

// elements are the entries of a plug point that stand in lists: a word, which is enough
// for an entry that needs no option, or a map of the name to the options or their short
// form.
func (s schema) elements(p *registry.Point) (list []object) {
	for _, e := range p.Entries {
		options := s.record(true, e.Type(), nil)
		if len(options["required"].([]string)) == 0 {
			list = append(list, object{"const": e.Name, "description": e.Help})
		}
		forms := append([]object{options}, s.short(e.Type())...)
		list = append(list, object{"type": "object", "description": e.Help, "required": []string{e.Name},
			"properties": object{e.Name: object{"anyOf": forms}}, "additionalProperties": false})
	}
	return list
}
