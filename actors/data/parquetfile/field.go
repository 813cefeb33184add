package parquetfile

import (
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// Kind is what the values of a column can serve as.
type Kind int

// The kinds of columns.
const (
	KindOther  Kind = iota // neither a feature, a label nor a name
	KindNumber             // booleans are 0 and 1
	KindText
	KindBytes
)

// Field describes a column of a sheet. Its methods read the column's values.
type Field struct {
	Name  string
	Kind  Kind
	Whole bool   // numbers are integers
	UUID  bool   // text is written as one
	holds string // in words, such as "int32" or "a timestamp"
	list  bool   // a row has any number of values

	unsigned, half bool // of integers; of numbers of 16 bits
	scale          int  // digits after the point of decimals
	empty          []bool
}

// Fields describes the columns of a sheet in the order of its first file. The
// columns of a group stand for it, each as "group.column".
func (t *Sheet) Fields() ([]Field, error) {
	var list []Field
	var add func(prefix string, columns []*parquet.Column) error
	add = func(prefix string, columns []*parquet.Column) error {
		for _, c := range columns {
			name, below := prefix+c.Name(), c.Columns()
			if _, err := t.Files[0].leaf(name); err != nil {
				if c.Repeated() || len(below) < 2 { // a map, or a list of groups
					list = append(list, Field{Name: name, list: true, holds: "a map or a list of groups"})
				} else if err := add(name+".", below); err != nil {
					return err
				}
				continue
			}
			f, err := t.field(name)
			if err != nil {
				return err
			}
			list = append(list, f)
		}
		return nil
	}
	return list, add("", t.Files[0].root.Columns())
}

// field describes one column, which is the same in all files.
func (t *Sheet) field(name string) (first Field, err error) {
	for i, one := range t.Files {
		f, err := one.field(name)
		if err == nil && i > 0 && (f.holds != first.holds || f.list != first.list) {
			err = fmt.Errorf("holds %s, in %s %s", f.Words(), t.Files[0].Name, first.Words())
		}
		if err != nil {
			if one.Name != "" {
				return first, fmt.Errorf("%s: column %s: %w", one.Name, name, err)
			}
			return first, fmt.Errorf("column %s: %w", name, err)
		}
		if i == 0 {
			first = f
		}
	}
	return first, nil
}

// Words is what the column holds, for errors.
func (f *Field) Words() string {
	if f.list {
		return "lists of " + f.holds
	}
	return f.holds
}

func (t *File) field(name string) (Field, error) {
	leaf, err := t.leaf(name)
	if err != nil {
		return Field{}, err
	}
	f := fieldOf(&t.leaves[leaf.Index()])
	f.Name, f.list = name, leaf.MaxRepetitionLevel() > 0
	level := 0 // definition level: how many of the path's nodes that may be absent are there
	var c *parquet.Column
	for i, step := range leaf.Path() {
		if i == 0 {
			c = t.columns[step] // in constant time, of thousands
		} else {
			c = c.Column(step)
		}
		if c.Repeated() {
			for len(f.empty) < level {
				f.empty = append(f.empty, false)
			}
			f.empty = append(f.empty, true) // at this level it has no element
		}
		if !c.Required() {
			level++
		}
	}
	return f, nil
}

// fieldOf tells what a leaf of the schema holds. A logical type goes before the
// converted type of older writers, and both before the physical one.
func fieldOf(e *format.SchemaElement) Field {
	integer := func(bits int, signed bool) Field {
		if signed {
			return Field{Kind: KindNumber, Whole: true, holds: fmt.Sprint("int", bits)}
		}
		return Field{Kind: KindNumber, Whole: true, holds: fmt.Sprint("uint", bits), unsigned: true}
	}
	decimal := func(precision, scale int32) Field {
		return Field{Kind: KindNumber, Whole: scale <= 0, holds: fmt.Sprintf("decimal(%d, %d)", precision, scale), scale: int(scale)}
	}
	words := Field{Kind: KindText, holds: "text"}
	switch l := e.LogicalType.Value.(type) {
	case *format.DecimalType:
		return decimal(l.Precision, l.Scale)
	case *format.IntType:
		return integer(int(l.BitWidth), l.IsSigned)
	case *format.StringType, *format.EnumType, *format.JsonType:
		return words
	case *format.UUIDType:
		return Field{Kind: KindText, holds: "UUIDs", UUID: true}
	case *format.Float16Type:
		return Field{Kind: KindNumber, holds: "float16", half: true}
	case *format.DateType:
		return Field{holds: "dates"}
	case *format.TimeType:
		return Field{holds: "times of day"}
	case *format.TimestampType:
		return Field{holds: "timestamps"}
	case *format.NullType:
		return Field{holds: "nulls"}
	}
	if c := e.ConvertedType; c.Valid {
		switch c.V {
		case deprecated.Decimal:
			return decimal(e.Precision.V, e.Scale.V)
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			return integer(8<<(c.V-deprecated.Uint8), false)
		case deprecated.Int8, deprecated.Int16, deprecated.Int32, deprecated.Int64:
			return integer(8<<(c.V-deprecated.Int8), true)
		case deprecated.UTF8, deprecated.Enum, deprecated.Json:
			return words
		case deprecated.Date:
			return Field{holds: "dates"}
		case deprecated.TimeMillis, deprecated.TimeMicros:
			return Field{holds: "times of day"}
		case deprecated.TimestampMillis, deprecated.TimestampMicros:
			return Field{holds: "timestamps"}
		case deprecated.Interval:
			return Field{holds: "intervals of time"}
		}
	}
	switch e.Type.V {
	case format.Boolean:
		return Field{Kind: KindNumber, Whole: true, holds: "booleans"}
	case format.Int32:
		return integer(32, true)
	case format.Int64:
		return integer(64, true)
	case format.Int96:
		return Field{holds: "timestamps of 96 bits"}
	case format.Float:
		return Field{Kind: KindNumber, holds: "float"}
	case format.Double:
		return Field{Kind: KindNumber, holds: "double"}
	case format.FixedLenByteArray:
		return Field{Kind: KindBytes, holds: fmt.Sprintf("%d bytes", e.TypeLength.V)}
	}
	return Field{Kind: KindBytes, holds: "bytes"}
}

// IsElement tells an element of a list, which may be null, from a list that is empty or
// absent.
func (f *Field) IsElement(v parquet.Value) bool {
	return f.list && v.DefinitionLevel() >= len(f.empty)
}
