package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpace/config/tree"
	"fedpace/internal/names"
	"fedpace/registry"
)

// reader reads values into tagged structs (see package registry). Its errors are
// [*KeyError] with a place.
type reader struct {
	missing []*KeyError // required options that are not set; a later source may still set them
}

// set reads a value that must be whole.
func set[T any](target *T, n *tree.Node, path string) error {
	var r reader
	if err := r.value(&registry.Option{}, reflect.ValueOf(target).Elem(), n, path); err != nil {
		return err
	}
	if len(r.missing) > 0 {
		return r.missing[0]
	}
	return nil
}

// forget takes back what is missing at a path and below.
func (r *reader) forget(path string) {
	r.missing = slices.DeleteFunc(r.missing, func(k *KeyError) bool {
		suffix, ok := strings.CutPrefix(k.Key, path)
		return ok && (suffix == "" || strings.ContainsAny(suffix[:1], ".["))
	})
}

// begin gives the options of a struct their defaults and notes which are
// required. where is the value that begins it, name the entry that it is, "" for any
// other struct.
func (r *reader) begin(v reflect.Value, place, path, name string) {
	v.SetZero()
	for _, o := range registry.Options(v.Type()) {
		f := v.FieldByIndex(o.Index)
		optionPath := join(path, o.Key)
		switch {
		case o.Optional:
			r.standard(&o, f)
		case f.Kind() == reflect.Struct:
			r.begin(f, place, optionPath, "")
		default:
			problem := "is not set (" + o.Help + ")"
			if name != "" {
				problem = fmt.Sprintf("is not set: %s needs it (%s)", name, o.Help)
			}
			r.missing = append(r.missing, &KeyError{Place: place, Key: optionPath, Problem: problem})
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
	n := &tree.Node{
		Kind:   tree.Scalar,
		Text:   o.Default,
		IsText: v.Kind() == reflect.String || v.Kind() == reflect.Interface,
	}
	if strings.ContainsAny(o.Default[:1], "[{") {
		root, err := tree.Parse("default", []byte("x: "+o.Default))
		if err != nil {
			panic(err)
		}
		n = root.Fields["x"]
	}
	if err := new(reader).value(o, v, n, o.Key); err != nil {
		panic(fmt.Sprintf("config: default %q of %s: %v", o.Default, o.Key, err))
	}
}

// join is the path of a key below path, which is empty at the top.
func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// keysOf lists the keys of options.
func keysOf(options []registry.Option) []string {
	list := make([]string, len(options))
	for i, o := range options {
		list[i] = o.Key
	}
	return list
}

// value reads a node into a field of any kind. A null gives the default where the key has one,
// and an empty group whose keys are all commented out changes nothing.
func (r *reader) value(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	group := (v.Kind() == reflect.Struct || v.Kind() == reflect.Interface) && !strings.Contains(path, "[")
	if n.Kind == tree.Null {
		switch {
		case o.Null:
			r.forget(path)
			v.SetZero()
			return nil
		case group && n.Place != tree.SetFlag: // whose keys are all commented out
			return nil
		case o.Optional && !group, v.Kind() == reflect.Interface:
			r.forget(path)
			r.standard(o, v)
			return nil
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		if registry.Short(v.Type()) != nil && !adds(v, n) {
			r.begin(v, n.Place, path, "")
		}
		return r.options(nil, v, n, path)
	case reflect.Interface:
		return r.entry(registry.For(v.Type()), v, n, path)
	}
	r.forget(path)
	switch v.Kind() {
	case reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		if target.Elem().Kind() == reflect.Struct {
			r.begin(target.Elem(), n.Place, path, "")
		}
		v.Set(target)
		return r.value(o.Element(), target.Elem(), n, path)
	case reflect.Slice:
		return r.list(o, v, n, path)
	}
	return r.number(o, v, n, path)
}

// list reads a list into a slice. A scalar is a list of one, and a keyed list may be written
// as a map from its keys.
func (r *reader) list(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	scalar := v.Type().Elem().Kind() != reflect.Struct && v.Type().Elem().Kind() != reflect.Interface
	if scalar && n.Kind == tree.Scalar { // a list of one
		n = &tree.Node{Place: n.Place, Kind: tree.List, Items: []*tree.Node{n}}
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
	v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		if keys != nil {
			itemPath = join(path, keys[i])
		}
		if v.Index(i).Kind() == reflect.Struct {
			r.begin(v.Index(i), item.Place, itemPath, "")
		}
		if err := r.value(o.Element(), v.Index(i), item, itemPath); err != nil {
			return err
		}
	}
	if len(n.Items) == 0 {
		v.SetZero()
	}
	return nil
}

// adds reports whether a map keeps what it does not name. Where an entry's options stand
// beside those of the struct, it does if it has none but options of the entry that is set, or
// one key alone: not what a scalar gives among others, and no other entry's name.
func adds(v reflect.Value, n *tree.Node) bool {
	options := registry.Options(v.Type())
	flat := slices.IndexFunc(options, func(o registry.Option) bool { return o.Flat })
	if n.Kind != tree.Map || flat < 0 {
		return n.Kind == tree.Map
	}
	if v.FieldByIndex(options[flat].Index).IsNil() || n.Fields[registry.For(options[flat].Type).Word] != nil {
		return false
	}
	return len(n.Keys) == 1 ||
		!slices.ContainsFunc(n.Keys, func(key string) bool { return slices.Contains(keysOf(options), key) })
}

// options sets those of a struct, or of an entry of p: by a map, which keeps what it does
// not name, or by a value in the map's place, which gives the short ones.
func (r *reader) options(p *registry.Point, v reflect.Value, n *tree.Node, path string) error {
	list := registry.Options(v.Type())
	short := registry.Short(v.Type())
	switch keys := orList(keysOf(list)); {
	case n.Kind == tree.Map:
		short = nil
	case short != nil:
	case p != nil:
		return n.Instead(path, "nothing, or a map of options")
	case strings.Contains(path, "["):
		return n.Instead(path, "a map of "+keys)
	default:
		return tree.Fail(n, path, "this is a group of keys: %s", keys)
	}
	for _, o := range short {
		if err := r.value(&o, v.FieldByIndex(o.Index), n, path); err != nil {
			return err
		}
		r.forget(join(path, o.Key))
	}
	flat := slices.IndexFunc(list, func(o registry.Option) bool { return o.Flat })
	entryOptions := &tree.Node{Place: n.Place, Kind: tree.Map} // for the entry that a key of the map names
	for _, key := range n.Keys {
		child, i := n.Fields[key], slices.IndexFunc(
			list,
			func(o registry.Option) bool { return o.Key == key && !o.Flat },
		)
		var err error
		switch {
		case i >= 0:
			err = r.value(&list[i], v.FieldByIndex(list[i].Index), child, join(path, key))
		case flat >= 0 && key != tree.Bare:
			entryOptions.Set(key, child)
		default:
			err = refuse(p, v, key, child, path)
		}
		if err != nil {
			return err
		}
	}
	if entryOptions.Keys == nil {
		return nil
	}
	return r.value(&list[flat], v.FieldByIndex(list[flat].Index), entryOptions, path)
}

// refuse says what is wrong with a key that is none of a struct's, or of an entry's; nil
// where the key names the entry.
func refuse(p *registry.Point, v reflect.Value, key string, child *tree.Node, path string) error {
	keys := keysOf(registry.Options(v.Type()))
	if p == nil && key == tree.Bare {
		return tree.Fail(child, path, "this is a group of keys: %s", orList(keys))
	}
	if p != nil && p.Word != "" {
		if key == tree.Bare || key == p.Word {
			return nil
		}
		var takers []string
		for _, e := range p.Entries {
			if takesAll(e.Type(), []string{key}) {
				takers = append(takers, e.Name)
			}
		}
		if takers != nil {
			return tree.Fail(
				child,
				join(path, key),
				"%s does not take it (%s)",
				p.NameOf(v.Interface()),
				doList(takers),
			)
		}
		keys = append(keys, p.Word)
	}
	return tree.Fail(child, join(path, key), "%s", unknownKey(join(path, key), keys))
}

// entry sets the entry of a plug point: by its name or its short form, beside which its
// options may stand, or by a map of its name to its options. A map without a name adds to the
// entry that is set.
func (r *reader) entry(p *registry.Point, v reflect.Value, n *tree.Node, path string) error {
	name := namedBy
	if p.Word == "" {
		name = elementBy
	}
	w, err := name(p, v, n, path)
	if err != nil {
		return err
	}
	var entry reflect.Value
	if w.entry == nil {
		entry = reflect.New(v.Elem().Type()).Elem()
		entry.Set(v.Elem())
	} else {
		entry = reflect.New(w.entry.Type()).Elem()
		r.forget(w.path)
		r.begin(entry, w.place, w.path, w.entry.Name)
	}
	for _, part := range w.options {
		if err := r.options(p, entry, part, w.path); err != nil {
			return err
		}
	}
	v.Set(entry)
	return nil
}

// written is an entry as a value gives it.
type written struct {
	entry   *registry.Entry // nil: the one that is set
	place   string
	path    string       // of its options
	options []*tree.Node // maps, or the value in place of one
}

// namedBy reads a value that is the entry's name, its short form, or a map with its name and
// options.
func namedBy(p *registry.Point, v reflect.Value, n *tree.Node, path string) (w written, err error) {
	w.place = n.Place
	w.path = path
	// the value that names the entry
	named := n
	namePath := path
	if n.Kind == tree.Map {
		word := n.Fields[p.Word]
		named = n.Fields[tree.Bare]
		switch {
		case named != nil && word != nil:
			return w, tree.Fail(word, join(path, p.Word), "%s", tree.Already(named))
		case word != nil:
			named = word
			namePath = join(path, p.Word)
		case named != nil:
		case p.Default != "" &&
			(v.IsNil() || strings.Contains(path, "[") || !takesAll(v.Elem().Type(), n.Keys)):
			named = tree.Word(p.Default)
			named.Place = n.Place
		case v.IsNil():
			return w, tree.Fail(n, path, "a %s without its %s (%s)", p.Kind, p.Word, orList(p.Names()))
		}
	}
	if named != nil {
		short := false
		if w.entry, short, err = entryOf(p, named, path, namePath); err != nil {
			return w, err
		}
		if short {
			w.options = append(w.options, named)
		}
	}
	if n.Kind == tree.Map {
		w.options = append(w.options, n)
	}
	return w, nil
}

// elementBy reads a value of a list of entries: a name, or a map of it to its options or their
// short form.
func elementBy(p *registry.Point, _ reflect.Value, n *tree.Node, path string) (w written, err error) {
	name := n
	if n.Kind == tree.Map {
		if len(n.Keys) != 1 {
			return w, tree.Fail(n, path, "a map of %d keys stands where a %s is wanted: one name, with its options below it, as in conv: {maps: 32, size: 3}", len(n.Keys), p.Kind)
		}
		value := n.Fields[n.Keys[0]]
		name = &tree.Node{
			Place:  value.Place,
			Kind:   tree.Scalar,
			Text:   n.Keys[0],
			IsText: true,
		}
		if value.Kind != tree.Null {
			w.options = append(w.options, value)
		}
	}
	text, err := name.Scalar("a " + p.Kind + ", " + orList(p.Names()))
	if err != nil {
		return w, tree.Fail(n, path, "%v", err)
	}
	i := slices.Index(p.Names(), text)
	if i < 0 {
		return w, tree.Fail(name, path, "%s", notEntry(text, p))
	}
	w.entry, w.place, w.path = &p.Entries[i], name.Place, join(path, text)
	return w, nil
}

// entryOf is the entry that a value names, or whose short form it is. The name stands at the
// path of the choice or at its key there.
func entryOf(p *registry.Point, n *tree.Node, path, namePath string) (named *registry.Entry, short bool, err error) {
	for i, e := range p.Entries {
		if n.Kind == tree.Scalar && n.Text == e.Name {
			return &p.Entries[i], false, nil
		}
		if s := registry.Short(e.Type()); s != nil &&
			namePath == path &&
			named == nil &&
			(s[0].Type.Kind() != reflect.Slice || n.Kind == tree.List) {
			named = &p.Entries[i]
		}
	}
	if named == nil {
		s, err := n.Scalar("a word, " + orList(p.Names()))
		switch {
		case err != nil && n.Kind == tree.Map && namePath != path:
			return nil, false, tree.Fail(
				n,
				namePath,
				"%v (its options stand beside it: %s: {%s: %s, ...})",
				err,
				path,
				p.Word,
				p.Names()[0],
			)
		case err != nil:
			return nil, false, tree.Fail(n, namePath, "%v", err)
		}
		return nil, false, tree.Fail(n, namePath, "%s", notEntry(s, p))
	}
	if _, ok := parseNumber(n.Text); n.Kind == tree.Scalar &&
		(n.Quoted || !ok) &&
		registry.Short(named.Type())[0].Type.Kind() != reflect.String {
		return nil, false, tree.Fail(
			n,
			path,
			"%s is neither a number nor a %s (%s)",
			n.Shown(),
			p.Kind,
			orList(p.Names()),
		)
	}
	return named, true, nil
}

// takesAll reports whether a struct has options of all these keys.
func takesAll(t reflect.Type, keys []string) bool {
	optionKeys := keysOf(registry.Options(t))
	return !slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(optionKeys, key) })
}

// number sets a number, a text or a flag, and holds it to the option's tags.
func (r *reader) number(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	if o.Word != "" && n.Kind == tree.Scalar && n.Text == o.Word {
		v.Set(reflect.ValueOf(o.WordIs).Convert(v.Type()))
		return nil
	}
	s, err := n.Scalar(wanted(o, v.Type()))
	if err != nil {
		return tree.Fail(n, path, "%v", err)
	}
	bad := func() error {
		want := valueText(o, v.Type())
		if _, timed := timeOf(o, "1s"); timed {
			want += ", or a time such as 1h30m"
		}
		if o.Null {
			want += ", or null"
		}
		return tree.Fail(n, path, "%s is not %s", n.Shown(), want)
	}
	spell, timed := timeOf(o, s)
	switch {
	case v.Kind() == reflect.String:
		v.SetString(s)
	case timed:
		v.SetFloat(spell)
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
	limits := *o
	// a zero that is written out is not the word that stands for it
	limits.Null = o.Null && v.Kind() == reflect.String
	limits.Word = ""
	var wrong *registry.OptionError
	if errors.As(limits.Check(v), &wrong) {
		return tree.Fail(n, path, "%s", wrong.Problem)
	}
	return nil
}

// timeOf reads a time as people write it, such as 90s, 1h30m or 2d, where an option is in
// seconds or hours.
func timeOf(o *registry.Option, text string) (float64, bool) {
	unit := map[string]float64{"seconds": 1, "hours": 3600}[o.Unit]
	if days, ok := strings.CutSuffix(text, "d"); ok && unit > 0 {
		n, ok := parseNumber(days)
		return n * 86400 / unit, ok
	}
	d, err := time.ParseDuration(text)
	return d.Seconds() / unit, err == nil && unit > 0 && text != "0"
}

// parseNumber reads a decimal number; YAML's infinities and NaN are read, so
// that the limits can refuse them by name.
func parseNumber(s string) (float64, bool) {
	s = strings.ToLower(s)
	switch strings.TrimLeft(s, "+-") {
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
func unknownKey(path string, siblings []string) string {
	last := path[strings.LastIndex(path, ".")+1:]
	near := names.Nearest(last, siblings)
	hint := orList(siblings)
	if !strings.Contains(path, "[") {
		var paths []string
		elsewhere := ""
		for _, k := range KnownKeys() {
			if group, _, ok := strings.Cut(k.Name, "."); ok && !slices.Contains(paths, group) {
				paths = append(paths, group)
			}
			paths = append(paths, k.Name)
			if k.Point != nil {
				paths = append(paths, join(k.optionsPath(), k.Point.Word))
			}
		}
		near = names.Nearest(path, paths)
		hint = "fedpace help configuration lists all"
		for _, k := range paths {
			often := k == "stop."+last || k == "schedule."+last // most often meant
			if often || elsewhere == "" && strings.HasSuffix(k, "."+last) {
				elsewhere = k
			}
		}
		near = cmp.Or(near, elsewhere)
		if common := names.CommonKey(path); common != "" {
			near = common
		} else if path == last { // a key without its group
			near = cmp.Or(elsewhere, near)
		}
	}
	if near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return "unknown key (" + hint + ")"
}
