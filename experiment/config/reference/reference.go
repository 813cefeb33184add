package reference

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"fedpace/experiment/config"
)

// Page returns docs/configuration.md: every key with its values,
// its default and its help, and the entries of every plug point.
func Page() []byte {
	r := page{}
	r.WriteString(`# Configuration

Every key of a configuration file, and of ` + "`--set KEY=VALUE`" + `. This page is written by
` + "`fedpace config reference`" + `. A task sets its own defaults where a key has none here (those of the
paper's Tables 1 and 2); ` + "`fedpace run --dry-run`" + ` prints the values in use. ` + "`fedpace help KEY`" + `
explains one key, and ` + "`fedpace config schema`" + ` lets an editor complete and check a file. Where
seconds or hours are wanted, ` + "`90s`, `10m`, `1h30m` and `2d`" + ` are understood, too.
` + "`1..9`" + ` is 1 to 9, ` + "`>0..9`" + ` above 0, ` + "`0..<9`" + ` below 9.
`)
	r.table("General", "key")
	keys := config.KeysOf("", reflect.TypeFor[config.Config](), false)
	groups := slices.DeleteFunc(slices.Clone(keys), func(k config.Key) bool {
		name := group(&k)
		general := name != "fleet" && slices.ContainsFunc(keys, func(k config.Key) bool { return k.Name == name })
		if general {
			r.row(&k)
		}
		return general
	})
	for i, k := range groups {
		if i == 0 || group(&k) != group(&groups[i-1]) {
			r.table(fmt.Sprintf("`%s`", group(&k)), "key")
		}
		r.row(&k)
	}
	for i := 0; i < len(r.points); i++ { // which grows
		p := r.points[i].Point
		first := "`" + p.Word + "` or option"
		if p.Word == "" {
			first = "name or option"
		}
		r.table(heading(&r.points[i]), first)
		for _, e := range p.Entries {
			fmt.Fprintf(&r, "**`%s`** | | | %s\n", e.Name, escape(e.Help))
			for _, o := range config.KeysOf("", e.Type(), true) {
				r.row(&o)
			}
		}
	}
	return []byte(r.String())
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
}

func heading(k *config.Key) string {
	kind := k.Point.Kind
	return fmt.Sprintf("%s: `%s`", strings.ToUpper(kind[:1])+kind[1:], k.Name)
}

func (r *page) table(heading, first string) {
	fmt.Fprintf(r, "\n## %s\n\n%s | value | default | meaning\n--- | --- | --- | ---\n", heading, first)
}

// row describes a key.
func (r *page) row(k *config.Key) {
	value, standard := k.Value(), "of the task"
	switch {
	case k.Point != nil && k.Type.Kind() == reflect.Slice:
		value += " of " + r.link(k)
	case k.Point != nil:
		value = r.link(k)
	case value == "":
		value = "a map"
	}
	switch {
	case k.Optional:
		standard = strings.Replace("`"+k.Default+"`", "``", "empty", 1)
	case k.Required:
		standard = "required"
	}
	fmt.Fprintf(r, "`%s` | %s | %s | %s\n", k.Name, short(escape(value)), standard, escape(k.Help))
}

// link leads to the list of a plug point's entries.
func (r *page) link(k *config.Key) string {
	i := slices.IndexFunc(r.points, func(other config.Key) bool { return other.Point == k.Point })
	if i < 0 {
		i = len(r.points)
		r.points = append(r.points, *k)
	}
	anchor := strings.NewReplacer(" ", "-", ":", "", "`", "", ".", "", "[]", "").Replace(strings.ToLower(heading(&r.points[i])))
	return fmt.Sprintf("[%s](#%s)", k.Point.Kind, anchor)
}

// The words for values, which a table has no room for.
var (
	above   = regexp.MustCompile(`more than (\S+) and at most (\S+)`)
	below   = regexp.MustCompile(`(\S+) or more and less than (\S+)`)
	between = regexp.MustCompile(`from (\S+) to ([^\s,)]+)`)
	number  = regexp.MustCompile(`a number \((.*?)\)`)
)

// short says what a key's value may be in fewer words.
func short(value string) string {
	value = below.ReplaceAllString(value, "$1..<$2")
	value = between.ReplaceAllString(above.ReplaceAllString(value, ">$1..$2"), "$1..$2")
	value = number.ReplaceAllString(value, "number $1")
	return strings.NewReplacer("a whole number", "integer", "a number", "number", "a list, each ", "list of ", "a list of ", "list of ", "true or false", "boolean", "a word, ", "").Replace(value)
}

func escape(text string) string { return strings.NewReplacer("<", `\<`, "|", `\|`).Replace(text) }
