package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
)

// Limits of what a process prints.
const (
	// maxLine is how many bytes of a line are kept.
	maxLine = 2048
	// maxShown is how many lines of one process are shown to the user.
	maxShown = 1000
	// maxTailLines is how many of the last lines an error repeats at most, and maxTailBytes how
	// many bytes of them: an error that a host reports elsewhere has room for about a thousand.
	maxTailLines = 10
	maxTailBytes = 600
)

// Output reads what a process prints, shows it to the user line by line, and keeps the last lines
// for an error.
type Output struct {
	// notice takes each line that is shown.
	notice func(string)

	mu sync.Mutex
	// held says that the last lines are not shown yet, because an error may repeat them.
	held bool
	// tailLines are the last lines, at most maxTailLines, and shown is the number of lines shown so
	// far.
	tailLines []string
	shown     int
}

// readLines reads what a process prints from r, line by line, until the end of its pipe. The part of a
// line beyond maxLine bytes is dropped.
func (o *Output) readLines(r io.Reader) {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		o.addLine(string(line))
		// The rest of a long line is read and dropped.
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// addLine handles one printed line: it is shown, unless lines are held back, and kept as one of the last
// lines. Lines without content are dropped.
func (o *Output) addLine(line string) {
	line = Printable(strings.TrimRight(line, "\r\n"))
	if strings.TrimSpace(line) == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.held {
		o.show(line)
	}
	o.tailLines = append(o.tailLines, line)
	if len(o.tailLines) > maxTailLines {
		// A line that an error will not repeat any more is shown late rather than never.
		if o.held {
			o.show(o.tailLines[0])
		}
		o.tailLines = o.tailLines[1:]
	}
}

// show passes one line to the user, up to maxShown lines. Instead of the next it says once that no
// more are shown. The lock must be held.
func (o *Output) show(line string) {
	o.shown++
	switch {
	case o.shown <= maxShown:
		o.notice(line)
	case o.shown == maxShown+1:
		o.notice(fmt.Sprintf("It prints more than %d lines: the others are not shown.", maxShown))
	}
}

// Release shows the lines that were held back for an error, since none came, and from now on shows
// each line at once. It may be called more than once.
func (o *Output) Release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held {
		o.held = false
		for _, line := range o.tailLines {
			o.show(line)
		}
	}
}

// tail returns the last printed lines as the part of an error message, on one line. If they are
// longer than maxTailBytes together, the end is kept, which usually says most.
func (o *Output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.tailLines) == 0 {
		return "it printed nothing"
	}
	text := strings.Join(o.tailLines, " | ")
	if n := len(text) - maxTailBytes; n > 0 {
		text = "…" + strings.ToValidUTF8(text[n:], "")
	}
	return "it printed last: " + text
}

// Printable returns s as a text for one line of an error message: every kind of space becomes a
// blank, other characters that cannot be printed are removed, and what exceeds maxLine bytes is cut
// off, with an ellipsis.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		// Line breaks and tabs would tear the message apart.
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > maxLine {
		s = strings.ToValidUTF8(s[:maxLine], "") + "…"
	}
	return s
}
