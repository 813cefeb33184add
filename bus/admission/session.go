package admission

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"fedpace/bus/auth"
	"fedpace/internal/connlimit"
)

// session is a client's connection and the connection to the server behind that belongs to it.
type session struct {
	front *Front
	conn  *connlimit.Conn
	// client is conn, encrypted if the client asks for that.
	client net.Conn
	nats   net.Conn
	// clientReader reads from client.
	clientReader *bufio.Reader
	// natsReader reads from nats.
	natsReader *bufio.Reader
}

// serve carries connection c from its beginning to its end: it logs the client in, applies the
// limits of its device, and then passes bytes between the client and the server behind until one of
// them ends.
func (s *Front) serve(c *connlimit.Conn) {
	defer c.Close()
	server, err := s.config.Dial()
	if err != nil {
		// The server behind is closing.
		return
	}
	defer server.Close()
	stop := context.AfterFunc(s.life, func() {
		// Both ends notice that their connections are closed.
		_ = c.Close()
		_ = server.Close()
	})
	defer stop()
	x := &session{
		front:      s,
		conn:       c,
		client:     c,
		nats:       server,
		natsReader: bufio.NewReaderSize(server, maxLine),
	}
	loginDeadline := time.Now().Add(loginTime)
	// Setting a deadline fails only on a closed connection, which its next use reports.
	_ = c.SetDeadline(loginDeadline)
	_ = server.SetDeadline(loginDeadline)
	id, err := x.login()
	if err != nil {
		s.closed[Anonymous].Add(1)
		return
	}
	var d *device
	if id != "" {
		d = s.device(id)
		if reason, ok := d.enter(c); !ok {
			x.refuse(reason, id)
			return
		}
		defer d.leave(c)
	}
	// The front admits only so many connections at a time, which Admit counts.
	if !c.Admit() {
		x.sendError(tooMany)
		return
	}
	if _, err := x.client.Write([]byte(accepted)); err != nil {
		return
	}
	_ = x.client.SetDeadline(time.Time{})
	_ = server.SetDeadline(time.Time{})
	if d != nil {
		x.carryLimited(id, d)
	} else {
		x.carryUnlimited()
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

// sendError sends the client a last line before its connection is closed.
func (x *session) sendError(text string) {
	_ = x.client.SetWriteDeadline(time.Now().Add(flushTime))
	// The client may be gone, which ends the connection anyway.
	_, _ = x.client.Write([]byte(text))
}

// refuse informs device id that its connection is not carried on and, unless the device was expelled,
// the server's owner of the reason. r is the reason by which the refusal is counted.
func (x *session) refuse(r Reason, id string) {
	if r == Expelled {
		x.sendError(unauthorized)
		// No notice is given here, because the run that expelled the device gave one.
		x.front.closed[r].Add(1)
		return
	}
	x.sendError(tooMany)
	x.front.refused(
		r,
		id,
		fmt.Sprintf("it has %d already (devices.quota.connections)", x.front.config.Quota.Connections),
	)
}

// login carries the exchange by which the server accepts a client's credentials, except for the server's
// last line, PONG, which serve sends. It returns the id of the device that the credentials belong to. The
// id is empty if they are not a device's, or if the server asks for none.
func (x *session) login() (id string, err error) {
	info, err := x.natsReader.ReadSlice('\n')
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
	x.clientReader = bufio.NewReaderSize(x.client, maxLine)
	line, err := x.clientReader.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	options, isConnect := cutVerb(line, "CONNECT")
	var connect struct {
		JWT string `json:"jwt"`
	}
	if !isConnect || json.Unmarshal(options, &connect) != nil {
		x.sendError(unknown)
		return "", fmt.Errorf("admission: %.20q in place of CONNECT", line)
	}
	if connect.JWT != "" {
		h, err := auth.ReadToken(connect.JWT)
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
	line, err = x.clientReader.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if _, ok := cutVerb(line, "PING"); !ok {
		x.sendError(unknown)
		return "", fmt.Errorf("admission: %.20q in place of PING", line)
	}
	hello = append(hello, line...)
	// This goroutine ends with the connection. A server that refuses the client says why and reads
	// no further, so the loop below must not wait until all is written.
	go func() { _, _ = x.nats.Write(hello) }()
	for {
		line, err := x.natsReader.ReadSlice('\n')
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

// requireTLS returns a server's INFO line changed so that it asks for an encrypted connection, which the
// front offers and the server behind does not. It is an error if the line is not such a line.
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

// cutVerb returns what follows a verb in a line of the protocol, without the white space around it. It returns
// false if the line does not begin with the verb, in upper or lower case, and white space.
func cutVerb(line []byte, verb string) (arguments []byte, ok bool) {
	if len(line) < len(verb) || !bytes.EqualFold(line[:len(verb)], []byte(verb)) {
		return nil, false
	}
	arguments = line[len(verb):]
	return bytes.Trim(arguments, " \t\r\n"), len(arguments) > 0 && strings.IndexByte(" \t\r\n", arguments[0]) >= 0
}
