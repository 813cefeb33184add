package run

import (
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"

	"fedpace/actors/learn"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/experiment/folder"
	"fedpace/internal/vector"
)

// A checkpoint's payload is two values of encoding/gob, checkpointHead and
// checkpointBody, then the vectors that they announce, without anything between
// them: float32 and float64 values. Fields may be added to the gob values within
// a format: an older file lacks them, and they are zero.

// checkpointHead says what a checkpoint is of.
type checkpointHead struct {
	Config  string // the run's configuration, as config.yaml has it
	Data    string // digest; "": none was read
	Kernel  string // class; "": nothing is trained
	Version string // of the program that wrote it
}

// checkpointBody is all of a run but its vectors.
type checkpointBody struct {
	Limit    int64 // virtual time at which the run ends; 0: none
	Outputs  []folder.OutputSize
	Recorder savedRecorder
	State    coordinator.State // without vectors and steps done

	// Clients that have done steps, ascending, each as its distance from the one
	// before, and their steps.
	Clients int
	Stepped []uint32
	Steps   []int64

	// The vectors that follow, in this order.
	Params   int      // length of all of them
	Models   []uint64 // versions of the model, float32
	Server   int      // the algorithm's, float64
	Variate  bool     // the server's control variate, float64
	Variates []int    // clients whose control variates follow, float32
	Digests  []byte   // theirs
}

// checkpoint is a run's state as its file holds it.
type checkpoint struct {
	head  checkpointHead
	body  checkpointBody
	state coordinator.State
}

// pack sets what of the body follows from the rest.
func (c *checkpoint) pack() {
	b := &c.body
	b.State = c.state
	b.State.Models, b.State.Server, b.State.Variates, b.State.Machine.StepsDone = nil, nil, nil, nil
	done := c.state.Machine.StepsDone
	b.Clients = len(done)
	stepped, last := 0, 0
	for _, steps := range done {
		if steps != 0 {
			stepped++
		}
	}
	b.Stepped, b.Steps = slices.Grow(b.Stepped[:0], stepped), slices.Grow(b.Steps[:0], stepped)
	for client, steps := range done {
		if steps != 0 {
			b.Stepped, b.Steps = append(b.Stepped, uint32(client-last)), append(b.Steps, steps)
			last = client
		}
	}
	b.Models, b.Server, b.Variate, b.Variates, b.Digests = b.Models[:0], len(c.state.Server), false, b.Variates[:0], b.Digests[:0]
	for _, m := range c.state.Models {
		b.Params = len(m.Params)
		b.Models = append(b.Models, m.Number)
	}
	if v := c.state.Variates; v != nil {
		b.Variate = true
		b.Variates = append(b.Variates, v.Clients...)
		for _, own := range v.Values {
			b.Digests = append(b.Digests, own.Digest[:]...)
		}
	}
}

// writeTo writes the payload.
func (c *checkpoint) writeTo(w io.Writer) error {
	c.pack()
	e := gob.NewEncoder(w)
	if err := errors.Join(e.Encode(&c.head), e.Encode(&c.body)); err != nil {
		return err
	}
	var errs []error
	for _, m := range c.state.Models {
		errs = append(errs, writeVector(w, m.Params))
	}
	for _, s := range c.state.Server {
		errs = append(errs, writeVector(w, s))
	}
	if s := c.state.Variates; s != nil {
		errs = append(errs, writeVector(w, s.Server))
		for _, own := range s.Values {
			errs = append(errs, writeVector(w, own.Values))
		}
	}
	return errors.Join(errs...)
}

// read reads what writeTo wrote. It takes no more memory than the payload's bytes
// can fill. What is wrong with them is [ErrDamaged].
func (c *checkpoint) read(in *folder.Payload) error {
	d := gob.NewDecoder(in)
	err := d.Decode(&c.head)
	if err == nil {
		err = d.Decode(&c.body)
	}
	if err == nil {
		err = c.unpack(in)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", folder.ErrDamaged, err)
	}
	return nil
}

func (c *checkpoint) unpack(in *folder.Payload) error {
	b := &c.body
	c.state = b.State
	if b.Clients < 0 || b.Clients > maxClients || len(b.Stepped) != len(b.Steps) {
		return fmt.Errorf("steps of %d, %d of %d clients", len(b.Stepped), len(b.Steps), b.Clients)
	}
	done := make([]int64, b.Clients)
	client := uint64(0)
	for i, gap := range b.Stepped {
		client += uint64(gap)
		if client >= uint64(b.Clients) || i > 0 && gap == 0 {
			return fmt.Errorf("steps of client %d of %d", client, b.Clients)
		}
		done[client] = b.Steps[i]
	}
	c.state.Machine.StepsDone = done
	if b.Params < 0 || b.Params > learn.MaxParams || b.Server < 0 || len(b.Digests) != sha256.Size*len(b.Variates) {
		return fmt.Errorf("vectors of %d parameters", b.Params)
	}
	if len(b.Models) == 0 {
		if b.Server > 0 || b.Variate {
			return errors.New("vectors of a run without a model")
		}
		return nil
	}
	if b.Params < 1 {
		return errors.New("a model without parameters")
	}
	v := vectorReader{in: in, n: b.Params}
	for _, number := range b.Models {
		c.state.Models = append(c.state.Models, coordinator.Version{Number: number, Params: readVector[float32](&v)})
		if v.err != nil {
			return v.err
		}
	}
	for i := 0; i < b.Server && v.err == nil; i++ {
		c.state.Server = append(c.state.Server, readVector[float64](&v))
	}
	if b.Variate {
		s := &aggregate.VariatesState{Server: readVector[float64](&v), Clients: b.Variates}
		for i := 0; i < len(b.Variates) && v.err == nil; i++ {
			own := aggregate.Variate{Values: readVector[float32](&v)}
			copy(own.Digest[:], b.Digests[sha256.Size*i:])
			s.Values = append(s.Values, own)
		}
		c.state.Variates = s
	}
	return v.err
}

// maxClients is that of the key clients.
const maxClients = 10_000_000

// writeVector writes numbers little-endian.
func writeVector[T vector.Number](w io.Writer, v []T) error {
	_, err := w.Write(vector.Bytes(v))
	return err
}

// vectorReader reads vectors of n numbers; the first error stays.
type vectorReader struct {
	in  *folder.Payload
	n   int
	err error
}

// readVector takes no more memory than the bytes that are left can fill.
func readVector[T vector.Number](v *vectorReader) []T {
	if v.err == nil && int64(v.n)*int64(vector.Size[T]()) > v.in.Left() {
		v.err = fmt.Errorf("a vector of %d values where %d bytes are left: %w", v.n, v.in.Left(), io.ErrUnexpectedEOF)
	}
	if v.err != nil {
		return nil
	}
	list := make([]T, v.n)
	v.err = vector.Read(v.in, list)
	return list
}
