package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"fedpace/internal/registry"
)

// reader reads values into tagged structs (see package registry). Its errors are
// [*KeyError] with a place.
type reader struct {
	task    Task        // whose numbers of the paper's tables are meant
	missing []*KeyError // required options that are not set; a later source may still set them
}

// forget takes back what is missing at a path and below.
func (r *reader) forget(path string) {
	r.missing = slices.DeleteFunc(r.missing, func(k *KeyError) bool {
		rest, ok := strings.CutPrefix(k.Key, path)
		return ok && (rest == "" || strings.ContainsAny(rest[:1], ".["))
	})
}

// begin gives the options of a struct their defaults and notes which are
// required. where is the value that begins it, name the entry that it is, "" for any
// other struct.
func (r *reader) begin(v reflect.Value, where, path, name string) {
	v.SetZero()
	for _, o := range registry.Options(v.Type()) {
		f, at := v.FieldByIndex(o.Index), join(path, o.Key)
		switch {
		case o.Optional:
			r.standard(&o, f)
		case f.Kind() == reflect.Struct:
			r.begin(f, where, at, "")
		default:
			problem := "is not set (" + o.Help + ")"
			if name != "" {
				problem = fmt.Sprintf("is not set: %s needs it (%s)", name, o.Help)
			}
			r.missing = append(r.missing, &KeyError{Where: where, Key: at, Problem: problem})
		}
	}
}

// standard gives an option its default. A default that cannot be read is the
// program's mistake.
func (r *reader) standard(o *registry.Option, v reflect.Value) {
	v.SetZero()
	switch {
	case o.Default == "" && v.Kind() == reflect.Struct: // with the defaults of its keys
		r.begin(v, "", o.Key, "")
		return
	case o.Default == "null" || o.Default == "":
		return
	}
	n := &node{kind: scalar, text: o.Default, isText: v.Kind() == reflect.String || v.Kind() == reflect.Interface}
	if strings.ContainsAny(o.Default[:1], "[{") {
		root, err := parseFile("default", []byte("x: "+o.Default))
		if err != nil {
			panic(err)
		}
		n = root.fields["x"]
	}
	fresh := reader{task: r.task}
	if err := fresh.value(o, v, n, o.Key); err != nil {
		panic(fmt.Sprintf("config: default %q of %s: %v", o.Default, o.Key, err))
	}
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// fail is an error about the value at a path.
func fail(n *node, path, format string, args ...any) error {
	return &KeyError{Where: n.where, Key: path, Problem: fmt.Sprintf(format, args...)}
}

// group sets the options of a struct that a map names and leaves the others.
func (r *reader) group(v reflect.Value, n *node, path string) error {
	options := registry.Options(v.Type())
	beside := &node{where: n.where, kind: mapping} // for the entry that a key of the map names
	flat := slices.IndexFunc(options, func(o registry.Option) bool { return o.Flat })
	err := r.options(v, n, path, func(key string, child *node) error {
		switch {
		case key == bare:
			return fail(child, path, "this is a group of keys: %s", orList(keysOf(options)))
		case flat < 0:
			return fail(child, join(path, key), "%s", unknownKey(join(path, key), keysOf(options)))
		}
		beside.set(key, child)
		return nil
	})
	if err != nil || beside.keys == nil {
		return err
	}
	return r.choice(v.FieldByIndex(options[flat].Index), beside, path)
}

// options sets the options of a struct that a map names. other takes each key of
// the map that is none of them.
func (r *reader) options(v reflect.Value, n *node, path string, other func(key string, child *node) error) error {
	options := registry.Options(v.Type())
	for _, key := range n.keys {
		i := slices.IndexFunc(options, func(o registry.Option) bool { return o.Key == key && !o.Flat })
		var err error
		if child := n.fields[key]; i < 0 {
			err = other(key, child)
		} else {
			err = r.value(&options[i], v.FieldByIndex(options[i].Index), child, join(path, key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func keysOf(options []registry.Option) []string {
	list := make([]string, len(options))
	for i, o := range options {
		list[i] = o.Key
	}
	return list
}

// value sets one option.
func (r *reader) value(o *registry.Option, v reflect.Value, n *node, path string) error {
	group := (v.Kind() == reflect.Struct || v.Kind() == reflect.Interface) && !strings.Contains(path, "[")
	if n.kind == null {
		switch {
		case o.Null:
			r.forget(path)
			v.SetZero()
			return nil
		case o.Optional && !group:
			r.forget(path)
			r.standard(o, v)
			return nil
		case group: // whose keys are all commented out
			return nil
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		return r.record(v, n, path)
	case reflect.Interface:
		return r.choice(v, n, path)
	}
	r.forget(path)
	switch v.Kind() {
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		element := *o
		element.Null, element.Optional = false, false
		if to.Elem().Kind() == reflect.Struct {
			r.begin(to.Elem(), n.where, path, "")
		}
		v.Set(to)
		return r.value(&element, to.Elem(), n, path)
	case reflect.Slice:
		return r.list(o, v, n, path)
	}
	return r.number(o, v, n, path)
}

// list sets a list anew.
func (r *reader) list(o *registry.Option, v reflect.Value, n *node, path string) error {
	if o.Single && n.kind == scalar {
		n = &node{where: n.where, kind: list, items: []*node{n}}
	}
	var keys []string
	switch {
	case o.Keyed && n.kind == mapping:
		keys, n = n.keys, n.pairs(registry.Options(v.Type().Elem()))
	case o.Keyed && n.kind != list:
		return n.instead(path, "a list or a map")
	case n.kind != list:
		return n.instead(path, "a list")
	}
	element := *o
	element.Null, element.Optional = false, false
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if keys != nil {
			at = join(path, keys[i])
		}
		if v.Index(i).Kind() == reflect.Struct {
			r.begin(v.Index(i), item.where, at, "")
		}
		if err := r.value(&element, v.Index(i), item, at); err != nil {
			return err
		}
	}
	if len(n.items) == 0 {
		v.SetZero()
	}
	return nil
}

// record sets a struct: a group of the configuration keeps what is not named, a
// struct in a list, an entry, or with a short form is set anew.
func (r *reader) record(v reflect.Value, n *node, path string) error {
	short := shortOf(v.Type())
	if short != nil && !adds(v, n) {
		r.begin(v, n.where, path, "")
	}
	keys := orList(keysOf(registry.Options(v.Type())))
	switch {
	case n.kind == mapping:
		return r.group(v, n, path)
	case short != nil:
		return r.short(short, v, n, path)
	case strings.Contains(path, "["):
		return n.instead(path, "a map of "+keys)
	}
	return fail(n, path, "this is a group of keys: %s", keys)
}

// adds reports whether a map has options of an entry that is set alone: not what a
// scalar gives, and no other entry's name.
func adds(v reflect.Value, n *node) bool {
	if n.kind != mapping {
		return false
	}
	options := registry.Options(v.Type())
	flat := slices.IndexFunc(options, func(o registry.Option) bool { return o.Flat })
	if flat < 0 || v.FieldByIndex(options[flat].Index).IsNil() || n.fields[registry.For(options[flat].Type).Word] != nil {
		return false
	}
	return !slices.ContainsFunc(n.keys, func(key string) bool { return slices.Contains(keysOf(options), key) })
}

// short sets the options of a struct that a scalar in its place gives.
func (r *reader) short(options []registry.Option, v reflect.Value, n *node, path string) error {
	for _, o := range options {
		if err := r.value(&o, v.FieldByIndex(o.Index), n, path); err != nil {
			return err
		}
		r.forget(join(path, o.Key))
	}
	return nil
}

// shortOf lists the options that a scalar in place of the struct gives.
func shortOf(t reflect.Type) (list []registry.Option) {
	for _, o := range registry.Options(t) {
		if o.Short {
			list = append(list, o)
		}
	}
	return list
}

// choice sets the entry of a plug point: by its name, by a map with its name and
// options, or by the short form of one entry. A map without a name adds options
// to the entry that is set.
func (r *reader) choice(v reflect.Value, n *node, path string) error {
	p := registry.For(v.Type())
	if p.Word == "" {
		return r.element(p, v, n, path)
	}
	named, at := n, path // the value that names the entry
	if n.kind == mapping {
		word := n.fields[p.Word]
		switch named = n.fields[bare]; {
		case named != nil && word != nil:
			return fail(word, join(path, p.Word), "%s", already(named))
		case word != nil:
			named, at = word, join(path, p.Word)
		case named != nil:
		case p.Default != "" && (v.IsNil() || strings.Contains(path, "[") || !takesAll(v.Elem().Type(), n.keys)):
			named = &node{where: n.where, kind: scalar, text: p.Default, isText: true}
		case v.IsNil():
			return fail(n, path, "a %s without its %s (%s)", p.Kind, p.Word, orList(p.Names()))
		}
	}
	if named != nil {
		e, short, err := entryOf(p, named, path, at)
		if err != nil {
			return err
		}
		entry := reflect.New(e.Type()).Elem()
		r.forget(path)
		r.begin(entry, n.where, path, e.Name)
		if err := r.short(short, entry, named, path); err != nil {
			return err
		}
		v.Set(entry)
	}
	if n.kind != mapping {
		return nil
	}
	entry := reflect.New(v.Elem().Type()).Elem()
	entry.Set(v.Elem())
	err := r.options(entry, n, path, func(key string, child *node) error {
		switch takers := takers(p, key); {
		case key == bare || key == p.Word:
		case len(takers) == 0:
			return fail(child, join(path, key), "%s", unknownKey(join(path, key), append(keysOf(registry.Options(entry.Type())), p.Word)))
		case child.kind != null:
			return fail(child, join(path, key), "%s does not take it (%s)", p.NameOf(v.Interface()), doList(takers))
		}
		return nil
	})
	v.Set(entry)
	return err
}

// element sets the entry of a plug point whose entries stand in lists: its name, or a map
// of its name to its options or their short form.
func (r *reader) element(p *registry.Point, v reflect.Value, n *node, path string) error {
	name, value := n, (*node)(nil)
	if n.kind == mapping {
		if len(n.keys) != 1 {
			return fail(n, path, "a map of %d keys stands where a %s is wanted: one name, with its options below it, as in conv: {maps: 32, size: 3}", len(n.keys), p.Kind)
		}
		value = n.fields[n.keys[0]]
		name = &node{where: value.where, kind: scalar, text: n.keys[0], isText: true}
	}
	text, err := name.scalar("a " + p.Kind + ", " + orList(p.Names()))
	if err != nil {
		return fail(n, path, "%v", err)
	}
	standard, _, ok := p.Entry(text)
	if !ok {
		return fail(name, path, "%s", notA(text, p.Kind, p.Names()))
	}
	entry, at := reflect.New(reflect.TypeOf(standard)).Elem(), join(path, text)
	r.begin(entry, name.where, at, text)
	switch short := shortOf(entry.Type()); {
	case value == nil || value.kind == null:
	case value.kind == mapping:
		err = r.options(entry, value, at, func(key string, child *node) error {
			return fail(child, join(at, key), "%s", unknownKey(join(at, key), keysOf(registry.Options(entry.Type()))))
		})
	case short != nil:
		err = r.short(short, entry, value, at)
	default:
		err = value.instead(at, "nothing, or a map of options")
	}
	v.Set(entry)
	return err
}

// entryOf is the entry that a value names, or whose short form it is, with the
// options that it then gives. The name stands at the path of the choice or at its
// key there.
func entryOf(p *registry.Point, n *node, path, at string) (named *registry.Entry, short []registry.Option, err error) {
	for i, e := range p.Entries {
		if n.kind == scalar && !n.quoted && n.text == e.Name {
			return &p.Entries[i], nil, nil
		}
		if s := shortOf(e.Type()); s != nil && at == path && named == nil && (s[0].Type.Kind() != reflect.Slice || n.kind == list) {
			named, short = &p.Entries[i], s
		}
	}
	if named == nil {
		s, err := n.scalar("a word, " + orList(p.Names()))
		if err != nil {
			return nil, nil, fail(n, at, "%v", err)
		}
		return nil, nil, fail(n, at, "%s", notA(s, p.Kind, p.Names()))
	}
	if _, ok := parseNumber(n.text); n.kind == scalar && (n.quoted || !ok) && short[0].Type.Kind() != reflect.String {
		return nil, nil, fail(n, path, "%s is neither a number nor a %s (%s)", n.shown(), p.Kind, orList(p.Names()))
	}
	return named, short, nil
}

// takesAll reports whether a struct has options of all these keys.
func takesAll(t reflect.Type, keys []string) bool {
	own := keysOf(registry.Options(t))
	return !slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(own, key) })
}

// takers lists the entries that have an option.
func takers(p *registry.Point, key string) (list []string) {
	for _, e := range p.Entries {
		if takesAll(e.Type(), []string{key}) {
			list = append(list, e.Name)
		}
	}
	return list
}

// number sets a number, a text or a flag, and holds it to the option's tags.
func (r *reader) number(o *registry.Option, v reflect.Value, n *node, path string) error {
	if o.Word != "" && n.kind == scalar && n.text == o.Word {
		v.Set(reflect.ValueOf(o.WordIs).Convert(v.Type()))
		return nil
	}
	if word, ok := paperWords[path]; ok && n.kind == scalar && n.text == word.name {
		p, ok := r.task.Paper()
		if !ok {
			return fail(n, path, "the paper's tables do not have task %q (write a number)", r.task)
		}
		v.SetFloat(word.number(p))
		return nil
	}
	s, err := n.scalar(wanted(o, v.Type()))
	if err != nil {
		return fail(n, path, "%v", err)
	}
	bad := func() error {
		want := valueText(o, v.Type(), path)
		if o.Null {
			want += ", or null"
		}
		return fail(n, path, "%s is not %s", n.shown(), want)
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(s)
	case n.quoted:
		return bad()
	case v.Kind() == reflect.Bool:
		if !strings.EqualFold(s, "true") && !strings.EqualFold(s, "false") {
			return bad()
		}
		v.SetBool(strings.EqualFold(s, "true"))
	case v.CanInt():
		x, err := strconv.Atoi(s)
		if err != nil {
			return bad()
		}
		v.SetInt(int64(x))
	case v.CanUint():
		x, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return bad()
		}
		v.SetUint(x)
	default:
		x, ok := parseNumber(s)
		if !ok {
			return bad()
		}
		v.SetFloat(x)
	}
	if o.Words != nil && !slices.Contains(o.Words, s) {
		return fail(n, path, "%s", notA(s, strings.ReplaceAll(o.Key, "_", " "), o.Words))
	}
	own := *o
	own.Null, own.Word = o.Null && v.Kind() == reflect.String, "" // a zero that is written out is not the word that stands for it
	var wrong *registry.OptionError
	if errors.As(own.Check(v), &wrong) {
		return fail(n, path, "%s", wrong.Problem)
	}
	return nil
}

// wanted is what an option of a type may hold, in a message.
func wanted(o *registry.Option, t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	if len(o.Words) > 0 {
		return "a word, " + orList(o.Words)
	}
	return "text"
}

// parseNumber reads a decimal number; YAML's infinities and NaN are read, so
// that the limits can refuse them by name.
func parseNumber(s string) (float64, bool) {
	switch s = strings.ToLower(s); strings.TrimLeft(s, "+-") {
	case ".nan", ".inf":
		s = strings.Replace(s, ".", "", 1)
	default:
		if strings.Trim(s, "+-.0123456789e") != "" {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	// A number beyond float64's range is read as an infinity and refused as one.
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// unknownKey says that a key is not known, and which is near: one of those that
// stand beside it, a full path, or the same name in another group.
func unknownKey(path string, beside []string) string {
	last := path[strings.LastIndex(path, ".")+1:]
	near, known := nearest(last, beside), orList(beside)
	if !strings.Contains(path, "[") {
		var paths []string
		for _, k := range KnownKeys() {
			if group, _, ok := strings.Cut(k.Key, "."); ok && !slices.Contains(paths, group) {
				paths = append(paths, group)
			}
			paths = append(paths, k.Key)
		}
		near, known = nearest(path, paths), "fedpace help configuration lists all"
		elsewhere := slices.IndexFunc(paths, func(path string) bool { return strings.HasSuffix(path, "."+last) })
		if near == "" && elsewhere >= 0 {
			near = paths[elsewhere]
		}
	}
	if near != "" {
		known = fmt.Sprintf("did you mean %q?", near)
	}
	return "unknown key (" + known + ")"
}
