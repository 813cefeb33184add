package registry

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Option is one tagged field of a struct of options. The package's documentation
// explains the tags.
type Option struct {
	Key  string
	Help string
	Unit string
	// Default is the value in YAML that stands for an absent key. Without Optional
	// the key is required, and Default is not used.
	Default  string
	Optional bool
	// Words are the only texts that are allowed; nil: any text is.
	Words []string
	// Word is a word that may stand for the number WordIs; empty: there is none.
	Word   string
	WordIs int
	// Range has the numbers that are allowed. Without Ranged all are.
	Range  Range
	Ranged bool
	// Index is the place of the struct's field, for [reflect.Value.FieldByIndex],
	// and Type the field's type.
	Index []int
	Type  reflect.Type

	// Null: the value may be null, which is the field's zero value.
	Null bool
	// Path: the value is the path of a file or folder.
	Path bool
	// Inert: the value changes no bit of any result.
	Inert bool
	// Short: a scalar in place of the map of all options gives this option alone.
	Short bool
	// Keyed: a map may stand for the list of structs that is the value. Its keys
	// are the first option of each struct, and its values the second.
	Keyed bool
	// Merged: such a map adds to the list, and replaces only the structs that it
	// names.
	Merged bool
	// Flat: the value names an entry, whose options stand beside this one.
	Flat bool
}

// Options returns the options of the struct type t, in the order of its fields, with those of embedded
// structs among them. It panics on a tag that cannot be read, which is a fault of the program.
func Options(t reflect.Type) []Option {
	if list, ok := known.Load(t); ok {
		return slices.Clone(list.([]Option))
	}
	var list []Option
	for _, field := range reflect.VisibleFields(t) {
		key, ok := field.Tag.Lookup("key")
		if !ok {
			continue
		}
		option := Option{
			Key:   key,
			Help:  field.Tag.Get("help"),
			Unit:  field.Tag.Get("unit"),
			Index: field.Index,
			Type:  field.Type,
		}
		option.Default, option.Optional = field.Tag.Lookup("default")
		if words := field.Tag.Get("words"); words != "" {
			option.Words = strings.Split(words, ",")
		}
		var err error
		if word, number, ok := strings.Cut(field.Tag.Get("word"), "="); ok {
			option.Word = word
			option.WordIs, err = strconv.Atoi(number)
		}
		if text, ok := field.Tag.Lookup("range"); ok && err == nil {
			option.Ranged = true
			option.Range, err = ParseRange(text)
		}
		attributes := map[string]*bool{
			"null":   &option.Null,
			"path":   &option.Path,
			"inert":  &option.Inert,
			"short":  &option.Short,
			"keyed":  &option.Keyed,
			"merged": &option.Merged,
			"flat":   &option.Flat,
		}
		for _, name := range strings.FieldsFunc(field.Tag.Get("is"), func(r rune) bool { return r == ',' }) {
			if attributes[name] == nil {
				err = fmt.Errorf("%q is not an attribute", name)
				break
			}
			*attributes[name] = true
		}
		if option.Null {
			option.Default = cmp.Or(option.Default, "null")
			option.Optional = true
		}
		if err == nil && !field.IsExported() {
			err = fmt.Errorf("the field is not exported")
		}
		if err != nil {
			panic(fmt.Sprintf("registry: %v.%s: %v", t, field.Name, err))
		}
		list = append(list, option)
	}
	known.Store(t, slices.Clone(list))
	return list
}

// Element returns the option by which one element of a list, or the value of a pointer, is read and
// checked. It has the tags of o, but an element can be neither null nor absent.
func (o *Option) Element() *Option {
	element := *o
	element.Null = false
	element.Optional = false
	return &element
}

// Short returns the options of the struct type t that have the attribute short. A configuration may give a single
// value in the place of the map of t's options, and the value is then that of one of these. The result is nil for
// most types, whose options need a map.
func Short(t reflect.Type) (list []Option) {
	for _, o := range Options(t) {
		if o.Short {
			list = append(list, o)
		}
	}
	return list
}

// known has the options of the types whose tags have been read, by reflect.Type.
var known sync.Map

// Range is an interval of real numbers. OpenLo and OpenHi say that the bound itself is
// outside.
type Range struct {
	Lo, Hi         float64
	OpenLo, OpenHi bool
}

// ParseRange reads an interval such as [1,100] or (0,1e6]. A round bracket leaves its
// bound out.
func ParseRange(text string) (r Range, err error) {
	var from, to rune
	_, err = fmt.Sscanf(text+"\n", "%c%g,%g%c\n", &from, &r.Lo, &r.Hi, &to)
	if err != nil ||
		!strings.ContainsRune("[(", from) ||
		!strings.ContainsRune("])", to) ||
		!(r.Lo <= r.Hi) {
		return Range{}, fmt.Errorf("%q is not an interval such as [1,100] or (0,1e6]", text)
	}
	r.OpenLo = from == '('
	r.OpenHi = to == ')'
	return r, nil
}

// Contains reports whether v lies within the interval; NaN never does.
func (r Range) Contains(v float64) bool {
	return (v > r.Lo || v == r.Lo && !r.OpenLo) &&
		(v < r.Hi || v == r.Hi && !r.OpenHi)
}

// String reads as "more than 0 and at most 10".
func (r Range) String() string {
	lo := Number(r.Lo) + " or more"
	hi := " and at most " + Number(r.Hi)
	if r.OpenLo {
		lo = "more than " + Number(r.Lo)
	}
	if r.OpenHi {
		hi = " and less than " + Number(r.Hi)
	}
	switch {
	case math.IsInf(r.Hi, 1):
		return lo
	case !r.OpenLo && !r.OpenHi:
		return "from " + Number(r.Lo) + " to " + Number(r.Hi)
	}
	return lo + hi
}

// Number writes a float64 so that it reads back to the same bits, without an
// exponent where a person would not use one.
func Number(v float64) string {
	if a := math.Abs(v); a >= 1e-4 && a < 1e15 || a == 0 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// OptionError says what is wrong with one option of a component. Key is the path
// below the component; code that knows where the component stands in the
// configuration puts the rest before it with [Below].
type OptionError struct {
	// Key names the option, as in seconds or layers[2].maps; "" stands for the
	// component itself.
	Key string
	// Problem says what is wrong and what would be right.
	Problem string
}

// Error returns the key and the problem.
func (e *OptionError) Error() string {
	if e.Key == "" {
		return e.Problem
	}
	return e.Key + ": " + e.Problem
}

// Errorf makes an [*OptionError] whose problem is formatted as fmt.Sprintf does.
func Errorf(key, format string, args ...any) error {
	return &OptionError{key, fmt.Sprintf(format, args...)}
}

// Below puts a key before the key of an [*OptionError], so that the error of a part
// names the place of the part in the whole. Any other error becomes an
// [*OptionError] of that key. It returns nil for nil.
func Below(key string, err error) error {
	var o *OptionError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &o):
		return &OptionError{key, err.Error()}
	case o.Key == "":
		return &OptionError{key, o.Problem}
	case o.Key[0] == '[':
		return &OptionError{key + o.Key, o.Problem}
	}
	return &OptionError{key + "." + o.Key, o.Problem}
}

// MaxText bounds every text of a configuration, in bytes.
const MaxText = 4096

// Check checks that the values in a struct of options are those that the tags allow,
// those in structs and entries within it, too. It returns an [*OptionError] for the
// first value that is not allowed.
func Check(options any) error {
	v := reflect.ValueOf(options)
	for _, o := range Options(v.Type()) {
		if err := o.Check(v.FieldByIndex(o.Index)); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an [*OptionError] if the option's tags do not allow the value or, for a list, one of its
// elements. A nil pointer is allowed: it holds no value.
func (o *Option) Check(value reflect.Value) error {
	if o.Null && value.IsZero() {
		return nil
	}
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
		if value.IsNil() {
			return nil
		}
		value = value.Elem()
	}
	// The number for which the option has a word, such as 0 for the word fit, is allowed whatever the range is.
	if o.Word != "" && value.Equal(reflect.ValueOf(o.WordIs).Convert(value.Type())) {
		return nil
	}
	number := 0.0
	kind := "a whole number "
	switch {
	case value.Kind() == reflect.Struct:
		if o.Flat {
			return Check(value.Interface())
		}
		return Below(o.Key, Check(value.Interface()))
	case value.Kind() == reflect.Slice:
		for i := range value.Len() {
			element := o.Element()
			element.Key = fmt.Sprintf("%s[%d]", o.Key, i)
			if err := element.Check(value.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case value.Kind() == reflect.String:
		return o.checkText(value.String())
	case value.CanInt():
		number = float64(value.Int())
	case value.CanUint():
		number = float64(value.Uint())
	case value.CanFloat():
		number = value.Float()
		kind = ""
	}
	if o.Ranged && !o.Range.Contains(number) {
		return Errorf(
			o.Key,
			"%s is out of range (%s)",
			Number(number),
			strings.TrimRight(kind+o.Range.String()+" "+o.Unit, " "),
		)
	}
	return nil
}

// checkText returns an [*OptionError] if the text s is not one of the option's words, is an
// empty path, is too long, or has a character that cannot be printed on a line.
func (o *Option) checkText(s string) error {
	switch {
	case o.Words != nil && !slices.Contains(o.Words, s):
		return Errorf(o.Key, "%q is not one of %s", s, strings.Join(o.Words, ", "))
	case s == "" && o.Path:
		return Errorf(o.Key, "is empty (a path is wanted)")
	case len(s) > MaxText:
		return Errorf(o.Key, "a text of %d bytes is too long (at most %d)", len(s), MaxText)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\x7f' || r == '\ufffd' }):
		return Errorf(o.Key, "%q holds a character that cannot be printed", s)
	}
	return nil
}
