package run

import (
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

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

// pack fills the body with the state.
func (c *checkpoint) pack() {
	b := &c.body
	b.State = c.state
	b.State.Models, b.State.Server, b.State.Variates, b.State.Machine.StepsDone = nil, nil, nil, nil
	b.Clients = len(c.state.Machine.StepsDone)
	b.Stepped, b.Steps = b.Stepped[:0], b.Steps[:0]
	last := 0
	for client, steps := range c.state.Machine.StepsDone {
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

// eachVector calls one of the functions for each vector of the state, in the order of
// the file.
func (c *checkpoint) eachVector(single func([]float32) error, double func([]float64) error) error {
	var errs []error
	for _, m := range c.state.Models {
		errs = append(errs, single(m.Params))
	}
	for _, v := range c.state.Server {
		errs = append(errs, double(v))
	}
	if v := c.state.Variates; v != nil {
		errs = append(errs, double(v.Server))
		for _, own := range v.Values {
			errs = append(errs, single(own.Values))
		}
	}
	return errors.Join(errs...)
}

// writeTo writes the payload.
func (c *checkpoint) writeTo(w io.Writer) error {
	c.pack()
	e := gob.NewEncoder(w)
	if err := errors.Join(e.Encode(&c.head), e.Encode(&c.body)); err != nil {
		return err
	}
	return c.eachVector(
		func(v []float32) error { _, err := w.Write(vector.Bytes(v)); return err },
		func(v []float64) error { _, err := w.Write(vector.Bytes(v)); return err })
}

// read reads a payload that writeTo wrote. It takes no more memory than the payload's
// bytes can fill. Errors wrap [folder.ErrDamaged].
func (c *checkpoint) read(in *folder.Payload) error {
	d := gob.NewDecoder(in)
	err := d.Decode(&c.head)
	if err == nil {
		err = d.Decode(&c.body)
	}
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

// maxClients is that of the key clients.
const maxClients = 10_000_000

// unpack makes the state of the body, with room for the vectors, which must fit in so
// many bytes.
func (c *checkpoint) unpack(left int64) error {
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
	variate := 0
	if b.Variate {
		variate = 1
	}
	switch size := float64(b.Params) * (4*float64(len(b.Models)+len(b.Variates)) + 8*float64(b.Server+variate)); {
	case b.Params < 0 || b.Params > learn.MaxParams || b.Server < 0 || len(b.Digests) != sha256.Size*len(b.Variates):
		return fmt.Errorf("vectors of %d parameters", b.Params)
	case len(b.Models) == 0 && (b.Server > 0 || b.Variate):
		return errors.New("vectors of a run without a model")
	case len(b.Models) > 0 && b.Params == 0:
		return errors.New("a model without parameters")
	case size > float64(left):
		return fmt.Errorf("vectors of %g bytes where %d are left: %w", size, left, io.ErrUnexpectedEOF)
	}
	for _, number := range b.Models {
		c.state.Models = append(c.state.Models, coordinator.Version{Number: number, Params: make([]float32, b.Params)})
	}
	for range b.Server {
		c.state.Server = append(c.state.Server, make([]float64, b.Params))
	}
	if b.Variate {
		s := &aggregate.VariatesState{Server: make([]float64, b.Params), Clients: b.Variates}
		for i := range b.Variates {
			s.Values = append(s.Values, aggregate.Variate{
				Digest: [sha256.Size]byte(b.Digests[sha256.Size*i:]), Values: make([]float32, b.Params),
			})
		}
		c.state.Variates = s
	}
	return nil
}
