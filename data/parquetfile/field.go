package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Kind is what the values of a column can serve as.
type Kind int

// The kinds of columns.
const (
	// KindOther is a column that can be neither a feature, a label nor a name.
	KindOther Kind = iota
	// KindNumber is a column of numbers; booleans count as 0 and 1.
	KindNumber
	KindText
	KindBytes
)

// Field describes a column of a file. Its methods read the column's values.
type Field struct {
	Name string
	Kind Kind
	// IsInteger says that the numbers are integers.
	IsInteger bool
	// UUID says that the text of a value is written in the form of a UUID.
	UUID bool
	// typeName is the type of the column, such as "INT32".
	typeName string

	// unsigned says that integers have no sign; half says that numbers have 16 bits.
	unsigned, half bool
	// scale is the number of digits after the decimal point, for decimals.
	scale int
	// element is the definition level from which on an element of a list is present; 0 means that
	// the column is no list.
	element int
	// leaf is the only leaf column of the field; nil means that there are several, and that the
	// field cannot be read.
	leaf *parquet.Column
}

// newFields describes columns. Those of a group stand for it, each as "group.column". level
// is their definition level: how many nodes above them may be absent.
func newFields(prefix string, columns []*parquet.Column, level int, schema *schemaNames) (list []Field) {
	for _, c := range columns {
		name := prefix + c.Name()
		below := c.Columns()
		leaf, element := leafBelow(c, level)
		switch {
		case schema.variants[name]:
			list = append(list, Field{Name: name, typeName: "VARIANT"})
		case leaf != nil:
			f := newField(leaf, &schema.leaves[leaf.Index()])
			f.Name = name
			f.element = element
			list = append(list, f)
		case c.Repeated() || len(below) < 2:
			list = append(list, Field{Name: name, typeName: "a map or a list of groups"})
		case c.Required():
			list = append(list, newFields(name+".", below, level, schema)...)
		default:
			list = append(list, newFields(name+".", below, level+1, schema)...)
		}
	}
	return list
}

// schemaNames is what newFields needs to know of a schema beside its columns.
type schemaNames struct {
	leaves []format.SchemaElement
	// Groups of the logical type VARIANT, as group.column.
	variants map[string]bool
}

// newSchemaNames goes through the elements of a schema, in which a group stands before what is in
// it. The first element is the root, which has no name.
func newSchemaNames(schema []format.SchemaElement) *schemaNames {
	names := &schemaNames{variants: map[string]bool{}}
	type group struct {
		remaining int // elements to come in it
		prefix    string
	}
	var around []group
	for i, e := range schema {
		prefix := ""
		if i > 0 && len(around) > 0 {
			prefix = around[len(around)-1].prefix
			around[len(around)-1].remaining--
		}
		name := prefix + e.Name
		if _, variant := e.LogicalType.Value.(*format.VariantType); variant {
			names.variants[name] = true
		}
		if e.Type.Valid {
			names.leaves = append(names.leaves, e)
		}
		if n := int(e.NumChildren.V); n > 0 {
			below := group{remaining: n}
			if i > 0 {
				below.prefix = name + "."
			}
			around = append(around, below)
		}
		for len(around) > 0 && around[len(around)-1].remaining == 0 {
			around = around[:len(around)-1]
		}
	}
	return names
}

// leafBelow finds the one leaf below a column; image and lists nest theirs, and an
// image's struct has a path beside its bytes.
func leafBelow(c *parquet.Column, level int) (leaf *parquet.Column, element int) {
	for c != nil {
		if !c.Required() {
			level++
		}
		if c.Repeated() {
			element = level
		}
		if c.Leaf() {
			return c, element
		}
		next := c.Column("bytes")
		if below := c.Columns(); next == nil && len(below) == 1 {
			next = below[0]
		}
		c = next
	}
	return nil, 0
}

// TypeName is what the column holds, for errors.
func (f *Field) TypeName() string {
	if f.element > 0 {
		return "lists of " + f.typeName
	}
	return f.typeName
}

// Fields describes the columns of a sheet, which are those of its first file.
func (t *Sheet) Fields() ([]Field, error) {
	first := t.Files[0]
	for _, f := range first.fields {
		for _, file := range t.Files[1:] {
			otherField := file.byName[f.Name]
			if otherField == nil {
				return nil, fmt.Errorf("%s: column %s: is absent", file.Name, f.Name)
			}
			if otherField.TypeName() != f.TypeName() {
				return nil, fmt.Errorf(
					"%s: column %s: holds %s, in %s %s",
					file.Name,
					f.Name,
					otherField.TypeName(),
					first.Name,
					f.TypeName(),
				)
			}
		}
	}
	return first.fields, nil
}

// newField tells what a leaf of the schema holds. A logical type, which the library makes
// of the converted type of older writers, goes before the physical one.
func newField(leaf *parquet.Column, e *format.SchemaElement) Field {
	f := Field{leaf: leaf, typeName: leaf.Type().String()}
	logical := e.LogicalType.Value
	if logicalType := leaf.Type().LogicalType(); logical == nil && logicalType != nil {
		logical = logicalType.Value
	}
	switch l := logical.(type) {
	case *format.DecimalType:
		f.Kind = KindNumber
		f.scale = int(l.Scale)
	case *format.IntType:
		f.Kind = KindNumber
		f.IsInteger = true
		f.unsigned = !l.IsSigned
	case *format.StringType, *format.EnumType, *format.JsonType:
		f.Kind = KindText
	case *format.UUIDType:
		f.Kind = KindText
		f.UUID = true
	case *format.Float16Type: // which the library does not know
		f.Kind = KindNumber
		f.half = true
		f.typeName = "FLOAT16"
	case *format.GeometryType, *format.GeographyType: // whose bytes are no pixels
		f.typeName = fmt.Sprint(l)
	case nil:
		switch e.Type.V {
		case format.Boolean:
			f.Kind = KindNumber
			f.IsInteger = true
		case format.Float, format.Double:
			f.Kind = KindNumber
		case format.ByteArray, format.FixedLenByteArray:
			if !e.ConvertedType.Valid { // of an interval of time
				f.Kind = KindBytes
			}
		}
	}
	return f
}

// IsElement tells an element of a list, which may be null, from a list that is empty or
// absent.
func (f *Field) IsElement(v parquet.Value) bool {
	return f.element > 0 && v.DefinitionLevel() >= f.element
}

// Lists is how many lists are nested in a value of the column; 0 where it has one value.
func (f *Field) Lists() int { return f.leaf.MaxRepetitionLevel() }

// Integer reads a whole number; false where it is 2^63 or more.
func (f *Field) Integer(v parquet.Value) (int64, bool) {
	switch {
	case v.Kind() == parquet.Int64:
		return v.Int64(), !f.unsigned || v.Int64() >= 0
	case v.Kind() == parquet.Boolean && v.Boolean():
		return 1, true
	case v.Kind() == parquet.Boolean:
		return 0, true
	case f.unsigned:
		return int64(v.Uint32()), true
	}
	return int64(v.Int32()), true
}

// Number is a value of the field as a float64. Decimals are divided by their power of ten. Integers
// of 2^63 and above, for which Integer reports false, are read as unsigned.
func (f *Field) Number(v parquet.Value) (float64, error) {
	switch {
	case v.IsNull():
		return 0, errors.New("no value (null)")
	case f.Kind != KindNumber:
		return 0, fmt.Errorf("found %s, want a number", f.typeName)
	case f.IsInteger:
		n, ok := f.Integer(v)
		if !ok {
			return float64(uint64(n)), nil
		}
		return float64(n), nil
	case v.Kind() == parquet.Float:
		return float64(v.Float()), nil
	case v.Kind() == parquet.Double:
		return v.Double(), nil
	case v.Kind() == parquet.Int32:
		return float64(v.Int32()) / math.Pow10(f.scale), nil
	case v.Kind() == parquet.Int64 && isExact(v.Int64()):
		return float64(v.Int64()) / math.Pow10(f.scale), nil
	case v.Kind() == parquet.Int64:
		return f.longDecimal(binary.BigEndian.AppendUint64(nil, uint64(v.Int64())))
	case f.half && len(v.Bytes()) == 2:
		return half(binary.LittleEndian.Uint16(v.Bytes())), nil
	}
	return f.longDecimal(v.Bytes())
}

// isExact reports whether an integer is one of float64. Its quotient by a power of ten is rounded once then.
func isExact(n int64) bool {
	const largest = 1 << 53
	return -largest <= n && n <= largest
}

// longDecimal is a decimal's bytes, an integer in two's complement with its
// highest byte first, divided by 10^scale.
func (f *Field) longDecimal(b []byte) (float64, error) {
	if len(b) == 0 ||
		len(b) > 32 ||
		f.scale < 0 ||
		// Decimals of 76 digits fit in 32 bytes.
		f.scale > 76 {
		return 0, fmt.Errorf("a decimal of %d bytes and scale %d, want at most 32 bytes and 76", len(b), f.scale)
	}
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	x, _ := new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(f.scale)), nil)).Float64()
	return x, nil
}

// half is a number of IEEE 754's binary16: its bits in the places that they have in
// binary32, whose exponents begin 112 lower.
func half(bits uint16) float64 {
	x := float64(math.Float32frombits(uint32(bits&0x8000)<<16 | uint32(bits&0x7fff)<<13))
	if bits&0x7c00 == 0x7c00 {
		if bits&0x3ff != 0 {
			return math.NaN()
		}
		return math.Copysign(math.Inf(1), x)
	}
	return math.Ldexp(x, 112)
}

// Text is a value of the field as text. A UUID is written in its usual form.
func (f *Field) Text(v parquet.Value) string {
	b := v.Bytes()
	if f.UUID && len(b) == 16 {
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return string(b)
}
