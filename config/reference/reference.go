package reference

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"fedpace/config"
	"fedpace/registry"
)

// Page returns docs/configuration.md: every key with its default, its values and its help, and
// the entries of every plug point. Keys and options that several have alike are explained once.
func Page() []byte {
	r := page{maps: map[reflect.Type]string{}}
	r.WriteString(`# Configuration

Every key of a configuration file and of ` + "`--set KEY=VALUE`" + `, as ` + "`fedpace config reference`" + ` writes
it. Behind a key's colon is its default; without one it is null, or (task) the task's own, from the
paper's Tables 1 and 2. ` + "`fedpace run --dry-run`" + ` prints the values in use, ` + "`fedpace help KEY`" + ` says
what one is, and ` + "`fedpace config schema`" + ` lets an editor complete and check a file. ` + "`1..9`" + ` is 1 to 9,
` + "`>0..9`" + ` above 0, ` + "`0..<9`" + ` below 9. Seconds and hours may be written as ` + "`90s`, `10m`, `1h30m` or `2d`" + `.
What is chosen by a name has its options beside it: ` + "`aggregate: {algorithm: fedprox, mu: 0.1}`" + `.
`)
	for _, o := range registry.Options(reflect.TypeFor[config.Config]()) {
		if o.Type.Kind() == reflect.Struct && o.Help == "" {
			r.maps[o.Type] = o.Key
		}
	}
	keys := config.KeysOf("", reflect.TypeFor[config.Config](), false)
	count := map[string]int{}
	for _, k := range keys {
		count[group(&k)]++
	}
	section := func(k *config.Key) string {
		if name := group(k); count[name] >= 7 {
			return "`" + name + "`"
		}
		return "General" // as the first key's is
	}
	for len(keys) > 0 {
		title := section(&keys[0])
		r.table(title, "key")
		r.rows(slices.DeleteFunc(slices.Clone(keys), func(k config.Key) bool { return section(&k) != title }))
		keys = slices.DeleteFunc(keys, func(k config.Key) bool { return section(&k) == title })
	}
	for i := 0; i < len(r.points); i++ { // which grows
		r.entries(&r.points[i])
	}
	return []byte(r.String())
}

// entries describes those of a key's plug point.
func (r *page) entries(k *config.Key) {
	first := "`" + k.Point.Word + "` or option"
	if k.Point.Word == "" {
		first = "name or option"
	}
	r.table(heading(k), first)
	explained := map[string]bool{}
	for _, e := range k.Point.Entries {
		var unexplained []config.Key
		also := ""
		for _, o := range config.KeysOf("", e.Type(), true) {
			if row := r.row(&o); explained[row] {
				also += ", `" + o.Name + "`"
			} else {
				explained[row] = true
				unexplained = append(unexplained, o)
			}
		}
		fmt.Fprintf(r, "**`%s`** | | %s%s\n", e.Name, escape(e.Help), strings.Replace(also, ", ", "; also ", 1))
		r.rows(unexplained)
	}
}

// group is the first part of a key's name.
func group(k *config.Key) string {
	first, _, _ := strings.Cut(k.Name, ".")
	return strings.TrimSuffix(first, "[]")
}

// page is the text so far, with the keys whose plug points it must list.
type page struct {
	strings.Builder
	points []config.Key
	maps   map[reflect.Type]string // the first key whose value has the keys of a struct
}

// heading titles the options of an entry of a plug point.
func heading(k *config.Key) string {
	kind := k.Point.Kind
	return fmt.Sprintf("%s: `%s`", strings.ToUpper(kind[:1])+kind[1:], k.Name)
}

// table begins a table of keys under a heading.
func (r *page) table(heading, first string) {
	fmt.Fprintf(r, "\n## %s\n\n%s | value | meaning\n---|---|---\n", heading, first)
}

// rows describes keys, the keys of a struct that another key has, too, in its row.
func (r *page) rows(keys []config.Key) {
	below := "\n" // no key's beginning
	for _, k := range keys {
		if strings.HasPrefix(k.Name, below) {
			continue
		}
		t := k.Type
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if first := r.maps[t]; first != "" && first != k.Name {
			below = k.Name
			k.Help += "; keys as `" + first + "`"
		} else if t.Kind() == reflect.Struct {
			r.maps[t] = k.Name
		}
		r.WriteString(r.row(&k))
	}
}

// row describes a key: its default, its values and its meaning.
func (r *page) row(k *config.Key) string {
	value := k.Value()
	standard := "`" + k.Name + "` (task)"
	if k.Unit != "" && strings.Contains(k.Name+" "+k.Help, k.Unit) {
		value = strings.Replace(value, " "+k.Unit, "", 1) // said once
	}
	switch {
	case k.Point != nil && k.Type.Kind() == reflect.Slice:
		value += " of " + r.link(k)
	case k.Point != nil:
		value = r.link(k)
	case value == "":
		value = "map"
	}
	switch {
	case k.Default == "null":
		standard = "`" + k.Name + "`"
	case k.Optional:
		standard = fmt.Sprintf("`%s: %s`", k.Name, cmp.Or(k.Default, `""`))
	case k.Required:
		standard = "`" + k.Name + "` (required)"
	}
	return fmt.Sprintf("%s | %s | %s\n", standard, short(escape(value)), escape(k.Help))
}

// link leads to the list of a plug point's entries.
func (r *page) link(k *config.Key) string {
	i := slices.IndexFunc(r.points, func(listed config.Key) bool { return listed.Point == k.Point })
	if i < 0 {
		i = len(r.points)
		r.points = append(r.points, *k)
	}
	anchor := strings.NewReplacer(
		" ",
		"-",
		":",
		"",
		"`",
		"",
		".",
		"",
		"[]",
		"",
	).Replace(strings.ToLower(heading(&r.points[i])))
	return fmt.Sprintf("[%s](#%s)", k.Point.Kind, anchor)
}

// The words for values, which a table has no room for.
var (
	above   = regexp.MustCompile(`more than (\S+) and`)
	upTo    = regexp.MustCompile(`(\S+) and at most (\S+)`)
	below   = regexp.MustCompile(`(\S+)(?: or more)? and less than (\S+)`)
	between = regexp.MustCompile(`from (\S+) to ([^\s,)]+)`)
	number  = regexp.MustCompile(`a number \((.*?)\)`)
)

// short says what a key's value may be in fewer words.
func short(value string) string {
	value = below.ReplaceAllString(above.ReplaceAllString(value, ">$1 and"), "$1..<$2")
	value = between.ReplaceAllString(upTo.ReplaceAllString(value, "$1..$2"), "$1..$2")
	value = number.ReplaceAllString(value, "$1")
	return strings.NewReplacer("a list, each text", "texts", "a list, each a whole number", "integers", "a list, each ", "list of ", "a list of ", "list of ",
		"a whole number", "integer", "a number", "number", "true or false", "boolean", "a word, ", "", "a path, or a ", "path or ", "a path", "path", ", or a ", " or ", "a list", "list").Replace(value)
}

// escape keeps Markdown from reading marks in a cell of a table.
func escape(text string) string { return strings.NewReplacer("<", `\<`, "|", `\|`).Replace(text) }
