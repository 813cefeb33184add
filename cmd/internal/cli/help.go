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

// wrapHelp makes the help of the program root, and of all its commands, fit into the given number
// of columns.
func wrapHelp(root *cobra.Command, columns int) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		about := strings.TrimSpace(cmp.Or(c.Long, c.Short)) + "\n"
		if c.Runnable() || c.HasSubCommands() {
			about += "\n" + c.UsageString()
		}
		// The output of a program notes a failure itself (checked), so that this error needs no
		// check.
		_, _ = fmt.Fprint(c.OutOrStdout(), wrapped(about, columns))
	})
}

// wrapped returns a text of help in lines of at most columns. Lines that begin at the margin are
// paragraphs, which are filled. Others stay lines of their own, and a long one goes on below the
// place where its last column began. A long line of the examples is broken with a backslash, so
// that a shell takes it.
func wrapped(text string, columns int) string {
	columns = min(max(columns, 20), widestHelp)
	var b strings.Builder
	var paragraph []string
	examples := false
	// flush writes the paragraph that has been collected.
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
		// The kind of a line decides how it may be broken.
		switch {
		case line == "":
			examples = false
			b.WriteByte('\n')
		case line == "Examples:":
			examples = true
			b.WriteString(line + "\n")
		// A line with a comment or quotes cannot be broken everywhere, so it stays long.
		case strings.HasPrefix(line, " ") && examples && strings.ContainsAny(line, "#'"):
			b.WriteString(line + "\n")
		case strings.HasPrefix(line, " ") && examples:
			fold(&b, line, "      ", columns, ` \`)
		case strings.HasPrefix(line, " "):
			fold(&b, line, strings.Repeat(" ", continuationIndent(line, columns)), columns, "")
		// A line at the margin belongs to a paragraph, which is filled when it is complete.
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return b.String()
}

// lastColumn matches what stands before the last column of a line: an indent, and a text that two
// spaces or more separate from that column. In a line of one column it matches the indent alone.
var lastColumn = regexp.MustCompile(`^ *(\S.*?\S {2,}|)`)

// continuationIndent returns the indent of the lines that continue a long line: the place where its last
// column begins. Where that leaves less than half of the columns, it is four more than the indent
// of the line.
func continuationIndent(line string, columns int) int {
	n := utf8.RuneCountInString(lastColumn.FindString(line))
	// Too little room is left beside the first column.
	if n > columns/2 {
		return len(line) - len(strings.TrimLeft(line, " ")) + 4
	}
	return n
}

// fold writes a line to b in pieces of at most columns characters. It breaks at the last space that fits, else
// behind the last comma that fits, else at the first space behind the line's own indent. If there is none of these,
// the piece stays too long. The pieces after the first begin with indent, and all but the last end with end, such as
// a backslash.
func fold(b *strings.Builder, line, indent string, columns int, end string) {
	for {
		runes := []rune(line)
		if len(runes) <= columns {
			break
		}
		// start, where the text of the line begins, and cut, where the piece ends, are counted in bytes. room, what
		// end leaves of the columns, is counted in characters: end has only characters of one byte.
		start := len(line) - len(strings.TrimLeft(line, " "))
		room := columns - len(end)
		cut := strings.LastIndexByte(string(runes[:room+1]), ' ')
		if cut <= start {
			cut = strings.LastIndexByte(string(runes[:room]), ',') + 1
		}
		if cut <= start {
			cut = start + strings.IndexByte(line[start:], ' ')
		}
		// The line has no place to break, so it stays too long.
		if cut < start {
			break
		}
		b.WriteString(strings.TrimRight(line[:cut], " ") + end + "\n")
		line = indent + strings.TrimLeft(line[cut:], " ")
	}
	b.WriteString(line + "\n")
}
