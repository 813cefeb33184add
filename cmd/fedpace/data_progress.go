package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"fedpace/actors/data/fetch"
)

// fetchDisplay shows a download: a bar on a terminal, else a plain line now and
// then. close ends all that it started.
type fetchDisplay struct {
	out   io.Writer
	quiet bool
	bar   bool

	last atomic.Pointer[fetch.Progress] // read by the bar's own goroutine

	mu      sync.Mutex
	printed time.Time
	bars    *mpb.Progress
	current *mpb.Bar
}

func newFetchDisplay(out io.Writer, quiet bool) *fetchDisplay {
	f, ok := out.(*os.File)
	return &fetchDisplay{out: out, quiet: quiet, bar: ok && term.IsTerminal(int(f.Fd()))}
}

func (d *fetchDisplay) progress(p fetch.Progress) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.bar {
		if now := time.Now(); now.Sub(d.printed) >= lineEvery {
			d.printed = now
			fmt.Fprintln(d.out, fetchLine(p))
		}
		return
	}
	d.last.Store(&p)
	if d.current == nil {
		d.bars = mpb.New(mpb.WithOutput(d.out), mpb.WithAutoRefresh())
		d.current = d.bars.New(barParts, mpb.BarStyle(),
			mpb.BarWidth(barWidth),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return fetchLine(*d.last.Load()) })))
	}
	d.current.SetCurrent(min(parts(p), barParts-1)) // a full bar could not be drawn any more
}

// parts of the bar that are done.
func parts(p fetch.Progress) int64 {
	if p.Total <= 0 {
		return 0
	}
	return int64(barParts * (float64(p.Done) / float64(p.Total)))
}

// notice prints a line beside the progress.
func (d *fetchDisplay) notice(text string) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
	fmt.Fprintln(d.out, text)
}

// close leaves the last state on the screen.
func (d *fetchDisplay) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
}

func (d *fetchDisplay) end() {
	if d.current == nil {
		return
	}
	if parts(*d.last.Load()) >= barParts {
		d.current.SetCurrent(barParts)
	} else {
		d.current.Abort(false)
	}
	d.bars.Wait()
	d.bars, d.current = nil, nil
}

// fetchLine is a download's state in one line.
func fetchLine(p fetch.Progress) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", p.Archive, bytesOf(p.Done))
	if p.Total > 0 {
		fmt.Fprintf(&b, " of %s  %.0f %%", bytesOf(p.Total), 100*float64(p.Done)/float64(p.Total))
	}
	if rate := p.Rate(); rate > 0 {
		fmt.Fprintf(&b, "  %s/s", bytesOf(int64(rate)))
		if p.Total > p.Done {
			left := time.Duration(float64(p.Total-p.Done) / rate * float64(time.Second))
			fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
		}
	}
	return b.String()
}
