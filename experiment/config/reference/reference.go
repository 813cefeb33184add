package reference

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"fedpace/experiment/config"
	"fedpace/internal/registry"
)

// Page returns docs/configuration.md: every key with its values,
// its default and its help, and the entries of every plug point.
func Page() []byte {
	r := page{}
	r.WriteString(`# Configuration

Every key of a configuration file, and of ` + "`--set KEY=VALUE`" + `. This page is written by
` + "`fedpace config reference`" + `. A task sets its own defaults where a key has none here (those of the
paper's Tables 1 and 2); ` + "`fedpace run --dry-run`" + ` prints the values in use. ` + "`fedpace help KEY`" + `
explains one key, and ` + "`fedpace config schema`" + ` lets an editor complete and check a file.
`)
	var groups []registry.Option
	r.table("General", "key")
	for _, o := range registry.Options(reflect.TypeFor[config.Config]()) {
		if o.Type.Kind() == reflect.Struct && registry.Short(o.Type) == nil || o.Key == "fleet" {
			groups = append(groups, o)
			continue
		}
		r.row(&o, o.Key, "of the task")
	}
	for _, o := range groups {
		r.table(fmt.Sprintf("`%s`", o.Key), "key")
		r.row(&o, o.Key, "of the task")
	}
	for i := 0; i < len(r.points); i++ { // which grows
		p := registry.For(r.points[i].Type)
		first := "`" + p.Word + "` or option"
		if p.Word == "" {
			first = "name or option"
		}
		r.table(r.heading(i), first)
		for _, e := range p.Entries {
			fmt.Fprintf(&r, "| **`%s`** | | | %s |\n", e.Name, escape(e.Help))
			for _, o := range registry.Options(e.Type()) {
				r.row(&o, o.Key, "required")
			}
		}
	}
	return []byte(r.String())
}

// page is the text so far, with the options whose plug points it must list.
type page struct {
	strings.Builder
	points []registry.Option // Key is the path
}

func (r *page) heading(i int) string {
	kind := registry.For(r.points[i].Type).Kind
	return fmt.Sprintf("%s: `%s`", strings.ToUpper(kind[:1])+kind[1:], r.points[i].Key)
}

func (r *page) table(heading, first string) {
	fmt.Fprintf(r, "\n## %s\n\n| %s | value | default | meaning |\n| --- | --- | --- | --- |\n", heading, first)
}

// row describes a key and those below it. missing stands where there is no
// default.
func (r *page) row(o *registry.Option, path, missing string) {
	value, standard, below := config.ValueText(o, o.Type), missing, o.Type
	if value == "" {
		value = "a map"
	}
	if registry.For(below) != nil {
		value = r.link(below, path)
	}
	if o.Optional {
		standard = strings.Replace("`"+o.Default+"`", "``", "empty", 1)
	}
	switch below.Kind() {
	case reflect.Slice:
		if below = below.Elem(); registry.For(below) != nil {
			value += " of " + r.link(below, path)
		}
	case reflect.Pointer:
		below = below.Elem()
	}
	if o.Help != "" {
		fmt.Fprintf(r, "| `%s` | %s | %s | %s |\n", path, escape(value), standard, escape(o.Help))
	}
	if below.Kind() != reflect.Struct {
		return
	}
	if o.Type.Kind() == reflect.Slice {
		path += "[]"
	}
	if below != o.Type || registry.Short(below) != nil {
		missing = "required"
	}
	for _, below := range registry.Options(below) {
		r.row(&below, path+"."+below.Key, missing)
	}
}

// link leads to the list of a plug point's entries.
func (r *page) link(t reflect.Type, path string) string {
	i := slices.IndexFunc(r.points, func(o registry.Option) bool { return o.Type == t })
	if i < 0 {
		i = len(r.points)
		r.points = append(r.points, registry.Option{Key: path, Type: t})
	}
	anchor := strings.NewReplacer(" ", "-", ":", "", "`", "", ".", "", "[]", "").Replace(strings.ToLower(r.heading(i)))
	return fmt.Sprintf("[%s](#%s)", registry.For(t).Kind, anchor)
}

func escape(text string) string { return strings.NewReplacer("<", `\<`, "|", `\|`).Replace(text) }
