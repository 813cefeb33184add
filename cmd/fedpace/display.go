package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"fedpace/experiment"
)

// display shows progress: a bar on a terminal, else a plain line now and then.
// Its methods may be called from any goroutine; close ends all that it started.
type display struct {
	out   io.Writer
	quiet bool
	bar   bool          // whether out is a terminal
	every time.Duration // between plain lines

	last atomic.Pointer[experiment.Progress] // read by the bar's own goroutine

	mu      sync.Mutex
	printed time.Time // when the last plain line was
	bars    *mpb.Progress
	current *mpb.Bar
}

const (
	lineEvery = 3 * time.Second // keeps a log short and still shows life
	barParts  = 1000            // a bar is drawn to a thousandth
	barWidth  = 20
)

func newDisplay(out io.Writer, quiet bool) *display {
	f, ok := out.(*os.File)
	return &display{
		out: out, quiet: quiet, every: lineEvery,
		bar: ok && term.IsTerminal(int(f.Fd())),
	}
}

// progress takes the newest state.
func (d *display) progress(p experiment.Progress) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.bar {
		if now := time.Now(); now.Sub(d.printed) >= d.every {
			d.printed = now
			fmt.Fprintln(d.out, line(p))
		}
		return
	}
	if before := d.last.Load(); before != nil && before.Schedule != p.Schedule { // a comparison's next run
		d.endBar()
	}
	d.last.Store(&p)
	if d.current == nil {
		d.startBar()
	}
	// Only endBar completes a bar: a full one could not be drawn any more.
	d.current.SetCurrent(int64(min(p.Fraction()*barParts, barParts-1)))
}

// notice prints a line beside the progress.
func (d *display) notice(text string) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endBar()
	fmt.Fprintln(d.out, text)
}

// close leaves the last state on the screen and ends the bar's goroutines.
func (d *display) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endBar()
}

func (d *display) startBar() {
	d.bars = mpb.New(mpb.WithOutput(d.out), mpb.WithAutoRefresh())
	d.current = d.bars.New(barParts, mpb.BarStyle(),
		mpb.BarWidth(barWidth),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return line(*d.last.Load()) })))
}

// endBar draws the bar a last time and waits until that has happened.
func (d *display) endBar() {
	if d.current == nil {
		return
	}
	if d.last.Load().Fraction() >= 1 {
		d.current.SetCurrent(barParts)
	} else {
		d.current.Abort(false)
	}
	d.bars.Wait()
	d.bars, d.current = nil, nil
}

// line is a run's state in one line.
func line(p experiment.Progress) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  round %d", p.Schedule, p.Round)
	if p.Rounds > 0 {
		fmt.Fprintf(&b, "/%d", p.Rounds)
	}
	fmt.Fprintf(&b, "  %s", experiment.VirtualTime(p.VirtualSeconds))
	if p.VirtualTotal > 0 {
		fmt.Fprintf(&b, " of %s", experiment.VirtualTime(p.VirtualTotal))
	}
	fmt.Fprintf(&b, "  K %d", p.LocalSteps)
	if !math.IsNaN(p.TrainingLoss) {
		fmt.Fprintf(&b, "  loss %.3f", p.TrainingLoss)
	}
	if !math.IsNaN(p.ValidationAccuracy) {
		fmt.Fprintf(&b, "  accuracy %.3f", p.ValidationAccuracy)
	}
	if r := p.RoundsPerSecond(); r > 0 {
		fmt.Fprintf(&b, "  %.3g rounds/s", r)
	}
	if left, known := p.Left(); known && p.Fraction() < 1 {
		fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
	}
	return b.String()
}
