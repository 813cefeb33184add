package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"fedpace/internal/registry"
)

// MaxFile bounds a configuration file, in bytes: the parser's time grows with
// the square of the number of keys.
const MaxFile = 128 << 10

// Load reads a configuration: a base, changed by the file, changed by the
// sets, each of which is "key=value" with the value in YAML's flow syntax. An
// empty path means no file.
//
// The base is [Demonstration]; where the file or a set names a task, it is that
// task's [Defaults]. Setting any stop key clears the base's stop. Three values
// follow from others unless they are set themselves: out is runs/<name>,
// clients is all once data is a path, and network.model_megabits is exact once
// model is not the task's.
//
// The result is valid. An error names the key, and the line where there is one.
func Load(path string, sets []string) (Config, error) {
	var text []byte
	if path != "" {
		var err error
		if text, err = readLimited(path); err != nil {
			return Config{}, err
		}
	}
	return resolve(path, text, sets)
}

// Parse reads a configuration from the text of a file; name is how messages call
// it.
func Parse(name string, text []byte) (Config, error) {
	if len(text) > MaxFile {
		return Config{}, fmt.Errorf("configuration: %s is larger than %d bytes", name, MaxFile)
	}
	return resolve(name, text, nil)
}

// readLimited reads a file of at most MaxFile bytes.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(text) > MaxFile {
		return nil, fmt.Errorf("configuration: %s is larger than %d bytes", path, MaxFile)
	}
	return text, nil
}

// resolve applies a file and sets to the base that they choose.
func resolve(name string, text []byte, sets []string) (Config, error) {
	file, err := parseFile(name, text)
	if err != nil {
		return Config{}, err
	}
	flags := &node{kind: mapping}
	for _, s := range sets {
		one, err := parseSet(s)
		if err != nil {
			return Config{}, err
		}
		flags.overlay("", one, choiceWord)
	}
	places := map[string]string{}
	file.places(places, "")
	flags.places(places, "")
	given := func(path string) bool { _, ok := places[path]; return ok }
	place := func(err error) error {
		var k *KeyError
		if errors.As(err, &k) && k.Where == "" {
			for _, name := range append([]string{k.Key}, k.Others...) {
				if k.Where = placeOf(places, name); k.Where != "" {
					break
				}
			}
		}
		return err
	}

	c := Demonstration()
	for _, from := range []*node{file, flags} {
		n := from.fields["task"]
		if n == nil {
			continue
		}
		r := reader{}
		if err := r.struct_(reflect.ValueOf(&c).Elem(), &node{kind: mapping, keys: []string{"task"}, fields: map[string]*node{"task": n}}, ""); err != nil {
			return Config{}, err
		}
		if c, err = Defaults(c.Task); err != nil {
			return Config{}, place(err)
		}
	}
	for path := range places {
		if strings.HasPrefix(path, "stop.") {
			c.Stop = Stop{}
		}
	}
	r := reader{task: c.Task, missing: map[string]string{}}
	for _, from := range []*node{file, flags} {
		if err := r.struct_(reflect.ValueOf(&c).Elem(), from, ""); err != nil {
			return Config{}, err
		}
	}
	if !given("out") {
		c.Out = OutFolder(c.Name)
	}
	if !given("clients") && !c.IsSynthetic() {
		c.Clients = 0
	}
	if !given("network.model_megabits") && !c.UsesTaskModel() {
		c.Network.ModelMegabits = 0
	}
	if err := r.firstMissing(); err != nil {
		return Config{}, place(err)
	}
	if err := c.Validate(); err != nil {
		return Config{}, place(err)
	}
	return c, nil
}

// parseFile reads what a YAML file sets; name is how messages call it.
func parseFile(name string, text []byte) (*node, error) {
	empty := &node{kind: mapping}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors begin a file with it
	if len(bytes.TrimSpace(text)) == 0 {
		return empty, nil
	}
	root, err := parseYAML(text)
	if err != nil {
		return nil, syntaxError(name, err)
	}
	place := func(n ast.Node) string { return fmt.Sprintf("%s:%d", name, lineOf(n)) }
	n, err := newNode(root, "", place)
	switch {
	case err != nil:
		return nil, err
	case n.kind == null:
		return empty, nil
	case n.kind != mapping:
		return nil, fmt.Errorf("%s: a configuration is a map of keys, e.g. \"task: femnist\"", place(root))
	}
	return n, nil
}

// parseSet reads what "key=value" sets.
func parseSet(s string) (*node, error) {
	path, value, ok := strings.Cut(s, "=")
	path = strings.TrimSpace(path)
	if !ok || path == "" {
		return nil, fmt.Errorf("--set %q: want key=value, e.g. schedule.k=error", s)
	}
	if len(value) > registry.MaxText {
		return nil, &KeyError{Where: setFlag, Key: path, Problem: fmt.Sprintf("a value of %d bytes is too long (at most %d)", len(value), registry.MaxText)}
	}
	root := &node{kind: mapping}
	var n *node
	if takesText(path) && !strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, "'") && !strings.HasPrefix(value, "{") && value != "null" {
		// Text stands as it is, so that paths and addresses need no YAML quotes.
		n = &node{where: setFlag, kind: scalar, text: value, isText: true}
	} else {
		parsed, err := parseYAML([]byte(value))
		if err != nil {
			return nil, syntaxError(setFlag+" "+path, err)
		}
		if n, err = newNode(parsed, setFlag, func(ast.Node) string { return setFlag }); err != nil {
			return nil, err
		}
	}
	return root, root.insert("", path, n)
}

// choiceWord is the key that names the entry of the choice at a path; "" if
// there is no choice.
func choiceWord(path string) string {
	for _, o := range optionsAt(path) {
		if p := registry.For(o.Type); p != nil {
			return p.Word
		}
	}
	return ""
}

// pointsAt lists the plug points whose entries the key at a path names, by
// itself, by a key below it, or in a list.
func pointsAt(path string) (list []*registry.Point) {
	for _, o := range optionsAt(path) {
		types := []reflect.Type{o.Type}
		switch o.Type.Kind() {
		case reflect.Slice:
			types[0] = o.Type.Elem()
		case reflect.Struct:
			for _, below := range registry.Options(o.Type) {
				if below.Flat {
					types = append(types, below.Type)
				}
			}
		}
		for _, t := range types {
			if p := registry.For(t); p != nil {
				list = append(list, p)
			}
		}
	}
	return list
}

// takesText says whether the key at a path holds text of any kind.
func takesText(path string) bool {
	for _, o := range optionsAt(path) {
		if o.Type.Kind() == reflect.Struct {
			for _, s := range registry.Options(o.Type) {
				if s.Short && s.Type.Kind() == reflect.String {
					return true
				}
			}
		}
		if o.Type.Kind() == reflect.String && o.Words == nil {
			return true
		}
	}
	return false
}

// optionsAt lists what the key at a path may be: one option, none, or those of
// several entries of a choice.
func optionsAt(path string) []registry.Option {
	types, list := []reflect.Type{reflect.TypeFor[Config]()}, []registry.Option(nil)
	for _, name := range strings.Split(path, ".") {
		list = nil
		for _, t := range types {
			for _, o := range registry.Options(t) {
				if o.Key == name {
					list = append(list, o)
				}
				if o.Flat {
					for _, e := range structsOf(o.Type) {
						list = append(list, slices.DeleteFunc(registry.Options(e), func(o registry.Option) bool { return o.Key != name })...)
					}
				}
			}
		}
		types = nil
		for _, o := range list {
			types = append(types, structsOf(o.Type)...)
		}
	}
	return list
}

// structsOf lists the structs whose options a value of a type may have: a
// struct, or the entries of a choice.
func structsOf(t reflect.Type) []reflect.Type {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return structsOf(t.Elem())
	case reflect.Struct:
		return []reflect.Type{t}
	case reflect.Interface:
		var list []reflect.Type
		if p := registry.For(t); p != nil {
			for _, name := range p.Names() {
				e, _, _ := p.Entry(name)
				list = append(list, reflect.TypeOf(e))
			}
		}
		return list
	}
	return nil
}
