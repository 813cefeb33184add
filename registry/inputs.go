package registry

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Inputs is all that the bits of a piece of work follow from: of a run, a run that this machine joins as a
// host, or a prepared file of data. [Inputs.Difference] is the one function that answers whether two are
// the same work. Prepared files ask it, and package identity does for resume, verify, compare, tune, hosts
// and reports. A digest that is empty is not known, or belongs to an
// input that the work does not have.
type Inputs struct {
	// Settings are the values that were chosen, each under its own key.
	Settings []Setting `json:",omitempty"`
	// Files are the files that the settings name, each under its own key.
	Files []InputFile `json:",omitempty"`
	// Data is the digest of the samples, Trainer the name of a trainer's model with its digests, and
	// Kernel the class of the arithmetic.
	Data    string `json:",omitempty"`
	Trainer string `json:",omitempty"`
	Kernel  string `json:",omitempty"`
}

// Setting is a value that was chosen, as text.
type Setting struct{ Key, Value string }

// InputFile is a file, by its content.
type InputFile struct {
	// Key is the key of the configuration that names the file, such as network.links.
	Key string `json:"key"`
	// Path is the path as the configuration writes it.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Part is the kind of input in which two pieces of work differ.
type Part int

// The parts of inputs, in the order in which they are compared.
const (
	SettingsPart Part = iota
	FilesPart
	DataPart
	TrainerPart
	KernelPart
)

// Difference is the first part in which the inputs of two pieces of work differ.
type Difference struct {
	Part Part
	// Changes are the differences within that part, at least one.
	Changes []Change
}

// Change is one input that differs.
type Change struct {
	// Key is that of the setting or file; it is empty for parts that have one value.
	Key string
	// Path is that of the file now or, if there is none now, of the file that there was.
	Path string
	// Before and Now are the values, of files their SHA-256. HadNone and HasNone say that there was no
	// such input, or is none now.
	Before, Now      string
	HadNone, HasNone bool
}

// Difference compares the inputs of earlier work with those of work now. It is nil if both are the
// same work: if all settings and digests are equal. Files are known by their keys, and may have
// moved.
func (before *Inputs) Difference(now *Inputs) *Difference {
	for part, changes := range [...][]Change{
		SettingsPart: compareSettings(before.Settings, now.Settings),
		FilesPart:    compareFiles(before.Files, now.Files),
		DataPart:     compareValues(before.Data, now.Data),
		TrainerPart:  compareValues(before.Trainer, now.Trainer),
		KernelPart:   compareValues(before.Kernel, now.Kernel),
	} {
		if changes != nil {
			return &Difference{Part(part), changes}
		}
	}
	return nil
}

// compareValues returns the change from one value to another, or nil.
func compareValues(before, now string) []Change {
	if before == now {
		return nil
	}
	return []Change{{Before: before, Now: now, HadNone: before == "", HasNone: now == ""}}
}

// compareSettings lists the settings that differ, by their keys. It compares them as files whose digests are
// the settings' values.
func compareSettings(before, now []Setting) []Change {
	asFiles := func(settings []Setting) (list []InputFile) {
		for _, s := range settings {
			list = append(list, InputFile{Key: s.Key, SHA256: s.Value})
		}
		return list
	}
	return compareFiles(asFiles(before), asFiles(now))
}

// compareFiles lists the files that differ, by their keys: those of now in their order, then those
// that are gone. Files of one key are compared in their order.
func compareFiles(before, now []InputFile) (changes []Change) {
	earlier := map[string][]InputFile{}
	for _, f := range before {
		earlier[f.Key] = append(earlier[f.Key], f)
	}
	for _, f := range now {
		c := Change{Key: f.Key, Path: f.Path, Now: f.SHA256, HadNone: true}
		if list := earlier[f.Key]; len(list) > 0 {
			c.Before = list[0].SHA256
			c.HadNone = false
			earlier[f.Key] = list[1:]
		}
		if c.HadNone || c.Before != c.Now {
			changes = append(changes, c)
		}
	}
	// What is left is not among the files now: the last ones of each key.
	gone := map[string]int{}
	for _, f := range slices.Backward(before) {
		if gone[f.Key] < len(earlier[f.Key]) {
			gone[f.Key]++
			changes = append(changes, Change{Key: f.Key, Path: f.Path, Before: f.SHA256, HasNone: true})
		}
	}
	return changes
}

// Own is a value that tells its own text: two values have one text only if they mean the same.
type Own interface{ Identity() string }

// SettingsOf lists the fields of a struct, those of structs within it too, by the names of the fields
// with dots between them, in their order. A field that changes no result has the attribute inert in its tag
// is, and is left out. It panics for a field whose text may not have all of its value: one that is not exported,
// or a pointer, function or map.
func SettingsOf(options any) []Setting {
	return appendSettings(nil, "", reflect.ValueOf(options))
}

// appendSettings appends the settings of a value, by which [SettingsOf] tells two pieces of work apart: those of a
// struct field by field, under key and the field's name. It panics for a value whose text could hide a difference.
func appendSettings(list []Setting, key string, v reflect.Value) []Setting {
	if v.CanInterface() {
		if own, ok := v.Interface().(Own); ok {
			return append(list, Setting{key, own.Identity()})
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			// The tag lists attributes, with commas between them.
			isInert := slices.Contains(strings.Split(field.Tag.Get("is"), ","), "inert")
			if isInert {
				continue
			}
			name := field.Name
			if key != "" {
				name = key + "." + name
			}
			list = appendSettings(list, name, v.Field(i))
		}
		return list
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		if v.CanInterface() {
			return append(list, Setting{key, fmt.Sprint(v.Interface())})
		}
	}
	panic(fmt.Sprintf("registry: %s of %v has no text that tells all of it", cmp.Or(key, "the value"), v.Type()))
}
