package cli

import (
	"fedpace/internal/names"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Status is how far something has come.
type Status struct {
	// Names the thing: another one is shown on another line.
	Subject string
	// From 0 to 1; negative: not known.
	Done float64

	// In the order in which they are shown.
	parts []part
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

// ReadingStatus tells [Display.Watch] how far a data set is read: from 0, which is not shown, to 1.
func ReadingStatus(state func() (path string, share float64)) func() (s Status, shown bool) {
	return func() (s Status, shown bool) {
		path, share := state()
		s = Status{Subject: "reading " + path, Done: -1}
		if share == 0 { // it may be a file that is mapped, or one that is not read in order
			s.Add(0, "reading %s", filepath.Base(path))
			return s, path != ""
		}
		s.Done = share
		s.Add(0, "reading %s, %.0f %%", filepath.Base(path), 100*share)
		return s, path != ""
	}
}

// Line is the whole status as one line, for streams that are no terminals.
func (s *Status) Line() string { return join(s.parts) }

// join puts the texts of parts into one line.
func join(parts []part) string {
	return strings.Join(names.Of(parts, func(p part) string { return p.text }), "  ")
}

// barWidths are the cells of a bar, from the widest; 0: a percentage alone.
var barWidths = []int{20, 10, 0}

// drawn is the bar and the text that fit into so many columns, together less
// than all of them: a terminal breaks a line that fills its last column.
func (s *Status) drawn(columns int) (bar, text string) {
	room := max(1, columns-1)
	for parts := slices.Clone(s.parts); ; {
		text = join(parts)
		for _, cells := range barWidths {
			bar = s.bar(cells)
			if utf8.RuneCountInString(bar+text) <= room-min(1, len(bar)) { // a space between them
				return bar, text
			}
		}
		last := -1
		for i, p := range parts {
			if p.rank > 0 && (last < 0 || p.rank >= parts[last].rank) {
				last = i
			}
		}
		if last < 0 {
			runes := []rune(text)
			return "", string(runes[:min(len(runes), room)])
		}
		parts = slices.Delete(parts, last, last+1)
	}
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
