package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Status is how far something has come.
type Status struct {
	Of   string  // names the thing: another one is shown on another line
	Done float64 // from 0 to 1; negative: not known

	parts []part // in the order in which they are shown
}

// Add puts a part behind the others. Where a line is too narrow, parts of the
// highest rank go first; those of rank 0 are cut only where nothing else is left.
func (s *Status) Add(rank int, format string, a ...any) {
	s.parts = append(s.parts, part{fmt.Sprintf(format, a...), rank})
}

// part is a piece of a status.
type part struct {
	text string
	rank int
}

const separator = "  "

// Line is all of it.
func (s *Status) Line() string { return join(s.parts) }

func join(parts []part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.text
	}
	return strings.Join(texts, separator)
}

// barWidths are the cells of a bar, from the widest; 0: a percentage alone.
var barWidths = []int{20, 10, 0}

// drawn is the bar and the text that fit into so many columns, together less
// than all of them: a terminal breaks a line that fills its last column.
func (s *Status) drawn(columns int) (bar, text string) {
	room := max(1, columns-1)
	parts := append([]part(nil), s.parts...)
	for {
		text = join(parts)
		for _, cells := range barWidths {
			if bar = s.bar(cells); bar == "" || utf8.RuneCountInString(bar+" "+text) <= room {
				break
			}
		}
		switch n := utf8.RuneCountInString(text); {
		case bar == "" && n <= room, bar != "" && utf8.RuneCountInString(bar)+1+n <= room:
			return bar, text
		}
		last := 0
		for i, p := range parts {
			if p.rank > 0 && p.rank >= parts[last].rank {
				last = i
			}
		}
		if len(parts) == 0 || parts[last].rank == 0 {
			break
		}
		parts = append(parts[:last], parts[last+1:]...)
	}
	runes := []rune(text)
	return "", string(runes[:min(len(runes), room)])
}

// bar is a bar of so many cells, or a percentage; empty where it is not known.
func (s *Status) bar(cells int) string {
	if s.Done < 0 {
		return ""
	}
	if cells == 0 {
		return fmt.Sprintf("%3.0f%%", 100*s.Done)
	}
	full := min(int(s.Done*float64(cells)), cells)
	head := ""
	if full < cells {
		head = ">"
	}
	return "[" + strings.Repeat("=", full) + head + strings.Repeat(" ", cells-full-len(head)) + "]"
}
