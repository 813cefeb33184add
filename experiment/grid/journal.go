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
	"slices"

	"fedpace/actors/flower"
	"fedpace/internal/framing"
	"fedpace/internal/uncached"
)

// journal holds what the clients replied to the messages of a Flower run, so that a run that was
// killed can be played again from its start without its clients: the ServerApp sends the same
// messages, and the journal answers them with the same replies. Beyond a size it holds digests of
// replies in their place, and the clients are run again.
//
// It is a log of records as package framing has them, each an [entry] with the blobs of its reply
// behind it. It is written in the order in which messages are served, and read by their numbers.
type journal struct {
	// file is the journal's file, at the end of which the next record is written.
	file *os.File
	// limit is the size of the file in bytes from which on a record holds only the digest of a
	// reply.
	limit int64
	// size is how long the file is now, in bytes.
	size int64
	// spans says where the record of a message lies, by the number of the message. It covers the
	// records of an earlier attempt alone, as this attempt never reads its own.
	spans map[uint64]recordSpan
}

// recordSpan is where the payload of a record lies in the journal's file: its offset from the beginning
// and its size, both in bytes and without the frame around the payload.
type recordSpan struct{ offset, size int64 }

// entry is a record of the journal: a message and the reply to it. [encoding/gob] encodes it.
type entry struct {
	// Number, Node, Type and Content identify the message. Content is the digest of its content.
	Number  uint64
	Node    int64
	Type    string
	Content [sha256.Size]byte

	// Reply is what the node replied, without its content and state. If Whole is true, their blobs lie
	// behind the entry: ContentSizes and StateSizes have the sizes of each in bytes.
	Reply                    flower.Reply
	Whole                    bool
	ContentSizes, StateSizes []int
	// SameState says that the node's state is the one before, which is then not in the record.
	SameState bool
	// Replied is the sum of the reply ([Sum].Replied), where Whole is false.
	Replied uint64
}

// errJournal is wrapped by the error for a journal that is damaged.
var errJournal = errors.New("the journal of replies is damaged")

// ErrNotRepeated is wrapped by the error for an app that does not repeat itself.
var ErrNotRepeated = errors.New("does not repeat itself")

// maxRecord bounds a record of the journal, in bytes.
const maxRecord = 1 << 32

// openJournal opens the journal at a path, or creates an empty one, for reading the records of an
// earlier attempt and for appending new ones. A torn record at its end, left by a process that was
// killed, is cut off. limit is the size in bytes from which on only digests of replies are written.
// A damaged record is an error that wraps errJournal.
func openJournal(path string, limit int64) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	// The spans and the size follow from what the file has, which index reads.
	j := &journal{
		file:  file,
		limit: limit,
		spans: map[uint64]recordSpan{},
	}
	if err := j.index(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return j, nil
}

// index reads the whole file once, notes in j.spans where the record of each message lies, and
// sets j.size. It cuts off a torn record at the end, so that the next one is written behind the last whole one.
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
		e, err := decodeEntry(payload)
		if err != nil {
			return err
		}
		// The reader stands behind the payload now.
		j.spans[e.Number] = recordSpan{r.Offset - int64(len(payload)), int64(len(payload))}
	}
	j.size = r.Offset
	// The reader ends before a torn record, so the offset is where the whole records end.
	return j.file.Truncate(j.size)
}

// read returns the record of the message with this number from an earlier attempt. The result false
// says that the earlier attempt had not served that message; a record that cannot be decoded is an
// error that wraps errJournal.
func (j *journal) read(number uint64) (*entry, bool, error) {
	span, ok := j.spans[number]
	if !ok {
		return nil, false, nil
	}
	payload := make([]byte, span.size)
	if _, err := j.file.ReadAt(payload, span.offset); err != nil {
		return nil, false, fmt.Errorf("%w: %w", errJournal, err)
	}
	e, err := decodeEntry(payload)
	return e, err == nil, err
}

// decodeEntry returns the entry in the payload of a record, whose memory its reply shares. The payload is the
// entry by [encoding/gob], then the blobs of the reply's content and those of the node's state, one behind the
// other with the sizes that the entry says. An error wraps errJournal.
func decodeEntry(payload []byte) (*entry, error) {
	var e entry
	rest := bytes.NewReader(payload)
	if err := gob.NewDecoder(rest).Decode(&e); err != nil {
		return nil, fmt.Errorf("%w: %w", errJournal, err)
	}
	blobs := payload[len(payload)-rest.Len():]
	for _, list := range []struct {
		sizes []int
		blobs *[][]byte
	}{{e.ContentSizes, &e.Reply.Content}, {e.StateSizes, &e.Reply.State}} {
		for _, size := range list.sizes {
			if size < 0 || size > len(blobs) {
				return nil, fmt.Errorf("%w: message %d has a blob beyond its record", errJournal, e.Number)
			}
			*list.blobs = append(*list.blobs, blobs[:size:size])
			blobs = blobs[size:]
		}
	}
	return &e, nil
}

// reply returns the reply that message m got in an earlier attempt, or nil if a client must serve
// the message: the journal has no record of it, or only the digest of its reply. state is what the
// node keeps before the message; the reply shares it if the message did not change it.
//
// An error that wraps [ErrNotRepeated] says that m differs from the message which had its number in
// the earlier attempt: the ServerApp does not repeat itself.
func (j *journal) reply(m *message, state [][]byte) (*flower.Reply, error) {
	e, ok, err := j.read(m.number)
	if err != nil || !ok {
		return nil, err
	}
	// The digest of the content stands for the content, which the journal does not have.
	isSameMessage := e.Node == m.sent.Node && e.Type == m.sent.Type && e.Content == m.contentDigest
	if !isSameMessage {
		return nil, fmt.Errorf(
			"the ServerApp %w: its message %d, %s to node %d, differs from the one that it sent before "+
				"(seed what it draws from: random, numpy and torch are seeded by flower, other sources are not)",
			ErrNotRepeated,
			m.number,
			m.sent.Type,
			m.sent.Node,
		)
	}
	// A client must serve the message again; recordReply compares the new reply with the digest.
	if !e.Whole {
		return nil, nil
	}
	// A record leaves out a state that the message did not change.
	if e.SameState {
		e.Reply.State = state
	}
	return &e.Reply, nil
}

// recordReply records that a client answered message m with reply, whose sum is replySum. state is what the
// node kept before the message. The record holds the whole reply or, once the journal has reached its limit, the digest
// alone. If an earlier attempt has a record of the message, nothing is written, and the
// reply must have the digest of that record: otherwise recordReply returns an error that wraps [ErrNotRepeated].
func (j *journal) recordReply(m *message, state [][]byte, reply *flower.Reply, replySum uint64) error {
	before, ok, err := j.read(m.number)
	if err != nil {
		return err
	}
	// A record with a whole reply answers its message, so this one has the digest alone ([journal.reply]).
	if ok {
		if before.Replied != replySum {
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
		Content: m.contentDigest,
		Reply:   *reply,
		Whole:   j.size < j.limit,
	}
	// The time on this machine is no part of the reply: it differs between attempts.
	e.Reply.Seconds = 0
	e.Reply.Content = nil
	e.Reply.State = nil
	e.SameState = sameBlobs(state, reply.State)
	// Past the limit, the digest alone is kept, to check the reply of a later attempt.
	if !e.Whole {
		e.Replied = replySum
		return j.write(e, nil)
	}
	e.ContentSizes = blobSizes(reply.Content)
	blobs := reply.Content
	if !e.SameState {
		e.StateSizes = blobSizes(reply.State)
		blobs = slices.Concat(blobs, reply.State)
	}
	return j.write(e, blobs)
}

// blobSizes returns the sizes of blobs in bytes.
func blobSizes(blobs [][]byte) []int {
	list := make([]int, len(blobs))
	for i, blob := range blobs {
		list[i] = len(blob)
	}
	return list
}

// write appends the record of e, with its blobs, to the journal. Once write has returned, the
// operating system has the record, so that it outlives this process (though not a failure of the
// machine).
func (j *journal) write(e *entry, blobs [][]byte) error {
	// The record begins with a frame: the length and the checksum of the entry and the blobs behind it. These bytes
	// are its place.
	var frameAndEntry bytes.Buffer
	frameAndEntry.Write(make([]byte, framing.Size))
	if err := gob.NewEncoder(&frameAndEntry).Encode(e); err != nil {
		return err
	}
	sealed := framing.SealWith(frameAndEntry.Bytes(), blobs)
	// Nobody reads the record while this process lives.
	n, err := uncached.WriteAt(j.file, slices.Concat([][]byte{sealed}, blobs), j.size)
	j.size += n
	if err != nil {
		return fmt.Errorf("the journal of replies: %w", err)
	}
	return nil
}

// Close closes the journal's file. No record may be written or read afterwards.
func (j *journal) Close() error { return j.file.Close() }

// sameBlobs reports whether a and b are the same list of blobs in memory, or both empty. It does
// not compare the bytes: a node's state that a message has not changed is handed on as the same
// slice.
func sameBlobs(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0]
}
