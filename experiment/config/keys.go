package config

import (
	"reflect"
	"slices"
	"strings"

	"fedpace/actors/clientmodel"
	"fedpace/internal/registry"
)

// KnownKey is a key of the configuration, for help and completion.
type KnownKey struct {
	Key    string
	Help   string
	Words  []string // that it may hold, beside or in place of other values
	IsPath bool     // it may hold the path of a file or folder

	option registry.Option
	of     []string // entries whose option it is
}

// KnownKeys lists all keys in the order of the file that YAML writes: those of
// groups with their full paths, and for a choice the key of its name and the
// options of its entries.
func KnownKeys() []KnownKey { return keysBelow("", reflect.TypeFor[Config](), false) }

// ClassKeys lists the keys of a class in fleet.
func ClassKeys() (list []KnownKey) {
	for _, o := range registry.Options(reflect.TypeFor[clientmodel.Class]()) {
		list = append(list, known(o.Key, o))
	}
	return list
}

// keysBelow lists the keys of a struct, with those of the elements of lists if
// lists is true.
func keysBelow(path string, t reflect.Type, lists bool) []KnownKey {
	var list []KnownKey
	for _, o := range registry.Options(t) {
		at, below := join(path, o.Key), o.Type
		if lists && below.Kind() == reflect.Slice {
			below = below.Elem()
		}
		p := registry.For(below)
		if o.Flat {
			at = path
		} else if registry.For(o.Type) == nil && (o.Type.Kind() != reflect.Struct || registry.Short(o.Type) != nil) {
			list = append(list, known(at, o))
		}
		switch {
		case p != nil:
			list = append(list, choiceKeys(at, &o, p)...)
		case below.Kind() == reflect.Struct:
			list = append(list, keysBelow(at, below, lists)...)
		}
	}
	return list
}

// choiceKeys are the key of a choice's name and the options of its entries.
func choiceKeys(path string, o *registry.Option, p *registry.Point) []KnownKey {
	list := []KnownKey{{Key: join(path, p.Word), Help: o.Help + ": " + strings.Join(p.Names(), ", "), Words: p.Names(), option: *o}}
	if strings.Contains(path, ".") { // schedule.k, which a word is enough for
		list[0].Key = path
	}
	said := map[string][]string{} // by key: what entries say of an option, behind their names
	for _, e := range p.Entries {
		for _, o := range registry.Options(e.Type()) {
			k := known(join(path, o.Key), o)
			i := slices.IndexFunc(list, func(other KnownKey) bool { return other.Key == k.Key })
			if i < 0 {
				i = len(list)
				list = append(list, k)
			}
			list[i].of = append(list[i].of, e.Name)
			texts, help := said[k.Key], ": "+k.Help
			if i := slices.IndexFunc(texts, func(text string) bool { return strings.HasSuffix(text, help) }); i >= 0 {
				texts[i] = strings.TrimSuffix(texts[i], help) + ", " + e.Name + help
			} else {
				said[k.Key] = append(texts, e.Name+help)
			}
		}
	}
	for i := range list[1:] {
		if k := &list[1+i]; len(p.Entries) > 1 {
			k.Help = strings.Join(said[k.Key], "; ")
		}
	}
	return list
}

func known(path string, o registry.Option) KnownKey {
	k := KnownKey{Key: path, Help: o.Help, Words: o.Words, IsPath: o.Path, option: o}
	if o.Word != "" {
		k.Words = append(slices.Clip(k.Words), o.Word)
	}
	if o.Type.Kind() == reflect.Bool {
		k.Words = []string{"true", "false"}
	}
	for _, t := range structsOf(o.Type) {
		k.IsPath = k.IsPath || slices.ContainsFunc(registry.Short(t), func(s registry.Option) bool { return s.Path })
	}
	if len(o.Words) > 0 {
		k.Help += ": " + strings.Join(o.Words, ", ")
	}
	return k
}

// Distributions lists the distributions with their parameters.
func Distributions() (list []KnownKey) {
	for _, e := range clientmodel.Distributions.Entries {
		list = append(list, KnownKey{Key: e.Name, Help: e.Help + " (" + strings.Join(keysOf(registry.Options(e.Type())), ", ") + ")"})
	}
	return list
}
