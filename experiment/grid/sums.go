package grid

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"fedpace/actors/flower"
)

// Sum stands for a message and its reply, as hashes (XXH64, seed 0): Asked of what the server sent and to which
// node, and Replied of the reply and the node's state after it. Runs that repeat each other have equal sums.
type Sum struct{ Asked, Replied uint64 }

// sumOfMessage returns a hash (XXH64, seed 0) of what the server sent with message m.
func sumOfMessage(m *message) uint64 {
	asked := xxhash.New()
	fmt.Fprintf(asked, "%d %s %x", m.sent.Node, m.sent.Type, m.contentDigest)
	return asked.Sum64()
}

// sumOfReply returns a hash (XXH64, seed 0) of all of a reply that must be the same in a later attempt:
// its content, the node's state after it, its steps, and the code and text of an error.
func sumOfReply(reply *flower.Reply) uint64 {
	replied := xxhash.New()
	fmt.Fprintf(replied, "%d %d %d %q %d", len(reply.Content), len(reply.State), reply.Code, reply.Raised, reply.Steps)
	for _, list := range [...][][]byte{reply.Content, reply.State} {
		for _, blob := range list {
			// The lengths keep apart lists of blobs whose bytes joined are the same.
			fmt.Fprintf(replied, "\n%d\n", len(blob))
			_, _ = replied.Write(blob)
		}
	}
	return replied.Sum64()
}

// checkRepeated notes the sum of message m, which got a reply with the sum replySum. If the run repeats an earlier one,
// both must be as they were then: otherwise the error wraps [ErrNotRepeated] and names the message.
func (p *player) checkRepeated(m *message, replySum uint64) error {
	sum := Sum{sumOfMessage(m), replySum}
	// Messages count from 1, and may be served in another order. The place of one that is not served is zero.
	for uint64(len(p.result.Sums)) < m.number {
		p.result.Sums = append(p.result.Sums, Sum{})
	}
	p.result.Sums[m.number-1] = sum
	if p.Expected == nil {
		return nil
	}
	var before Sum
	wasSent := m.number <= uint64(len(p.Expected))
	if wasSent {
		before = p.Expected[m.number-1]
	}
	isUnserved := wasSent && before == Sum{}
	switch {
	// The earlier run was ended before it was served.
	case isUnserved:
	case before.Asked != sum.Asked:
		return notRepeated("ServerApp", "its message", m, "to")
	case before.Replied != sum.Replied:
		return notRepeated("ClientApp", "its reply to message", m, "at")
	}
	return nil
}

// notRepeated returns the error of message m, or of its reply, that is not as it was before. who is the ServerApp or
// the ClientApp, what names what differs, and place is the word before the node: to for a message, at for a reply.
func notRepeated(who, what string, m *message, place string) error {
	return fmt.Errorf(
		"the %s %w: %s %d, %s %s node %d, differs from the one before",
		who,
		ErrNotRepeated,
		what,
		m.number,
		m.sent.Type,
		place,
		m.sent.Node,
	)
}

const (
	// sumsTitle is the first line of a file of sums, which names its format.
	sumsTitle = "fedpace messages 1\n"
	// maxSums bounds the messages of such a file.
	maxSums = 1 << 28
)

// errSums is wrapped by the error for a file of sums that is damaged.
var errSums = errors.New("the file of messages is damaged")

// WriteSums writes the sums of a run's messages, in the order of their numbers.
func WriteSums(w io.Writer, list []Sum) error {
	b := bufio.NewWriter(w)
	_, _ = b.WriteString(sumsTitle)
	for _, s := range list {
		// The buffered writer keeps the first error for Flush.
		_ = binary.Write(b, binary.LittleEndian, s)
	}
	return b.Flush()
}

// ReadSums reads what WriteSums has written. The list is never nil.
func ReadSums(r io.Reader) ([]Sum, error) {
	b := bufio.NewReader(r)
	title := make([]byte, len(sumsTitle))
	if _, err := io.ReadFull(b, title); err != nil || string(title) != sumsTitle {
		return nil, fmt.Errorf("%w: it does not begin with %q", errSums, sumsTitle)
	}
	list := []Sum{}
	for {
		var s Sum
		err := binary.Read(b, binary.LittleEndian, &s)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil || len(list) == maxSums {
			return nil, fmt.Errorf(
				"%w: message %d is cut off, or beyond the last that there may be",
				errSums,
				len(list)+1,
			)
		}
		list = append(list, s)
	}
}
