package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"fedpace/internal/names"
)

// Status says how far something has come.
type Status struct {
	// Subject names the thing: the status of another subject is shown on another line.
	Subject string
	// Done is the share that is done, from 0 to 1; negative: not known.
	Done float64

	// parts are the pieces of the text, in the order in which they are shown.
	parts []part
}

// Add appends a part to the text, which format and a make as fmt.Sprintf does. Where a line is too
// narrow, parts of the highest rank are left out first; those of rank 0 are only cut where nothing
// else is left.
func (s *Status) Add(rank int, format string, a ...any) {
	s.parts = append(s.parts, part{fmt.Sprintf(format, a...), rank})
}

// part is a piece of the text of a status.
type part struct {
	// text is shown as it is.
	text string
	// rank says how soon the part is left out: the highest first, 0 never.
	rank int
}

// ReadingStatus returns a function for [Display.Watch] that shows how far a data set is read. state
// returns the path that is being read, or "" for none, and the share that is read, from 0 to 1.
func ReadingStatus(state func() (path string, share float64)) func() (s Status, shown bool) {
	return func() (s Status, shown bool) {
		path, share := state()
		s = Status{Subject: "reading " + path, Done: -1}
		// A file that is mapped, or not read in order, has no share.
		if share == 0 {
			s.Add(0, "reading %s", filepath.Base(path))
			return s, path != ""
		}
		s.Done = share
		s.Add(0, "reading %s, %.0f %%", filepath.Base(path), 100*share)
		return s, path != ""
	}
}

// Line returns the whole status as one line, for streams that are no terminals. It has no bar.
func (s *Status) Line() string { return join(s.parts) }

// join returns the texts of parts as one line, with two spaces between them.
func join(parts []part) string {
	return strings.Join(names.Of(parts, func(p part) string { return p.text }), "  ")
}

// barWidths are the numbers of cells of a bar, from the widest to the narrowest; 0 stands for a
// percentage alone.
var barWidths = []int{20, 10, 0}

// fit returns the bar and the text that together fit into one column less than columns, because a
// terminal breaks a line that fills its last column. The bar is narrowed before parts of the text
// are left out.
func (s *Status) fit(columns int) (bar, text string) {
	room := max(1, columns-1)
	parts := slices.Clone(s.parts)
	// Each pass tries all bars beside the parts that are left, and then leaves out one part.
	for {
		text = join(parts)
		for _, cells := range barWidths {
			bar = s.bar(cells)
			// A space stands between the bar and the text.
			if utf8.RuneCountInString(bar+text) <= room-min(1, len(bar)) {
				return bar, text
			}
		}
		// No bar fits: the last of the parts with the highest rank is left out.
		last := -1
		for i, p := range parts {
			if p.rank > 0 && (last < 0 || p.rank >= parts[last].rank) {
				last = i
			}
		}
		// Only parts of rank 0 are left, and the text is cut.
		if last < 0 {
			runes := []rune(text)
			return "", string(runes[:min(len(runes), room)])
		}
		parts = slices.Delete(parts, last, last+1)
	}
}

// bar returns a bar of the given number of cells, or a percentage for 0 cells. It is empty if the
// share is not known.
func (s *Status) bar(cells int) string {
	if s.Done < 0 {
		return ""
	}
	if cells == 0 {
		return fmt.Sprintf("%3.0f%%", 100*s.Done)
	}
	full := min(int(s.Done*float64(cells)), cells)
	// The head of the bar has a cell of its own, unless the bar is full.
	head := ""
	if full < cells {
		head = ">"
	}
	return "[" + strings.Repeat("=", full) + head + strings.Repeat(" ", cells-full-len(head)) + "]"
}
