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

// introduction begins the page. A tilde stands for a backquote.
const introduction = `# Configuration reference: keys, values, defaults

Every key of a configuration file and of ~--set KEY=VALUE~, as ~key: default~ (values); without
values it takes a text, or true and false if one is the default. Without a default a key is null
(none or no limit, unless its text says otherwise), the task's own (task; from the paper's Tables 1
and 2) or required (*). ~>0..9~ excludes 0, ~0..<9~ excludes 9. Times may be ~90s~, ~10m~, ~1h30m~
or ~2d~. Options stand beside the name that has them: ~aggregate: {algorithm: fedprox, mu: 0.1}~.

~fedpace run --dry-run~ prints the values in use, ~fedpace help KEY~ explains one, and ~fedpace
config schema~ lets an editor complete and check a file.
`

// Page returns the text of docs/configuration.md: every key with its default, its values and its
// help, followed by the entries of every plug point. What several keys or entries have in common is
// explained once.
func Page() []byte {
	p := page{firstKeyOf: map[reflect.Type]string{}, tableOf: map[string]string{}}
	p.WriteString(strings.ReplaceAll(introduction, "~", "`"))
	// Groups at the top have their keys in tables of their own, so a later key with the same struct
	// refers to them.
	for _, o := range registry.Options(reflect.TypeFor[config.Config]()) {
		if o.Type.Kind() == reflect.Struct && o.Help == "" {
			p.firstKeyOf[o.Type] = o.Key
		}
	}
	keys := config.KeysOf("", reflect.TypeFor[config.Config](), config.Inherited)
	keysInGroup := map[string]int{}
	for _, k := range keys {
		keysInGroup[group(&k)]++
	}
	// A group with seven keys or more has a table of its own; all others share one.
	section := func(k *config.Key) string {
		if name := group(k); keysInGroup[name] >= 7 {
			return "`" + name + "`"
		}
		// The other groups share the table in which the first keys of a configuration stand.
		return "General"
	}
	// Tables come in the order of their first keys.
	for len(keys) > 0 {
		title := section(&keys[0])
		p.writeTableHead(title, "key (values)")
		p.writeRows(slices.DeleteFunc(slices.Clone(keys), func(k config.Key) bool { return section(&k) != title }))
		keys = slices.DeleteFunc(keys, func(k config.Key) bool { return section(&k) == title })
	}
	// The list grows while entries are described, because their options may choose from further
	// plug points.
	for i := 0; i < len(p.points); i++ {
		p.writeEntries(&p.points[i])
	}
	return []byte(p.String())
}

// minShared is the number of options from which an entry refers to another table for them, because
// fewer are read faster where they are.
const minShared = 3

// writeEntries writes the table of the entries of key k's plug point: a row for each entry, and below it a row for
// each of its options. So that the table stays short, an option has no row but is named in the row of its entry if
// an earlier entry of the table, or one earlier table that has several of the entry's options, has the same row.
func (r *page) writeEntries(k *config.Key) {
	firstColumn := "`" + k.Point.Word + "` or option (values)"
	if k.Point.Word == "" {
		firstColumn = "name or option (values)"
	}
	r.writeTableHead(heading(k), firstColumn)
	// hasRow has the rows of options that need none in the rest of this table.
	hasRow := map[string]bool{}
	for _, e := range k.Point.Entries {
		options := config.KeysOf("", e.Type(), config.MadeAnew)
		earlier := r.earlierTable(options)
		// withRow are the options that get a row. The other two lists name those that need none, because this table
		// or the earlier one has it.
		var withRow []config.Key
		var inThisTable string
		var inEarlierTable string
		for _, o := range options {
			// Options are the same where all that their rows say is the same.
			row := r.rowText(&o)
			switch {
			case hasRow[row]:
				inThisTable += ", `" + o.Name + "`"
			case earlier != "" && r.tableOf[row] == earlier:
				inEarlierTable += ", `" + o.Name + "`"
			default:
				withRow = append(withRow, o)
				if r.tableOf[row] == "" {
					r.tableOf[row] = anchor(heading(k))
				}
			}
			hasRow[row] = true
		}
		help := escape(e.Help) + strings.Replace(inThisTable, ", ", "; also ", 1)
		if inEarlierTable != "" {
			help += strings.Replace(inEarlierTable, ", ", "; also ", 1) + " [of above](#" + earlier + ")"
		}
		fmt.Fprintf(r, "|**`%s`**|%s|\n", e.Name, help)
		r.writeRows(withRow)
	}
}

// earlierTable returns the anchor of a table before this one that explains at least minShared of
// the options, or "" if there is none. A table explains an option if it has the same row, in all its words.
func (r *page) earlierTable(options []config.Key) string {
	explainedBy := map[string]int{}
	for _, o := range options {
		if table := r.tableOf[r.rowText(&o)]; table != "" {
			explainedBy[table]++
			if explainedBy[table] >= minShared {
				return table
			}
		}
	}
	return ""
}

// group returns the first part of a key's name, which is the group that the key belongs to.
func group(k *config.Key) string {
	first, _, _ := strings.Cut(k.Name, ".")
	return strings.TrimSuffix(first, "[]")
}

// page is the text of the reference page as far as it is written, with what the rest of it depends
// on.
type page struct {
	strings.Builder
	// points are keys whose plug points the page must list, one for each plug point.
	points []config.Key
	// firstKeyOf holds, for each type of struct, the first key whose value has its keys. Later keys of
	// that type refer to it.
	firstKeyOf map[reflect.Type]string
	// tableOf holds, for each row of an option, the anchor of the first table that has it.
	tableOf map[string]string
}

// heading returns the title of the table of the entries of a key's plug point.
func heading(k *config.Key) string {
	kind := k.Point.Kind
	return fmt.Sprintf("%s: `%s`", strings.ToUpper(kind[:1])+kind[1:], k.Name)
}

// writeTableHead writes a heading and the head of a table below it. first is the title of the first column.
func (r *page) writeTableHead(heading, first string) {
	fmt.Fprintf(r, "\n## %s\n\n|%s|meaning|\n|---|---|\n", heading, first)
}

// writeRows writes a row for each key. If an earlier key has the same struct type, the keys below this one
// are left out, and its row refers to the earlier key.
func (r *page) writeRows(keys []config.Key) {
	// below is the beginning of the names that are left out. No name begins with a line break.
	below := "\n"
	for _, k := range keys {
		if strings.HasPrefix(k.Name, below) {
			continue
		}
		t := k.Type
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if first := r.firstKeyOf[t]; first != "" && first != k.Name {
			below = k.Name
			k.Help += "; keys as `" + first + "`"
		} else if t.Kind() == reflect.Struct {
			r.firstKeyOf[t] = k.Name
		}
		r.WriteString(r.rowText(&k))
	}
}

// rowText returns the row of key k in a table, as Markdown: its name with the default and, in brackets, the
// values that it may hold in the first cell, its meaning in the second.
func (r *page) rowText(k *config.Key) string {
	valueCell := k.Value()
	// A key of which nothing else is known below has the default of the task.
	nameCell := "`" + k.Name + "` (task; "
	if k.Unit != "" && strings.Contains(k.Name+" "+k.Help, k.Unit) {
		// The help names the unit already, so the values need not.
		valueCell = strings.Replace(valueCell, " "+k.Unit, "", 1)
	}
	// The values of a plug point's entries are in a table of their own.
	switch {
	case k.Point != nil && k.Type.Kind() == reflect.Slice:
		valueCell += " of " + r.link(k)
	case k.Point != nil:
		valueCell = r.link(k)
	case valueCell == "":
		valueCell = "map"
	}
	switch {
	case k.Default == "null":
		nameCell = "`" + k.Name + "` ("
	case k.Optional:
		nameCell = fmt.Sprintf("`%s: %s` (", k.Name, cmp.Or(k.Default, `""`))
	case k.Required:
		nameCell = "`" + k.Name + "`* ("
	}
	valueCell = abbreviate(escape(valueCell))
	// A default of true or false says by itself what the values are, and a text needs no word.
	if valueCell == "boolean" && k.Optional || valueCell == "text" && !strings.HasSuffix(nameCell, "; ") {
		return fmt.Sprintf("|%s|%s|\n", strings.TrimSuffix(nameCell, " ("), escape(k.Help))
	}
	return fmt.Sprintf("|%s%s)|%s|\n", nameCell, valueCell, escape(k.Help))
}

// link returns a link to the table that lists the entries of a key's plug point, and makes sure
// that the page will have it.
func (r *page) link(k *config.Key) string {
	i := slices.IndexFunc(r.points, func(listed config.Key) bool { return listed.Point == k.Point })
	if i < 0 {
		i = len(r.points)
		r.points = append(r.points, *k)
	}
	return fmt.Sprintf("[%s](#%s)", k.Point.Kind, anchor(heading(&r.points[i])))
}

// anchor returns what GitHub makes of a heading: lower case, hyphens for spaces, no punctuation.
func anchor(heading string) string {
	return strings.NewReplacer(" ", "-", ":", "", "`", "", ".", "", "[]", "").Replace(strings.ToLower(heading))
}

// These match words about values that are replaced by marks, as a table has little room.
var (
	above   = regexp.MustCompile(`more than (\S+) and`)
	upTo    = regexp.MustCompile(`(\S+) and at most (\S+)`)
	below   = regexp.MustCompile(`(\S+)(?: or more)? and less than (\S+)`)
	between = regexp.MustCompile(`from (\S+) to ([^\s,)]+)`)
	number  = regexp.MustCompile(`a number \((.*?)\)`)
)

// kinds replaces the words for kinds of values by shorter ones.
var kinds = strings.NewReplacer(
	"a list, each text", "texts",
	"a list, each a whole number", "integers",
	"a list, each ", "list of ",
	"a list of ", "list of ",
	"a whole number", "integer",
	"a number", "number",
	"true or false", "boolean",
	"a word, ", "",
	"a path, or a ", "path or ",
	"a path", "path",
	", or a ", " or ",
	"a list", "list",
)

// abbreviate returns a description of a key's values in fewer words: limits become intervals such as
// 1..9, >0..9 and 0..<9, and kinds become single words.
func abbreviate(value string) string {
	value = above.ReplaceAllString(value, ">$1 and")
	value = below.ReplaceAllString(value, "$1..<$2")
	value = upTo.ReplaceAllString(value, "$1..$2")
	value = between.ReplaceAllString(value, "$1..$2")
	value = number.ReplaceAllString(value, "$1")
	return kinds.Replace(value)
}

// escape marks characters that Markdown would read as HTML or as the end of a table's cell.
func escape(text string) string { return strings.NewReplacer("<", `\<`, "|", `\|`).Replace(text) }
