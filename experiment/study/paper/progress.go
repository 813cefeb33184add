package paper

import (
	"slices"
	"sync"

	"fedpace/experiment/run"
)

// Progress is where an evaluation stands, for those who watch it. Nothing in it
// decides anything.
type Progress struct {
	Cells   int // of the plan
	Done    int // of them, those done before included
	Running []Running
}

// Running is a cell under way.
type Running struct {
	Cell *Cell
	Run  run.Progress
}

// Fraction is the part of the cells that is done, from 0 to 1, each counted the
// same.
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

// watch gathers what cells side by side tell.
type watch struct {
	tell func(Progress) // may be nil

	mu    sync.Mutex
	state Progress
}

// of is what a cell tells its progress to, until it has ended.
func (w *watch) of(c *Cell) func(run.Progress) {
	if w.tell == nil {
		return nil
	}
	return func(p run.Progress) {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := w.index(c)
		if i < 0 {
			i = len(w.state.Running)
			w.state.Running = append(w.state.Running, Running{Cell: c})
		}
		w.state.Running[i].Run = p
		w.say()
	}
}

// ended takes a cell off those under way; done says that it is complete.
func (w *watch) ended(c *Cell, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := w.index(c); i >= 0 {
		w.state.Running = slices.Delete(w.state.Running, i, i+1)
	}
	if done {
		w.state.Done++
		w.say()
	}
}

func (w *watch) index(c *Cell) int {
	return slices.IndexFunc(w.state.Running, func(r Running) bool { return r.Cell == c })
}

// say tells a state of which nothing changes any more.
func (w *watch) say() {
	if w.tell == nil {
		return
	}
	s := w.state
	s.Running = slices.Clone(s.Running)
	w.tell(s)
}
