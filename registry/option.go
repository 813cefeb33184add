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

// Option is one tagged field of a struct of options.
type Option struct {
	Key     string
	Help    string
	Unit    string
	Default string // in YAML; counts only if Optional
	Words   []string
	Word    string // stands for the number WordIs
	WordIs  int
	Range   Range // counts only if Ranged
	Index   []int // of the struct's field, for reflect.Value.FieldByIndex
	Type    reflect.Type

	Optional bool // it has a default
	Ranged   bool
	Null     bool // null is allowed and is the field's zero value
	Path     bool // the value is the path of a file or folder
	Inert    bool // the value changes no bit of any result
	Short    bool // a scalar in place of the map gives this option alone
	Keyed    bool // a map stands for a list of structs: their first options to their second
	Merged   bool // a map of a keyed list adds to the list, and replaces only what it names
	Flat     bool // options of the entry that this option names stand beside it
}

// Options lists the options of a struct type in the order of its fields, those
// of an embedded struct as its own. It panics on a tag that cannot be read.
func Options(t reflect.Type) []Option {
	if list, ok := known.Load(t); ok {
		return slices.Clone(list.([]Option))
	}
	var list []Option
	for _, f := range reflect.VisibleFields(t) {
		key, ok := f.Tag.Lookup("key")
		if !ok {
			continue
		}
		o := Option{
			Key:   key,
			Help:  f.Tag.Get("help"),
			Unit:  f.Tag.Get("unit"),
			Index: f.Index,
			Type:  f.Type,
		}
		o.Default, o.Optional = f.Tag.Lookup("default")
		if words := f.Tag.Get("words"); words != "" {
			o.Words = strings.Split(words, ",")
		}
		var err error
		if word, number, ok := strings.Cut(f.Tag.Get("word"), "="); ok {
			o.Word = word
			o.WordIs, err = strconv.Atoi(number)
		}
		if text, ok := f.Tag.Lookup("range"); ok && err == nil {
			o.Ranged = true
			o.Range, err = ParseRange(text)
		}
		attributes := map[string]*bool{
			"null":   &o.Null,
			"path":   &o.Path,
			"inert":  &o.Inert,
			"short":  &o.Short,
			"keyed":  &o.Keyed,
			"merged": &o.Merged,
			"flat":   &o.Flat,
		}
		for _, name := range strings.FieldsFunc(f.Tag.Get("is"), func(r rune) bool { return r == ',' }) {
			if attributes[name] == nil {
				err = fmt.Errorf("%q is not an attribute", name)
				break
			}
			*attributes[name] = true
		}
		if o.Null {
			o.Default = cmp.Or(o.Default, "null")
			o.Optional = true
		}
		if err == nil && !f.IsExported() {
			err = fmt.Errorf("the field is not exported")
		}
		if err != nil {
			panic(fmt.Sprintf("registry: %v.%s: %v", t, f.Name, err))
		}
		list = append(list, o)
	}
	known.Store(t, slices.Clone(list))
	return list
}

// Element is the option of what a pointer or a list of the option holds, which cannot be missing.
func (o *Option) Element() *Option {
	element := *o
	element.Null = false
	element.Optional = false
	return &element
}

// Short lists the options of a struct type that a scalar in place of its map gives; nil:
// there are none.
func Short(t reflect.Type) (list []Option) {
	for _, o := range Options(t) {
		if o.Short {
			list = append(list, o)
		}
	}
	return list
}

// known are the options of types whose tags have been read.
var known sync.Map

// Range is an interval of real numbers.
type Range struct {
	Lo, Hi         float64
	OpenLo, OpenHi bool // the bound itself is outside
}

// ParseRange reads an interval such as [1,100] or (0,1e6].
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

// OptionError says what is wrong with one option of a component. Whoever put
// the component into a configuration knows the path above Key.
type OptionError struct {
	Key     string // of the option; "" for the component itself
	Problem string // what is wrong and what would be right
}

func (e *OptionError) Error() string {
	if e.Key == "" {
		return e.Problem
	}
	return e.Key + ": " + e.Problem
}

// Errorf makes an [*OptionError].
func Errorf(key, format string, args ...any) error {
	return &OptionError{key, fmt.Sprintf(format, args...)}
}

// Below puts a key before that of an [*OptionError]: what is wrong in a part is
// wrong in the whole. Another error becomes one of the key itself; nil stays.
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

// MaxText bounds every text, in bytes.
const MaxText = 4096

// Check holds the values of a struct of options to their tags, those of structs
// and entries within it, too. It returns an [*OptionError] for the first that is
// outside.
func Check(options any) error {
	v := reflect.ValueOf(options)
	for _, o := range Options(v.Type()) {
		if err := o.Check(v.FieldByIndex(o.Index)); err != nil {
			return err
		}
	}
	return nil
}

// Check holds one value to the option's tags, each element of a list by itself.
func (o *Option) Check(v reflect.Value) error {
	if o.Null && v.IsZero() {
		return nil
	}
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if o.Word != "" && v.Equal(reflect.ValueOf(o.WordIs).Convert(v.Type())) {
		return nil
	}
	x := 0.0
	whole := "a whole number "
	switch {
	case v.Kind() == reflect.Struct:
		if o.Flat {
			return Check(v.Interface())
		}
		return Below(o.Key, Check(v.Interface()))
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			element := o.Element()
			element.Key = fmt.Sprintf("%s[%d]", o.Key, i)
			if err := element.Check(v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case v.Kind() == reflect.String:
		return o.checkText(v.String())
	case v.CanInt():
		x = float64(v.Int())
	case v.CanUint():
		x = float64(v.Uint())
	case v.CanFloat():
		x = v.Float()
		whole = ""
	}
	if o.Ranged && !o.Range.Contains(x) {
		return Errorf(
			o.Key,
			"%s is out of range (%s)",
			Number(x),
			strings.TrimRight(whole+o.Range.String()+" "+o.Unit, " "),
		)
	}
	return nil
}

// checkText holds a text to the option's words, or to what a line can show.
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
