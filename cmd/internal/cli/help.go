package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// widestHelp bounds the lines of a help text: longer ones are hard to read on any
// terminal.
const widestHelp = 100

// wrapHelp has a program's help fit into so many columns.
func wrapHelp(root *cobra.Command, columns int) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		about := strings.TrimSpace(cmp.Or(c.Long, c.Short)) + "\n"
		if c.Runnable() || c.HasSubCommands() {
			about += "\n" + c.UsageString()
		}
		_, _ = fmt.Fprint(c.OutOrStdout(), wrapped(about, columns)) // a failure is that of the command, see checked
	})
}

// wrapped is a text of help in lines that fit into so many columns. Lines that begin at
// the margin are paragraphs, which are filled. Others stay lines: a long one goes on below
// where its last column began. A line of the examples goes on as a shell takes it.
func wrapped(text string, columns int) string {
	columns = min(max(columns, 20), widestHelp)
	var b strings.Builder
	var paragraph []string
	examples := false
	flush := func() {
		if paragraph != nil {
			fold(&b, strings.Join(paragraph, " "), "", columns, "")
			paragraph = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, " \n"), "\t", "    ")
		if line == "" || strings.HasPrefix(line, " ") {
			flush()
		}
		switch {
		case line == "":
			examples = false
			b.WriteByte('\n')
		case line == "Examples:":
			examples = true
			b.WriteString(line + "\n")
		case strings.HasPrefix(line, " ") && examples && strings.ContainsAny(line, "#'"): // cannot be broken everywhere
			b.WriteString(line + "\n")
		case strings.HasPrefix(line, " ") && examples:
			fold(&b, line, "      ", columns, ` \`)
		case strings.HasPrefix(line, " "):
			fold(&b, line, strings.Repeat(" ", hanging(line, columns)), columns, "")
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return b.String()
}

// lastColumn is what stands before the last column of a line: an indent, and text that
// two spaces or more separate from it.
var lastColumn = regexp.MustCompile(`^ *(\S.*?\S {2,}|)`)

// hanging is how far the lines that go on with one are indented.
func hanging(line string, columns int) int {
	n := utf8.RuneCountInString(lastColumn.FindString(line))
	if n > columns/2 { // too little room is left beside the first column
		return len(line) - len(strings.TrimLeft(line, " ")) + 4
	}
	return n
}

// fold writes a line, broken at the last space that fits, else behind the last comma, else at the first space behind;
// the lines that follow the first have an indent, and all but the last end.
func fold(b *strings.Builder, line, indent string, columns int, end string) {
	for runes := []rune(line); len(runes) > columns; runes = []rune(line) {
		start := len(line) - len(strings.TrimLeft(line, " "))
		room := columns - len(end)
		cut := strings.LastIndexByte(string(runes[:room+1]), ' ')
		if cut <= start {
			cut = strings.LastIndexByte(string(runes[:room]), ',') + 1
		}
		if cut <= start {
			cut = start + strings.IndexByte(line[start:], ' ')
		}
		if cut < start {
			break
		}
		b.WriteString(strings.TrimRight(line[:cut], " ") + end + "\n")
		line = indent + strings.TrimLeft(line[cut:], " ")
	}
	b.WriteString(line + "\n")
}
