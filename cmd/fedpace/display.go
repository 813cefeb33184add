package main

import (
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"fedpace/experiment/run"
	"fedpace/internal/human"
)

// display shows how far something is: one line that is drawn over on a terminal,
// else a plain line now and then. Its methods may be called from any goroutine.
type display struct {
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

func newDisplay(out io.Writer, quiet bool) *display {
	return &display{out: out, quiet: quiet, screen: screenOf(out)}
}

// progress takes a run's newest state.
func (d *display) progress(p run.Progress) { d.show(statusOf(p)) }

func (d *display) show(s status) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.screen.terminal {
		d.log(s)
		return
	}
	if d.current != s.of {
		d.leave()
	}
	bar, text := s.drawn(d.screen.width())
	if bar != "" {
		bar = d.screen.paint(progressColour, bar) + " "
	}
	fmt.Fprint(d.out, "\r"+bar+text+clearRest)
	d.current = s.of
}

// clearRest erases to the end of the line (ECMA-48, EL).
const clearRest = "\x1b[K"

func (d *display) log(s status) {
	now := time.Now()
	if d.began.IsZero() {
		d.began = now
	}
	every := min(max(lineEvery, now.Sub(d.began)/linesGrowBy), lineSeldom)
	if now.Sub(d.printed) >= every {
		d.printed = now
		fmt.Fprintln(d.out, s.line())
	}
}

// leave ends the line on the screen: what comes is below it.
func (d *display) leave() {
	if d.current != "" {
		fmt.Fprintln(d.out)
		d.current = ""
	}
}

// notice prints a line beside the progress.
func (d *display) notice(text string) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave()
	fmt.Fprintln(d.out, text)
}

// close leaves the last state on the screen.
func (d *display) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave()
}

// statusOf is a run's state.
func statusOf(p run.Progress) status {
	s := status{of: p.Schedule, done: p.Fraction()}
	add := func(rank int, format string, a ...any) {
		s.parts = append(s.parts, part{fmt.Sprintf(format, a...), rank})
	}
	add(0, "%s", p.Schedule)
	if p.Rounds > 0 {
		add(0, "round %d/%d", p.Round, p.Rounds)
	} else {
		add(0, "round %d", p.Round)
	}
	if p.VirtualTotal > 0 {
		add(3, "%s of %s", human.VirtualTime(p.VirtualSeconds), human.VirtualTime(p.VirtualTotal))
	} else {
		add(3, "%s", human.VirtualTime(p.VirtualSeconds))
	}
	if p.LocalSteps > 0 { // none before the first round
		add(4, "K %d", p.LocalSteps)
	}
	if !math.IsNaN(p.TrainingLoss) {
		add(2, "loss %.3f", p.TrainingLoss)
	}
	if !math.IsNaN(p.ValidationAccuracy) {
		add(2, "accuracy %.3f", p.ValidationAccuracy)
	}
	if r := p.RoundsPerSecond(); r > 0 {
		add(5, "%.3g rounds/s", r)
	}
	if left, known := p.Left(); known && p.Fraction() < 1 {
		add(1, "%s left", left.Round(time.Second))
	}
	return s
}
