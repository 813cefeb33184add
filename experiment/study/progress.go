package study

import (
	"slices"

	"fedpace/experiment/run"
)

// Progress is where a study stands, for people. Nothing in it decides anything.
type Progress struct {
	Cells   int // of the study
	Done    int // of them, those done before included
	Running []Running
}

// Running is a cell under way.
type Running struct {
	Cell *Cell
	Run  run.Progress
}

// Fraction is the part of the cells that is done, from 0 to 1, each counted the same.
func (p Progress) Fraction() float64 {
	if p.Cells == 0 {
		return 1
	}
	done := float64(p.Done)
	for _, r := range p.Running {
		done += r.Run.Fraction()
	}
	return done / float64(p.Cells)
}

// watch takes the progress of a cell's run.
func (p *player) watch(c *Cell) func(run.Progress) {
	return func(now run.Progress) {
		p.mu.Lock()
		defer p.mu.Unlock()
		running := p.state.Running
		i := slices.IndexFunc(running, func(r Running) bool { return r.Cell == c })
		if i < 0 {
			i, running = len(running), append(running, Running{Cell: c})
		}
		running[i].Run, p.state.Running = now, running
		p.report()
	}
}

// ended takes a cell off those under way, and returns how many are complete.
func (p *player) ended(c *Cell) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Running = slices.DeleteFunc(p.state.Running, func(r Running) bool { return r.Cell == c })
	p.state.Done++
	p.report()
	return p.state.Done
}

// report reports a copy of the state.
func (p *player) report() {
	if p.Progress != nil {
		s := p.state
		s.Running = slices.Clone(s.Running)
		p.Progress(s)
	}
}
