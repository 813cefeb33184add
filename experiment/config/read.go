package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"fedpace/experiment/config/tree"
	"fedpace/internal/nearest"
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
	n := &tree.Node{Kind: tree.Scalar, Text: o.Default, IsText: v.Kind() == reflect.String || v.Kind() == reflect.Interface}
	if strings.ContainsAny(o.Default[:1], "[{") {
		root, err := tree.Parse("default", []byte("x: "+o.Default))
		if err != nil {
			panic(err)
		}
		n = root.Fields["x"]
	}
	fresh := reader{task: r.task}
	if err := fresh.value(o, v, n, o.Key); err != nil {
		panic(fmt.Sprintf("config: default %q of %s: %v", o.Default, o.Key, err))
	}
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// group sets the options of a struct that a map names and leaves the others.
func (r *reader) group(v reflect.Value, n *tree.Node, path string) error {
	options := registry.Options(v.Type())
	beside := &tree.Node{Where: n.Where, Kind: tree.Map} // for the entry that a key of the map names
	flat := slices.IndexFunc(options, func(o registry.Option) bool { return o.Flat })
	err := r.options(v, n, path, func(key string, child *tree.Node) error {
		switch {
		case key == tree.Bare:
			return tree.Fail(child, path, "this is a group of keys: %s", orList(keysOf(options)))
		case flat < 0:
			return tree.Fail(child, join(path, key), "%s", unknownKey(join(path, key), keysOf(options)))
		}
		beside.Set(key, child)
		return nil
	})
	if err != nil || beside.Keys == nil {
		return err
	}
	return r.choice(v.FieldByIndex(options[flat].Index), beside, path)
}

// options sets the options of a struct that a map names. other takes each key of
// the map that is none of them.
func (r *reader) options(v reflect.Value, n *tree.Node, path string, other func(key string, child *tree.Node) error) error {
	options := registry.Options(v.Type())
	for _, key := range n.Keys {
		i := slices.IndexFunc(options, func(o registry.Option) bool { return o.Key == key && !o.Flat })
		var err error
		if child := n.Fields[key]; i < 0 {
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
func (r *reader) value(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	group := (v.Kind() == reflect.Struct || v.Kind() == reflect.Interface) && !strings.Contains(path, "[")
	if n.Kind == tree.Null {
		switch {
		case o.Null:
			r.forget(path)
			v.SetZero()
			return nil
		case o.Optional && !group:
			r.forget(path)
			r.standard(o, v)
			return nil
		case group && n.Where != tree.SetFlag: // whose keys are all commented out
			return nil
		case v.Kind() == reflect.Interface:
			r.forget(path)
			r.standard(o, v)
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
			r.begin(to.Elem(), n.Where, path, "")
		}
		v.Set(to)
		return r.value(&element, to.Elem(), n, path)
	case reflect.Slice:
		return r.list(o, v, n, path)
	}
	return r.number(o, v, n, path)
}

// list sets a list anew.
func (r *reader) list(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	if o.Single && n.Kind == tree.Scalar {
		n = &tree.Node{Where: n.Where, Kind: tree.List, Items: []*tree.Node{n}}
	}
	var keys []string
	switch {
	case o.Keyed && n.Kind == tree.Map:
		pair := registry.Options(v.Type().Elem()) // of an id and what it has
		keys, n = n.Keys, n.Pairs(pair[0].Key, pair[1].Key)
	case o.Keyed && n.Kind != tree.List:
		return n.Instead(path, "a list or a map")
	case n.Kind != tree.List:
		return n.Instead(path, "a list")
	}
	element := *o
	element.Null, element.Optional = false, false
	v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if keys != nil {
			at = join(path, keys[i])
		}
		if v.Index(i).Kind() == reflect.Struct {
			r.begin(v.Index(i), item.Where, at, "")
		}
		if err := r.value(&element, v.Index(i), item, at); err != nil {
			return err
		}
	}
	if len(n.Items) == 0 {
		v.SetZero()
	}
	return nil
}

// record sets a struct: a map keeps what it does not name, but for the options of an
// entry that it sets anew. A scalar in place of the struct sets all of it.
func (r *reader) record(v reflect.Value, n *tree.Node, path string) error {
	short := registry.Short(v.Type())
	if short != nil && !adds(v, n) {
		r.begin(v, n.Where, path, "")
	}
	keys := orList(keysOf(registry.Options(v.Type())))
	switch {
	case n.Kind == tree.Map:
		return r.group(v, n, path)
	case short != nil:
		return r.short(short, v, n, path)
	case strings.Contains(path, "["):
		return n.Instead(path, "a map of "+keys)
	}
	return tree.Fail(n, path, "this is a group of keys: %s", keys)
}

// adds reports whether a map keeps what it does not name. Where an entry's options stand
// beside those of the struct, it does if it has none but options of the entry that is set:
// not what a scalar gives, and no other entry's name.
func adds(v reflect.Value, n *tree.Node) bool {
	options := registry.Options(v.Type())
	flat := slices.IndexFunc(options, func(o registry.Option) bool { return o.Flat })
	if n.Kind != tree.Map || flat < 0 {
		return n.Kind == tree.Map
	}
	if v.FieldByIndex(options[flat].Index).IsNil() || n.Fields[registry.For(options[flat].Type).Word] != nil {
		return false
	}
	return !slices.ContainsFunc(n.Keys, func(key string) bool { return slices.Contains(keysOf(options), key) })
}

// short sets the options of a struct that a scalar in its place gives.
func (r *reader) short(options []registry.Option, v reflect.Value, n *tree.Node, path string) error {
	for _, o := range options {
		if err := r.value(&o, v.FieldByIndex(o.Index), n, path); err != nil {
			return err
		}
		r.forget(join(path, o.Key))
	}
	return nil
}

// choice sets the entry of a plug point: by its name, by a map with its name and
// options, or by the short form of one entry. A map without a name adds options
// to the entry that is set.
func (r *reader) choice(v reflect.Value, n *tree.Node, path string) error {
	p := registry.For(v.Type())
	if p.Word == "" {
		return r.element(p, v, n, path)
	}
	named, at := n, path // the value that names the entry
	if n.Kind == tree.Map {
		word := n.Fields[p.Word]
		switch named = n.Fields[tree.Bare]; {
		case named != nil && word != nil:
			return tree.Fail(word, join(path, p.Word), "%s", tree.Already(named))
		case word != nil:
			named, at = word, join(path, p.Word)
		case named != nil:
		case p.Default != "" && (v.IsNil() || strings.Contains(path, "[") || !takesAll(v.Elem().Type(), n.Keys)):
			named = &tree.Node{Where: n.Where, Kind: tree.Scalar, Text: p.Default, IsText: true}
		case v.IsNil():
			return tree.Fail(n, path, "a %s without its %s (%s)", p.Kind, p.Word, orList(p.Names()))
		}
	}
	if named != nil {
		e, short, err := entryOf(p, named, path, at)
		if err != nil {
			return err
		}
		entry := reflect.New(e.Type()).Elem()
		r.forget(path)
		r.begin(entry, n.Where, path, e.Name)
		if err := r.short(short, entry, named, path); err != nil {
			return err
		}
		v.Set(entry)
	}
	if n.Kind != tree.Map {
		return nil
	}
	entry := reflect.New(v.Elem().Type()).Elem()
	entry.Set(v.Elem())
	err := r.options(entry, n, path, func(key string, child *tree.Node) error {
		switch takers := takers(p, key); {
		case key == tree.Bare || key == p.Word:
		case len(takers) == 0:
			return tree.Fail(child, join(path, key), "%s", unknownKey(join(path, key), append(keysOf(registry.Options(entry.Type())), p.Word)))
		case child.Kind != tree.Null:
			return tree.Fail(child, join(path, key), "%s does not take it (%s)", p.NameOf(v.Interface()), doList(takers))
		}
		return nil
	})
	v.Set(entry)
	return err
}

// element sets the entry of a plug point whose entries stand in lists: its name, or a map
// of its name to its options or their short form.
func (r *reader) element(p *registry.Point, v reflect.Value, n *tree.Node, path string) error {
	name, value := n, (*tree.Node)(nil)
	if n.Kind == tree.Map {
		if len(n.Keys) != 1 {
			return tree.Fail(n, path, "a map of %d keys stands where a %s is wanted: one name, with its options below it, as in conv: {maps: 32, size: 3}", len(n.Keys), p.Kind)
		}
		value = n.Fields[n.Keys[0]]
		name = &tree.Node{Where: value.Where, Kind: tree.Scalar, Text: n.Keys[0], IsText: true}
	}
	text, err := name.Scalar("a " + p.Kind + ", " + orList(p.Names()))
	if err != nil {
		return tree.Fail(n, path, "%v", err)
	}
	standard, _, ok := p.Entry(text)
	if !ok {
		return tree.Fail(name, path, "%s", notA(text, p.Kind, p.Names()))
	}
	entry, at := reflect.New(reflect.TypeOf(standard)).Elem(), join(path, text)
	r.begin(entry, name.Where, at, text)
	switch short := registry.Short(entry.Type()); {
	case value == nil || value.Kind == tree.Null:
	case value.Kind == tree.Map:
		err = r.options(entry, value, at, func(key string, child *tree.Node) error {
			return tree.Fail(child, join(at, key), "%s", unknownKey(join(at, key), keysOf(registry.Options(entry.Type()))))
		})
	case short != nil:
		err = r.short(short, entry, value, at)
	default:
		err = value.Instead(at, "nothing, or a map of options")
	}
	v.Set(entry)
	return err
}

// entryOf is the entry that a value names, or whose short form it is, with the
// options that it then gives. The name stands at the path of the choice or at its
// key there.
func entryOf(p *registry.Point, n *tree.Node, path, at string) (named *registry.Entry, short []registry.Option, err error) {
	for i, e := range p.Entries {
		if n.Kind == tree.Scalar && !n.Quoted && n.Text == e.Name {
			return &p.Entries[i], nil, nil
		}
		if s := registry.Short(e.Type()); s != nil && at == path && named == nil && (s[0].Type.Kind() != reflect.Slice || n.Kind == tree.List) {
			named, short = &p.Entries[i], s
		}
	}
	if named == nil {
		s, err := n.Scalar("a word, " + orList(p.Names()))
		if err != nil {
			return nil, nil, tree.Fail(n, at, "%v", err)
		}
		return nil, nil, tree.Fail(n, at, "%s", notA(s, p.Kind, p.Names()))
	}
	if _, ok := parseNumber(n.Text); n.Kind == tree.Scalar && (n.Quoted || !ok) && short[0].Type.Kind() != reflect.String {
		return nil, nil, tree.Fail(n, path, "%s is neither a number nor a %s (%s)", n.Shown(), p.Kind, orList(p.Names()))
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
func (r *reader) number(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	if o.Word != "" && n.Kind == tree.Scalar && n.Text == o.Word {
		v.Set(reflect.ValueOf(o.WordIs).Convert(v.Type()))
		return nil
	}
	if word, ok := paperWords[path]; ok && n.Kind == tree.Scalar && n.Text == word.name {
		p, ok := r.task.Paper()
		if !ok {
			return tree.Fail(n, path, "the paper's tables do not have task %q (write a number)", r.task)
		}
		v.SetFloat(word.number(p))
		return nil
	}
	s, err := n.Scalar(wanted(o, v.Type()))
	if err != nil {
		return tree.Fail(n, path, "%v", err)
	}
	bad := func() error {
		want := ValueText(o, v.Type(), path)
		if o.Null {
			want += ", or null"
		}
		return tree.Fail(n, path, "%s is not %s", n.Shown(), want)
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(s)
	case n.Quoted:
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
		return tree.Fail(n, path, "%s", notA(s, strings.ReplaceAll(o.Key, "_", " "), o.Words))
	}
	own := *o
	own.Null, own.Word = o.Null && v.Kind() == reflect.String, "" // a zero that is written out is not the word that stands for it
	var wrong *registry.OptionError
	if errors.As(own.Check(v), &wrong) {
		return tree.Fail(n, path, "%s", wrong.Problem)
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
	near, known := nearest.Word(last, beside), orList(beside)
	if !strings.Contains(path, "[") {
		var paths []string
		elsewhere := ""
		for _, k := range KnownKeys() {
			if group, _, ok := strings.Cut(k.Key, "."); ok && !slices.Contains(paths, group) {
				paths = append(paths, group)
			}
			paths = append(paths, k.Key)
		}
		near, known = nearest.Word(path, paths), "fedpace help configuration lists all"
		for _, k := range paths {
			often := k == "stop."+last || k == "schedule."+last // most often meant
			if often || elsewhere == "" && strings.HasSuffix(k, "."+last) {
				elsewhere = k
			}
		}
		near = cmp.Or(near, elsewhere)
	}
	if near != "" {
		known = fmt.Sprintf("did you mean %q?", near)
	}
	return "unknown key (" + known + ")"
}
