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

// carryUnlimited carries the connection of a client that is no device, which only the server limits.
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

// carryAll copies everything from src to dst: first what the reader has buffered of src, then the rest.
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

// carryLimited carries a device's connection within its quota. Three goroutines take part: one reads
// from the server into the backlog, one writes the backlog to the client, and this one reads from
// the client.
func (x *session) carryLimited(id string, d *device) {
	q := x.front.backlogs.backlog(d.quota.Pending(), func() {
		x.front.refused(Slow, id, "it does not read what waits for it (devices.quota.pending_mb)")
		_ = x.conn.Close()
	})
	var downstream sync.WaitGroup
	downstream.Go(func() {
		defer q.end()
		x.carryAnswers(d, q)
	})
	downstream.Go(func() {
		defer x.nats.Close()
		if err := q.drain(x.client, &d.sent); errors.Is(err, errStalled) {
			x.front.refused(Slow, id, fmt.Sprintf("it has read nothing for %v", stallTime))
		}
		_ = x.conn.Close()
	})
	_ = x.read(id, d, q) // whatever the reason was, the connection ends here
	_ = x.nats.Close()
	downstream.Wait()
}

// carryAnswers puts what the server sends into the backlog, and notes which requests were answered. A
// line may be longer than the reader's buffer (the server's INFO is): it is then carried in parts.
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
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// read carries what the client sends: at the device's rate, and only while the client reads what is sent
// to it. A line must mean the same here as to the server, or a message could hide others from the
// device's quota. The server drops a byte at the end of a line that has a carriage return anywhere in
// it; so a carriage return is allowed only right before the line feed.
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

// message is what a line of the protocol says of the message that follows it.
type message struct {
	subject, reply string // reply is empty where no answer is wanted
	size           int    // bytes that follow, with the line's end
}

// parse reads a line with one of two verbs: that of messages without a header (plain), or with one
// (headed). It returns false for other lines and for those that the server refuses.
func parse(line []byte, plain, headed string) (m message, ok bool) {
	sizes := 1
	arguments, ok := cutVerb(line, plain)
	if !ok {
		arguments, ok = cutVerb(line, headed)
		sizes++
	}
	// The server separates fields by spaces and tabs alone.
	fields := bytes.FieldsFunc(arguments, func(r rune) bool { return r == ' ' || r == '\t' })
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

// errMalformed reports a line that is not of the protocol.
var errMalformed = errors.New("admission: malformed line")

// errStalled reports a client that has stopped reading.
var errStalled = errors.New("admission: the client reads nothing")

// write writes to a client, which must read it before the deadline.
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
