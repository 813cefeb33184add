package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"fedpace/bus"
)

// Display shows how far something is: one line that is drawn over on a terminal,
// else a plain line now and then. Its methods may be called from any goroutine.
type Display struct {
	stream io.Writer
	quiet  bool
	screen screen

	mu sync.Mutex
	// When the first plain line was.
	began time.Time
	// When the last plain line was.
	printed time.Time
	// What the line on the screen is about; "": there is none.
	current string

	watching []context.CancelFunc
}

// A plain line comes every three seconds at first, so that there is life, and
// more and more seldom, so that a log of hours stays short.
const (
	lineEvery   = 3 * time.Second
	lineSeldom  = time.Minute
	linesGrowBy = 20 // a part of the time so far
)

// NewDisplay is what a command shows, beside what it prints; nothing with --quiet.
func NewDisplay(c *cobra.Command) *Display { return newDisplay(c.ErrOrStderr(), Quiet(c)) }

// newDisplay makes a display of a stream. A quiet one prints nothing.
func newDisplay(stream io.Writer, quiet bool) *Display {
	return &Display{stream: stream, quiet: quiet, screen: screenOf(stream)}
}

// Show takes the newest status.
func (d *Display) Show(s Status) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.show(s)
}

// show draws a status: in place on a terminal, else as lines that become rarer. The caller
// holds the lock.
func (d *Display) show(s Status) {
	if !d.screen.terminal {
		d.log(s)
		return
	}
	if d.current != s.Subject {
		d.leave()
	}
	bar, text := s.drawn(d.screen.width())
	if bar != "" {
		bar = d.screen.paint(progressColour, bar) + " "
	}
	fmt.Fprint(d.stream, "\r"+bar+text+clearRest)
	d.current = s.Subject
}

// clearRest erases to the end of the line (ECMA-48, EL).
const clearRest = "\x1b[K"

// log prints a status as a line if the last one is long enough ago. The longer a command runs,
// the rarer its lines are, up to lineSeldom.
func (d *Display) log(s Status) {
	now := time.Now()
	if d.began.IsZero() {
		d.began = now
	}
	every := min(max(lineEvery, now.Sub(d.began)/linesGrowBy), lineSeldom)
	if now.Sub(d.printed) >= every {
		d.printed = now
		fmt.Fprintln(d.stream, s.Line())
	}
}

// leave ends the line on the screen: what comes is below it.
func (d *Display) leave() {
	if d.current != "" {
		fmt.Fprintln(d.stream)
		d.current = ""
	}
}

// Watch shows the status of what says nothing by itself, as long as there is one: first
// after so short a time that a person does not wonder, and then often enough to see it
// move. Close ends it.
func (d *Display) Watch(status func() (s Status, shown bool)) {
	if d.quiet {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	d.mu.Lock()
	d.watching = append(d.watching, stop)
	d.mu.Unlock()
	go func() {
		for range bus.Ticks(ctx, watchEvery) {
			s, shown := status()
			d.mu.Lock()
			if shown && ctx.Err() == nil { // else it has been closed meanwhile
				d.show(s)
			}
			d.mu.Unlock()
		}
	}()
}

const watchEvery = 200 * time.Millisecond

// Notice prints a line beside the progress.
func (d *Display) Notice(text string) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave()
	fmt.Fprintln(d.stream, text)
}

// Close leaves the last state on the screen.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.watching {
		stop()
	}
	d.watching = nil
	d.leave()
}

// screen is what is known of where output goes.
type screen struct {
	// A line can be drawn over.
	terminal bool
	// And may have colours.
	colour bool
	// columns, asked anew for each line.
	width func() int
}

// usualWidth is taken where there is no terminal, or one that does not say its own.
const usualWidth = 80

// unknownWidth is what the environment says, for where nothing else does.
func unknownWidth() int {
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	return usualWidth
}

// screenOf looks at a stream. A terminal that calls itself dumb cannot draw over
// a line. Colours are for terminals, unless NO_COLOR is set to anything
// (no-color.org).
func screenOf(stream io.Writer) screen {
	f, _ := stream.(*os.File)
	if !isTerminal(stream) || os.Getenv("TERM") == "dumb" {
		return screen{width: unknownWidth}
	}
	return screen{
		terminal: true,
		colour:   os.Getenv("NO_COLOR") == "",
		width: func() int {
			if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
				return columns
			}
			return unknownWidth()
		},
	}
}

// Colours, by what they stand for (ECMA-48, SGR).
const (
	problemColour  = "1;31" // bold red
	progressColour = "36"   // cyan
)

// paint colours text where colours may be.
func (s screen) paint(colour, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
