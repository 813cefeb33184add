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
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/internal/names"
)

// These say when a connection counts as lost.
const (
	// pingEvery is the time between two pings.
	pingEvery = 4 * time.Second
	// pingsMissed is how many pings may stay unanswered.
	pingsMissed = 2
	// pingsMissedSlow takes the place of pingsMissed on a slow link, which one chunk may block for as long as
	// ChunkTimeout.
	pingsMissedSlow = int(ChunkTimeout/pingEvery) + 1
)

// remote returns the options of a connection over TCP: how its loss is noticed, how it comes back,
// encryption and credentials. It starts the timer that warns of credentials which expire. It fails
// on files of credentials or certificates that cannot be used.
func (c *Conn) remote() ([]nats.Option, error) {
	config := &c.config
	missed := pingsMissed
	// A chunk may block the link for longer than two pings take.
	if config.Slow {
		missed = pingsMissedSlow
	}
	if err := names.CheckURL(config.URL); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	options := []nats.Option{
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(missed),
		// The number of attempts has no limit, because the timer in onDisconnect ends them.
		nats.MaxReconnects(-1),
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
	// Without credentials, the server either lets everyone in or will refuse the connection.
	if config.Creds == "" {
		return options, nil
	}
	holder, err := config.Holder()
	if err != nil {
		return nil, err
	}
	c.warnOfExpiry(&holder)
	options = append(options, nats.UserCredentials(config.Creds))
	// Credentials may allow answers only under a prefix of their own.
	if holder.Inbox != "" {
		options = append(options, nats.CustomInboxPrefix(holder.Inbox))
	}
	return options, nil
}

// warnOfExpiry starts the timer that gives notice of the expiry of holder h's credentials: auth.Soon before
// the expiry, or at once if that time has passed. Credentials without an end need no notice.
func (c *Conn) warnOfExpiry(h *auth.Holder) {
	if h.Expires.IsZero() {
		return
	}
	c.expiryTimer = time.AfterFunc(time.Until(h.Expires.Add(-auth.Soon)), func() {
		expiry, renewal := h.RenewalDue(time.Now())
		c.Notice(bus.Notice{
			State: bus.CredentialsExpire,
			Text:  fmt.Sprintf("The credentials in %s end on %s; renew them: %s", c.config.Creds, expiry, renewal),
		})
	})
}

// Holder reads the file of credentials and returns their holder, as they state it; the zero value if
// Creds is empty. It fails on credentials that cannot be read or have expired.
func (c *Config) Holder() (h auth.Holder, err error) {
	if c.Creds == "" {
		return h, nil
	}
	creds, err := os.ReadFile(c.Creds)
	if err != nil {
		return h, fmt.Errorf("bus: credentials: %w", err)
	}
	h, err = auth.ReadHolder(creds)
	if err != nil {
		err = fmt.Errorf("%w (want the file that fedpace enroll made)", err)
	} else {
		err = h.CheckExpiry(time.Now())
	}
	if err != nil {
		return h, fmt.Errorf("bus: credentials: %s does not hold any that can be used: %w", c.Creds, err)
	}
	return h, nil
}

// Device returns the holder of the credentials with which device id connects. Credentials of a host
// or of another device are an error. Without a file of credentials the holder is the zero value,
// which is no error.
func (c *Config) Device(id string) (auth.Holder, error) {
	h, err := c.Holder()
	if err != nil {
		return h, err
	}
	otherDevice := h.Role == auth.RoleDevice && h.ID != id
	if h.Role == auth.RoleHost || otherDevice {
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

// onDisconnect handles a connection that was lost because of err, which may be nil. NATS connects again by
// itself, and a timer ends the connection if that takes longer than Config.Patience or, on a cluster and by default,
// clusterReconnectFor.
func (c *Conn) onDisconnect(n *nats.Conn, err error) {
	// The connection was closed for good, which onClosed handles.
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
	patience := c.config.Patience
	if isCluster := len(n.Servers()) > 1; isCluster && patience == reconnectFor {
		patience = clusterReconnectFor
	}
	w := c.observe("take the connection again", patience, err)
	c.endOutage = w.end
	// A Patience of 0 means forever here.
	if patience == 0 {
		return
	}
	// The library tries again without a limit, so this timer sets one.
	giveUp := time.AfterFunc(patience, func() {
		if n.IsConnected() {
			return
		}
		c.fail(fmt.Errorf(
			"bus: the connection to %s was lost and did not come back within %v",
			c.Address(),
			patience,
		))
		n.Close()
	})
	c.endOutage = func() {
		giveUp.Stop()
		w.end()
	}
}

// These bound how often MoveOn makes the connection anew. If the coordinator is gone, thousands of devices would
// otherwise connect again and again.
const (
	// moveEvery is the pause after the first move. It doubles with each further one until the connection is useful.
	moveEvery = 10 * time.Second
	// maxMoveEvery is the longest pause.
	maxMoveEvery = 10 * time.Minute
)

// MoveOn breaks a connection that is up but of no use, so that the library makes it anew, to another server of the
// cluster if there is one. reason says why, for people. It returns false, and does nothing, if it is too soon after
// another call. It returns true without a change if the connection is lost anyway, or is to a server in this process.
func (c *Conn) MoveOn(reason string) bool {
	if c.config.Server != nil || !c.nats.IsConnected() {
		return true
	}
	if !c.tryMove() {
		return false
	}
	c.Notice(bus.Notice{
		State: bus.ServerLost,
		Text:  fmt.Sprintf("The connection to %s is made anew: %s.", c.nats.ConnectedUrlRedacted(), reason),
	})
	// ForceReconnect fails only on a connection that is closed.
	_ = c.nats.ForceReconnect()
	return true
}

// tryMove returns true if enough time has passed since the last move, and then counts another move, which the caller
// makes. The pause is moveEvery at first and doubles with each move, up to maxMoveEvery.
func (c *Conn) tryMove() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The pause after the first move is moveEvery. The bound keeps the shift from overflowing.
	const maxDoublings = 16
	doublings := min(max(c.movesSinceUseful-1, 0), maxDoublings)
	pause := min(moveEvery<<doublings, maxMoveEvery)
	if time.Since(c.lastMove) < pause {
		return false
	}
	c.lastMove = time.Now()
	c.movesSinceUseful++
	return true
}

// Useful notes that the connection serves its purpose: the pauses between moves begin again with moveEvery.
func (c *Conn) Useful() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.movesSinceUseful = 0
	c.wasUseful = true
}

// permissionMayReturn is called with an error that the server reports. It returns true if the server has ended a
// subscription because the connection has lost the permission for it, and it is worth while to wait until an
// administrator gives the permission back: the connection was useful before, and this program would also wait for a
// lost server without a limit. The server reports the end of the subscription once, and does not begin it again when
// the permission is back; only a new connection does.
func (c *Conn) permissionMayReturn(err error) bool {
	const ofSubscription = "permissions violation for subscription"
	isSubscription := errors.Is(err, nats.ErrPermissionViolation) &&
		strings.Contains(strings.ToLower(err.Error()), ofSubscription)
	// A Patience of 0 means forever here.
	waitsForever := c.config.Server == nil && c.config.Patience == 0
	c.mu.Lock()
	defer c.mu.Unlock()
	return isSubscription && waitsForever && c.wasUseful
}

// renewSoon makes the connection anew, now or as soon as MoveOn allows it. reason says why, for people.
func (c *Conn) renewSoon(reason string) {
	if !c.MoveOn(reason) {
		time.AfterFunc(moveEvery, func() { c.renewSoon(reason) })
	}
}

// onReconnect handles a connection that is back. It ends the session, and with it the attempts of requests
// that were under way, which are then repeated. It calls the watchers, since messages may have been
// lost.
func (c *Conn) onReconnect(n *nats.Conn) {
	c.mu.Lock()
	c.refusal = nil
	c.endOutage()
	c.endSession()
	c.session, c.endSession = context.WithCancel(context.Background())
	// Watchers are called without the lock, as they may use the connection.
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

// onClosed handles the end of the connection, after which NATS does not connect again. The connection
// fails with the reason that helps the user most: expired credentials, then a refusal by the server,
// then the last error of the library.
func (c *Conn) onClosed(n *nats.Conn) {
	if _, expired := c.config.Holder(); expired != nil {
		c.fail(expired)
		return
	}
	c.mu.Lock()
	refusal := c.refusal
	c.mu.Unlock()
	err := cmp.Or(n.LastError(), nats.ErrConnectionClosed)
	// The first refusal says more than the errors of the attempts after it.
	if refusal != nil || refusesCredentials(err) {
		c.fail(fmt.Errorf("bus: %w (%s)", c.explain(cmp.Or(refusal, err)), c.Address()))
		return
	}
	c.fail(fmt.Errorf("bus: connection closed: %w (%s)", c.explain(err), c.Address()))
}

// refusesCredentials reports whether an error means that the server does not, or no longer, accept the credentials
// of a connection, or their absence.
func refusesCredentials(err error) bool {
	return Refused(err) ||
		errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}

// noteRefusal notes why the server refuses the credentials. Only the first reason counts: when NATS
// connects again, a server no longer reports that credentials were revoked, only that it does not
// accept them.
func (c *Conn) noteRefusal(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal == nil {
		c.refusal = err
	}
}

// explain puts in front of an error of the connection what may be wrong and what to do about it, by
// the first cause in the list that applies. Other errors are returned as they are.
func (c *Conn) explain(err error) error {
	for _, known := range []struct {
		applies bool
		hint    string
	}{
		{errors.Is(err, nats.ErrNoServers), "no server answers there"},
		{Refused(err) && !c.showsWho(), "the server asks for credentials: fedpace enroll makes them, and --creds " +
			"names their file"},
		{Refused(err), "the server does not accept these credentials; its owner makes new ones with fedpace enroll"},
		{errors.Is(err, nats.ErrMaxConnectionsExceeded), "the server takes no more connections, or no more of " +
			"this device"},
		{errors.Is(err, nats.ErrAuthRevoked), "these credentials have been revoked"},
		{
			errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAccountAuthExpired),
			"these credentials have expired",
		},
		{errors.As(err, new(x509.UnknownAuthorityError)), "the server's certificate is signed by an authority that " +
			"is not known here; name its file"},
		{errors.As(err, new(x509.HostnameError)), "the server's certificate is for another name"},
		{errors.As(err, new(x509.CertificateInvalidError)), "the server's certificate has ended (fedpace " +
			"certificate makes another), or this machine's clock is wrong"},
		{errors.Is(err, nats.ErrSecureConnRequired), "the server takes encrypted connections only; name its " +
			"certificate authority or use a tls:// URL"},
		{errors.Is(err, nats.ErrSecureConnWanted), "the server does not encrypt: use a nats:// " +
			"address and no certificate authority, or give the server a certificate (fedpace certificate)"},
		{errors.Is(err, nats.ErrPermissionViolation), "these credentials lack a permission: give it back in the " +
			"server's configuration, or renew them"},
		{PayloadExceeded(err), "the server's max_payload is lower than when this program connected: raise it to 1MB, " +
			"NATS's default"},
	} {
		if known.applies {
			return fmt.Errorf("%s: %w", known.hint, err)
		}
	}
	return err
}

// showsWho reports whether the connection has credentials to show, of a file or in its URL.
func (c *Conn) showsWho() bool {
	hasUser := names.Redacted(c.config.URL) != c.config.URL
	return c.config.Creds != "" || hasUser
}

// PayloadExceeded reports whether err is that of a connection lost for good because a message was larger than the
// server's max_payload, which a reload has lowered. The library does not connect again; a new connection learns of the
// limit.
func PayloadExceeded(err error) bool {
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "maximum payload")
}

// Refused reports whether the server refused the credentials of a connection, or their absence.
func Refused(err error) bool { return errors.Is(err, nats.ErrAuthorization) }

// unreachable reports whether err means that no server could be reached, which may change by
// itself: none listens, the network fails, or a name cannot be looked up. It returns false for the
// error of a server that answers and refuses the connection.
func unreachable(err error) bool {
	for _, reason := range []error{
		nats.ErrNoServers,
		nats.ErrTimeout,
		nats.ErrNoInfoReceived,
		nats.ErrStaleConnection,
		io.EOF,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	var network net.Error
	return errors.As(err, &network)
}

// TLSFiles are PEM files. With any of them the connection is encrypted, whatever
// the scheme of the URL.
type TLSFiles struct {
	// CA is the file of the authority that signs the other end's certificate. If it is empty, the
	// authorities of the system count.
	CA string
	// Cert and Key are the files of this end's certificate and of its key; both or none.
	Cert, Key string
}

// config reads the files and returns the configuration of encrypted connections, or nil if no file
// is given. TLS 1.2 is the lowest version.
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
	// Without a certificate this end does not identify itself.
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

// Server returns the TLS configuration of a server that listens: with its own certificate and, where a
// CA is given, only for clients with a certificate that the CA signed. It returns nil if no file is
// given, and an error if the certificate is missing or has expired.
func (f TLSFiles) Server() (*tls.Config, error) {
	config, err := f.config()
	if config == nil || err != nil {
		return nil, err
	}
	// Only a CA was given, with which a server cannot identify itself.
	if len(config.Certificates) == 0 {
		return nil, errors.New("bus: TLS: a server needs a certificate and its key")
	}
	if end := config.Certificates[0].Leaf.NotAfter; time.Now().After(end) {
		return nil, fmt.Errorf(
			"bus: TLS: the certificate in %s has ended on %s (fedpace certificate makes another)",
			f.Cert,
			end.Local().Format(time.DateOnly),
		)
	}
	// A server uses the authority to check its clients.
	if config.RootCAs != nil {
		config.ClientCAs = config.RootCAs
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}
