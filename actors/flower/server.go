package flower

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Server is the process of a ServerApp. Its methods are for one goroutine: take a [Request] with
// Next, answer it, and take the next one, until the request is Finished.
type Server struct {
	process *process
	// lent are the rooms of the replies that the process reads in the arena, by the numbers of their messages.
	lent map[uint64]*room
	// Ready is the process's answer to its greeting.
	Ready
}

// Request is what a ServerApp asks for. Exactly one of Nodes, Push, Receive and Finished is set.
type Request struct {
	// Now is the virtual time that the app has reached by sleeping, in nanoseconds.
	Now int64
	// Notes are those of the app's strategy since the last request, in order.
	Notes []Note

	// Nodes asks for the ids of the nodes that are available.
	Nodes bool
	// Push holds messages that are to be sent.
	Push []Message
	// Receive waits for replies.
	Receive *Receive
	// Finished says how the app has ended.
	Finished *Finished
}

// Note is a message of an app's strategy for the record: a round begins, or a round has scores.
type Note struct {
	// Note is "round" or "scores".
	Note string `json:"note"`
	// Now is the virtual time of the note in nanoseconds.
	Now   int64 `json:"now"`
	Round int   `json:"round"`
	// Kind says what Values were aggregated from: "train" and "evaluate" are the clients' replies,
	// and "central" is a measurement of the server's own.
	Kind   string             `json:"kind"`
	Values map[string]float64 `json:"values"`
}

// Message is a message from the ServerApp to a node, as the app made it.
type Message struct {
	// Node is the id of the node, Type what it is asked for, such as train or evaluate, and TTL its
	// time to live in seconds of virtual time, after which it expires. Group is the app's own mark
	// for messages that belong together, often the number of a round.
	Node  int64   `json:"node"`
	Type  string  `json:"type"`
	TTL   float64 `json:"ttl"`
	Group string  `json:"group"`
	// Content is shared by the messages of a broadcast.
	Content *Content `json:"-"`
	// Place is the index of the content in its request.
	Place int `json:"content"`
}

// Content is the content of a message to nodes: its records, as text and arrays, and what the
// simulation must know of them.
type Content struct {
	// Text describes the records; Arrays are the data of arrays that it refers to.
	Text   string
	Arrays []Array
	// Size is the number of bytes that the content takes on a link.
	Size int64
	// Config holds the single numbers of its configuration records.
	Config map[string]float64
	// Digest identifies the content: equal contents have equal digests.
	Digest [sha256.Size]byte
}

// Array is the data of an array, as its bytes, with the digest by which contents and processes
// refer to it.
type Array struct {
	Digest string
	Data   []byte
}

// Receive is a wait of the ServerApp for replies to messages, by the numbers that AnswerPush has
// given.
type Receive struct {
	Messages []uint64
	// Until is the virtual time at which the wait ends in nanoseconds. Nil means that it ends with the
	// last reply. First ends it with the first reply.
	Until *int64
	First bool
}

// Finished is the end of a ServerApp by itself, without an error, with what is known of its result.
type Finished struct {
	// Digest is that of the arrays of the result, empty if the app has returned none.
	Digest string
	// Empty says that a strategy has ended without any arrays.
	Empty bool
}

// Delivery is a reply as the ServerApp gets it: either the content of the reply, or an error in
// place of it.
type Delivery struct {
	// Message is the number of the message that it replies to.
	Message uint64
	// Reply has the content of the reply. It is nil for an error. It belongs to the server from then on.
	Reply *Reply
	// Code and Reason are those of an error.
	Code   int
	Reason string
}

// StartServer starts the process of the ServerApp that c names, and returns when the process has loaded the app. The
// app goes on to run meanwhile, and pauses at its first request until that is answered: see [Server]. Close the server
// after use.
func StartServer(ctx context.Context, c *Config) (*Server, error) {
	command, err := c.commandOf(c.ServerCommand, "flower_server")
	if err != nil {
		return nil, err
	}
	p, ready, err := c.start(ctx, command)
	if err != nil {
		return nil, err
	}
	return &Server{process: p, lent: map[uint64]*room{}, Ready: *ready}, nil
}

// request is the header of a frame from the server's process. Ask says what it asks for, "nodes",
// "push", "receive" or "finished", which decides which of the other fields are set.
type request struct {
	Ask string `json:"ask"`
	// Now is the virtual time that the app has reached, in nanoseconds. Notes are those since the last request.
	Now   int64  `json:"now"`
	Notes []Note `json:"notes"`
	// Freed are the numbers of messages whose replies the process reads in the arena no longer.
	Freed []uint64 `json:"freed"`

	// These are of a push: Names has the digest of each blob, in the order of the blobs.
	Messages []Message `json:"messages"`
	Contents []struct {
		Text   string             `json:"text"`
		Arrays []string           `json:"arrays"`
		Size   int64              `json:"size"`
		Config map[string]float64 `json:"config"`
	} `json:"contents"`
	Names []string `json:"names"`

	// These are of a wait for replies.
	IDs   []uint64 `json:"ids"`
	Until *int64   `json:"until"`
	First bool     `json:"first"`

	// These are of the end of the app.
	Digest string `json:"digest"`
	Empty  bool   `json:"empty"`
	failure
}

// Next waits for the app's next request, which may take as long as the app computes. A request must
// be answered before the next call. The end of ctx kills the process. A [Failed] error is what the
// app itself reports.
func (s *Server) Next(ctx context.Context) (*Request, error) {
	var header request
	blobs, err := s.process.receive(ctx, &header)
	if err != nil {
		return nil, err
	}
	if err := header.err(); err != nil {
		return nil, err
	}
	s.free(header.Freed)
	r := &Request{Now: header.Now, Notes: header.Notes}
	// Only the fields that belong to the kind of request are set in the header.
	switch header.Ask {
	case "nodes":
		r.Nodes = true
	case "push":
		r.Push, err = header.push(blobs)
	case "receive":
		r.Receive = &Receive{header.IDs, header.Until, header.First}
	case "finished":
		r.Finished = &Finished{header.Digest, header.Empty}
	default:
		err = fmt.Errorf("the server's process asks for %q, which is nothing", header.Ask)
	}
	return r, err
}

// errPush is the error of a push in which a message refers to a content, or a content to an array,
// that the push does not have.
var errPush = errors.New("the server's process pushed messages that refer to contents or arrays that are not there")

// push returns the messages of a push, put together from the header and its blobs. Each distinct
// array is sent once, and named by its digest; each content refers to its arrays by digest, and
// each message to its content by index. errPush is returned if one of these is not there, or if there
// are more or fewer blobs than the header names.
func (r *request) push(blobs [][]byte) ([]Message, error) {
	if len(blobs) != len(r.Names) {
		return nil, errPush
	}
	// Arrays are looked up by their digests, contents by their indexes.
	data := make(map[string][]byte, len(blobs))
	for i, name := range r.Names {
		data[name] = blobs[i]
	}
	contents := make([]*Content, len(r.Contents))
	for i, sent := range r.Contents {
		c := &Content{
			Text:   sent.Text,
			Size:   sent.Size,
			Config: sent.Config,
		}
		// The digest covers the arrays by their own digests, so large ones are not read again.
		sum := sha256.New()
		fmt.Fprintf(sum, "%d\n%s", len(sent.Text), sent.Text)
		for _, name := range sent.Arrays {
			blob, ok := data[name]
			if !ok {
				return nil, errPush
			}
			c.Arrays = append(c.Arrays, Array{name, blob})
			fmt.Fprintf(sum, "\n%s", name)
		}
		sum.Sum(c.Digest[:0])
		contents[i] = c
	}
	// Messages of a broadcast share one content, so that large arrays are in memory once.
	for i := range r.Messages {
		contentIndex := r.Messages[i].Place
		if contentIndex < 0 || contentIndex >= len(contents) {
			return nil, errPush
		}
		r.Messages[i].Content = contents[contentIndex]
	}
	// A push without messages is one, too: nil would say that nothing was pushed.
	if r.Messages == nil {
		r.Messages = []Message{}
	}
	return r.Messages, nil
}

// AnswerNodes answers a request for nodes with the ids of those that are available, nil for none.
// now is the present virtual time in nanoseconds, which the app's clock shows from then on.
func (s *Server) AnswerNodes(now int64, nodes []int64) error {
	if nodes == nil {
		nodes = []int64{}
	}
	return s.answer(map[string]any{"now": now, "nodes": nodes}, nil)
}

// AnswerPush answers a push with the number of each message, in their order, by which the app asks
// for replies. The number is 0 where the node does not exist. now is the present virtual time in
// nanoseconds.
func (s *Server) AnswerPush(now int64, numbers []uint64) error {
	if numbers == nil {
		numbers = []uint64{}
	}
	return s.answer(map[string]any{"now": now, "ids": numbers}, nil)
}

// deliveries is the header of a frame with replies, whose contents are the frame's blobs.
type deliveries struct {
	Now     int64      `json:"now"`
	Replies []delivery `json:"replies"`
	// More says that the process is to ask for further replies of this wait.
	More bool `json:"more"`
}

// delivery is a [Delivery] in a header. Parts is the number of blobs of its content, 0 for an error.
type delivery struct {
	Message uint64 `json:"reply"`
	Parts   int    `json:"parts"`
	Code    int    `json:"error"`
	Reason  string `json:"reason"`
	// Sizes are those of the blobs of a content that lies in the arena, from this offset on. Otherwise they are nil,
	// and the blobs are the frame's.
	Offset int   `json:"offset,omitempty"`
	Sizes  []int `json:"sizes,omitempty"`
}

// lend returns what a frame to the server's process says of delivery d. A content that lies in the arena is read
// there by the process, until it says that it does so no longer ([Server.free]): the header has its place. Any other
// content is returned as blobs of the frame.
func (s *Server) lend(d *Delivery) (header delivery, blobs [][]byte) {
	header = delivery{Message: d.Message, Code: d.Code, Reason: d.Reason}
	if d.Reply == nil {
		return header, nil
	}
	header.Parts = len(d.Reply.Content)
	if d.Reply.room == nil {
		return header, d.Reply.Content
	}
	header.Offset = d.Reply.room.offset
	for _, blob := range d.Reply.Content {
		header.Sizes = append(header.Sizes, len(blob))
	}
	s.lent[d.Message] = d.Reply.room
	return header, nil
}

// free gives back the parts of the shared memory in which the app's process has read the replies to messages with
// these numbers. A number whose reply has no such part, or had it before, changes nothing.
func (s *Server) free(numbers []uint64) {
	for _, number := range numbers {
		s.lent[number].release()
		delete(s.lent, number)
	}
}

// maxDelivered is the size of the contents in one frame with replies, in bytes, which only a single
// reply may exceed.
const maxDelivered = 64 << 20

// AnswerReceive ends a wait for replies with those that have arrived by virtual time now, in
// nanoseconds, in the order of the list. Others have not arrived, for the app. Large replies go in
// several frames, each when the process has taken the one before; the end of ctx kills the process.
func (s *Server) AnswerReceive(ctx context.Context, now int64, list []*Delivery) error {
	for {
		header := deliveries{Now: now, Replies: []delivery{}}
		var blobs [][]byte
		size := 0
		for _, d := range list {
			lent, parts := s.lend(d)
			for _, blob := range parts {
				size += len(blob)
			}
			if size > maxDelivered && len(blobs) > 0 {
				break
			}
			blobs = append(blobs, parts...)
			header.Replies = append(header.Replies, lent)
		}
		list = list[len(header.Replies):]
		header.More = len(list) > 0
		if err := s.answer(header, blobs); err != nil || !header.More {
			return err
		}
		if err := s.awaitMore(ctx); err != nil {
			return err
		}
	}
}

// awaitMore waits until the process asks for further replies of a wait.
func (s *Server) awaitMore(ctx context.Context) error {
	var next request
	if _, err := s.process.receive(ctx, &next); err != nil {
		return err
	}
	if err := next.err(); err != nil {
		return err
	}
	if next.Ask != "more" {
		return fmt.Errorf("the server's process asks for %q within a wait, want more", next.Ask)
	}
	return nil
}

// AnswerFinished acknowledges the end of the app at virtual time now, in nanoseconds, after which
// the process ends.
func (s *Server) AnswerFinished(now int64) error { return s.answer(map[string]any{"now": now}, nil) }

// answer sends a header and blobs to the server's process, which waits for them. If the process has
// died, the error says how, with its last output.
func (s *Server) answer(header any, blobs [][]byte) error {
	if err := s.process.send(header, blobs); err != nil {
		return s.process.explain(err)
	}
	return nil
}

// Close ends the server's process, whether its app has finished or not, and waits until it is gone.
func (s *Server) Close() error { return s.process.close() }
