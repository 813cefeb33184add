package data

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"fedpace/actors/data/federated"
	"fedpace/actors/data/internal/source"
	"fedpace/actors/data/parquetfile"
	"fedpace/internal/registry"
)

// Map changes options of a mapping by texts such as label=species or features=a,b.
// A nil reader is a mapping without options.
func Map(r federated.Reader, changes []string) (federated.Reader, error) {
	if len(changes) == 0 {
		return r, nil
	}
	t, ok := r.(Table)
	if r != nil && !ok {
		return nil, fmt.Errorf("the reader %s has no mapping of columns", federated.Readers.NameOf(r))
	}
	v := reflect.ValueOf(&t).Elem()
	options := registry.Options(v.Type())
	var known []string
	for _, o := range options {
		known = append(known, o.Key)
	}
	for _, change := range changes {
		key, text, ok := strings.Cut(change, "=")
		i := slices.Index(known, key)
		if !ok || i < 0 {
			return nil, fmt.Errorf("%q, want option=value with one of %s", change, strings.Join(known, ", "))
		}
		f := v.FieldByIndex(options[i].Index)
		if err := setText(f, text); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if err := options[i].Check(f); err != nil {
			return nil, err
		}
	}
	return t, t.Validate()
}

// OpenOwn opens the table of one client, by a mapping for the tables of many with
// changes. A column of clients or of parts that it does not have it can do without. A
// path that a reader recognises needs no mapping.
func OpenOwn(r federated.Reader, path string, changes []string) (federated.Set, error) {
	if len(changes) == 0 {
		if set, err := Open(path, federated.Options{}); !errors.Is(err, ErrUnmapped) {
			return set, err
		}
	}
	t, ok := r.(Table)
	if r != nil && !ok {
		r = nil // of another kind of data
	}
	if ok {
		columns, err := columnsOf(path)
		if err != nil {
			return nil, fmt.Errorf("data: %s: %w", path, err)
		}
		for _, name := range []*string{&t.Client, &t.Split} {
			if !slices.Contains(columns, *name) {
				*name = ""
			}
		}
		r = t
	}
	r, err := Map(r, changes)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return OpenWith(r, path, federated.Options{})
}

// columnsOf are the names of a table's columns.
func columnsOf(path string) (_ []string, err error) {
	defer parquetfile.Damaged(&err)
	s, err := source.Open(path)
	if err != nil {
		return nil, err
	}
	defer s.File.Close()
	files, err := openTables(s)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	return files[0].columns(), nil
}

// setText sets a text, a whole number, or a list of them with commas.
func setText(v reflect.Value, text string) error {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.CanInt():
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(int64(n))
	default:
		words := strings.Split(text, ",")
		v.Set(reflect.MakeSlice(v.Type(), len(words), len(words)))
		for i, word := range words {
			if err := setText(v.Index(i), strings.TrimSpace(word)); err != nil {
				return err
			}
		}
	}
	return nil
}
