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

// carryUnlimited carries the connection of a client that is no device, such as a host, without a
// quota. It returns when both directions have ended; the end of one closes the other.
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

// carryAll copies to dst everything that comes from src, until either ends: first what buffered, a reader of src,
// holds already, then the rest.
func carryAll(dst io.Writer, buffered *bufio.Reader, src io.Reader) {
	b := make([]byte, 64<<10)
	if n := buffered.Buffered(); n > 0 {
		// A read of what is buffered never fails.
		n, _ = buffered.Read(b[:n])
		if _, err := dst.Write(b[:n]); err != nil {
			return
		}
	}
	// An error says only that either end is gone.
	_, _ = io.CopyBuffer(dst, src, b)
}

// carryLimited carries a device's connection within its quota. Three goroutines take part: one reads
// from the server into the backlog, one writes the backlog to the client, and this one reads from
// the client.
func (x *session) carryLimited(id string, d *device) {
	q := x.front.backlogs.newBacklog(d.quota.Pending(), func() {
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
	// Whatever the reason for its end was, the connection ends here.
	_ = x.read(id, d, q)
	_ = x.nats.Close()
	downstream.Wait()
}

// carryAnswers puts what the server sends into the backlog, and notes which requests of the device
// were answered. It returns when the server's connection ends. A line may be longer than the
// reader's buffer, as the server's INFO is; it is then carried in parts.
func (x *session) carryAnswers(d *device, q *backlog) {
	b := make([]byte, 16<<10)
	for {
		line, err := x.natsReader.ReadSlice('\n')
		q.put(line)
		m, ok := parse(line, "MSG", "HMSG")
		// The payload of a message follows its line, and may contain anything.
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

// read carries what the client, device id, sends to the server: at the rate that the device's quota allows, and only
// while the client reads what is sent to it, the backlog q. It returns when the connection is to end, with the reason.
//
// A line must mean the same here as to the server, or a message could hide others from the
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
		// The device's rates hold back what it sends before it reaches the server.
		m, _ := parse(line, "PUB", "HPUB")
		if err := d.awaitRates(x.front.life, m); err != nil {
			// A request asks for an answer on a subject on which another one still waits: the client is told so.
			if errors.Is(err, errRepeated) {
				q.put([]byte(repeated))
			}
			return err
		}
		// A client that does not read the answers may ask for no further ones.
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

// message is what a line of the protocol says about the message that follows it. The zero value
// stands for a line without a message.
type message struct {
	// subject is where the message goes. reply is where an answer is wanted; it is empty where none
	// is.
	subject, reply string
	// size is how many bytes follow the line, with the line break behind them.
	size int
}

// parse reads the line that announces a message. Of the two verbs, plain is that of messages
// without a header, and headed that of messages with one, whose line has one size more. ok is false
// for other lines and for lines that the server refuses.
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
	// The last field is the whole size; with 30 bits it fits an int on every machine.
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

// errMalformed is the error of a line that does not conform to the protocol.
var errMalformed = errors.New("admission: malformed line")

// errStalled is the error of a client that has stopped reading.
var errStalled = errors.New("admission: the client reads nothing")

// write writes bytes to a client. It returns [errStalled] if the client has not taken them before the
// deadline.
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
