package experiment

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"slices"

	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/experiment/config"
)

// A checkpoint's file is, integers little-endian:
//
//	magic     20 bytes
//	format    uint32
//	length    uint64, of the payload
//	payload   two values of encoding/gob (checkpointHead, checkpointBody), then
//	          the vectors that they announce, without anything between them:
//	          float32 and float64 values
//	checksum  SHA-256 of magic, format, length and the payload's SHA-256
//
// Fields may be added to the gob values within a format: an older file lacks
// them, and they are zero.
const (
	checkpointMagic   = "fedpace checkpoint\n\x00"
	checkpointFormat  = 1
	checkpointHeadLen = int64(len(checkpointMagic)) + 4 + 8
	maxCheckpoint     = 1 << 40 // bytes
)

// Why a checkpoint is refused.
var (
	// ErrCheckpoint is wrapped by all of these.
	ErrCheckpoint = errors.New("checkpoint")
	// ErrTruncated: the file ends early.
	ErrTruncated = fmt.Errorf("%w: truncated", ErrCheckpoint)
	// ErrDamaged: the file is whole in length and not what was written.
	ErrDamaged = fmt.Errorf("%w: damaged", ErrCheckpoint)
	// ErrForeign: the file is not a checkpoint, or one of another run, data set
	// or kernel class.
	ErrForeign = fmt.Errorf("%w: foreign", ErrCheckpoint)
	// ErrNewer: a later version wrote the file.
	ErrNewer = fmt.Errorf("%w: of a newer format", ErrCheckpoint)
)

// spoilt says whether a checkpoint was one of this run and is not any more.
func spoilt(err error) bool { return errors.Is(err, ErrTruncated) || errors.Is(err, ErrDamaged) }

// checkpointHead says what a checkpoint is of.
type checkpointHead struct {
	Config  string // the run's configuration, as config.yaml has it
	Data    string // digest; "": none was read
	Kernel  string // class; "": nothing is trained
	Version string // of the program that wrote it
}

// checkpointBody is all of a run but its vectors.
type checkpointBody struct {
	Limit   int64 // virtual time at which the run ends; 0: none
	Outputs []outputSize
	Tally   savedTally
	State   coordinator.State // without vectors and steps done

	// Clients that have done steps, ascending, each as its distance from the one
	// before, and their steps.
	Clients int
	Stepped []uint32
	Steps   []int64

	// The vectors that follow, in this order.
	Params   int      // length of all of them
	Models   []uint64 // versions of the model, float32
	Best     bool     // the best model so far, float32
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
	best  []float32 // nil: none yet
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
	b.Models, b.Best, b.Server, b.Variate, b.Variates, b.Digests = b.Models[:0], c.best != nil, len(c.state.Server), false, b.Variates[:0], b.Digests[:0]
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
	v := vectorWriter{w: w}
	for _, m := range c.state.Models {
		v.float32s(m.Params)
	}
	v.float32s(c.best)
	for _, s := range c.state.Server {
		v.float64s(s)
	}
	if s := c.state.Variates; s != nil {
		v.float64s(s.Server)
		for _, own := range s.Values {
			v.float32s(own.Values)
		}
	}
	return v.err
}

// readPayload reads what writeTo wrote. left is how many bytes there are: no
// more memory is taken than they can fill.
func readPayload(r io.Reader, left int64) (c *checkpoint, err error) {
	in := &countedReader{r: bufio.NewReader(io.LimitReader(r, left)), left: left}
	c = &checkpoint{}
	d := gob.NewDecoder(in)
	if err := d.Decode(&c.head); err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	if err := d.Decode(&c.body); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if err := c.unpack(in); err != nil {
		return nil, err
	}
	if in.left != 0 {
		return nil, fmt.Errorf("%d bytes too many", in.left)
	}
	return c, nil
}

func (c *checkpoint) unpack(in *countedReader) error {
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
	if b.Params < 0 || b.Params > config.MaxParameters || b.Server < 0 || len(b.Digests) != sha256.Size*len(b.Variates) {
		return fmt.Errorf("vectors of %d parameters", b.Params)
	}
	if len(b.Models) == 0 {
		if b.Best || b.Server > 0 || b.Variate {
			return errors.New("vectors of a run without a model")
		}
		return nil
	}
	if b.Params < 1 {
		return errors.New("a model without parameters")
	}
	v := vectorReader{in: in, n: b.Params}
	for _, number := range b.Models {
		c.state.Models = append(c.state.Models, coordinator.Version{Number: number, Params: v.float32s()})
		if v.err != nil {
			return v.err
		}
	}
	if b.Best {
		c.best = v.float32s()
	}
	for i := 0; i < b.Server && v.err == nil; i++ {
		c.state.Server = append(c.state.Server, v.float64s())
	}
	if b.Variate {
		s := &aggregate.VariatesState{Server: v.float64s(), Clients: b.Variates}
		for i := 0; i < len(b.Variates) && v.err == nil; i++ {
			own := aggregate.Variate{Values: v.float32s()}
			copy(own.Digest[:], b.Digests[sha256.Size*i:])
			s.Values = append(s.Values, own)
		}
		c.state.Variates = s
	}
	return v.err
}

// maxClients is that of the key clients.
const maxClients = 10_000_000

// vectorWriter writes values little-endian; the first error stays.
type vectorWriter struct {
	w   io.Writer
	b   []byte
	err error
}

func (v *vectorWriter) flush() {
	if v.err == nil {
		_, v.err = v.w.Write(v.b)
	}
	v.b = v.b[:0]
}

const vectorBuffer = 64 << 10

func (v *vectorWriter) float32s(list []float32) {
	for _, x := range list {
		if v.b = binary.LittleEndian.AppendUint32(v.b, math.Float32bits(x)); len(v.b) >= vectorBuffer {
			v.flush()
		}
	}
	v.flush()
}

func (v *vectorWriter) float64s(list []float64) {
	for _, x := range list {
		if v.b = binary.LittleEndian.AppendUint64(v.b, math.Float64bits(x)); len(v.b) >= vectorBuffer {
			v.flush()
		}
	}
	v.flush()
}

// vectorReader reads vectors of n values; the first error stays.
type vectorReader struct {
	in  *countedReader
	n   int
	b   []byte
	err error
}

// each calls f with each value's bytes.
func (v *vectorReader) each(size int, f func(i int, b []byte)) {
	if v.err == nil && int64(v.n)*int64(size) > v.in.left {
		v.err = fmt.Errorf("a vector of %d values where %d bytes are left: %w", v.n, v.in.left, io.ErrUnexpectedEOF)
	}
	if v.b == nil {
		v.b = make([]byte, vectorBuffer)
	}
	for i := 0; i < v.n && v.err == nil; {
		b := v.b[:min(len(v.b), size*(v.n-i))]
		if _, v.err = io.ReadFull(v.in, b); v.err != nil {
			return
		}
		for ; len(b) > 0; b = b[size:] {
			f(i, b)
			i++
		}
	}
}

func (v *vectorReader) float32s() (list []float32) {
	v.each(4, func(i int, b []byte) {
		if list == nil {
			list = make([]float32, v.n)
		}
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
	})
	return list
}

func (v *vectorReader) float64s() (list []float64) {
	v.each(8, func(i int, b []byte) {
		if list == nil {
			list = make([]float64, v.n)
		}
		list[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
	})
	return list
}

// countedReader knows how much is left to read. It is an io.ByteReader, so that gob
// takes no more of it than is its own.
type countedReader struct {
	r    *bufio.Reader
	left int64
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.left -= int64(n)
	return n, err
}

func (c *countedReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.left--
	}
	return b, err
}

// writeCheckpoint fills a file, which is empty.
func writeCheckpoint(f *os.File, c *checkpoint) error {
	head := checkpointStart(0)
	if _, err := f.Write(head); err != nil {
		return err
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(f, 1<<18)
	size := new(lengthOf)
	if err := c.writeTo(io.MultiWriter(out, sum, size)); err != nil {
		return err
	}
	head = checkpointStart(uint64(*size))
	if _, err := out.Write(checkpointSum(head, sum)); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := f.WriteAt(head, 0)
	return err
}

// checkpointStart is what is before the payload.
func checkpointStart(length uint64) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(checkpointMagic), checkpointFormat)
	return binary.LittleEndian.AppendUint64(b, length)
}

// checkpointSum is what is behind it.
func checkpointSum(head []byte, payload hash.Hash) []byte {
	sum := sha256.Sum256(payload.Sum(bytes.Clone(head)))
	return sum[:]
}

type lengthOf int64

func (n *lengthOf) Write(b []byte) (int, error) {
	*n += lengthOf(len(b))
	return len(b), nil
}

// readCheckpoint reads a checkpoint of the given size. Its errors wrap one of
// ErrTruncated, ErrDamaged, ErrForeign and ErrNewer, or are those of reading.
func readCheckpoint(f io.ReadSeeker, size int64) (*checkpoint, error) {
	head := make([]byte, min(checkpointHeadLen, size))
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, err
	}
	if n := min(len(head), len(checkpointMagic)); string(head[:n]) != checkpointMagic[:n] {
		return nil, fmt.Errorf("%w: the file does not begin as one", ErrForeign)
	}
	if int64(len(head)) < checkpointHeadLen {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrTruncated, size)
	}
	rest := head[len(checkpointMagic):]
	format, length := binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint64(rest[4:])
	switch whole := checkpointHeadLen + int64(length) + sha256.Size; {
	case format > checkpointFormat:
		return nil, fmt.Errorf("%w: %d, and this version reads up to %d", ErrNewer, format, checkpointFormat)
	case format < 1 || length > maxCheckpoint:
		return nil, fmt.Errorf("%w: its head says format %d and %d bytes", ErrDamaged, format, length)
	case size < whole:
		return nil, fmt.Errorf("%w: it has %d of %d bytes", ErrTruncated, size, whole)
	case size > whole:
		return nil, fmt.Errorf("%w: it has %d bytes, %d were written", ErrDamaged, size, whole)
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, f, int64(length)); err != nil {
		return nil, err
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(f, want); err != nil {
		return nil, err
	}
	if !bytes.Equal(checkpointSum(head, sum), want) {
		return nil, fmt.Errorf("%w: its checksum is not that of what it holds", ErrDamaged)
	}
	if _, err := f.Seek(checkpointHeadLen, io.SeekStart); err != nil {
		return nil, err
	}
	c, err := readPayload(f, int64(length))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return c, nil
}
