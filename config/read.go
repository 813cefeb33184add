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

// reader reads the nodes of a YAML tree into tagged structs (see package registry). Its errors are
// [*KeyError] with the place of the wrong value.
type reader struct {
	// missing are the required options that no source has set so far. A later source may still set
	// them, so they are errors only at the end.
	missing []*KeyError
}

// readInto reads a node into a value that no later source completes: a required option that it lacks is
// an error at once. path is that of the value, for messages.
func readInto[T any](target *T, n *tree.Node, path string) error {
	// A reader of its own has nothing missing from other sources.
	var r reader
	if err := r.readValue(&registry.Option{}, reflect.ValueOf(target).Elem(), n, path); err != nil {
		return err
	}
	if len(r.missing) > 0 {
		return r.missing[0]
	}
	return nil
}

// clearMissing removes the option at a path, and all options within it, from those that are missing. It
// is called when a source sets the option.
func (r *reader) clearMissing(path string) {
	r.missing = slices.DeleteFunc(r.missing, func(k *KeyError) bool {
		suffix, ok := strings.CutPrefix(k.Key, path)
		// A key that only begins with the same letters, such as k and k0, is another key.
		return ok && (suffix == "" || strings.ContainsAny(suffix[:1], ".["))
	})
}

// setDefaults gives all options of the struct v their defaults, whatever they were, and notes those without a
// default as missing. place and path say where the struct stands, for messages. name is the registered entry,
// such as an optimizer, whose options the struct holds, or empty for any other struct.
func (r *reader) setDefaults(v reflect.Value, place, path, name string) {
	v.SetZero()
	for _, o := range registry.Options(v.Type()) {
		// Each option is either given its default, or noted until a source sets it.
		f := v.FieldByIndex(o.Index)
		optionPath := join(path, o.Key)
		switch {
		case o.Optional:
			r.readDefault(&o, f)
		// A group has no default of its own; its keys have theirs.
		case f.Kind() == reflect.Struct:
			r.setDefaults(f, place, optionPath, "")
		default:
			problem := "is not set (" + o.Help + ")"
			if name != "" {
				problem = fmt.Sprintf("is not set: %s needs it (%s)", name, o.Help)
			}
			r.missing = append(r.missing, &KeyError{Place: place, Key: optionPath, Problem: problem})
		}
	}
}

// readDefault sets an option to its default, whose text is read like a value of a file. A default that
// cannot be read is a mistake of this program, so it panics.
func (r *reader) readDefault(o *registry.Option, v reflect.Value) {
	v.SetZero()
	switch {
	// An empty default gives a struct the defaults of its keys.
	case o.Default == "" && v.Kind() == reflect.Struct:
		r.setDefaults(v, "", o.Key, "")
		return
	case o.Default == "null" || o.Default == "":
		return
	}
	// The tag holds the default as text, which stands for text alone or for the name of an entry.
	n := &tree.Node{
		Kind:   tree.Scalar,
		Text:   o.Default,
		IsText: v.Kind() == reflect.String || v.Kind() == reflect.Interface,
	}
	// Lists and maps are written in YAML and must be parsed.
	if strings.ContainsAny(o.Default[:1], "[{") {
		root, err := tree.Parse("default", []byte("x: "+o.Default))
		if err != nil {
			panic(err)
		}
		n = root.Fields["x"]
	}
	if err := new(reader).readValue(o, v, n, o.Key); err != nil {
		panic(fmt.Sprintf("config: default %q of %s: %v", o.Default, o.Key, err))
	}
}

// join returns the path of a key within the value at path. The path is empty at the top of a
// configuration.
func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// keysOf returns the keys of some options of a struct, in their order, as messages and comparisons
// need them.
func keysOf(options []registry.Option) []string {
	list := make([]string, len(options))
	for i, o := range options {
		list[i] = o.Key
	}
	return list
}

// readValue reads a node into the field v of the option o, whatever its kind. A null gives the option
// its default where it has one. A group that is null, as when all of its keys are commented out,
// keeps its values. path is that of the field, for messages. v holds what an earlier source, such as the file before
// a --set, has given it.
func (r *reader) readValue(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	// A group is a struct or choice that stands in every configuration, so it has values to keep. An element of a
	// list, whose path has a bracket, has none.
	isStructured := v.Kind() == reflect.Struct || v.Kind() == reflect.Interface
	isGroup := isStructured && !strings.Contains(path, "[")
	// A null means that the option is not set, unless it may be null itself.
	if n.Kind == tree.Null {
		switch {
		case o.Null:
			r.clearMissing(path)
			v.SetZero()
			return nil
		// All keys of the group are commented out in the file. A null of --set is meant.
		case isGroup && n.Place != tree.SetFlag:
			return nil
		case o.Optional && !isGroup, v.Kind() == reflect.Interface:
			r.clearMissing(path)
			r.readDefault(o, v)
			return nil
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		// A scalar, or a map that sets the whole struct, starts from the defaults rather than from
		// an earlier source's values.
		if registry.Short(v.Type()) != nil && !mergesInto(v, n) {
			r.setDefaults(v, n.Place, path, "")
		}
		return r.readOptions(nil, v, n, path)
	case reflect.Interface:
		return r.readEntry(registry.For(v.Type()), v, n, path)
	}
	// The remaining kinds are set whole, so nothing in them can be missing from before.
	r.clearMissing(path)
	switch v.Kind() {
	case reflect.Pointer:
		// A pointer is set to a new value, so that no other configuration shares it.
		target := reflect.New(v.Type().Elem())
		if target.Elem().Kind() == reflect.Struct {
			r.setDefaults(target.Elem(), n.Place, path, "")
		}
		v.Set(target)
		return r.readValue(o.Element(), target.Elem(), n, path)
	case reflect.Slice:
		return r.readList(o, v, n, path)
	}
	return r.readScalar(o, v, n, path)
}

// readList reads a node of YAML into a slice, the field of option o, and drops the elements that it had. path
// is that of the option. Three forms are read:
//   - a list;
//   - a scalar, as a list of one element, where elements are scalars;
//   - for a keyed option, such as devices.names, a map from the first option of each element to its second.
//     If the option is merged, too, elements stay whose keys the map does not have.
func (r *reader) readList(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	elementKind := v.Type().Elem().Kind()
	hasScalars := elementKind != reflect.Struct && elementKind != reflect.Interface
	// A scalar in place of the list is its only element.
	if hasScalars && n.Kind == tree.Scalar {
		n = &tree.Node{Place: n.Place, Kind: tree.List, Items: []*tree.Node{n}}
	}
	var keys []string
	switch {
	case o.Keyed && n.Kind == tree.Map:
		// The elements are structs of two options: an id, and what belongs to it.
		pair := registry.Options(v.Type().Elem())
		keys = n.Keys
		n = n.Pairs(pair[0].Key, pair[1].Key)
	case o.Keyed && n.Kind != tree.List:
		return n.WrongKind(path, "a list or a map")
	case n.Kind != tree.List:
		return n.WrongKind(path, "a list")
	}
	var earlier reflect.Value
	if o.Merged && keys != nil {
		earlier = withoutKeys(v, keys)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		// Messages name an element by its key where it has one, and by its index where it has not.
		if keys != nil {
			itemPath = join(path, keys[i])
		}
		if v.Index(i).Kind() == reflect.Struct {
			r.setDefaults(v.Index(i), item.Place, itemPath, "")
		}
		if err := r.readValue(o.Element(), v.Index(i), item, itemPath); err != nil {
			return err
		}
	}
	if earlier.IsValid() {
		v.Set(reflect.AppendSlice(earlier, v))
		// Merged lists have elements of this one type (see withoutKeys). They are sorted by their keys, whose order
		// says nothing, so that configurations that say the same are equal.
		slices.SortFunc(v.Interface().([]RunValue), func(a, b RunValue) int { return cmp.Compare(a.Key, b.Key) })
	}
	// An empty list is nil, so that configurations that say the same are equal.
	if v.Len() == 0 {
		v.SetZero()
	}
	return nil
}

// withoutKeys returns the elements of the merged list v whose keys are not among keys: those that a later source
// leaves as they are. v itself stays unchanged. The only option whose lists are merged is an app's run config.
func withoutKeys(v reflect.Value, keys []string) reflect.Value {
	list := slices.Clone(v.Interface().([]RunValue))
	list = slices.DeleteFunc(list, func(r RunValue) bool { return slices.Contains(keys, r.Key) })
	return reflect.ValueOf(list)
}

// mergesInto reports whether the value n is to be merged into the struct v, whose other keys then stay as they are.
// If not, n replaces the whole struct. A value that is no map always replaces it, and a map is merged, with
// one exception.
//
// The exception is a struct with a flat option: the options of the entry that it chooses stand among the struct's
// own keys, as in `data: {reader: own, path: x, columns: y}`, where columns is an option of the reader own. A map
// may describe such a struct anew or change a part of it. It changes a part if it does not choose an entry, and
// either it has a single key, as `--set data.columns=z` makes it, or none of its keys is one of the struct's own. So
// after `data: x` in a file, `--set data.columns=z` keeps the path x.
func mergesInto(v reflect.Value, n *tree.Node) bool {
	options := registry.Options(v.Type())
	flat := slices.IndexFunc(options, func(o registry.Option) bool { return o.Flat })
	if n.Kind != tree.Map || flat < 0 {
		return n.Kind == tree.Map
	}
	if n.Fields[registry.For(options[flat].Type).Word] != nil {
		return false
	}
	// A map of several keys, one of which is the struct's own, describes the whole struct.
	structKeys := keysOf(options)
	isOfStruct := func(key string) bool { return slices.Contains(structKeys, key) }
	return len(n.Keys) == 1 || !slices.ContainsFunc(n.Keys, isOfStruct)
}

// readOptions sets options of the struct v by a node of YAML. path is that of the struct. A map sets the
// options that it names and keeps the rest; for any other value see readShort. The struct may be an entry of
// the plug point p, such as one closing rule; p is nil for other structs.
//
// An option of the struct may be flat: it chooses an entry of a plug point, whose own options then stand in
// the same map as those of the struct.
func (r *reader) readOptions(p *registry.Point, v reflect.Value, n *tree.Node, path string) error {
	list := registry.Options(v.Type())
	if n.Kind != tree.Map {
		return r.readShort(p, v, n, path)
	}
	flat := slices.IndexFunc(list, func(o registry.Option) bool { return o.Flat })
	// Keys that are no options of the struct belong to the entry that its flat option holds. They
	// are collected and read together, because one of them may name the entry.
	entryOptions := &tree.Node{Place: n.Place, Kind: tree.Map}
	for _, key := range n.Keys {
		child := n.Fields[key]
		i := slices.IndexFunc(list, func(o registry.Option) bool { return o.Key == key && !o.Flat })
		var err error
		switch {
		case i >= 0:
			err = r.readValue(&list[i], v.FieldByIndex(list[i].Index), child, join(path, key))
		case flat >= 0 && key != tree.Bare:
			entryOptions.Set(key, child)
		default:
			err = unknownOption(p, v, key, child, path)
		}
		if err != nil {
			return err
		}
	}
	if entryOptions.Keys == nil {
		return nil
	}
	return r.readValue(&list[flat], v.FieldByIndex(list[flat].Index), entryOptions, path)
}

// readShort sets the struct v from a node that is no map: all options of the struct that are marked short
// take its value, as in `trainer: COMMAND` for `trainer: {command: COMMAND}`. It is an error if the struct
// has no short options. p is the plug point of which the struct is an entry, nil for other structs.
func (r *reader) readShort(p *registry.Point, v reflect.Value, n *tree.Node, path string) error {
	short := registry.Short(v.Type())
	keys := orList(keysOf(registry.Options(v.Type())))
	switch {
	case short != nil:
	case p != nil:
		return n.WrongKind(path, "nothing, or a map of options")
	case strings.Contains(path, "["):
		return n.WrongKind(path, "a map of "+keys)
	default:
		return tree.Fail(n, path, "this is a group of keys: %s", keys)
	}
	for _, o := range short {
		if err := r.readValue(&o, v.FieldByIndex(o.Index), n, path); err != nil {
			return err
		}
		r.clearMissing(join(path, o.Key))
	}
	return nil
}

// unknownOption returns the error about a key that is none of the options of the struct v. child is the key's value,
// and path is the path of v. If v is an entry of the plug point p, such as one closing rule, the error tells which
// other entries take the key; otherwise, p being nil, or where none does, it proposes keys.
//
// It returns nil for the two keys that name an entry and have been read before: the plug point's own word, as in
// close: {rule: deadline}, and tree.Bare, which stands for a value beside keys, as in close: deadline with
// close.seconds: 60.
func unknownOption(p *registry.Point, v reflect.Value, key string, child *tree.Node, path string) error {
	keys := keysOf(registry.Options(v.Type()))
	// Only an entry has a name that could stand without a key.
	if p == nil && key == tree.Bare {
		return tree.Fail(child, path, "this is a group of keys: %s", orList(keys))
	}
	if p != nil && p.Word != "" {
		if key == tree.Bare || key == p.Word {
			return nil
		}
		var entriesWithKey []string
		for _, e := range p.Entries {
			// Another entry of the plug point may take the key: the wrong one may have been chosen.
			if hasOptions(e.Type(), []string{key}) {
				entriesWithKey = append(entriesWithKey, e.Name)
			}
		}
		if entriesWithKey != nil {
			return tree.Fail(
				child,
				join(path, key),
				"%s does not take it (%s)",
				p.NameOf(v.Interface()),
				doList(entriesWithKey),
			)
		}
		keys = append(keys, p.Word)
	}
	return tree.Fail(child, join(path, key), "%s", unknownKey(join(path, key), keys))
}

// readEntry sets v, the field of a choice such as close, to the entry of the plug point p that a node of YAML
// describes: by the entry's name (`close: all`), by its short form, or by a map of the name and the options
// (`close: {rule: deadline, seconds: 60}`). A map without a name changes options of the entry that v holds
// already.
func (r *reader) readEntry(p *registry.Point, v reflect.Value, n *tree.Node, path string) error {
	// Entries of lists, such as layers, have no word for their name: it is the only key of their
	// map.
	parse := parseNamedEntry
	isListElement := p.Word == ""
	if isListElement {
		parse = parseListEntry
	}
	spec, err := parse(p, v, n, path)
	if err != nil {
		return err
	}
	var entry reflect.Value
	// The entry may be shared with the defaults, so a copy is changed.
	if spec.entry == nil {
		entry = reflect.New(v.Elem().Type()).Elem()
		entry.Set(v.Elem())
	} else {
		entry = reflect.New(spec.entry.Type()).Elem()
		// A new entry has its own options, so what the earlier one lacked is no longer missing.
		r.clearMissing(spec.path)
		r.setDefaults(entry, spec.place, spec.path, spec.entry.Name)
	}
	// Options are set on top of the defaults, or of the options that were set before.
	for _, part := range spec.options {
		if err := r.readOptions(p, entry, part, spec.path); err != nil {
			return err
		}
	}
	v.Set(entry)
	return nil
}

// entrySpec is an entry of a plug point as a node of the tree describes it.
type entrySpec struct {
	// entry is the entry that the node names. It is nil if the node names none and so changes the
	// one that is set.
	entry *registry.Entry
	// place is the file and line of the node, for messages.
	place string
	// path is that of the entry's options.
	path string
	// options are read into the entry one after the other. Each is a map of options, or the value
	// of the short options.
	options []*tree.Node
}

// parseNamedEntry finds out which entry of plug point p node n describes, and which parts of n hold its
// options. It is for plug points that have a word for the name, such as close with its word rule:
// {rule: deadline, seconds: 60}. The node may also be the name alone or a short form. v is the
// choice as it is set so far, and path that of the choice.
func parseNamedEntry(p *registry.Point, v reflect.Value, n *tree.Node, path string) (spec entrySpec, err error) {
	spec.place = n.Place
	spec.path = path
	// named is the part of the node that names the entry, and stands at namePath.
	named := n
	namePath := path
	// A map names its entry under the word of the plug point, or by a bare name beside the options.
	if n.Kind == tree.Map {
		word := n.Fields[p.Word]
		named = n.Fields[tree.Bare]
		// An element of a list is always new, so there is no entry to which its map could add options.
		isSet := !v.IsNil() && !strings.Contains(path, "[")
		canAdd := isSet && hasOptions(v.Elem().Type(), n.Keys)
		switch {
		case named != nil && word != nil:
			return spec, tree.Fail(word, join(path, p.Word), "%s", tree.AlreadySet(named))
		case word != nil:
			named = word
			namePath = join(path, p.Word)
		case named != nil:
		// A map without a name means the default entry where nothing is set to which it could add.
		case p.Default != "" && !canAdd:
			named = tree.Word(p.Default)
			named.Place = n.Place
		case v.IsNil():
			return spec, tree.Fail(n, path, "a %s without its %s (%s)", p.Kind, p.Word, orList(p.Names()))
		}
	}
	// Without a name, the options change the entry that is set already.
	if named != nil {
		isShort := false
		spec.entry, isShort, err = findEntry(p, named, path, namePath)
		if err != nil {
			return spec, err
		}
		if isShort {
			spec.options = append(spec.options, named)
		}
	}
	if n.Kind == tree.Map {
		spec.options = append(spec.options, n)
	}
	return spec, nil
}

// parseListEntry reads a node that describes an entry in a list of entries, such as a layer: the name
// alone, or a map of the name to the options or their short form. Such a map has one key.
func parseListEntry(p *registry.Point, _ reflect.Value, n *tree.Node, path string) (spec entrySpec, err error) {
	name := n
	if n.Kind == tree.Map {
		if len(n.Keys) != 1 {
			return spec, tree.Fail(n, path, "a map of %d keys stands where a %s is wanted: one name, with its options "+
				"below it, as in conv: {maps: 32, size: 3}", len(n.Keys), p.Kind)
		}
		// The key of the map is the name, and its value the options; null sets none.
		value := n.Fields[n.Keys[0]]
		name = &tree.Node{
			Place:  value.Place,
			Kind:   tree.Scalar,
			Text:   n.Keys[0],
			IsText: true,
		}
		if value.Kind != tree.Null {
			spec.options = append(spec.options, value)
		}
	}
	text, err := name.Scalar("a " + p.Kind + ", " + orList(p.Names()))
	if err != nil {
		return spec, tree.Fail(n, path, "%v", err)
	}
	i := slices.Index(p.Names(), text)
	if i < 0 {
		return spec, tree.Fail(name, path, "%s", notEntry(text, p))
	}
	spec.entry = &p.Entries[i]
	spec.place = name.Place
	spec.path = join(path, text)
	return spec, nil
}

// findEntry returns the entry of p that a node names, or whose short form it is; isShort is true for a short
// form. path is that of the choice, and namePath where the name stands: the same, or the key of the
// choice's map that holds it. A short form can stand only at the path itself.
func findEntry(
	p *registry.Point,
	n *tree.Node,
	path, namePath string,
) (named *registry.Entry, isShort bool, err error) {
	// A name takes precedence over every short form. Of the short forms, the first that can take
	// this kind of node is chosen.
	for i, e := range p.Entries {
		if n.Kind == tree.Scalar && n.Text == e.Name {
			return &p.Entries[i], false, nil
		}
		shortForm := registry.Short(e.Type())
		if shortForm == nil || named != nil || namePath != path {
			continue
		}
		takesList := shortForm[0].Type.Kind() == reflect.Slice
		if !takesList || n.Kind == tree.List {
			named = &p.Entries[i]
		}
	}
	// There is no short form to take the node, so it must be a name that is wrong.
	if named == nil {
		s, err := n.Scalar("a word, " + orList(p.Names()))
		switch {
		// A map in place of the name suggests that the user nested the options too deeply.
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
	// The short form takes numbers, and this word is neither one nor a name.
	_, isNumber := parseNumber(n.Text)
	isWord := n.Kind == tree.Scalar && (n.Quoted || !isNumber)
	takesText := registry.Short(named.Type())[0].Type.Kind() == reflect.String
	if isWord && !takesText {
		return nil, false, tree.Fail(
			n,
			path,
			"%s is neither a number nor a %s (%s)",
			n.QuotedText(),
			p.Kind,
			orList(p.Names()),
		)
	}
	return named, true, nil
}

// hasOptions reports whether the struct type t has an option for each of the keys.
func hasOptions(t reflect.Type, keys []string) bool {
	optionKeys := keysOf(registry.Options(t))
	return !slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(optionKeys, key) })
}

// readScalar sets v, a number, a text, or true or false, to the scalar of a node, and checks it against
// the range and the words of the option o. A number of seconds or hours may be written as a time
// such as 1h30m.
func (r *reader) readScalar(o *registry.Option, v reflect.Value, n *tree.Node, path string) error {
	// The option's word stands for a number, such as all for -1, which has no other spelling.
	if o.Word != "" && n.Kind == tree.Scalar && n.Text == o.Word {
		v.Set(reflect.ValueOf(o.WordIs).Convert(v.Type()))
		return nil
	}
	s, err := n.Scalar(kindText(o, v.Type()))
	if err != nil {
		return tree.Fail(n, path, "%v", err)
	}
	// wrongKind returns the error of a value that cannot be read as one of this kind.
	wrongKind := func() error {
		want := valueText(o, v.Type())
		if takesTimes(o) {
			want += ", or a time such as 1h30m"
		}
		if o.Null {
			want += ", or null"
		}
		return tree.Fail(n, path, "%s is not %s", n.QuotedText(), want)
	}
	amount, isTime := timeOf(o, s)
	switch {
	case v.Kind() == reflect.String:
		v.SetString(s)
	case isTime:
		v.SetFloat(amount)
	// A quoted value is text, which no other kind takes.
	case n.Quoted:
		return wrongKind()
	case v.Kind() == reflect.Bool:
		if !strings.EqualFold(s, "true") && !strings.EqualFold(s, "false") {
			return wrongKind()
		}
		v.SetBool(strings.EqualFold(s, "true"))
	case v.CanInt():
		x, err := strconv.Atoi(s)
		if err != nil {
			return wrongKind()
		}
		v.SetInt(int64(x))
	case v.CanUint():
		x, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return wrongKind()
		}
		v.SetUint(x)
	default:
		x, ok := parseNumber(s)
		if !ok {
			return wrongKind()
		}
		v.SetFloat(x)
	}
	if o.Words != nil && !slices.Contains(o.Words, s) {
		return tree.Fail(n, path, "%s", notA(s, strings.ReplaceAll(o.Key, "_", " "), o.Words))
	}
	// In memory, 0 may stand for null, and a number for the option's word. Option.Check allows these values, but a
	// number that is written out must be within the range: so it is checked as that of an option without null and
	// word. An empty text is written for null and stays allowed.
	limits := *o
	limits.Null = o.Null && v.Kind() == reflect.String
	limits.Word = ""
	var outOfRange *registry.OptionError
	if errors.As(limits.Check(v), &outOfRange) {
		return tree.Fail(n, path, "%s", outOfRange.Problem)
	}
	return nil
}

// secondsOf has the units of options whose values may be written as times, with their lengths in seconds.
var secondsOf = map[string]float64{"seconds": 1, "hours": 3600}

// takesTimes reports whether the values of an option may be written as times, such as 1h30m.
func takesTimes(o *registry.Option) bool { return secondsOf[o.Unit] > 0 }

// timeOf converts a time as people write it, such as 90s, 1h30m or 2d, to the unit of the option o, seconds or
// hours. isTime is false for an option in another unit, and for a text that is no time.
func timeOf(o *registry.Option, text string) (amount float64, isTime bool) {
	if !takesTimes(o) {
		return 0, false
	}
	unitSeconds := secondsOf[o.Unit]
	// The standard library knows no days.
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, ok := parseNumber(days)
		return n * 86400 / unitSeconds, ok
	}
	// A plain 0 is a duration for the library, but a number here.
	d, err := time.ParseDuration(text)
	return d.Seconds() / unitSeconds, err == nil && text != "0"
}

// parseNumber reads a decimal number. YAML's infinities and NaN are read, too, so that the range of
// an option can refuse them by name. The result is false for any other text.
func parseNumber(s string) (float64, bool) {
	s = strings.ToLower(s)
	switch strings.TrimLeft(s, "+-") {
	case ".nan", ".inf":
		s = strings.Replace(s, ".", "", 1)
	// ParseFloat also takes hexadecimal numbers, and words such as inf and nan, which are no
	// numbers in YAML.
	default:
		if strings.Trim(s, "+-.0123456789e") != "" {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	// A number beyond float64's range is read as an infinity and refused as one.
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// unknownKey returns the problem of a key that does not exist, with a proposal of one that does, if one is
// near, or else with a list of keys. path is that of the key, and siblings are the keys of its group.
func unknownKey(path string, siblings []string) string {
	last := path[strings.LastIndex(path, ".")+1:]
	nearest := nearestKey(path, last)
	hint := "fedpace help configuration lists all"
	// Elements of a list have no full paths to compare with: only the siblings are near.
	isInList := strings.Contains(path, "[")
	if isInList {
		nearest = names.Nearest(last, siblings)
		hint = orList(siblings)
	}
	if nearest != "" {
		hint = fmt.Sprintf("did you mean %q?", nearest)
	}
	return "unknown key (" + hint + ")"
}

// nearestKey returns the key of the configuration that a user most likely means by a path that is none:
// one that other programs call so, one that is spelt like it, or one of the same name in another group. last
// is the part of the path behind its last dot. It is empty if no key is near.
func nearestKey(path, last string) string {
	if known := names.CommonKey(path); known != "" {
		return known
	}
	var paths []string
	for _, k := range KnownKeys() {
		if group, _, ok := strings.Cut(k.Name, "."); ok && !slices.Contains(paths, group) {
			paths = append(paths, group)
		}
		paths = append(paths, k.Name)
		if k.Point != nil {
			paths = append(paths, join(k.optionsPath(), k.Point.Word))
		}
	}
	elsewhere := ""
	for _, k := range paths {
		// Of several groups with such a key, stop and schedule are those most often meant.
		isUsual := k == "stop."+last || k == "schedule."+last
		if isUsual || elsewhere == "" && strings.HasSuffix(k, "."+last) {
			elsewhere = k
		}
	}
	nearest := names.Nearest(path, paths)
	// Where the user left out the group, the same name elsewhere is the better guess.
	leftOutGroup := path == last
	if leftOutGroup {
		return cmp.Or(elsewhere, nearest)
	}
	return cmp.Or(nearest, elsewhere)
}
