package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"fedpace/bus"
	"fedpace/internal/names"
)

// Display shows the progress of a command: on a terminal one line that is drawn again in place,
// elsewhere a plain line from time to time. Its methods may be called from any goroutine.
type Display struct {
	// stream is where the progress goes, standard error as a rule.
	stream io.Writer
	// quiet says that nothing is shown.
	quiet bool
	// screen is what is known of the stream.
	screen screen

	// mu guards the fields below and the stream.
	mu sync.Mutex
	// began is when the first plain line was due; zero: none was yet.
	began time.Time
	// printed is when the last plain line was printed.
	printed time.Time
	// current is the subject of the line on the screen; empty: there is no line.
	current string

	// watching ends the goroutines that Watch has started.
	watching []context.CancelFunc
}

const (
	// lineEvery is the time between plain lines at first, so that a person sees life.
	lineEvery = 3 * time.Second
	// lineSeldom is the longest time between plain lines.
	lineSeldom = time.Minute
	// lineGrowthDivisor divides the time so far into the time until the next plain line: one twentieth of it,
	// so that a log of hours stays short.
	lineGrowthDivisor = 20
)

// NewDisplay returns the display of the command c, which shows progress on standard error. With
// --quiet it shows nothing.
func NewDisplay(c *cobra.Command) *Display { return newDisplay(c.ErrOrStderr(), Quiet(c)) }

// newDisplay returns a display that writes to stream, or to nothing if quiet is true.
func newDisplay(stream io.Writer, quiet bool) *Display {
	return &Display{stream: stream, quiet: quiet, screen: screenOf(stream)}
}

// Show displays the status s, which replaces the one before. It does nothing with --quiet, and may
// be called from any goroutine.
func (d *Display) Show(s Status) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.show(s)
}

// show displays the status s: in place on a terminal, elsewhere as a line if one is due. The caller
// holds the lock.
func (d *Display) show(s Status) {
	if !d.screen.terminal {
		d.log(s)
		return
	}
	// A new subject gets a new line, below that of the old one.
	if d.current != s.Subject {
		d.endLine()
	}
	// The width is asked each time, because a window may have been resized.
	bar, text := s.fit(d.screen.width())
	if bar != "" {
		bar = d.screen.paint(progressColour, bar) + " "
	}
	fmt.Fprint(d.stream, "\r"+bar+text+clearRest)
	d.current = s.Subject
}

// clearRest erases to the end of the line (ECMA-48, EL).
const clearRest = "\x1b[K"

// log prints the status s as a line if the last line is old enough. The longer a command runs, the
// rarer its lines are, up to one in lineSeldom.
func (d *Display) log(s Status) {
	now := time.Now()
	if d.began.IsZero() {
		d.began = now
	}
	every := min(max(lineEvery, now.Sub(d.began)/lineGrowthDivisor), lineSeldom)
	if now.Sub(d.printed) >= every {
		d.printed = now
		fmt.Fprintln(d.stream, s.Line())
	}
}

// endLine ends the line on the screen, if there is one, so that what follows stands below it. The
// caller holds the lock.
func (d *Display) endLine() {
	if d.current != "" {
		fmt.Fprintln(d.stream)
		d.current = ""
	}
}

// Watch shows the status of something that does not report by itself, such as the reading of a
// file, several times a second until Close. status returns the present status, and false while
// there is nothing to show.
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
			// The display may have been closed between the tick and the lock.
			if shown && ctx.Err() == nil {
				d.show(s)
			}
			d.mu.Unlock()
		}
	}()
}

// watchEvery is the time between two looks at a status that is watched.
const watchEvery = 200 * time.Millisecond

// Notice prints a line of text beside the progress, which goes on below it. A quiet display prints
// nothing.
func (d *Display) Notice(text string) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endLine()
	// A notice may name a file of somebody else's.
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(d.stream, names.Printable(line))
	}
}

// Close ends the watching and leaves the last status on the screen. The display may be closed more
// than once.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.watching {
		stop()
	}
	d.watching = nil
	d.endLine()
}

// screen is what is known of the stream that output goes to.
type screen struct {
	// terminal says that a line can be drawn again in place.
	terminal bool
	// colour says that the line may have colours.
	colour bool
	// width returns the number of columns at the time of the call.
	width func() int
}

// usualWidth is the width that counts where there is no terminal, or where its width is not known.
const usualWidth = 80

// unknownWidth returns the width of a stream that does not tell it: that of the environment
// variable COLUMNS, or usualWidth.
func unknownWidth() int {
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	return usualWidth
}

// screenOf returns what is known of a stream. A terminal that calls itself dumb cannot draw a line
// again and counts as none. Colours are for terminals, unless NO_COLOR is set to anything
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
	// problemColour, bold red, is the colour of errors.
	problemColour = "1;31"
	// progressColour, cyan, is the colour of the bar of progress.
	progressColour = "36"
)

// paint returns the text in a colour, given as the parameter of ECMA-48's SGR, or as it is where
// the screen has no colours.
func (s screen) paint(colour, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
