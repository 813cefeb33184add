package table

import (
	"encoding/csv"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"fedpace/data/federated"
	"fedpace/data/parquetfile"
	"fedpace/internal/names"
	"fedpace/registry"
)

// Map returns the table mapping r with some options changed by texts, such as label=species or
// features=a,b. A part of a list that contains a comma stands in double quotes, as in
// features="a,b",c. A nil reader is a mapping without options; a reader that is no Table is an
// error, as is an option that is changed twice. The result is valid in itself, and without changes
// it is r.
func Map(r federated.Reader, changes []string) (federated.Reader, error) {
	if len(changes) == 0 {
		return r, nil
	}
	t, ok := r.(Table)
	if r != nil && !ok {
		return nil, fmt.Errorf("the reader %s has no mapping of columns", federated.Readers.NameOf(r))
	}
	// Options are set by reflection, as the fields of Table declare them.
	v := reflect.ValueOf(&t).Elem()
	options := registry.Options(v.Type())
	keys := names.Of(options, func(o registry.Option) string { return o.Key })
	for position, change := range changes {
		key, text, ok := strings.Cut(change, "=")
		i := slices.Index(keys, key)
		if !ok || i < 0 {
			return nil, fmt.Errorf("%q, want option=value with one of %s", change, strings.Join(keys, ", "))
		}
		isChange := func(before string) bool { return strings.HasPrefix(before, key+"=") }
		if slices.ContainsFunc(changes[:position], isChange) {
			return nil, fmt.Errorf("%s is there twice; want one, and a list with commas between its parts", key)
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

// Columns returns the names of the columns of the table at path, a file or a folder, in the order
// of its first file.
func Columns(path string) (_ []string, err error) {
	defer parquetfile.Damaged(&err)
	files, err := openTables(path, nil)
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	return files[0].columns(), nil
}

// setText sets v, an option of a mapping, to the value that text stands for. v is a text, a whole
// number or a list of either, of which the parts are separated by commas. An empty text clears a
// list.
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
	case text == "":
		v.SetZero()
	default:
		// A list is one record of CSV, so that quotes protect commas.
		list := csv.NewReader(strings.NewReader(text))
		list.TrimLeadingSpace = true
		words, err := list.Read()
		if err != nil {
			return fmt.Errorf(
				"%q is no list with commas between its parts, and double quotes around a part that has some: %w",
				text,
				csvError(err),
			)
		}
		v.Set(reflect.MakeSlice(v.Type(), len(words), len(words)))
		for i, word := range words {
			if err := setText(v.Index(i), strings.TrimSpace(word)); err != nil {
				return err
			}
		}
	}
	return nil
}
