package table

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"fedpace/internal/atomicfile"
	"fedpace/internal/regular"
)

// maxFile bounds a file that is read, in bytes.
const maxFile = 256 << 20

// Write writes a file of structs, whole or not at all; digits is as for [Columns.Records].
func Write[T any](path string, rows []T, digits int) error {
	return atomicfile.Write(path, func(w io.Writer) error { return Encode(w, rows, digits) })
}

// Encode is [Write] into an open file.
func Encode[T any](w io.Writer, rows []T, digits int) error {
	return WriteCSV(w, Of[T]().Records(rows, digits))
}

// Of are the columns of a struct.
func Of[T any]() (list Columns[T]) {
	for _, f := range fieldsOf(reflect.TypeFor[T]()) {
		list = append(list, Column[T]{Name: f.Tag.Get("csv"), Of: func(row T) any { return reflect.ValueOf(row).FieldByIndex(f.Index).Interface() }})
	}
	return list
}

// Read reads a file that Write wrote, with exactly its header. Errors name the file
// and the line.
func Read[T any](path string) (rows []T, err error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	fields := fieldsOf(reflect.TypeFor[T]())
	in := csv.NewReader(io.LimitReader(f, maxFile))
	in.ReuseRecord = true
	for line := 1; ; line++ {
		record, err := in.Read()
		if errors.Is(err, io.EOF) && line > 1 {
			return rows, nil
		}
		if err == nil && line == 1 {
			if want := Of[T]().Records(nil, 0)[0]; !slices.Equal(record, want) {
				err = fmt.Errorf("the header is %q, want %q", strings.Join(record, ","), strings.Join(want, ","))
			}
		} else if err == nil {
			var row T
			v := reflect.ValueOf(&row).Elem()
			for j, f := range fields {
				if parse(v.FieldByIndex(f.Index), record[j]) != nil && err == nil {
					err = fmt.Errorf("%s: %q is not %s", f.Tag.Get("csv"), record[j], wanted[f.Type.Kind()])
				}
			}
			rows = append(rows, row)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
}

// fieldsOf are the fields of a struct that are columns, in their order.
func fieldsOf(t reflect.Type) (list []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if _, ok := f.Tag.Lookup("csv"); ok {
			list = append(list, f)
		}
	}
	return list
}

// wanted is what the text of a column should be.
var wanted = map[reflect.Kind]string{
	reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Uint64: "a whole number from 0", reflect.Bool: "true or false",
}

func parse(v reflect.Value, s string) (err error) {
	switch v.Kind() {
	case reflect.Float64:
		x := math.NaN()
		if s != "" {
			x, err = strconv.ParseFloat(s, 64)
		}
		v.SetFloat(x)
	case reflect.String:
		v.SetString(s)
	default:
		err = json.Unmarshal([]byte(s), v.Addr().Interface())
	}
	return err
}
