package admission

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"fedpace/bus/auth"
	"fedpace/internal/connlimit"
)

// session is one connection and its other half, to the server behind.
type session struct {
	front  *Front
	conn   *connlimit.Conn
	client net.Conn // conn, encrypted where that is asked for
	nats   net.Conn
	from   *bufio.Reader // reads the client
	back   *bufio.Reader // reads nats
}

// serve carries a connection until it ends.
func (s *Front) serve(c *connlimit.Conn) {
	defer c.Close()
	behind, err := s.config.Dial()
	if err != nil {
		return // the server closes
	}
	defer behind.Close()
	stop := context.AfterFunc(s.life, func() {
		_ = c.Close() // both ends see it
		_ = behind.Close()
	})
	defer stop()
	x := &session{front: s, conn: c, client: c, nats: behind, back: bufio.NewReaderSize(behind, maxLine)}
	until := time.Now().Add(loginTime)
	_, _ = c.SetDeadline(until), behind.SetDeadline(until) // what is closed says so when it is used
	id, err := x.login()
	if err != nil {
		s.closed[Anonymous].Add(1)
		return
	}
	var d *device
	if id != "" {
		d = s.device(id)
		if why, ok := d.enter(c); !ok {
			x.refuse(why, id)
			return
		}
		defer d.leave(c)
	}
	if !c.Admit() {
		x.sendError(tooMany)
		return
	}
	if _, err := x.client.Write([]byte(accepted)); err != nil {
		return
	}
	_, _ = x.client.SetDeadline(time.Time{}), behind.SetDeadline(time.Time{})
	if d != nil {
		x.limited(id, d)
	} else {
		x.free()
	}
}

// What the server says to a connection that is not carried on, as NATS's clients know it.
const (
	unauthorized = "-ERR 'Authorization Violation'\r\n"
	tooMany      = "-ERR 'maximum connections exceeded'\r\n"
	unknown      = "-ERR 'Unknown Protocol Operation'\r\n"
	repeated     = "-ERR 'Reply Subject Is In Use'\r\n"
	accepted     = "PONG\r\n"
)

// sendError says a last thing to the client.
func (x *session) sendError(text string) {
	_ = x.client.SetWriteDeadline(time.Now().Add(flushTime))
	_, _ = x.client.Write([]byte(text)) // it may be gone
}

// refuse tells a device that is not carried on, and the server's own.
func (x *session) refuse(r Reason, id string) {
	if r == Expelled {
		x.sendError(unauthorized)
		x.front.closed[r].Add(1) // the run has told of it
		return
	}
	x.sendError(tooMany)
	x.front.refused(r, id, fmt.Sprintf("it has %d already (devices.quota.connections)", x.front.config.Quota.Connections))
}

// login carries the exchange by which the server accepts a client's credentials, but for
// its last line, the server's PONG. It returns the device whose they are; "": they are not
// a device's, or the server asks for none.
//
//	server INFO {...}   client (TLS) CONNECT {...}, PING   server PONG
func (x *session) login() (id string, err error) {
	info, err := x.back.ReadSlice('\n')
	if err == nil && x.front.config.TLS != nil {
		info, err = requireTLS(info)
	}
	if err == nil {
		_, err = x.client.Write(info)
	}
	if err != nil {
		return "", err
	}
	if c := x.front.config.TLS; c != nil {
		encrypted := tls.Server(x.client, c)
		x.client = encrypted
		if err := encrypted.Handshake(); err != nil {
			return "", err
		}
	}
	x.from = bufio.NewReaderSize(x.client, maxLine)
	line, err := x.from.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	options, ok := cutVerb(line, "CONNECT")
	var with struct {
		JWT string `json:"jwt"`
	}
	if !ok || json.Unmarshal(options, &with) != nil {
		x.sendError(unknown)
		return "", fmt.Errorf("admission: %.20q in place of CONNECT", line)
	}
	if with.JWT != "" {
		h, err := auth.ReadToken(with.JWT)
		if err != nil {
			x.sendError(unauthorized)
			return "", err
		}
		if h.Role == auth.RoleDevice {
			id = cmp.Or(h.ID, "?")
		}
	}
	hello := bytes.Clone(line)
	// Every client of NATS asks whether it is accepted before it says anything else.
	if line, err = x.from.ReadSlice('\n'); err != nil {
		return "", err
	}
	if _, ok := cutVerb(line, "PING"); !ok {
		x.sendError(unknown)
		return "", fmt.Errorf("admission: %.20q in place of PING", line)
	}
	hello = append(hello, line...)
	go func() { _, _ = x.nats.Write(hello) }() // ends with the connection: a server that refuses reads no further, and says why
	for {
		line, err := x.back.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		if _, ok := cutVerb(line, "PONG"); ok {
			return id, nil
		}
		if _, err := x.client.Write(line); err != nil {
			return "", err
		}
	}
}

// requireTLS is a server's INFO that asks for an encrypted connection.
func requireTLS(line []byte) ([]byte, error) {
	text, ok := cutVerb(line, "INFO")
	fields := map[string]json.RawMessage{}
	if !ok {
		return nil, fmt.Errorf("admission: the server says %.20q in place of INFO", line)
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("admission: the server's INFO: %w", err)
	}
	fields["tls_required"] = json.RawMessage("true")
	text, err := json.Marshal(fields)
	return append(append([]byte("INFO "), text...), "\r\n"...), err
}

// cutVerb splits a line of the protocol into its verb, whose case does not matter, and
// the rest.
func cutVerb(line []byte, verb string) (rest []byte, ok bool) {
	if len(line) < len(verb) || !bytes.EqualFold(line[:len(verb)], []byte(verb)) {
		return nil, false
	}
	rest = line[len(verb):]
	return bytes.Trim(rest, " \t\r\n"), len(rest) > 0 && strings.IndexByte(" \t\r\n", rest[0]) >= 0
}

// free carries a connection that has no limits but the server's own.
func (x *session) free() {
	var other sync.WaitGroup
	other.Go(func() {
		carryAll(x.client, x.back, x.nats)
		_ = x.client.Close()
	})
	carryAll(x.nats, x.from, x.client)
	_ = x.nats.Close()
	other.Wait()
}

// carryAll carries all that comes from a connection, of which a part is read.
func carryAll(to io.Writer, read *bufio.Reader, from io.Reader) {
	b := make([]byte, 64<<10)
	if n := read.Buffered(); n > 0 {
		n, _ = read.Read(b[:n]) // never fails on what is there
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
	_, _ = io.CopyBuffer(to, from, b) // either end may be gone
}

// limited carries a device's connection within its quota.
func (x *session) limited(id string, d *device) {
	q := x.front.backlogs.backlog(d.quota.Pending(), func() {
		x.front.refused(Slow, id, "it does not read what waits for it (devices.quota.pending_mb)")
		_ = x.conn.Close()
	})
	var others sync.WaitGroup
	others.Go(func() { // from the server to the backlog
		defer q.end()
		x.answer(d, q)
	})
	others.Go(func() { // from the backlog to the client
		defer x.nats.Close()
		if err := q.drain(x.client, &d.sent); errors.Is(err, errStalled) {
			x.front.refused(Slow, id, fmt.Sprintf("it has read nothing for %v", stallTime))
		}
		_ = x.conn.Close()
	})
	_ = x.read(id, d, q) // its end is the connection's, whatever it was
	_ = x.nats.Close()
	others.Wait()
}

// answer puts what the server says, and counts the messages.
func (x *session) answer(d *device, q *backlog) {
	b := make([]byte, 16<<10)
	for {
		line, err := x.back.ReadSlice('\n')
		q.put(line)
		m, ok := parse(line, "MSG", "HMSG")
		for rest := m.size; rest > 0 && err == nil; {
			var n int
			n, err = x.back.Read(b[:min(rest, len(b))])
			q.put(b[:n])
			rest -= n
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
		line, err := x.from.ReadSlice('\n')
		if err != nil {
			return err
		}
		if at := bytes.IndexByte(line, '\r'); at >= 0 && at != len(line)-2 {
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
		if _, err := io.CopyN(x.nats, x.from, int64(m.size)); err != nil {
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
	rest, ok := cutVerb(line, plain)
	if !ok {
		rest, ok = cutVerb(line, headed)
		sizes++
	}
	fields := bytes.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' }) // as the server does
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
func write(to net.Conn, b []byte, deadline time.Time) error {
	if err := to.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := to.Write(b)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return errStalled
	}
	return err
}
