package natsconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/internal/names"
)

// A connection without an answer to so many pings counts as lost.
const (
	pingEvery       = 4 * time.Second
	pingsMissed     = 2
	pingsMissedSlow = int(ChunkTimeout/pingEvery) + 1
)

// remote are the options of a connection over TCP.
func (c *Conn) remote() ([]nats.Option, error) {
	config := &c.config
	missed := pingsMissed
	if config.Slow {
		missed = pingsMissedSlow
	}
	if err := names.CheckURL(config.URL); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	options := []nats.Option{
		nats.PingInterval(pingEvery), // a connection through which nothing comes is lost, too
		nats.MaxPingsOutstanding(missed),
		nats.MaxReconnects(-1), // the timer in lost ends it
		nats.CustomReconnectDelay(func(attempt int) time.Duration { return pause(attempt, lastReconnect) }),
		nats.DisconnectErrHandler(c.onDisconnect),
		nats.ReconnectHandler(c.onReconnect),
		nats.LameDuckModeHandler(func(n *nats.Conn) {
			c.Notice(bus.Notice{
				State: bus.ServerStopping,
				Text: fmt.Sprintf(
					"The server at %s is about to stop; the connection will move to another or wait for it.",
					n.ConnectedUrlRedacted(),
				),
			})
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
	holder, err := config.Holder()
	if err != nil {
		return nil, err
	}
	c.warn(&holder)
	options = append(options, nats.UserCredentials(config.Creds))
	if holder.Inbox != "" {
		options = append(options, nats.CustomInboxPrefix(holder.Inbox))
	}
	return options, nil
}

// warn tells when the credentials end, as soon as that is near.
func (c *Conn) warn(h *auth.Holder) {
	if h.Expires.IsZero() {
		return
	}
	c.ending = time.AfterFunc(time.Until(h.Expires.Add(-auth.Soon)), func() {
		expiry, renewal := h.EndingSoon(time.Now())
		c.Notice(bus.Notice{
			State: bus.CredentialsExpire,
			Text:  fmt.Sprintf("The credentials in %s end on %s; renew them: %s", c.config.Creds, expiry, renewal),
		})
	})
}

// Holder is whom the credentials are of, as they themselves say; of nobody where none
// are given.
func (c *Config) Holder() (h auth.Holder, err error) {
	if c.Creds == "" {
		return h, nil
	}
	creds, err := os.ReadFile(c.Creds)
	if err != nil {
		return h, fmt.Errorf("bus: credentials: %w", err)
	}
	if h, err = auth.ReadHolder(creds); err != nil {
		err = fmt.Errorf("%w (want the file that fedpace enroll made)", err)
	} else {
		err = h.CheckExpiry(time.Now())
	}
	if err != nil {
		return h, fmt.Errorf("bus: credentials: %s does not hold any that can be used: %w", c.Creds, err)
	}
	return h, nil
}

// Device is the holder of a device's credentials, which must not be another device's or a host's.
func (c *Config) Device(id string) (auth.Holder, error) {
	h, err := c.Holder()
	if err == nil &&
		(h.Role == auth.RoleHost || h.Role == auth.RoleDevice && h.ID != id) {
		err = fmt.Errorf(
			"bus: credentials: %s is of %s %s, and this is device %s, which needs its own: fedpace enroll %[4]s",
			c.Creds,
			h.Role,
			h.ID,
			id,
		)
	}
	return h, err
}

// onDisconnect starts the time that the connection may stay away.
func (c *Conn) onDisconnect(n *nats.Conn, err error) {
	if n.IsClosed() {
		return
	}
	reason := ""
	if err != nil {
		reason = " (" + err.Error() + ")"
	}
	c.Notice(bus.Notice{State: bus.ServerLost, Text: "The connection to NATS is lost" + reason + "; trying again."})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endOutage()
	w := c.waitFor("take the connection again", c.config.Patience, err)
	c.endOutage = w.end
	if c.config.Patience == 0 {
		return
	}
	away := time.AfterFunc(c.config.Patience, func() {
		if !n.IsConnected() {
			c.fail(fmt.Errorf(
				"bus: the connection to %s was lost and did not come back within %v",
				c.Address(),
				c.config.Patience,
			))
			n.Close()
		}
	})
	c.endOutage = func() {
		away.Stop()
		w.end()
	}
}

// onReconnect tells those who wait that the connection is there again.
func (c *Conn) onReconnect(n *nats.Conn) {
	c.mu.Lock()
	c.endOutage()
	c.renew()
	c.renewal, c.renew = context.WithCancel(context.Background())
	watchers := slices.Clone(c.watchers)
	c.mu.Unlock()
	c.Notice(bus.Notice{
		State: bus.ServerBack,
		Text:  "The connection to NATS is back (" + n.ConnectedUrlRedacted() + ").",
	})
	err := fmt.Errorf("bus: the connection was lost and is back: %w", bus.ErrInterrupted)
	for _, interrupted := range watchers {
		(*interrupted)(err)
	}
}

// onClosed is NATS's handler of the end.
func (c *Conn) onClosed(n *nats.Conn) {
	err := cmp.Or(n.LastError(), nats.ErrConnectionClosed)
	if _, ended := c.config.Holder(); ended != nil { // it says more than the server
		c.fail(ended)
	}
	c.fail(fmt.Errorf("bus: connection closed: %w (%s)", c.explain(err), c.Address()))
}

// explain says of an error of connecting what may be wrong.
func (c *Conn) explain(err error) error {
	for _, x := range []struct {
		applies bool
		hint    string
	}{
		{errors.Is(err, nats.ErrNoServers), "no server answers there"},
		{Refused(err) && c.config.Creds == "", "the server asks for credentials"},
		{Refused(err), "the server does not accept these credentials"},
		{errors.Is(err, nats.ErrMaxConnectionsExceeded), "the server takes no more connections, or no more of this device"},
		{errors.Is(err, nats.ErrAuthRevoked), "these credentials have been revoked"},
		{errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAccountAuthExpired), "these credentials have expired"},
		{errors.As(err, new(x509.UnknownAuthorityError)), "the server's certificate is signed by an authority that is not known here; name its file"},
		{errors.As(err, new(x509.HostnameError)), "the server's certificate is for another name"},
		{errors.As(err, new(x509.CertificateInvalidError)), "the server's certificate has ended (fedpace certificate makes another), or this machine's clock is wrong"},
		{errors.Is(err, nats.ErrSecureConnRequired), "the server takes encrypted connections only; name its certificate authority or use a tls:// URL"},
		{errors.Is(err, nats.ErrSecureConnWanted), "the server does not encrypt"},
	} {
		if x.applies {
			return fmt.Errorf("%s: %w", x.hint, err)
		}
	}
	return err
}

// Refused tells whether a server does not let in who connects.
func Refused(err error) bool { return errors.Is(err, nats.ErrAuthorization) }

// unreachable tells whether a server could not be reached, which may pass.
func unreachable(err error) bool {
	var network net.Error // a name cannot be looked up yet, say
	return errors.Is(err, nats.ErrNoServers) ||
		errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrNoInfoReceived) ||
		errors.Is(err, io.EOF) || errors.Is(err, nats.ErrStaleConnection) || errors.As(err, &network)
}

// TLSFiles are PEM files. With any of them the connection is encrypted whatever
// the URL's scheme.
type TLSFiles struct {
	CA        string // signs the other end's certificate; empty: the system's
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
	if end := c.Certificates[0].Leaf.NotAfter; time.Now().After(end) {
		return nil, fmt.Errorf(
			"bus: TLS: the certificate in %s has ended on %s (fedpace certificate makes another)",
			f.Cert,
			end.Local().Format(time.DateOnly),
		)
	}
	if c.RootCAs != nil {
		c.ClientCAs = c.RootCAs
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}
