package checkpoint

import (
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"fedpace/actors/algorithm"
	"fedpace/actors/learn"
	"fedpace/coordinator"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/vector"
	"fedpace/metrics"
)

// A checkpoint's payload is two values of encoding/gob, Head and Body, then the vectors
// that they announce, without anything between them: float32 and float64 values.

// Head says what a checkpoint is of.
type Head struct {
	Config  string // the run's configuration, as config.yaml has it
	Data    string // digest; "": none was read
	Kernel  string // class; "": nothing is trained
	Trainer string // its model's name; "": none
	Version string // of the program that wrote it
}

// Body is all of a run but its vectors.
type Body struct {
	Limit    int64 // virtual time at which the run ends; 0: none
	Outputs  []folder.FileDigest
	Recorder Recorder
	State    coordinator.State // without vectors
	Params   int               // length of every vector that follows, but for those of Answers and of clients
	Server   int               // how many of them are the algorithm's
	Answers  [][2]int          // by update of a device, how long it is, and what its device keeps; none: Params, and nothing
}

// Recorder is what a run's recorder remembers: all that a result of the run depends on.
type Recorder struct {
	Elapsed time.Duration // wall time of the run, over all its attempts
	Summary Summary
	Outputs metrics.State
}

// Summary holds the values of the summary that neither the outputs nor the coordinator
// know.
type Summary struct {
	Last     round.Report // with what was measured last
	Reached  float64      // virtual seconds to the target; NaN: not yet
	BestLoss float64
	Best     []float64                 // validations, as shown; NaN: none yet
	Clients  *metrics.ClientEvaluation // the last, without scores; nil: none yet
	Restarts int64                     // of the trainer's processes, in earlier attempts
	Forked   string                    // where the run went on from another one; empty: it began by itself
}

// Checkpoint is a run's state as its file holds it.
type Checkpoint struct {
	Head  Head
	Body  Body              // its State, Params and Server are set when it is written
	State coordinator.State // with vectors
}

// pack fills the body with the state.
func (c *Checkpoint) pack() {
	b := &c.Body
	b.State, b.Server = c.State, len(c.State.Server)
	b.State.Models, b.State.Server, b.State.Updates, b.State.Guard.Good = nil, nil, nil, nil
	b.Answers = nil
	for _, u := range c.State.Updates {
		b.Answers = append(b.Answers, [2]int{len(u.Values), len(u.Kept)})
		u.Values, u.Kept = nil, nil
		b.State.Updates = append(b.State.Updates, u)
	}
	for _, m := range c.State.Models {
		b.Params = len(m.Params)
		b.State.Models = append(b.State.Models, coordinator.Version{Number: m.Number, Doubtful: m.Doubtful})
	}
	if v := c.State.Variates; v != nil {
		b.State.Variates = &algorithm.VariatesState{Clients: v.Clients, Residuals: v.Residuals, Width: v.Width}
		for _, own := range v.Values {
			b.State.Variates.Values = append(b.State.Variates.Values, algorithm.Variate{Digest: own.Digest})
		}
	}
}

// eachVector calls one of the functions for each vector of the state, in the order of
// the file.
func (c *Checkpoint) eachVector(single func([]float32) error, double func([]float64) error) error {
	var errs []error
	for _, m := range c.State.Models {
		errs = append(errs, single(m.Params))
	}
	if good := c.State.Guard.Good; good != nil {
		errs = append(errs, single(good))
	}
	for _, v := range c.State.Server {
		errs = append(errs, double(v))
	}
	for _, u := range c.State.Updates {
		errs = append(errs, single(u.Values), single(u.Kept))
	}
	if v := c.State.Variates; v != nil {
		if !v.Residuals {
			errs = append(errs, double(v.Server))
		}
		for _, own := range v.Values {
			errs = append(errs, single(own.Values))
		}
	}
	return errors.Join(errs...)
}

func (c *Checkpoint) writeTo(w io.Writer) error {
	c.pack()
	e := gob.NewEncoder(w)
	if err := errors.Join(e.Encode(&c.Head), e.Encode(&c.Body)); err != nil {
		return err
	}
	return c.eachVector(
		func(v []float32) error { _, err := w.Write(vector.Bytes(v)); return err },
		func(v []float64) error { _, err := w.Write(vector.Bytes(v)); return err })
}

// WriteWith writes the payload of a run whose outputs hold this.
func (c *Checkpoint) WriteWith(w io.Writer, outputs []folder.FileDigest) error {
	c.Body.Outputs = outputs
	return c.writeTo(w)
}

// Read reads a payload that WriteWith wrote. It takes no more memory than the payload's
// bytes can fill. Errors wrap [folder.ErrDamaged].
func (c *Checkpoint) Read(in *folder.Payload) error {
	err := c.readValues(in)
	if err == nil {
		err = c.unpack(in.Left())
	}
	if err == nil {
		err = c.eachVector(
			func(v []float32) error { return vector.Read(in, v) },
			func(v []float64) error { return vector.Read(in, v) })
	}
	if err != nil {
		return fmt.Errorf("%w: %w", folder.ErrDamaged, err)
	}
	return nil
}

// readValues reads what is before the vectors.
func (c *Checkpoint) readValues(in *folder.Payload) error {
	d := gob.NewDecoder(in)
	if err := d.Decode(&c.Head); err != nil {
		return err
	}
	return d.Decode(&c.Body)
}

// unpack makes the state of the body, with room for the vectors, which must fit in so
// many bytes.
func (c *Checkpoint) unpack(left int64) error {
	c.State = c.Body.State
	params, s := c.Body.Params, &c.State
	single, double := float64(len(s.Models)), float64(c.Body.Server)
	if s.Guard.First > 0 {
		single++
	}
	width, kept := params, 0.
	if v := s.Variates; v != nil {
		if width, kept = cmp.Or(v.Width, params), float64(len(v.Values)); !v.Residuals {
			double++
		}
	}
	answers, least := 0., 0
	for i := range s.Updates {
		if len(c.Body.Answers) != len(s.Updates) { // of a program of before
			c.Body.Answers = slices.Repeat([][2]int{{params, 0}}, len(s.Updates))
		}
		n := c.Body.Answers[i]
		answers, least = answers+float64(n[0])+float64(n[1]), min(least, n[0], n[1])
	}
	switch size := float64(params)*(4*single+8*double) + 4*(float64(width)*kept+answers); {
	case params < 0 || least < 0 || params > learn.MaxParams || c.Body.Server < 0 || width < 0:
		return fmt.Errorf("vectors of %d parameters, and of %d values that clients keep", params, width)
	case len(s.Models) == 0 && double+single+kept+answers > 0:
		return errors.New("vectors of a run without a model")
	case len(s.Models) > 0 && params == 0:
		return errors.New("a model without parameters")
	case size > float64(left):
		return fmt.Errorf("vectors of %g bytes where %d are left: %w", size, left, io.ErrUnexpectedEOF)
	}
	for i := range s.Models {
		s.Models[i].Params = make([]float32, params)
	}
	if s.Guard.First > 0 {
		s.Guard.Good = make([]float32, params)
	}
	for i := range s.Updates {
		s.Updates[i].Values, s.Updates[i].Kept = make([]float32, c.Body.Answers[i][0]), make([]float32, c.Body.Answers[i][1])
	}
	s.Server = nil
	for range c.Body.Server {
		s.Server = append(s.Server, make([]float64, params))
	}
	if v := s.Variates; v != nil {
		if v.Server = nil; !v.Residuals {
			v.Server = make([]float64, params)
		}
		for i := range v.Values {
			v.Values[i].Values = make([]float32, width)
		}
	}
	return nil
}
