package config

import (
	"reflect"
	"slices"
	"strings"

	"fedpace/actors/device"
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
func ClassKeys() []KnownKey {
	var list []KnownKey
	for _, o := range registry.Options(reflect.TypeFor[device.Class]()) {
		list = append(list, known(o.Key, o))
	}
	return list
}

// keysBelow lists the keys of a struct, with those of the elements of lists if
// lists is true.
func keysBelow(path string, t reflect.Type, lists bool) []KnownKey {
	var list []KnownKey
	for _, o := range registry.Options(t) {
		at := join(path, o.Key)
		p := registry.For(o.Type)
		switch {
		case o.Flat:
			list = append(list, choiceKeys(path, &o, p)...)
		case p != nil:
			list = append(list, choiceKeys(at, &o, p)...)
		default:
			if o.Type.Kind() != reflect.Struct || shortOf(o.Type) != nil {
				list = append(list, known(at, o))
			}
			below := o.Type
			if lists && below.Kind() == reflect.Slice {
				below = below.Elem()
			}
			if p := registry.For(below); p != nil {
				list = append(list, choiceKeys(at, &o, p)...)
			} else if below.Kind() == reflect.Struct {
				list = append(list, keysBelow(at, below, lists)...)
			}
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
	type sentence struct {
		help string
		of   []string
	}
	sentences := map[string][]sentence{} // by key: what entries say of an option
	for _, name := range p.Names() {
		e, _, _ := p.Entry(name)
		for _, o := range registry.Options(reflect.TypeOf(e)) {
			k := known(join(path, o.Key), o)
			said := sentences[k.Key]
			if i := slices.IndexFunc(said, func(s sentence) bool { return s.help == k.Help }); i >= 0 {
				said[i].of = append(said[i].of, name)
			} else {
				sentences[k.Key] = append(said, sentence{k.Help, []string{name}})
			}
			if said == nil {
				list = append(list, k)
			}
			i := slices.IndexFunc(list, func(other KnownKey) bool { return other.Key == k.Key })
			list[i].of = append(list[i].of, name)
		}
	}
	for i := range list[1:] {
		if k := &list[1+i]; len(p.Names()) > 1 {
			var texts []string
			for _, s := range sentences[k.Key] {
				texts = append(texts, strings.Join(s.of, ", ")+": "+s.help)
			}
			k.Help = strings.Join(texts, "; ")
		}
	}
	return list
}

func known(path string, o registry.Option) KnownKey {
	k := KnownKey{Key: path, Help: o.Help, Words: slices.Clone(o.Words), IsPath: o.Path, option: o}
	switch {
	case o.Word != "":
		k.Words = append(k.Words, o.Word)
	case o.Type.Kind() == reflect.Bool:
		k.Words = []string{"true", "false"}
	}
	if word := paperWords[path].name; word != "" {
		k.Words = append(k.Words, word)
	}
	for _, t := range structsOf(o.Type) {
		for _, s := range shortOf(t) {
			k.IsPath = k.IsPath || s.Path
		}
	}
	if len(o.Words) > 0 {
		k.Help += ": " + strings.Join(o.Words, ", ")
	}
	return k
}

// Distributions lists the distributions with their parameters.
func Distributions() []KnownKey {
	var list []KnownKey
	for _, p := range pointsAt("fleet.seconds_per_step") {
		for _, name := range p.Names() {
			e, help, _ := p.Entry(name)
			list = append(list, KnownKey{Key: name, Help: help + " (" + strings.Join(keysOf(registry.Options(reflect.TypeOf(e))), ", ") + ")"})
		}
	}
	return list
}
