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
	// Config is the run's configuration, as config.yaml has it.
	Config string
	// Data is the digest of the samples and their split; it is empty where no data were read.
	Data string
	// Kernel is the class of arithmetic that trains; it is empty where nothing is trained.
	Kernel string
	// Trainer is the name of the trainer's model; it is empty where the run has no trainer.
	Trainer string
	// Files are the files that the configuration names, each with the digest of its content.
	Files []folder.InputFile
	// Version is the version of the program that wrote the checkpoint.
	Version string
}

// Body is all of a run but its vectors.
type Body struct {
	// Limit is the virtual time at which the run ends; 0 means that it has no such limit.
	Limit int64
	// Outputs are the digests of the output files, as they were when the checkpoint was written.
	Outputs []folder.FileDigest
	// Recorder is what the run's recorder remembers.
	Recorder Recorder
	// State is the coordinator's state without its vectors.
	State coordinator.State
	// Lengths are the lengths of the vectors that follow the body, in numbers and in the order of
	// the function vectorsOf.
	Lengths []int
}

// Recorder is what a run's recorder remembers: all that a result of the run depends on.
type Recorder struct {
	// Elapsed is the wall time of the run, summed over all its attempts.
	Elapsed time.Duration
	Summary Summary
	Outputs metrics.State
}

// Summary holds the values of the summary that neither the outputs nor the coordinator
// know.
type Summary struct {
	// Last is the report of the last round, with the values that were measured last.
	Last round.Report
	// Reached is the virtual time in seconds at which the target was first reached; it is NaN until
	// then.
	Reached float64
	// BestLoss is the lowest training loss over a window of rounds so far; it is NaN until there is
	// one.
	BestLoss float64
	// Best holds the best validation value so far of each quality that the summary shows, NaN where
	// there is none yet.
	Best []float64
	// Clients is the last evaluation by client, without the scores; it is nil before the first.
	Clients *metrics.ClientEvaluation
	// Restarts is how many of the trainer's processes died in earlier attempts.
	Restarts int64
	// Forked names where the run went on from another run; it is empty if the run began by itself.
	Forked string
}

// Checkpoint is a run's state as its file holds it.
type Checkpoint struct {
	Head Head
	// Body is everything but the vectors. Its State and Lengths are set when it is written.
	Body Body
	// State is the coordinator's state with its vectors.
	State coordinator.State
}

// vectorsOf lists pointers to all vectors that a coordinator's state has, in the order of the file: those of float32,
// then those of float64. [Checkpoint.pack] takes the vectors out of the state through the pointers, and
// [Checkpoint.unpack] puts them back.
func vectorsOf(s *coordinator.State) (floats []*[]float32, doubles []*[]float64) {
	for i := range s.Models {
		floats = append(floats, &s.Models[i].Params)
	}
	// The best model so far, to which a run with false updates of devices returns.
	floats = append(floats, &s.Guard.Good)
	// What a device has sent: its update, and what it keeps for its next task.
	for i := range s.Updates {
		floats = append(floats, &s.Updates[i].Values, &s.Updates[i].Kept)
	}
	// The vectors of the algorithm's server, and those that clients keep.
	for i := range s.Server {
		doubles = append(doubles, &s.Server[i])
	}
	if v := s.Variates; v != nil {
		doubles = append(doubles, &v.Server)
		for i := range v.Values {
			floats = append(floats, &v.Values[i].Values)
		}
	}
	return floats, doubles
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
	floats, doubles := vectorsOf(s)
	// Each vector is taken out of the body once its length is noted, so that gob does not encode
	// it.
	for _, v := range floats {
		c.Body.Lengths = append(c.Body.Lengths, len(*v))
		bytes = append(bytes, vector.Bytes(*v))
		*v = nil
	}
	for _, v := range doubles {
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
	floats, doubles := vectorsOf(&c.State)
	// A damaged body may announce more or fewer vectors than its own state has places for.
	if n := len(c.Body.Lengths); n != len(floats)+len(doubles) {
		return fmt.Errorf("lengths of %d vectors, and the state has %d", n, len(floats)+len(doubles))
	}
	for i, v := range floats {
		if err := readVector(in, v, c.Body.Lengths[i]); err != nil {
			return err
		}
	}
	for i, v := range doubles {
		if err := readVector(in, v, c.Body.Lengths[len(floats)+i]); err != nil {
			return err
		}
	}
	return nil
}

// readVector reads a vector of length numbers, after it has checked that the payload can hold it: a damaged
// length must not take memory.
func readVector[T vector.Number](in *folder.Payload, v *[]T, length int) error {
	if remaining := in.Remaining() / int64(vector.Size[T]()); length < 0 || int64(length) > remaining {
		return fmt.Errorf("a vector of %d numbers where %d are left: %w", length, remaining, io.ErrUnexpectedEOF)
	}
	*v = nil
	if length > 0 {
		*v = make([]T, length)
	}
	return vector.Read(in, *v)
}
