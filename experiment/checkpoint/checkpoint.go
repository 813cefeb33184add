package checkpoint

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

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
	Config  string             // the run's configuration, as config.yaml has it
	Data    string             // digest; "": none was read
	Kernel  string             // class; "": nothing is trained
	Trainer string             // its model's name; "": none
	Files   []folder.InputFile // that the configuration names
	Version string             // of the program that wrote it
}

// Body is all of a run but its vectors.
type Body struct {
	Limit    int64 // virtual time at which the run ends; 0: none
	Outputs  []folder.FileDigest
	Recorder Recorder
	State    coordinator.State // without vectors
	Lengths  []int             // of the vectors that follow
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
	Body  Body              // its State and Lengths are set when it is written
	State coordinator.State // with vectors
}

// vectors lists a state's vectors in the order of the file: those of float32, then those of float64.
// The pointers are into the state, so that reading fills it.
func vectors(s *coordinator.State) (floats []*[]float32, double []*[]float64) {
	for i := range s.Models {
		floats = append(floats, &s.Models[i].Params)
	}
	floats = append(floats, &s.Guard.Good)
	for i := range s.Updates {
		floats = append(floats, &s.Updates[i].Values, &s.Updates[i].Kept)
	}
	for i := range s.Server {
		double = append(double, &s.Server[i])
	}
	if v := s.Variates; v != nil {
		double = append(double, &v.Server)
		for i := range v.Values {
			floats = append(floats, &v.Values[i].Values)
		}
	}
	return floats, double
}

// pack fills the body with the state and the lengths of its vectors, and returns the vectors as bytes,
// which share the run's memory. The structures that hold the vectors are copied first, because they
// are the run's own and their vectors are taken out of the body.
func (c *Checkpoint) pack() (bytes [][]byte) {
	c.Body.State = c.State
	c.Body.Lengths = nil
	s := &c.Body.State
	s.Models = slices.Clone(s.Models)
	s.Updates = slices.Clone(s.Updates)
	s.Server = slices.Clone(s.Server)
	if s.Variates != nil {
		v := *s.Variates
		v.Values = slices.Clone(v.Values)
		s.Variates = &v
	}
	floats, double := vectors(s)
	for _, v := range floats {
		c.Body.Lengths = append(c.Body.Lengths, len(*v))
		bytes = append(bytes, vector.Bytes(*v))
		*v = nil
	}
	for _, v := range double {
		c.Body.Lengths = append(c.Body.Lengths, len(*v))
		bytes = append(bytes, vector.Bytes(*v))
		*v = nil
	}
	return bytes
}

// writeTo writes the head, the body and the vectors, without anything between them.
func (c *Checkpoint) writeTo(w io.Writer) error {
	list := c.pack()
	e := gob.NewEncoder(w)
	err := errors.Join(e.Encode(&c.Head), e.Encode(&c.Body))
	for _, v := range list {
		if err == nil {
			_, err = w.Write(v)
		}
	}
	return err
}

// WriteWith writes the payload of a run whose outputs have these digests.
func (c *Checkpoint) WriteWith(w io.Writer, outputs []folder.FileDigest) error {
	c.Body.Outputs = outputs
	return c.writeTo(w)
}

// Read reads a payload that WriteWith wrote. It takes no more memory than the payload's bytes can
// fill. Errors wrap [folder.ErrDamaged].
func (c *Checkpoint) Read(in *folder.Payload) error {
	err := c.readValues(in)
	if err == nil {
		err = c.unpack(in)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", folder.ErrDamaged, err)
	}
	return nil
}

// readValues reads the head and the body, which stand before the vectors.
func (c *Checkpoint) readValues(in *folder.Payload) error {
	d := gob.NewDecoder(in)
	if err := d.Decode(&c.Head); err != nil {
		return err
	}
	return d.Decode(&c.Body)
}

// unpack takes the state from the body, and reads its vectors.
func (c *Checkpoint) unpack(in *folder.Payload) error {
	c.State = c.Body.State
	floats, double := vectors(&c.State)
	if n := len(c.Body.Lengths); n != len(floats)+len(double) {
		return fmt.Errorf("lengths of %d vectors, and the state has %d", n, len(floats)+len(double))
	}
	for i, v := range floats {
		if err := read(in, v, c.Body.Lengths[i]); err != nil {
			return err
		}
	}
	for i, v := range double {
		if err := read(in, v, c.Body.Lengths[len(floats)+i]); err != nil {
			return err
		}
	}
	return nil
}

// read reads a vector of so many numbers, after it has checked that the payload can hold it: a damaged
// length must not take memory.
func read[T vector.Number](in *folder.Payload, v *[]T, length int) error {
	if remaining := in.Remaining() / int64(vector.Size[T]()); length < 0 || int64(length) > remaining {
		return fmt.Errorf("a vector of %d numbers where %d are left: %w", length, remaining, io.ErrUnexpectedEOF)
	}
	*v = nil
	if length > 0 {
		*v = make([]T, length)
	}
	return vector.Read(in, *v)
}
