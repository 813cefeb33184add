package study

import (
	"slices"
	"sync"

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

// tracker gathers the progress of cells side by side.
type tracker struct {
	report func(Progress) // may be nil

	mu    sync.Mutex
	state Progress
}

// of takes a cell's progress, until it has ended.
func (t *tracker) of(c *Cell) func(run.Progress) {
	if t.report == nil {
		return nil
	}
	return func(p run.Progress) {
		t.mu.Lock()
		defer t.mu.Unlock()
		i := t.index(c)
		if i < 0 {
			i = len(t.state.Running)
			t.state.Running = append(t.state.Running, Running{Cell: c})
		}
		t.state.Running[i].Run = p
		t.tell()
	}
}

// ended takes a cell off those under way; done says that it is complete.
func (t *tracker) ended(c *Cell, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.index(c); i >= 0 {
		t.state.Running = slices.Delete(t.state.Running, i, i+1)
	}
	if done {
		t.state.Done++
		t.tell()
	}
}

func (t *tracker) index(c *Cell) int {
	return slices.IndexFunc(t.state.Running, func(r Running) bool { return r.Cell == c })
}

// tell reports a copy of the state.
func (t *tracker) tell() {
	if t.report == nil {
		return
	}
	s := t.state
	s.Running = slices.Clone(s.Running)
	t.report(s)
}
