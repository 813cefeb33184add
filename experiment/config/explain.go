package config

import (
	"fmt"
	"reflect"
	"strings"

	"fedpace/internal/registry"
)

// Explain describes a key, a group of keys, or an entry of a choice such as
// close.deadline; false if the configuration has none of that name.
func Explain(path string) (string, bool) {
	var b strings.Builder
	last, named := strings.LastIndexByte(path, '.'), false
	for _, k := range keysBelow("", reflect.TypeFor[Config](), true) {
		if k.Key == path || strings.HasPrefix(k.Key, path+".") {
			fmt.Fprintf(&b, "%s: %s\n", k.Key, k.Help)
			if limits := k.limits(); limits != "" {
				fmt.Fprintf(&b, "  %s\n", limits)
			}
		}
		p := pointOf(k.option.Type)
		if p == nil || named || last < 0 || k.Key != path[:last] && k.Key != path[:last+1]+p.Word {
			continue
		}
		var e any
		var help string
		if e, help, named = p.Entry(path[last+1:]); named {
			fmt.Fprintf(&b, "%s: %s\n", path, help)
			for _, o := range registry.Options(reflect.TypeOf(e)) {
				fmt.Fprintf(&b, "  %s: %s\n", o.Key, o.Help)
				explainElements(&b, pointOf(o.Type))
			}
		}
	}
	return strings.TrimSpace(b.String()), b.Len() > 0
}

// explainElements lists the entries of a plug point that stand in lists, with their
// options.
func explainElements(b *strings.Builder, p *registry.Point) {
	if p == nil || p.Word != "" {
		return
	}
	for _, e := range p.Entries {
		fmt.Fprintf(b, "    %s: %s\n", e.Name, e.Help)
		for _, o := range registry.Options(e.Type()) {
			text := o.Help
			if limits := ValueText(&o, o.Type); limits != "" {
				text += " (" + limits + ")"
			}
			fmt.Fprintf(b, "      %s: %s\n", o.Key, text)
		}
	}
}

// pointOf is the plug point whose entries a value of a type is, or holds a list
// of; nil if there is none.
func pointOf(t reflect.Type) *registry.Point {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return registry.For(t)
}

// limits are the type, range, unit and default of a key.
func (k *KnownKey) limits() string {
	text := ValueText(&k.option, k.option.Type)
	if text != "" && k.option.Optional && k.option.Default != "" {
		text += "; default " + k.option.Default
	}
	return text
}

// ValueText is what an option of a type may hold; "" for maps and entries.
func ValueText(o *registry.Option, t reflect.Type) string {
	text, limits := wanted(o, t), ""
	switch t.Kind() {
	case reflect.Pointer:
		return ValueText(o, t.Elem())
	case reflect.Interface:
		return ""
	case reflect.Struct:
		for _, short := range registry.Short(t) {
			return ValueText(&short, short.Type) + ", or a map"
		}
		return ""
	case reflect.Slice:
		if o.Keyed {
			return "a list or a map"
		}
		if of := ValueText(o, t.Elem()); of != "" {
			return "a list, each " + of
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
