package registry

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Table is one plug point: the entries of kind T by name. T is an interface.
// Entries are registered while the program starts; after that a Table may be
// used from any goroutine.
type Table[T any] struct{ *Point }

// Point is a [Table] whose type is known only at run time.
type Point struct {
	// Kind names one entry in messages, as in "closing rule".
	Kind string
	// Word is the key that names the entry in a map of the configuration; "" means that
	// the entry's name is itself the key.
	Word string
	// Default is the name of the entry that a map without Word stands for; "" means that
	// a map must have Word.
	Default string
	// Entries are sorted by name.
	Entries []Entry

	// retired says what to use instead of entries that were removed, by their names.
	retired map[string]string
}

// Entry is one entry of a [Point]. Value is a struct with no option set.
type Entry struct {
	Name, Help string
	Value      any
}

// Type returns the type of the struct with the entry's options.
func (e *Entry) Type() reflect.Type { return reflect.TypeOf(e.Value) }

// points has all plug points of the program, by the interface type of their entries.
var points = map[reflect.Type]*Point{}

// New makes the plug point of the interface type T, and panics if there is one already. kind names one entry
// in messages, as in "closing rule". word is the key that names the entry in a map of the configuration, as in
// {rule: deadline, seconds: 5}. Without a word entries stand in lists, each by its name or as a map of its name
// to its options, as in [conv: {maps: 32}, relu].
func New[T any](kind, word string) *Table[T] {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Interface {
		panic(fmt.Sprintf("registry: %v is not an interface", t))
	}
	if points[t] != nil {
		panic(fmt.Sprintf("registry: %v has two tables", t))
	}
	points[t] = &Point{Kind: kind, Word: word}
	return &Table[T]{points[t]}
}

// For returns the plug point of an interface type, nil if it has none.
func For(t reflect.Type) *Point { return points[t] }

// Register adds an entry. value is a struct, not a pointer, with no option set except
// one on whose default the entry's [Needs] depend. Its type and its name must be new to
// the table. Register panics on a mistake, also in the tags, because it is a fault of
// the program.
func (t *Table[T]) Register(name, help string, value T) {
	typ := reflect.TypeOf(value)
	if typ == nil || typ.Kind() != reflect.Struct {
		panic(fmt.Sprintf("registry: %s %q is a %v, want a struct", t.Kind, name, typ))
	}
	for _, o := range Options(typ) {
		if o.Key == t.Word {
			panic(fmt.Sprintf("registry: %s %q has an option %q, the key that names the entry", t.Kind, name, o.Key))
		}
	}
	if slices.Contains(t.Names(), name) || t.NameOf(value) != "" {
		panic(fmt.Sprintf("registry: %s %q (%v) is registered twice", t.Kind, name, typ))
	}
	t.Entries = append(t.Entries, Entry{name, help, value})
	slices.SortFunc(t.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
}

// Standard sets the entry that a map of the configuration stands for if it names none.
// It returns the table, for use in a declaration.
func (t *Table[T]) Standard(name string) *Table[T] {
	t.Default = name
	return t
}

// Retire keeps the name of an entry that the table no longer has. instead says what to use
// instead, as the end of the error message for a configuration that names the entry: "use
// uniform with ...". Retire panics if the table has the entry.
func (t *Table[T]) Retire(name, instead string) {
	if slices.Contains(t.Names(), name) {
		panic(fmt.Sprintf("registry: %s %q is registered, and retired", t.Kind, name))
	}
	if t.retired == nil {
		t.retired = map[string]string{}
	}
	t.retired[name] = instead
}

// Encode writes an entry as a JSON object with its name and its options, for messages
// to other processes. The options must be numbers, words or lists of them.
func (t *Table[T]) Encode(value T) (string, error) {
	fields := map[string]any{t.Word: t.NameOf(value)}
	v := reflect.ValueOf(value)
	for _, o := range Options(v.Type()) {
		fields[o.Key] = v.FieldByIndex(o.Index).Interface()
	}
	text, err := json.Marshal(fields)
	return string(text), err
}

// Decode returns the entry that [Table.Encode] wrote as text, and checks its options by their tags. Each
// option must be there, and no other.
func (t *Table[T]) Decode(text string) (value T, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return value, fmt.Errorf("%s: %w", t.Kind, err)
	}
	var name string
	if err := json.Unmarshal(fields[t.Word], &name); err != nil {
		return value, fmt.Errorf("%s without its %s: %w", t.Kind, t.Word, err)
	}
	standard, _, ok := t.Point.Entry(name)
	if !ok {
		return value, fmt.Errorf("%q is not a known %s", name, t.Kind)
	}
	v := reflect.New(reflect.TypeOf(standard)).Elem()
	options := Options(v.Type())
	if len(fields) != len(options)+1 {
		return value, fmt.Errorf("%s %s has %d options, want %d", t.Kind, name, len(fields)-1, len(options))
	}
	for _, o := range options {
		if err := json.Unmarshal(fields[o.Key], v.FieldByIndex(o.Index).Addr().Interface()); err != nil {
			return value, Errorf(o.Key, "%v", err)
		}
	}
	return v.Interface().(T), Check(v.Interface())
}

// Entry returns the entry of that name with no option set; ok is false if there is none.
func (t *Table[T]) Entry(name string) (value T, ok bool) {
	entry, _, ok := t.Point.Entry(name)
	if ok {
		value = entry.(T)
	}
	return value, ok
}

// Text returns a short description of an entry, for a summary: that of the entry's String method if it has
// one, otherwise its name with the options that are not zero, as in "deadline(seconds 5)".
func (t *Table[T]) Text(value T) string {
	if s, ok := any(value).(fmt.Stringer); ok {
		return s.String()
	}
	v := reflect.ValueOf(value)
	var parts []string
	for _, o := range Options(v.Type()) {
		if f := v.FieldByIndex(o.Index); !f.IsZero() {
			parts = append(parts, fmt.Sprintf("%s %v", strings.ReplaceAll(o.Key, "_", " "), f))
		}
	}
	if len(parts) == 0 {
		return t.NameOf(value)
	}
	return t.NameOf(value) + "(" + strings.Join(parts, ", ") + ")"
}

// Names returns the entries' names. The entries are kept in alphabetical order.
func (p *Point) Names() (list []string) {
	for _, e := range p.Entries {
		list = append(list, e.Name)
	}
	return list
}

// Entry returns the entry of that name with no option set, and its help; ok is false if
// there is none.
func (p *Point) Entry(name string) (value any, help string, ok bool) {
	for _, e := range p.Entries {
		if e.Name == name {
			return e.Value, e.Help, true
		}
	}
	return nil, "", false
}

// Instead returns what to use in place of an entry that was removed, see [Table.Retire]; false
// means that the table never had it, or has it still.
func (p *Point) Instead(name string) (instead string, ok bool) {
	instead, ok = p.retired[name]
	return instead, ok
}

// NameOf returns the name under which the type of value is registered, "" if it is not.
func (p *Point) NameOf(value any) string {
	for _, e := range p.Entries {
		if e.Type() == reflect.TypeOf(value) {
			return e.Name
		}
	}
	return ""
}

// Needs says what a component must be given by the run it is part of. A run that
// cannot give it is refused before it starts, with an error that names the component,
// so no component has to check its run.
type Needs struct {
	Losses      bool // training losses, which a run with train: false does not measure
	Validation  bool // validations, which need training, too
	Accuracy    bool // the validation accuracy, which not all models have
	ClientState bool // one vector a client kept from task to task
	Simulated   bool // clients that no real device stands for
	Candidates  bool // losses of clients that have no task yet, which real devices do not tell
	Rounds      bool // rounds that do not overlap, which closing rule buffered has not
	Deadline    bool // a closing rule with a deadline
	Times       bool // the clients' expected times
	Speeds      bool // expected times that tell clients apart, which devices without a class do not have
	Samples     bool // the clients' numbers of samples
	EqualWeight bool // updates that are weighted equally
	Whole       bool // updates whose values compression has not thinned out
	NewestModel bool // sums of differences to the newest model, also of updates from an older one
	Copy        bool // memory for a round's single updates twice
	PlainSteps  bool // local steps of plain SGD, which other optimizers do not take
	Pace        bool // how long rounds and their local steps take
	Changes     bool // changes of the data, which are seen in training losses where these are known
	Stragglers  bool // rounds that wait for their slowest client, which those that overlap do not
	Cohort      bool // the same cohort in each round, which a formula of it does not give
}

// NeedsOf returns the result of the component's method Needs, or no needs if it has no
// such method.
func NeedsOf(component any) Needs {
	if c, ok := component.(interface{ Needs() Needs }); ok {
		return c.Needs()
	}
	return Needs{}
}
