package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// screen is what is known of where output goes.
type screen struct {
	terminal bool       // a line can be drawn over
	colour   bool       // and may have colours
	width    func() int // columns, asked anew for each line
}

// usualWidth is taken where a terminal does not say its own.
const usualWidth = 80

// screenOf looks at a stream. A terminal that calls itself dumb cannot draw over
// a line. Colours are for terminals, unless NO_COLOR is set to anything
// (no-color.org).
func screenOf(out io.Writer) screen {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return screen{}
	}
	return screen{
		terminal: true,
		colour:   os.Getenv("NO_COLOR") == "",
		width: func() int {
			if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
				return columns
			}
			return usualWidth
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
