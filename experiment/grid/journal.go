package grid

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"

	"fedpace/actors/flower"
	"fedpace/internal/framing"
)

// journal holds what the clients replied, so that a run that was killed can be played again from
// its start without its clients: the ServerApp asks the same, and gets the same. Beyond a size it
// holds digests of replies in their place, and the clients are run again.
//
// It is a log of records as package framing has them, each an [entry]. It is written in the order
// in which messages are served, and read by their numbers.
type journal struct {
	file  *os.File
	limit int64
	size  int64
	// places are where the records of an earlier attempt lie, by the number of the message.
	places map[uint64]place
}

// place is where a record's payload lies in the file.
type place struct{ offset, size int64 }

// entry is a record of the journal: a message and the reply to it.
type entry struct {
	// Number, Node, Type and Content identify the message. Content is the digest of its content.
	Number  uint64
	Node    int64
	Type    string
	Content [sha256.Size]byte

	// Reply is what the node replied, without its content and state where Whole is false.
	Reply flower.Reply
	Whole bool
	// SameState says that the node's state is the one before, which is then not in the record.
	SameState bool
	// Sum is a digest of the reply's content and state, where Whole is false.
	Sum [sha256.Size]byte
}

// errJournal is wrapped by the error for a journal that is damaged.
var errJournal = errors.New("the journal of replies is damaged")

// ErrNotRepeated is wrapped by the error for an app that does not repeat itself.
var ErrNotRepeated = errors.New("does not repeat itself")

// maxRecord bounds a record of the journal, in bytes.
const maxRecord = 1 << 32

// openJournal opens a journal for reading what it has and for appending. A torn record at its end,
// of a process that was killed, is cut off.
func openJournal(path string, limit int64) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	j := &journal{
		file:   file,
		limit:  limit,
		places: map[uint64]place{},
	}
	if err := j.index(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return j, nil
}

// index reads the journal once and notes where each record lies.
func (j *journal) index() error {
	r := framing.NewReader(bufio.NewReaderSize(j.file, 1<<20), 0, maxRecord, errJournal)
	for {
		payload, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var e entry
		if err := gob.NewDecoder(bytes.NewReader(payload)).Decode(&e); err != nil {
			return fmt.Errorf("%w: %w", errJournal, err)
		}
		j.places[e.Number] = place{r.Offset - int64(len(payload)), int64(len(payload))}
	}
	j.size = r.Offset
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.file.Seek(j.size, io.SeekStart)
	return err
}

// read reads the record of a message; false if there is none.
func (j *journal) read(number uint64) (*entry, bool, error) {
	at, ok := j.places[number]
	if !ok {
		return nil, false, nil
	}
	var e entry
	err := gob.NewDecoder(io.NewSectionReader(j.file, at.offset, at.size)).Decode(&e)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", errJournal, err)
	}
	return &e, true, nil
}

// reply returns the reply to a message that an earlier attempt has had, without the node's state if
// that stays; nil if the message must be served. A message that differs from the one of that number
// in the earlier attempt is an error: the ServerApp asks something else than it did.
func (j *journal) reply(m *message, state [][]byte) (*flower.Reply, error) {
	e, ok, err := j.read(m.number)
	if err != nil || !ok {
		return nil, err
	}
	same := e.Node == m.sent.Node && e.Type == m.sent.Type && e.Content == m.content
	if !same {
		return nil, fmt.Errorf(
			"the ServerApp %w: its message %d, %s to node %d, differs from the one that it sent before "+
				"(seed what it draws from: random, numpy and torch are seeded by flower, other sources are not)",
			ErrNotRepeated,
			m.number,
			m.sent.Type,
			m.sent.Node,
		)
	}
	if !e.Whole {
		return nil, nil
	}
	if e.SameState {
		e.Reply.State = state
	}
	return &e.Reply, nil
}

// keep writes the reply to a message. If an earlier attempt has had one whose digest alone is known,
// the two must be the same.
func (j *journal) keep(m *message, state [][]byte, reply *flower.Reply) error {
	before, ok, err := j.read(m.number)
	if err != nil {
		return err
	}
	if ok {
		if before.Sum != sumOf(reply) {
			return fmt.Errorf(
				"the ClientApp %w: its reply to message %d, %s at node %d, differs from the one before",
				ErrNotRepeated,
				m.number,
				m.sent.Type,
				m.sent.Node,
			)
		}
		return nil
	}
	e := &entry{
		Number:  m.number,
		Node:    m.sent.Node,
		Type:    m.sent.Type,
		Content: m.content,
		Reply:   *reply,
		Whole:   j.size < j.limit,
	}
	e.Reply.Seconds = 0
	if sameBlobs(state, reply.State) {
		e.SameState = true
		e.Reply.State = nil
	}
	if !e.Whole {
		e.Sum = sumOf(reply)
		e.Reply.Content = nil
		e.Reply.State = nil
	}
	return j.write(e)
}

// write appends a record. It is with the operating system when write returns, so that it outlives
// this process.
func (j *journal) write(e *entry) error {
	var payload bytes.Buffer
	payload.Write(make([]byte, framing.Size))
	if err := gob.NewEncoder(&payload).Encode(e); err != nil {
		return err
	}
	n, err := j.file.Write(framing.Seal(payload.Bytes()))
	j.size += int64(n)
	if err != nil {
		return fmt.Errorf("the journal of replies: %w", err)
	}
	return nil
}

// Close closes the file.
func (j *journal) Close() error { return j.file.Close() }

// sameBlobs reports whether two lists are the same memory, as a state is that a reply has not
// changed.
func sameBlobs(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0]
}

// sumOf is a digest of a reply's content and state.
func sumOf(r *flower.Reply) (sum [sha256.Size]byte) {
	total := sha256.New()
	fmt.Fprintf(total, "%d %d %d %q\n", len(r.Content), len(r.State), r.Code, r.Raised)
	for _, list := range [...][][]byte{r.Content, r.State} {
		for _, blob := range list {
			fmt.Fprintf(total, "%d\n", len(blob))
			total.Write(blob)
		}
	}
	total.Sum(sum[:0])
	return sum
}
