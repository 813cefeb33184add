package admission

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// carryUnlimited carries a connection that has no limits but the server's own.
func (x *session) carryUnlimited() {
	var downstream sync.WaitGroup
	downstream.Go(func() {
		carryAll(x.client, x.natsReader, x.nats)
		_ = x.client.Close()
	})
	carryAll(x.nats, x.clientReader, x.client)
	_ = x.nats.Close()
	downstream.Wait()
}

// carryAll carries all that comes from a connection, of which a part is read.
func carryAll(dst io.Writer, read *bufio.Reader, src io.Reader) {
	b := make([]byte, 64<<10)
	if n := read.Buffered(); n > 0 {
		n, _ = read.Read(b[:n]) // never fails on what is there
		if _, err := dst.Write(b[:n]); err != nil {
			return
		}
	}
	_, _ = io.CopyBuffer(dst, src, b) // either end may be gone
}

// carryLimited carries a device's connection within its quota.
func (x *session) carryLimited(id string, d *device) {
	q := x.front.backlogs.backlog(d.quota.Pending(), func() {
		x.front.refused(Slow, id, "it does not read what waits for it (devices.quota.pending_mb)")
		_ = x.conn.Close()
	})
	var downstream sync.WaitGroup
	downstream.Go(func() { // from the server to the backlog
		defer q.end()
		x.carryAnswers(d, q)
	})
	downstream.Go(func() { // from the backlog to the client
		defer x.nats.Close()
		if err := q.drain(x.client, &d.sent); errors.Is(err, errStalled) {
			x.front.refused(Slow, id, fmt.Sprintf("it has read nothing for %v", stallTime))
		}
		_ = x.conn.Close()
	})
	_ = x.read(id, d, q) // its end is the connection's, whatever it was
	_ = x.nats.Close()
	downstream.Wait()
}

// carryAnswers puts what the server says, and counts the messages.
func (x *session) carryAnswers(d *device, q *backlog) {
	b := make([]byte, 16<<10)
	for {
		line, err := x.natsReader.ReadSlice('\n')
		q.put(line)
		m, ok := parse(line, "MSG", "HMSG")
		for remaining := m.size; remaining > 0 && err == nil; {
			var n int
			n, err = x.natsReader.Read(b[:min(remaining, len(b))])
			q.put(b[:n])
			remaining -= n
		}
		if ok {
			d.answered(m.subject)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a line may go on: the server's INFO has many fields
			return
		}
	}
}

// read carries what the client says, at the device's rate, and while the client reads
// what is said to it. Lines must mean here what they mean to the server, or a message could
// hide others from their quota. The server leaves out a byte at the end of a line that has a
// carriage return anywhere, so one has it at its end or nowhere.
func (x *session) read(id string, d *device, q *backlog) error {
	for {
		line, err := x.clientReader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if cr := bytes.IndexByte(line, '\r'); cr >= 0 && cr != len(line)-2 {
			q.put([]byte(unknown))
			x.front.refused(Malformed, id, "a line of it has a carriage return in its middle")
			return errMalformed
		}
		m, _ := parse(line, "PUB", "HPUB")
		if err := d.spend(x.front.life, m); err != nil {
			if errors.Is(err, errRepeated) {
				q.put([]byte(repeated))
			}
			return err
		}
		if !q.await(readAhead) {
			return io.ErrClosedPipe
		}
		if _, err := x.nats.Write(line); err != nil {
			return err
		}
		if _, err := io.CopyN(x.nats, x.clientReader, int64(m.size)); err != nil {
			return err
		}
	}
}

// message is what a line says of the message that follows it.
type message struct {
	subject, reply string // reply is empty where no answer is wanted
	size           int    // bytes that follow, with the line's end
}

// parse reads a line with one of two verbs, of messages without a header and with one.
// It is false for other lines, and for those that the server will not take.
//
//	PUB subject [reply] size              HPUB subject [reply] header size
//	MSG subject subscription ... size     HMSG subject subscription ... header size
func parse(line []byte, plain, headed string) (m message, ok bool) {
	sizes := 1
	arguments, ok := cutVerb(line, plain)
	if !ok {
		arguments, ok = cutVerb(line, headed)
		sizes++
	}
	fields := bytes.FieldsFunc(arguments, func(r rune) bool { return r == ' ' || r == '\t' }) // as the server does
	if !ok || len(fields) < 1+sizes {
		return message{}, false
	}
	n, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 30)
	if err != nil {
		return message{}, false
	}
	m = message{subject: string(fields[0]), size: int(n) + len("\r\n")}
	if len(fields) > 1+sizes {
		m.reply = string(fields[1])
	}
	return m, true
}

// errMalformed says that a line is none of the protocol's.
var errMalformed = errors.New("admission: malformed line")

// errStalled says that a client reads nothing.
var errStalled = errors.New("admission: the client reads nothing")

// write writes to a client that must go on reading.
func write(client net.Conn, b []byte, deadline time.Time) error {
	if err := client.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := client.Write(b)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return errStalled
	}
	return err
}
