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
	maxLine      = 2048 // bytes of a line that are kept
	maxShown     = 1000 // lines of one process that are shown
	maxTailLines = 10   // lines that an error repeats at most
	maxTailBytes = 600  // bytes of them: an error that a host reports elsewhere has about a thousand
)

// Output reads what a process prints, shows it line by line, and keeps the last lines for an error.
type Output struct {
	notice func(string)

	mu sync.Mutex
	// held says that the last lines are not shown yet, because an error may repeat them.
	held      bool
	tailLines []string
	shown     int
}

// read reads lines from r until its end. The part of a line beyond maxLine is dropped.
func (o *Output) read(r io.Reader) {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		o.add(string(line))
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// add takes one printed line. Lines without content are dropped.
func (o *Output) add(line string) {
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
		if o.held {
			o.show(o.tailLines[0])
		}
		o.tailLines = o.tailLines[1:]
	}
}

// show passes a line to the user. After maxShown lines it says once that no more are shown.
func (o *Output) show(line string) {
	o.shown++
	switch {
	case o.shown <= maxShown:
		o.notice(line)
	case o.shown == maxShown+1:
		o.notice(fmt.Sprintf("It prints more than %d lines: the others are not shown.", maxShown))
	}
}

// Release shows the lines that were held back, and from now on each line at once.
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

// tail returns the last lines in one text for an error. If they are too long together the end is
// kept, which usually says most.
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

// Printable removes from a text what cannot stand in a line of an error, and cuts it.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
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
