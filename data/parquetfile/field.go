package parquetfile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Kind says what the values of a column can serve as.
type Kind int

// The kinds of columns.
const (
	// KindOther is a column that can be neither a feature, a label nor a name.
	KindOther Kind = iota
	// KindNumber is a column of numbers; booleans count as 0 and 1.
	KindNumber
	// KindText is a column of texts.
	KindText
	// KindBytes is a column of bytes without a meaning of their own, such as images.
	KindBytes
)

// Field describes a column of a file. Its methods read the column's values.
type Field struct {
	// Name is the name of the column; one within a group is called group.column.
	Name string
	// Kind says what the values can serve as.
	Kind Kind
	// IsInteger says that the numbers are integers.
	IsInteger bool
	// UUID says that the text of a value is written in the form of a UUID.
	UUID bool
	// typeName is the type of the column, such as "INT32".
	typeName string

	// unsigned says that integers have no sign; isHalf says that numbers have 16 bits.
	unsigned, isHalf bool
	// scale is the number of digits after the decimal point, for decimals.
	scale int
	// elementLevel is the definition level from which on an element of a list is present; 0 means that
	// the column is no list.
	elementLevel int
	// leaf is the only leaf column of the field; nil means that there are several, and that the
	// field cannot be read.
	leaf *parquet.Column
}

// newFields describes the given columns of a schema, which are the children of one group. A column that is
// itself a group is replaced by the columns below it, each as "group.column". prefix is the name of the
// group around the columns with a point behind it, or "". level is the definition level of that group: how
// many of the nodes above the columns may be absent. schema is what the columns of the library do not tell.
func newFields(prefix string, columns []*parquet.Column, level int, schema *schemaNames) (list []Field) {
	for _, c := range columns {
		name := prefix + c.Name()
		below := c.Columns()
		// A column with a single leaf below it can be read, however deep the leaf lies.
		leaf, elementLevel := leafBelow(c, level)
		switch {
		// A VARIANT has a value of any type in each row, which cannot be read.
		case schema.variants[name]:
			list = append(list, Field{Name: name, typeName: "VARIANT"})
		case leaf != nil:
			f := newField(leaf, &schema.leaves[leaf.Index()])
			f.Name = name
			f.elementLevel = elementLevel
			list = append(list, f)
		// Keys and values of a map, or several lists, cannot be one column.
		case c.Repeated() || len(below) < 2:
			list = append(list, Field{Name: name, typeName: "a map or a list of groups"})
		// A group that may be absent adds a level to those below it.
		case c.Required():
			list = append(list, newFields(name+".", below, level, schema)...)
		default:
			list = append(list, newFields(name+".", below, level+1, schema)...)
		}
	}
	return list
}

// markGeometry makes columns of bytes that hold shapes unreadable, as those of the type GEOMETRY are. geo is what
// GeoParquet notes of a file, as GeoPandas and DuckDB do: JSON that names the columns. Without such a note
// nothing changes.
func markGeometry(fields []Field, geo string) {
	var noted struct {
		Columns map[string]struct{} `json:"columns"`
	}
	// A note of another form names no columns.
	if json.Unmarshal([]byte(geo), &noted) != nil {
		return
	}
	for i := range fields {
		f := &fields[i]
		if _, isShape := noted.Columns[f.Name]; isShape && f.Kind == KindBytes {
			f.Kind = KindOther
			f.typeName = "GEOMETRY"
		}
	}
}

// schemaNames is what newFields needs to know of a schema beside its columns.
type schemaNames struct {
	// leaves are the elements of the leaf columns, in the order of the file.
	leaves []format.SchemaElement
	// variants are the names of the groups of the logical type VARIANT, each as group.column.
	variants map[string]bool
}

// newSchemaNames collects leaves and variants from the elements of a schema, which is a tree in
// preorder: each group stands before its children, and says how many it has. The first element is
// the root, whose name is not part of other names.
func newSchemaNames(schema []format.SchemaElement) *schemaNames {
	names := &schemaNames{variants: map[string]bool{}}
	type group struct {
		// remaining is the number of children that are still to come.
		remaining int
		prefix    string
	}
	// around are the groups that the present element lies in, the outermost first.
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
		// Groups whose children are all there end, inner ones first.
		for len(around) > 0 && around[len(around)-1].remaining == 0 {
			around = around[:len(around)-1]
		}
	}
	return names
}

// leafBelow returns the only leaf below the column c, or nil if there are several. It looks through
// lists and groups with one child; of an image's group it takes the bytes and leaves the path.
// level is the definition level of the nodes above c: how many of them may be absent or repeated. elementLevel is
// the definition level from which on an element of the innermost list is present, 0 without a list.
func leafBelow(c *parquet.Column, level int) (leaf *parquet.Column, elementLevel int) {
	for c != nil {
		// Each node that may be absent or repeated adds a definition level.
		if !c.Required() {
			level++
		}
		if c.Repeated() {
			elementLevel = level
		}
		if c.Leaf() {
			return c, elementLevel
		}
		next := c.Column("bytes")
		if below := c.Columns(); next == nil && len(below) == 1 {
			next = below[0]
		}
		c = next
	}
	return nil, 0
}

// TypeName returns what the column holds, such as lists of a type, for error messages.
func (f *Field) TypeName() string {
	if f.elementLevel > 0 {
		return "lists of " + f.typeName
	}
	return f.typeName
}

// Fields describes the columns of the sheet, in the order of its first file. It returns an error if
// another file lacks one of them or has it with another type.
func (t *Sheet) Fields() ([]Field, error) {
	first := t.Files[0]
	for _, f := range first.fields {
		for _, file := range t.Files[1:] {
			otherField := file.byName[f.Name]
			if otherField == nil {
				return nil, fmt.Errorf("%s: column %s: is absent", file.Name, f.Name)
			}
			// The same column must have the same type in all files.
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

// newField describes what a leaf of the schema holds. e is the element of the leaf in the schema. A
// logical type, into which the library turns the converted type of older writers, goes before the
// physical one.
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
	// The library does not know this type.
	case *format.Float16Type:
		f.Kind = KindNumber
		f.isHalf = true
		f.typeName = "FLOAT16"
	// The bytes of shapes are no pixels, so the column cannot be read.
	case *format.GeometryType, *format.GeographyType:
		f.typeName = fmt.Sprint(l)
	case nil:
		switch e.Type.V {
		case format.Boolean:
			f.Kind = KindNumber
			f.IsInteger = true
		case format.Float, format.Double:
			f.Kind = KindNumber
		case format.ByteArray, format.FixedLenByteArray:
			// Bytes with a converted type, such as an interval of time, are no raw bytes.
			if !e.ConvertedType.Valid {
				f.Kind = KindBytes
			}
		}
	}
	return f
}

// IsElement reports whether v is an element of a list, which may be null. It is false for the entry
// that stands for an empty or absent list, and for a column without lists.
func (f *Field) IsElement(v parquet.Value) bool {
	return f.elementLevel > 0 && v.DefinitionLevel() >= f.elementLevel
}

// Lists returns how many lists are nested in a value of the column; 0 if a row has one value.
func (f *Field) Lists() int { return f.leaf.MaxRepetitionLevel() }

// Integer returns v as a whole number, with 0 and 1 for booleans. The result is false if v is 2^63
// or more and does not fit. The field must be one of integers.
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

// Number returns a value of the field as a float64. Decimals are divided by their power of ten,
// with one rounding. Integers of 2^63 and above, for which Integer reports false, are read as
// unsigned. Null, and a field that is no number, are errors.
func (f *Field) Number(v parquet.Value) (float64, error) {
	switch {
	case v.IsNull():
		return 0, errors.New("no value (null)")
	case f.Kind != KindNumber:
		return 0, fmt.Errorf("found %s, want a number", f.typeName)
	case f.IsInteger:
		// Without a fit, n has the bits of the unsigned number.
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
	// A quotient of exact numbers is rounded only once.
	case v.Kind() == parquet.Int64 && isExact(v.Int64()):
		return float64(v.Int64()) / math.Pow10(f.scale), nil
	case v.Kind() == parquet.Int64:
		return f.longDecimal(binary.BigEndian.AppendUint64(nil, uint64(v.Int64())))
	case f.isHalf && len(v.Bytes()) == 2:
		return half(binary.LittleEndian.Uint16(v.Bytes())), nil
	}
	return f.longDecimal(v.Bytes())
}

// isExact reports whether a float64 can represent n exactly. The quotient of n by a power of ten is
// then rounded once.
func isExact(n int64) bool {
	const largest = 1 << 53
	return -largest <= n && n <= largest
}

// longDecimal returns the decimal whose bytes are b, an integer in two's complement with its
// highest byte first, divided by 10^scale. It is exact up to the last rounding.
func (f *Field) longDecimal(b []byte) (float64, error) {
	// Decimals of 76 digits fit in 32 bytes.
	const maxBytes = 32
	const maxScale = 76
	isLengthValid := len(b) >= 1 && len(b) <= maxBytes
	isScaleValid := f.scale >= 0 && f.scale <= maxScale
	if !isLengthValid || !isScaleValid {
		return 0, fmt.Errorf("a decimal of %d bytes and scale %d, want at most 32 bytes and 76", len(b), f.scale)
	}
	// A set highest bit means that the number is negative: 2^bits is subtracted.
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	powerOfTen := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(f.scale)), nil)
	quotient, _ := new(big.Rat).SetFrac(n, powerOfTen).Float64()
	return quotient, nil
}

// half returns the number with these bits in IEEE 754's binary16. The bits are moved to their
// places in binary32, whose exponents are biased by 127 instead of 15, so that the result is
// multiplied by 2^112.
func half(bits uint16) float64 {
	sign := uint32(bits&0x8000) << 16
	exponentAndFraction := uint32(bits&0x7fff) << 13
	x := float64(math.Float32frombits(sign | exponentAndFraction))
	const exponentMask = 0x7c00
	const fractionMask = 0x3ff
	// An exponent of ones alone stands for infinity, or NaN if the fraction is not 0.
	if bits&exponentMask == exponentMask {
		if bits&fractionMask != 0 {
			return math.NaN()
		}
		return math.Copysign(math.Inf(1), x)
	}
	return math.Ldexp(x, 112)
}

// Text returns a value of the field as a text. A UUID, of 16 bytes, is written in its usual form
// with hyphens.
func (f *Field) Text(v parquet.Value) string {
	b := v.Bytes()
	if f.UUID && len(b) == 16 {
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return string(b)
}
