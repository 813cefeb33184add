package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// inside is a problem with a part of a key's value.
type inside struct {
	path string // below the key, as in "[0].links"
	err  error
}

func (e *inside) Error() string { return e.path + ": " + e.err.Error() }
func (e *inside) Unwrap() error { return e.err }

// problemAt is what is wrong with a key's value, or with a part of it.
func problemAt(path string, err error) *KeyError {
	for {
		part, ok := err.(*inside) //nolint:errorlint // the parts are not wrapped further
		if !ok {
			return &KeyError{Key: path, Problem: err.Error()}
		}
		path, err = path+part.path, part.err
	}
}

// lift makes keys of the configuration of the keys of a part of it.
func lift[T any](group string, part func(*Config) *T, keys []keyOf[T]) []key {
	list := make([]key, len(keys))
	for i, k := range keys {
		list[i] = key{
			path: group + "." + k.path, help: k.help, text: k.text, words: k.words,
			read:  func(c *Config, n ast.Node) error { return k.read(part(c), n) },
			write: func(c *Config) string { return k.write(part(c)) },
			check: func(c *Config) error { return k.check(part(c)) },
		}
		if k.unset != nil {
			list[i].unset = func(c *Config) bool { return k.unset(part(c)) }
		}
	}
	return list
}

// record is a key whose value is a map of keys. It is null unless given says
// otherwise.
func record[T, P any](path, help string, field func(*T) *P, given func(*T) bool, clear func(*T), keys []keyOf[P]) keyOf[T] {
	return optional(keyOf[T]{
		path: path, help: help,
		read: func(c *T, n ast.Node) error {
			clear(c)
			return readRecord(field(c), n, keys)
		},
		write: func(c *T) string { return writeRecord(field(c), keys) },
		check: func(c *T) error {
			if !given(c) {
				return nil
			}
			return checkRecord(field(c), keys)
		},
	}, func(c *T) bool { return !given(c) }, clear)
}

// readRecord sets the keys that a map names.
func readRecord[P any](p *P, n ast.Node, keys []keyOf[P]) error {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		s, err := scalar(n, "a map of "+orList(keyNames(keys)))
		if err == nil {
			err = fmt.Errorf("%s stands where a map of %s is wanted", shown(n, s), orList(keyNames(keys)))
		}
		return err
	}
	for _, v := range m.Values {
		name := v.Key.String()
		i := slices.IndexFunc(keys, func(k keyOf[P]) bool { return k.path == name })
		if i < 0 {
			problem := "unknown key"
			if near := nearest(name, keyNames(keys)); near != "" {
				problem = fmt.Sprintf("unknown key (did you mean %q?)", near)
			} else {
				problem += " (" + orList(keyNames(keys)) + ")"
			}
			return &inside{"." + name, errors.New(problem)}
		}
		if err := keys[i].read(p, v.Value); err != nil {
			return &inside{"." + name, err}
		}
	}
	return nil
}

// writeRecord is a map in one line, without the keys that are null.
func writeRecord[P any](p *P, keys []keyOf[P]) string {
	var parts []string
	for _, k := range keys {
		if k.unset == nil || !k.unset(p) {
			parts = append(parts, k.path+": "+k.write(p))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func checkRecord[P any](p *P, keys []keyOf[P]) error {
	for _, k := range keys {
		if err := k.check(p); err != nil {
			return &inside{"." + k.path, err}
		}
	}
	return nil
}

func keyNames[P any](keys []keyOf[P]) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.path
	}
	return list
}

// list is a key whose value is a list of anything.
func list[T, E any](path, help string, field func(*T) *[]E, read func(*E, ast.Node) error, write func(*E) string, check func(*E) error, most int) keyOf[T] {
	return optional(keyOf[T]{
		path: path, help: help,
		read: func(c *T, n ast.Node) error {
			items, ok := n.(*ast.SequenceNode)
			if !ok {
				s, err := scalar(n, "a list")
				if err == nil {
					err = fmt.Errorf("%s stands where a list is wanted", shown(n, s))
				}
				return err
			}
			*field(c) = nil
			for i, v := range items.Values {
				var e E
				if err := read(&e, v); err != nil {
					return &inside{fmt.Sprintf("[%d]", i), err}
				}
				*field(c) = append(*field(c), e)
			}
			return nil
		},
		write: func(c *T) string {
			parts := make([]string, len(*field(c)))
			for i := range *field(c) {
				parts[i] = write(&(*field(c))[i])
			}
			return "[" + strings.Join(parts, ", ") + "]"
		},
		check: func(c *T) error {
			if n := len(*field(c)); n > most {
				return fmt.Errorf("%d entries (at most %d)", n, most)
			}
			for i := range *field(c) {
				if err := check(&(*field(c))[i]); err != nil {
					return &inside{fmt.Sprintf("[%d]", i), err}
				}
			}
			return nil
		},
	}, func(c *T) bool { return len(*field(c)) == 0 }, func(c *T) { *field(c) = nil })
}

// locate notes where the parts of a value stand, by their full paths.
func locate(places map[string]string, path string, n ast.Node, where func(ast.Node) string) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			below := path + "." + v.Key.String()
			places[below] = where(v.Key)
			locate(places, below, v.Value, where)
		}
	case *ast.SequenceNode:
		for i, v := range n.Values {
			below := fmt.Sprintf("%s[%d]", path, i)
			places[below] = where(v)
			locate(places, below, v, where)
		}
	}
}

// placeOf is where a key or a part of its value stands; "" when nowhere. What
// has no place of its own stands where the nearest value around it does.
func placeOf(places map[string]string, path string) string {
	for path != "" {
		if where, ok := places[path]; ok {
			return where
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}
