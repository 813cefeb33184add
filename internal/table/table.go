package table

import (
	"cmp"
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
	"text/tabwriter"
	"unicode/utf8"

	"fedpace/internal/atomicfile"
	"fedpace/internal/regular"
)

// Column is one value of the rows of a table.
type Column[R any] struct {
	// Name is the column's name in files. It is empty for a column that is for people alone.
	Name string
	// Title is the column's title for people. It is empty for a column that is for files alone.
	Title string
	// Of returns the value: a number, NaN if there is none, a text, or [Parts].
	Of func(R) any
	// Text returns the value for people. With nil it is written as in files.
	Text func(R) string
}

// Parts is a value of several numbers. In a file each has a column of its own, whose name ends in
// what the number is called; the first name may be empty.
type Parts interface{ Parts() ([]string, []float64) }

// Columns are those of a table, in their order.
type Columns[R any] []Column[R]

// Texts returns the table for people: the titles of the columns, and then the rows, each a list of cells.
func (c Columns[R]) Texts(rows []R) [][]string {
	list := make([][]string, len(rows)+1)
	for _, column := range c {
		if column.Title == "" {
			continue
		}
		list[0] = append(list[0], column.Title)
		for i, r := range rows {
			text := column.Text
			if text == nil {
				text = func(r R) string { return cells(column.Of(r), -1)[0] }
			}
			list[i+1] = append(list[i+1], text(r))
		}
	}
	return list
}

// Records returns the records of a CSV file: the names of the columns, and then the rows. A column whose values are
// [Parts] becomes a column for each of their numbers. Floating-point numbers have this number of significant digits,
// with -1 as many as it takes to read back the same bits.
func (c Columns[R]) Records(rows []R, digits int) [][]string {
	list := make([][]string, len(rows)+1)
	for _, column := range c {
		if column.Name == "" {
			continue
		}
		// names are what the column's name ends in, for each of its numbers. They are the same in all rows.
		names := []string{""}
		for i, r := range rows {
			value := column.Of(r)
			if p, ok := value.(Parts); ok {
				names, _ = p.Parts()
			}
			list[i+1] = append(list[i+1], cells(value, digits)...)
		}
		for _, name := range names {
			list[0] = append(list[0], column.Name+name)
		}
	}
	return list
}

// cells returns the cells of a value in a file: a single one, or one for each number of [Parts]. A floating-point
// number is written with digits significant digits, or with as few as give it back exactly if digits is -1. NaN is
// an empty cell.
func cells(value any, digits int) (list []string) {
	if p, ok := value.(Parts); ok {
		_, numbers := p.Parts()
		for _, v := range numbers {
			list = append(list, cells(v, digits)...)
		}
		return list
	}
	v := reflect.ValueOf(value)
	switch {
	case v.Kind() != reflect.Float64:
		return []string{fmt.Sprint(value)}
	case math.IsNaN(v.Float()):
		return []string{""}
	}
	return []string{strconv.FormatFloat(v.Float(), 'g', digits, 64)}
}

// Objects returns the rows as JSON objects: the values of each by the names of the columns.
func (c Columns[R]) Objects(rows []R) []map[string]any {
	list := make([]map[string]any, len(rows))
	for i, r := range rows {
		list[i] = map[string]any{}
		for _, column := range c {
			if column.Name != "" {
				list[i][column.Name] = Object(column.Of(r))
			}
		}
	}
	return list
}

// Object returns a value as JSON has it: nil for NaN, and for [Parts] an object of their numbers by name,
// in which the number without a name is called mean.
func Object(value any) any {
	switch v := value.(type) {
	case Parts:
		object := map[string]any{}
		names, numbers := v.Parts()
		for i, name := range names {
			object[cmp.Or(strings.TrimPrefix(name, "_"), "mean")] = Object(numbers[i])
		}
		return object
	case float64:
		if math.IsNaN(v) {
			return nil
		}
	}
	return value
}

// WriteText writes rows for people in columns, which are aligned to the left.
func WriteText(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// WriteNumbers is WriteText with columns that are aligned to the right.
func WriteNumbers(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range rows {
		// To the right, tabs end cells, also the last one of a row.
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	return t.Flush()
}

// terminal is the width that tables for people fit, in columns.
const terminal = 100

// widths returns the width of each column in characters, with the two blanks behind it.
func widths(rows [][]string) []int {
	list := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			list[i] = max(list[i], utf8.RuneCountInString(cell)+2)
		}
	}
	return list
}

// WriteFolded writes rows for people, aligned to the right. If the table would be wider than a terminal, it
// is divided into several tables, each with some of the columns. keys is the number of leading columns that
// identify a row; each of the tables repeats them.
func WriteFolded(w io.Writer, rows [][]string, keys int) error {
	columnWidths := widths(rows)
	// Each pass writes one table, with the columns from to to-1 behind the keys.
	for from := keys; from < len(columnWidths); {
		room := terminal - columnWidths[from]
		for _, key := range columnWidths[:keys] {
			room -= key
		}
		// A part has one column at least, even if that is wider than the room.
		to := from + 1
		for to < len(columnWidths) && columnWidths[to] <= room {
			room -= columnWidths[to]
			to++
		}
		part := make([][]string, len(rows))
		for i, r := range rows {
			part[i] = slices.Concat(r[:keys], r[from:to])
		}
		if from > keys {
			fmt.Fprintln(w)
		}
		if err := WriteNumbers(w, part); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// WriteFitted writes rows for people, aligned to the left. If the table would be wider than a terminal,
// long cells of the widest columns lose their middle; rows is changed.
func WriteFitted(w io.Writer, rows [][]string) error {
	// The widest column becomes narrower by one until the table fits.
	columnWidths := widths(rows)
	total := 0
	for _, width := range columnWidths {
		total += width
	}
	for ; total > terminal; total-- {
		columnWidths[slices.Index(columnWidths, slices.Max(columnWidths))]--
	}
	for _, r := range rows {
		for i, cell := range r {
			text := []rune(cell)
			// The width has two blanks behind the cell.
			limit := columnWidths[i] - 2
			if len(text) > limit {
				r[i] = string(text[:(limit-1)/2]) + "…" + string(text[len(text)-limit/2:])
			}
		}
	}
	return WriteText(w, rows)
}

// WriteCSV writes rows to w as CSV.
func WriteCSV(w io.Writer, rows [][]string) error { return csv.NewWriter(w).WriteAll(rows) }

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

// Of returns the columns of a struct: its fields with the tag csv.
func Of[T any]() (list Columns[T]) {
	for _, f := range fieldsOf(reflect.TypeFor[T]()) {
		list = append(
			list,
			Column[T]{
				Name: f.Tag.Get("csv"),
				Of:   func(row T) any { return reflect.ValueOf(row).FieldByIndex(f.Index).Interface() },
			},
		)
	}
	return list
}

// Read reads the rows of a file that [Write] has written, which must have exactly the header of T. Errors
// name the file and the line.
func Read[T any](path string) (rows []T, err error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	// The file is only read, so closing it loses nothing.
	defer f.Close()
	fields := fieldsOf(reflect.TypeFor[T]())
	in := csv.NewReader(io.LimitReader(f, maxFile))
	in.ReuseRecord = true
	for line := 1; ; line++ {
		record, err := in.Read()
		if errors.Is(err, io.EOF) && line > 1 {
			return rows, nil
		}
		if err == nil && line == 1 {
			// Excel begins a file with a byte-order mark.
			record[0] = strings.TrimPrefix(record[0], "\ufeff")
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
	reflect.Float64: "a number",
	reflect.Int:     "a whole number",
	reflect.Uint64:  "a whole number from 0",
	reflect.Bool:    "true or false",
}

// parse sets value, a field of a row, to what the text of a cell says. An empty cell of a floating-point
// number is NaN.
func parse(value reflect.Value, s string) (err error) {
	switch value.Kind() {
	case reflect.Float64:
		x := math.NaN()
		if s != "" {
			x, err = strconv.ParseFloat(s, 64)
		}
		value.SetFloat(x)
	case reflect.String:
		value.SetString(s)
	default:
		err = json.Unmarshal([]byte(s), value.Addr().Interface())
	}
	return err
}
