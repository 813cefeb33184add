package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
)

// Client is a connection to a NATS server. It checks nothing that it sends, so that a test can
// break the protocol. One goroutine may write while another reads.
type Client struct {
	net.Conn
	// Info is the server's first message.
	Info Info
	read *bufio.Reader
}

// Info has those fields of a server's INFO that a client needs.
type Info struct {
	// Nonce is the text that a client signs with its key to prove who it is.
	Nonce string `json:"nonce"`
	// MaxPayload is the largest payload of a message in bytes.
	MaxPayload int `json:"max_payload"`
}

// Dial connects from an address of this machine ("": any) and reads the server's INFO.
func Dial(ctx context.Context, address, from string) (*Client, error) {
	conn, err := open(ctx, address, from)
	if err != nil {
		return nil, err
	}
	client := &Client{Conn: conn, read: bufio.NewReader(conn)}
	verb, rest, err := client.line(ctx)
	if err == nil && verb != "INFO" {
		err = fmt.Errorf("hostile: the server says %s in place of INFO", verb)
	}
	if err == nil {
		err = json.Unmarshal([]byte(rest), &client.Info)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return client, nil
}

// open connects from an address of this machine ("": any) and sends nothing.
func open(ctx context.Context, address, from string) (net.Conn, error) {
	var d net.Dialer
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	return d.DialContext(ctx, "tcp", address)
}

// Connect sends credentials and waits until the server has accepted them. It returns an error
// if the server refuses them.
func (c *Client) Connect(ctx context.Context, creds []byte) error {
	if err := c.Hello(creds); err != nil {
		return err
	}
	for {
		verb, rest, err := c.line(ctx)
		switch {
		case err != nil:
			return err
		case verb == "PONG":
			return nil
		case verb == "-ERR":
			return fmt.Errorf("hostile: the server says %s", rest)
		}
	}
}

// Hello sends a CONNECT, with the credentials if creds is not empty, and a PING. It does not
// wait for the answer.
func (c *Client) Hello(creds []byte) error {
	options := map[string]any{
		"verbose":       false,
		"pedantic":      false,
		"headers":       true,
		"no_responders": true,
		"lang":          "hostile",
		"version":       "0",
		"protocol":      1,
	}
	if len(creds) > 0 {
		token, err := jwt.ParseDecoratedJWT(creds)
		if err != nil {
			return err
		}
		pair, err := jwt.ParseDecoratedUserNKey(creds)
		if err != nil {
			return err
		}
		signature, err := pair.Sign([]byte(c.Info.Nonce))
		if err != nil {
			return err
		}
		options["jwt"], options["sig"] = token, base64.RawURLEncoding.EncodeToString(signature)
	}
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	return c.Say("CONNECT %s\r\nPING\r\n", text)
}

// Say formats a text as fmt.Printf does and sends it without a change.
func (c *Client) Say(format string, args ...any) error {
	_, err := fmt.Fprintf(c, format, args...)
	return err
}

// Subscribe subscribes to a subject. The server repeats number, which the caller chooses, in
// each message of this subscription.
func (c *Client) Subscribe(subject string, number int) error {
	return c.Say("SUB %s %d\r\n", subject, number)
}

// Publish publishes a message; reply may be empty.
func (c *Client) Publish(subject, reply string, payload []byte) error {
	var b bytes.Buffer
	b.WriteString("PUB " + subject + " ")
	if reply != "" {
		b.WriteString(reply + " ")
	}
	fmt.Fprintf(&b, "%d\r\n%s\r\n", len(payload), payload)
	_, err := c.Write(b.Bytes())
	return err
}

// Message is a message that the client received. Reply and Header are empty if it has none.
type Message struct {
	Subject, Reply string
	Header, Data   []byte
}

// Next waits for a message, and answers the server's pings meanwhile. A complaint of the
// server, its -ERR, is returned as an error.
func (c *Client) Next(ctx context.Context) (*Message, error) {
	for {
		verb, rest, err := c.line(ctx)
		if err != nil {
			return nil, err
		}
		switch verb {
		case "MSG", "HMSG":
			return c.message(rest, verb == "HMSG")
		case "PING":
			err = c.Say("PONG\r\n")
		case "-ERR":
			err = fmt.Errorf("hostile: the server says %s", rest)
		}
		if err != nil {
			return nil, err
		}
	}
}

// message reads a message, whose first line has these words after the verb: subject, number of the
// subscription, reply if there is one, size of the header if headed is set, size of header and data.
func (c *Client) message(line string, headed bool) (*Message, error) {
	f := strings.Fields(line)
	sizes := 1
	if headed {
		sizes = 2
	}
	if len(f) < 2+sizes {
		return nil, fmt.Errorf("hostile: the server says MSG %s", line)
	}
	m := &Message{Subject: f[0]}
	if len(f) > 2+sizes {
		m.Reply = f[2]
	}
	size, err := strconv.Atoi(f[len(f)-1])
	header := 0
	if headed && err == nil {
		header, err = strconv.Atoi(f[len(f)-2])
	}
	if err != nil || size < 0 || header < 0 || header > size {
		return nil, fmt.Errorf("hostile: the server says MSG %s", line)
	}
	b := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(c.read, b); err != nil {
		return nil, err
	}
	m.Header, m.Data = b[:header], b[header:size]
	return m, nil
}

// line reads a line of the protocol and returns its first word, in capitals, and the rest. If ctx ends
// before, it returns the error of ctx.
func (c *Client) line(ctx context.Context) (verb, rest string, err error) {
	// A deadline in the past ends a read that waits.
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	text, err := c.read.ReadString('\n')
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	verb, rest, _ = strings.Cut(strings.TrimSpace(text), " ")
	return strings.ToUpper(verb), rest, err
}
