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
	o := &k.option
	if o.Type.Kind() == reflect.Interface || o.Type.Kind() == reflect.Struct {
		return ""
	}
	text := wanted(o)
	if o.Ranged {
		text += strings.TrimRight(" "+o.Range.String()+" "+o.Unit, " ")
	}
	if o.Optional && o.Default != "" {
		text += "; default " + o.Default
	}
	return text
}
