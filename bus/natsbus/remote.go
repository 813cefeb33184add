package natsbus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/internal/names"
)

// A connection without an answer to so many pings counts as lost.
const (
	pingEvery   = 4 * time.Second
	pingsMissed = 2
)

// TLSFiles are PEM files. With any of them the connection is encrypted whatever
// the URL's scheme.
type TLSFiles struct {
	CA        string // that signed the other end's certificate; empty: the system's
	Cert, Key string // this end's own; both or none
}

// config reads the files; nil where there are none.
func (f TLSFiles) config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("bus: TLS: certificate authority: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("bus: TLS: certificate authority: %s holds no certificate in PEM", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
		return c, nil
	case f.Cert == "" || f.Key == "":
		return nil, errors.New("bus: TLS: a certificate and its key go together, one of them is missing")
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("bus: TLS: certificate: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// Server is the TLS of a server that listens, with its own certificate and, where
// CA is given, only for clients with a certificate signed by it.
func (f TLSFiles) Server() (*tls.Config, error) {
	c, err := f.config()
	if c == nil || err != nil {
		return nil, err
	}
	if len(c.Certificates) == 0 {
		return nil, errors.New("bus: TLS: a server needs a certificate and its key")
	}
	if c.RootCAs != nil {
		c.ClientCAs, c.ClientAuth = c.RootCAs, tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// remote are the options of a connection over TCP.
func (c *Conn) remote(config *ConnConfig) ([]nats.Option, error) {
	if err := names.CheckURL(config.URL); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	options := []nats.Option{
		nats.PingInterval(pingEvery), // a connection through which nothing comes is lost, too
		nats.MaxPingsOutstanding(pingsMissed),
		nats.MaxReconnects(-1), // the timer in lost ends it
		nats.CustomReconnectDelay(reconnectPause),
		nats.DisconnectErrHandler(c.lost),
		nats.ReconnectHandler(c.back),
		nats.LameDuckModeHandler(func(n *nats.Conn) {
			c.config.Notice(bus.Notice{State: bus.ServerStops, Text: fmt.Sprintf("The server at %s is about to stop; the connection will move to another or wait for it.", n.ConnectedUrlRedacted())})
		}),
	}
	encrypted, err := config.TLS.config()
	if err != nil {
		return nil, err
	}
	if encrypted != nil {
		options = append(options, nats.Secure(encrypted))
	}
	if config.Creds == "" {
		return options, nil
	}
	creds, err := os.ReadFile(config.Creds)
	if err != nil {
		return nil, fmt.Errorf("bus: credentials: %w", err)
	}
	inbox, err := auth.InboxOf(creds)
	if err != nil {
		return nil, fmt.Errorf("bus: credentials: %s does not hold any that can be used: %w", config.Creds, err)
	}
	options = append(options, nats.UserCredentials(config.Creds))
	if inbox != "" {
		options = append(options, nats.CustomInboxPrefix(inbox))
	}
	return options, nil
}

// lost starts the time that the connection may stay away.
func (c *Conn) lost(n *nats.Conn, err error) {
	if n.IsClosed() {
		return
	}
	why := ""
	if err != nil {
		why = " (" + err.Error() + ")"
	}
	c.config.Notice(bus.Notice{State: bus.ServerLost, Text: "The connection to NATS is lost" + why + "; trying again."})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone.end()
	c.gone = c.waitFor("take the connection again", c.patience(), err)
	if c.config.Patience < 0 {
		return
	}
	if c.away != nil {
		c.away.Stop()
	}
	c.away = time.AfterFunc(c.config.Patience, func() {
		if !n.IsConnected() {
			c.fail(fmt.Errorf("bus: the connection to %s was lost and did not come back within %v", c.at(), c.config.Patience))
			n.Close()
		}
	})
}

// back tells those who wait that the connection is there again.
func (c *Conn) back(n *nats.Conn) {
	c.mu.Lock()
	if c.away != nil {
		c.away.Stop()
	}
	c.gone.end()
	c.renew()
	c.renewal, c.renew = context.WithCancel(context.Background())
	watchers := slices.Clone(c.watchers)
	c.mu.Unlock()
	c.config.Notice(bus.Notice{State: bus.ServerBack, Text: "The connection to NATS is back (" + n.ConnectedUrlRedacted() + ")."})
	err := fmt.Errorf("bus: the connection was lost and is back: %w", bus.ErrInterrupted)
	for _, interrupted := range watchers {
		(*interrupted)(err)
	}
}

// closed is NATS's handler of the end.
func (c *Conn) closed(n *nats.Conn) {
	err := n.LastError()
	if err == nil {
		err = nats.ErrConnectionClosed
	}
	c.fail(fmt.Errorf("bus: connection closed: %w (%s)", clarified(err, &c.config), c.at()))
}

// clarified says of an error of connecting what may be wrong.
func clarified(err error, c *ConnConfig) error {
	for _, x := range []struct {
		is   bool
		hint string
	}{
		{errors.Is(err, nats.ErrNoServers), "no server answers there"},
		{errors.Is(err, nats.ErrAuthorization) && c.Creds == "", "the server asks for credentials"},
		{errors.Is(err, nats.ErrAuthorization), "the server does not accept these credentials"},
		{errors.Is(err, nats.ErrAuthRevoked), "these credentials have been revoked"},
		{errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAccountAuthExpired), "these credentials have expired"},
		{errors.As(err, new(x509.UnknownAuthorityError)), "the server's certificate is signed by an authority that is not known here; name its file"},
		{errors.As(err, new(x509.HostnameError)), "the server's certificate is for another name"},
		{errors.Is(err, nats.ErrSecureConnRequired), "the server takes encrypted connections only; name its certificate authority or use a tls:// URL"},
		{errors.Is(err, nats.ErrSecureConnWanted), "the server does not encrypt"},
	} {
		if x.is {
			return fmt.Errorf("%s: %w", x.hint, err)
		}
	}
	return err
}

// absent tells whether a server could not be reached, which may pass.
func absent(err error) bool {
	var network net.Error // of a name that cannot be looked up yet, say
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoInfoReceived) ||
		errors.Is(err, io.EOF) || errors.Is(err, nats.ErrStaleConnection) || errors.As(err, &network)
}

// limitHint is what to do where the server refuses something since a limit of its
// own is reached; "" for every other error.
func limitHint(err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return "raise the server's max_payload to 1MB, NATS's default"
	case !errors.As(err, &api):
		return ""
	}
	if api.ErrorCode == storeFailed && !strings.Contains(api.Description, "maximum") {
		return ""
	}
	return limits[api.ErrorCode]
}

// storeFailed says in words why; it may be a limit.
const storeFailed = 10077

// limits are the server's limits by the error codes of JetStream, with the way out.
var limits = map[jetstream.ErrorCode]string{
	10002:       memoryHint,
	10023:       memoryHint,
	10028:       memoryHint,
	10047:       memoryHint,
	storeFailed: memoryHint,
	10026:       "raise the account's limit of consumers: a run needs one",
	10027:       "raise the account's limit of streams (max_streams): a run needs three; or let other runs on the server end first",
	10054:       "raise the limit of a message (max_payload, and the account's) to 1MB, NATS's default",
	10113:       "the account asks streams for a limit of their bytes: set max_bytes_required to false for it",
	10120:       "give the account JetStream memory for this number of replicas, or set nats.replicas to one that it has",
	10122:       "raise the account's limit of a stream (mem_max_stream_bytes)",
}

const memoryHint = "give JetStream more memory (max_mem of the server's jetstream block, mem of the account's limits), or let other runs on the server end first; " +
	"a run holds every model that a task may start from"

// Life ends when the connection is lost for good; its cause says why.
func (c *Conn) Life() context.Context { return c.life }

// Err is what broke the connection for good; nil while it may be used.
func (c *Conn) Err() error { return context.Cause(c.life) }
