package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Display shows how far something is: one line that is drawn over on a terminal,
// else a plain line now and then. Its methods may be called from any goroutine.
type Display struct {
	out    io.Writer
	quiet  bool
	screen screen

	mu      sync.Mutex
	began   time.Time // when the first plain line was
	printed time.Time // when the last plain line was
	current string    // what the line on the screen is about; "": there is none
}

// A plain line comes every three seconds at first, so that there is life, and
// more and more seldom, so that a log of hours stays short.
const (
	lineEvery   = 3 * time.Second
	lineSeldom  = time.Minute
	linesGrowBy = 20 // a part of the time so far
)

func NewDisplay(out io.Writer, quiet bool) *Display {
	return &Display{out: out, quiet: quiet, screen: screenOf(out)}
}

// Show takes the newest status.
func (d *Display) Show(s Status) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.screen.terminal {
		d.log(s)
		return
	}
	if d.current != s.Of {
		d.leave()
	}
	bar, text := s.drawn(d.screen.width())
	if bar != "" {
		bar = d.screen.paint(progressColour, bar) + " "
	}
	fmt.Fprint(d.out, "\r"+bar+text+clearRest)
	d.current = s.Of
}

// clearRest erases to the end of the line (ECMA-48, EL).
const clearRest = "\x1b[K"

func (d *Display) log(s Status) {
	now := time.Now()
	if d.began.IsZero() {
		d.began = now
	}
	every := min(max(lineEvery, now.Sub(d.began)/linesGrowBy), lineSeldom)
	if now.Sub(d.printed) >= every {
		d.printed = now
		fmt.Fprintln(d.out, s.Line())
	}
}

// leave ends the line on the screen: what comes is below it.
func (d *Display) leave() {
	if d.current != "" {
		fmt.Fprintln(d.out)
		d.current = ""
	}
}

// Notice prints a line beside the progress.
func (d *Display) Notice(text string) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave()
	fmt.Fprintln(d.out, text)
}

// Close leaves the last state on the screen.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave()
}
