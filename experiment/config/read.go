package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"fedpace/internal/registry"
)

// reader reads values into tagged structs (see package registry). Its errors are
// [*KeyError] with a place.
type reader struct {
	task Task // whose numbers of the paper's tables are meant

	// missing holds the required options that are not set yet, by path, with what
	// they are for. A later source may still set them.
	missing map[string]string
	order   []string // of the paths in missing
}

// need notes that an option must be set.
func (r *reader) need(path, problem string) {
	if r.missing == nil {
		r.missing = map[string]string{}
	}
	r.missing[path] = problem
	r.order = append(r.order, path)
}

// forget takes back what is missing at a path and below.
func (r *reader) forget(path string) {
	for p := range r.missing {
		if rest, ok := strings.CutPrefix(p, path); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
			delete(r.missing, p)
		}
	}
}

// firstMissing is the error about the first option that must be set and is not.
func (r *reader) firstMissing() error {
	for _, path := range r.order {
		if problem, ok := r.missing[path]; ok {
			return &KeyError{Key: path, Problem: problem}
		}
	}
	return nil
}

// begin gives the options of a struct their defaults and notes which are
// required. name is what needs them: an entry, or "" for any other struct.
func (r *reader) begin(v reflect.Value, path, name string) {
	for _, o := range registry.Options(v.Type()) {
		f, at := v.FieldByIndex(o.Index), join(path, o.Key)
		switch {
		case o.Optional:
			r.standard(&o, f)
		case f.Kind() == reflect.Struct:
			r.begin(f, at, "")
		default:
			problem := "is not set (" + o.Help + ")"
			if name != "" {
				problem = fmt.Sprintf("is not set: %s needs it (%s)", name, o.Help)
			}
			r.need(at, problem)
		}
	}
}

// standard gives an option its default. A default that cannot be read is the
// program's mistake.
func (r *reader) standard(o *registry.Option, v reflect.Value) {
	v.SetZero()
	if o.Default == "null" || o.Default == "" {
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

// struct_ sets the options that a map names and leaves the others.
func (r *reader) struct_(v reflect.Value, n *node, path string) error {
	options := registry.Options(v.Type())
	var beside *node // for the entry that a key of the map names
	flat := slices.IndexFunc(options, func(o registry.Option) bool { return o.Flat })
	for _, key := range n.keys {
		child := n.fields[key]
		if flat >= 0 && key != bare && (key == options[flat].Key || !slices.Contains(keysOf(options), key)) {
			if beside == nil {
				beside = &node{where: n.where, kind: mapping}
			}
			beside.set(key, child)
			continue
		}
		if key == bare {
			return fail(child, path, "this is a group of keys: %s", orList(keysOf(options)))
		}
		at := join(path, key)
		i := slices.IndexFunc(options, func(o registry.Option) bool { return o.Key == key })
		if i < 0 {
			return fail(child, at, "%s", unknownKey(at, keysOf(options)))
		}
		if err := r.value(&options[i], v.FieldByIndex(options[i].Index), child, at); err != nil {
			return err
		}
	}
	if beside == nil {
		return nil
	}
	return r.choice(&options[flat], v.FieldByIndex(options[flat].Index), beside, path)
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
		return r.record(o, v, n, path)
	case reflect.Interface:
		return r.choice(o, v, n, path)
	}
	r.forget(path)
	switch v.Kind() {
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		element := *o
		element.Null, element.Optional = false, false
		if to.Elem().Kind() == reflect.Struct {
			r.begin(to.Elem(), path, "")
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
	if n.kind != list {
		return n.instead(path, "a list")
	}
	element := *o
	element.Null, element.Optional = false, false
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if v.Index(i).Kind() == reflect.Struct {
			r.begin(v.Index(i), at, "")
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
func (r *reader) record(o *registry.Option, v reflect.Value, n *node, path string) error {
	options := registry.Options(v.Type())
	short := shortOf(v.Type())
	switch {
	case n.kind == mapping && short == nil:
		return r.struct_(v, n, path)
	case n.kind == mapping:
		v.SetZero()
		r.begin(v, path, "")
		return r.struct_(v, n, path)
	case short == nil && strings.Contains(path, "["):
		return n.instead(path, "a map of "+orList(keysOf(options)))
	case short == nil:
		return fail(n, path, "this is a group of keys: %s", orList(keysOf(options)))
	}
	v.SetZero()
	r.begin(v, path, "")
	r.forget(path)
	for _, s := range short {
		if err := r.value(&s, v.FieldByIndex(s.Index), n, path); err != nil {
			return err
		}
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
func (r *reader) choice(o *registry.Option, v reflect.Value, n *node, path string) error {
	p := registry.For(v.Type())
	if p == nil {
		panic(fmt.Sprintf("config: %s is a %v, which has no table", path, v.Type()))
	}
	if n.kind != mapping {
		return r.named(p, v, n, path, path)
	}
	named, word := n.fields[p.Word], n.fields[bare]
	switch {
	case named != nil && word != nil:
		return fail(named, join(path, p.Word), "%s", already(word))
	case word != nil:
		named = word
	case named == nil && p.Default != "" && (v.IsNil() || strings.Contains(path, "[") || !takesAll(v.Elem().Type(), n.keys)):
		named = &node{where: n.where, kind: scalar, text: p.Default, isText: true}
	case named == nil && v.IsNil():
		return fail(n, path, "a %s without its %s (%s)", p.Kind, p.Word, orList(p.Names()))
	}
	if named != nil {
		at := path
		if named == n.fields[p.Word] {
			at = join(path, p.Word)
		}
		if err := r.named(p, v, named, path, at); err != nil {
			return err
		}
	}
	name := p.NameOf(v.Interface())
	entry := reflect.New(v.Elem().Type()).Elem()
	entry.Set(v.Elem())
	options := registry.Options(entry.Type())
	for _, key := range n.keys {
		child, at := n.fields[key], join(path, key)
		if child == named && (key == bare || key == p.Word) {
			continue
		}
		i := slices.IndexFunc(options, func(o registry.Option) bool { return o.Key == key })
		if i >= 0 {
			if err := r.value(&options[i], entry.FieldByIndex(options[i].Index), child, at); err != nil {
				return err
			}
			continue
		}
		switch takers := takers(p, key); {
		case len(takers) == 0:
			return fail(child, at, "%s", unknownKey(at, append(keysOf(options), p.Word)))
		case child.kind != null:
			return fail(child, at, "%s does not take it (%s)", name, doList(takers))
		}
	}
	v.Set(entry)
	return nil
}

// named sets a fresh entry by its name, or by the short form of one entry. The
// name stands at the path of the choice or at its key there.
func (r *reader) named(p *registry.Point, v reflect.Value, n *node, path, at string) error {
	fresh := func(value any, name string) reflect.Value {
		r.forget(path)
		entry := reflect.New(reflect.TypeOf(value)).Elem()
		entry.Set(reflect.ValueOf(value))
		r.begin(entry, path, name)
		return entry
	}
	if n.kind == scalar && !n.quoted {
		if value, _, ok := p.Entry(n.text); ok {
			v.Set(fresh(value, n.text))
			return nil
		}
	}
	for _, name := range p.Names() {
		value, _, _ := p.Entry(name)
		short := shortOf(reflect.TypeOf(value))
		if short == nil || at != path {
			continue
		}
		if _, ok := parseNumber(n.text); n.kind == scalar && (n.quoted || !ok) && short[0].Type.Kind() != reflect.String {
			return fail(n, path, "%s is neither a number nor a %s (%s)", n.shown(), p.Kind, orList(p.Names()))
		}
		entry := fresh(value, name)
		for _, s := range short {
			if err := r.value(&s, entry.FieldByIndex(s.Index), n, path); err != nil {
				return err
			}
			r.forget(join(path, s.Key))
		}
		v.Set(entry)
		return nil
	}
	s, err := n.scalar("a word, " + orList(p.Names()))
	if err != nil {
		return fail(n, at, "%v", err)
	}
	return fail(n, at, "%s", notA(s, p.Kind, p.Names()))
}

// takesAll reports whether a struct has options of all these keys.
func takesAll(t reflect.Type, keys []string) bool {
	own := keysOf(registry.Options(t))
	return !slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(own, key) })
}

// takers lists the entries that have an option.
func takers(p *registry.Point, key string) []string {
	return slices.DeleteFunc(p.Names(), func(name string) bool {
		e, _, _ := p.Entry(name)
		return !slices.Contains(keysOf(registry.Options(reflect.TypeOf(e))), key)
	})
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
	want := wanted(o)
	s, err := n.scalar(want)
	if err != nil {
		return fail(n, path, "%v", err)
	}
	bad := func() error {
		limits := ""
		switch {
		case v.CanInt() && o.Ranged:
			limits = " " + o.Range.String()
		case v.CanUint():
			limits = " from 0 to 18446744073709551615"
		case o.Ranged:
			limits = " (" + strings.TrimSpace(o.Range.String()+" "+o.Unit) + ")"
		}
		for _, word := range []string{o.Word, paperWords[path].name} {
			if word != "" {
				limits += ", or " + word
			}
		}
		if o.Null {
			limits += ", or null"
		}
		return fail(n, path, "%s is not %s%s", n.shown(), want, limits)
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

// wanted is what an option may hold, in a message.
func wanted(o *registry.Option) string {
	t := o.Type
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
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
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case ".nan":
		return math.NaN(), true
	case ".inf":
		if s[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	// A number beyond float64's range is read as an infinity and refused as one.
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// unknownKey says that a key is not known, and which is near: one of those that
// stand beside it, a full path, or the same name in another group.
func unknownKey(path string, beside []string) string {
	last := path[strings.LastIndex(path, ".")+1:]
	if strings.Contains(path, "[") {
		if near := nearest(last, beside); near != "" {
			return fmt.Sprintf("unknown key (did you mean %q?)", near)
		}
		return "unknown key (" + orList(beside) + ")"
	}
	var paths []string
	for _, k := range KnownKeys() {
		if group, _, ok := strings.Cut(k.Key, "."); ok && !slices.Contains(paths, group) {
			paths = append(paths, group)
		}
		paths = append(paths, k.Key)
	}
	if near := nearest(path, paths); near != "" {
		return fmt.Sprintf("unknown key (did you mean %q?)", near)
	}
	for _, known := range paths {
		if strings.HasSuffix(known, "."+last) {
			return fmt.Sprintf("unknown key (did you mean %q?)", known)
		}
	}
	return "unknown key (fedpace help configuration lists all)"
}
