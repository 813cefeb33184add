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
	for _, k := range keysBelow("", reflect.TypeFor[Config](), true) {
		if k.Key == path || strings.HasPrefix(k.Key, path+".") {
			fmt.Fprintf(&b, "%s: %s\n", k.Key, k.Help)
			if limits := k.limits(); limits != "" {
				fmt.Fprintf(&b, "  %s\n", limits)
			}
		}
	}
	last := strings.LastIndexByte(path, '.')
	for _, p := range pointsAt(path[:max(last, 0)]) {
		if e, help, ok := p.Entry(path[last+1:]); ok {
			fmt.Fprintf(&b, "%s: %s\n", path, help)
			for _, o := range registry.Options(reflect.TypeOf(e)) {
				fmt.Fprintf(&b, "  %s: %s\n", o.Key, o.Help)
			}
		}
	}
	return strings.TrimSpace(b.String()), b.Len() > 0
}

// limits are the type, range, unit and default of a key.
func (k *KnownKey) limits() string {
	text := valueText(&k.option, k.option.Type, k.Key)
	if text != "" && k.option.Optional && k.option.Default != "" {
		text += "; default " + k.option.Default
	}
	return text
}

// valueText is what an option of a type may hold; "" for maps and entries.
func valueText(o *registry.Option, t reflect.Type, path string) string {
	switch t.Kind() {
	case reflect.Pointer:
		return valueText(o, t.Elem(), path)
	case reflect.Interface:
		return ""
	case reflect.Struct:
		for _, short := range shortOf(t) {
			return valueText(&short, short.Type, path) + ", or a map"
		}
		return ""
	case reflect.Slice:
		if of := valueText(o, t.Elem(), path); of != "" {
			return "a list, each " + of
		}
		return "a list"
	}
	text := wanted(o)
	if o.Path {
		text = "a path"
	}
	if o.Ranged {
		text += strings.TrimRight(" "+o.Range.String()+" "+o.Unit, " ")
	}
	for _, word := range []string{o.Word, paperWords[path].name} {
		if word != "" {
			text += ", or " + word
		}
	}
	return text
}
