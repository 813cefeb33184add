package natsconn_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/bustest"
	"fedpace/bus/certificate"
	"fedpace/bus/natsconn"
)

func TestConnect_WithoutCredentials(t *testing.T) {
	t.Parallel()
	g := bustest.NewGuarded(t)
	other, err := auth.New(filepath.Join(g.Folder, "other"))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := other.Issue(auth.Grant{Role: auth.RoleDevice, ID: "pi"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(g.Folder, "stranger.creds")
	if err := os.WriteFile(path, stranger, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]nats.Option{
		"nothing":                  nil,
		"a name":                   {nats.UserInfo("admin", "admin")},
		"a token":                  {nats.Token("x")},
		"another authority's file": {nats.UserCredentials(path)},
	} {
		c, err := nats.Connect(g.Server.URL(), append(options, nats.NoReconnect())...)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("with %s: %v, want a refusal", name, err)
		}
	}
	for want, c := range map[string]natsconn.Config{
		"the server asks for credentials":                 {URL: g.Server.URL()},
		"the server does not accept these credentials":    {URL: g.Server.URL(), Creds: path},
		"no such file or directory":                       {URL: g.Server.URL(), Creds: path + "x"},
		"want the file that fedpace enroll made":          {URL: g.Server.URL(), Creds: filepath.Join(g.Folder, "keys", "runs.nk")},
		`"http://x" is not a NATS server's URL`:           {URL: "http://x"},
		`bus: TLS: certificate authority: open nowhere`:   {URL: g.Server.URL(), TLS: natsconn.TLSFiles{CA: "nowhere"}},
		"no server answers there":                         {URL: "nats://127.0.0.1:1"},
		"a certificate and its key go together":           {URL: g.Server.URL(), TLS: natsconn.TLSFiles{Cert: "x"}},
		"nats://127.0.0.1:1: no server answers there: na": {URL: "nats://someone:secret@127.0.0.1:1"},
	} {
		conn, err := natsconn.Connect(t.Context(), c)
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want one line with %q", err, want)
		}
	}
}

func TestRevoke_EndsConnection(t *testing.T) {
	t.Parallel()
	g := bustest.NewGuarded(t)
	path := g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"})
	kept := g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pj"})
	gone := make(chan struct{})
	g.Raw(path, nats.ClosedHandler(func(gone chan struct{}) nats.ConnHandler { return func(*nats.Conn) { close(gone) } }(gone)))
	stays, _ := g.Raw(kept)
	if err := g.Authority.Revoke(auth.RoleDevice, "pi"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("a device whose credentials were revoked stays")
	}
	if conn, err := natsconn.Connect(t.Context(), natsconn.Config{URL: g.Server.URL(), Creds: path}); err == nil {
		conn.Close()
		t.Error("it comes back")
	}
	if !stays.IsConnected() {
		t.Error("another device had to go, too")
	}
	if _, err := g.Authority.Issue(auth.Grant{Role: auth.RoleDevice, ID: "pj"}); !errors.Is(err, auth.ErrEnrolled) {
		t.Errorf("a second enrolment: %v", err)
	}
	again, err := g.Authority.Issue(auth.Grant{Role: auth.RoleDevice, ID: "pi"}) // what is revoked may be enrolled again
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, again, 0o600); err != nil {
		t.Fatal(err)
	}
	g.Connect(path)
	if err := g.Authority.Revoke(auth.RoleDevice, "nobody"); err == nil {
		t.Error("one that was never enrolled is revoked")
	}
}

// Credentials that end let nobody in any more, and end the connections that there are.
func TestConnect_ExpiredCredentials(t *testing.T) {
	t.Parallel()
	g := bustest.NewGuarded(t)
	gone := make(chan struct{})
	var own *natsconn.Conn
	for life := time.Second; ; life *= 2 { // long enough for this machine to connect
		path := g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi", Lifetime: life, Renew: true})
		c, err := nats.Connect(g.Server.URL(), nats.UserCredentials(path), nats.NoReconnect(), nats.ClosedHandler(func(gone chan struct{}) nats.ConnHandler { return func(*nats.Conn) { close(gone) } }(gone)))
		if err == nil {
			t.Cleanup(c.Close)
			own, err = natsconn.Connect(t.Context(), natsconn.Config{URL: g.Server.URL(), Creds: path})
		}
		if err == nil {
			t.Cleanup(own.Close)
			break
		}
		gone = make(chan struct{})
		if life > time.Minute {
			t.Fatal(err)
		}
	}
	path := filepath.Join(g.Folder, "pi.creds")
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("a device stays whose credentials have ended")
	}
	if <-own.Life().Done(); !strings.Contains(own.Err().Error(), "else renew them (fedpace enroll --renew pi)") {
		t.Errorf("its own connection ends with %v", own.Err())
	}
	for end := time.Now().Add(patience); ; { // a server counts whole seconds
		c, err := nats.Connect(g.Server.URL(), nats.UserCredentials(path), nats.NoReconnect())
		if err != nil {
			break
		}
		if c.Close(); time.Now().After(end) {
			t.Fatal("it comes back")
		}
	}
	_, err := natsconn.Connect(t.Context(), natsconn.Config{URL: g.Server.URL(), Creds: path})
	if err == nil || !strings.Contains(err.Error(), "they have ended on 20") || !strings.Contains(err.Error(), "else renew them (fedpace enroll --renew pi)") {
		t.Errorf("the device is told %v", err)
	}
	// Renewed they are good for as long as before, and said to end soon.
	g.Connect(g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi", Lifetime: time.Hour, Renew: true}))
	path = g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi", Renew: true})
	if _, err := (&natsconn.Config{Creds: path}).Device("hall"); err == nil || !strings.Contains(err.Error(), "pi.creds is of device pi, and this is device hall, which needs its own: fedpace enroll hall") {
		t.Errorf("with another's credentials a device is told %v", err)
	}
	told := make(chan bus.Notice, 8)
	conn, err := natsconn.Connect(t.Context(), natsconn.Config{URL: g.Server.URL(), Creds: path, Notice: func(n bus.Notice) { told <- n }})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case n := <-told:
		if n.State != bus.CredentialsExpire || !strings.HasSuffix(n.Text, "; renew them: fedpace enroll --renew pi") {
			t.Errorf("told %+v", n)
		}
	case <-time.After(patience):
		t.Error("nobody is told that the credentials end within the hour")
	}
}

// A certificate that has ended is told with what mends it.
func TestConnect_ExpiredCertificate(t *testing.T) {
	t.Parallel()
	f := certificate.Folder(filepath.Join(t.TempDir(), "keys"))
	if _, err := f.Issue([]string{"127.0.0.1"}, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(f.Cert(), f.Key())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = c.Write([]byte("INFO {\"tls_required\":true,\"max_payload\":1048576}\r\n"))
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake() // which the other end breaks off
			_ = c.Close()
		}
	}()
	_, err = natsconn.Connect(t.Context(), natsconn.Config{URL: "tls://" + l.Addr().String(), TLS: natsconn.TLSFiles{CA: f.CA()}})
	if err == nil || !strings.Contains(err.Error(), "has ended (fedpace certificate makes another), or this machine's clock is wrong") {
		t.Errorf("a client is told %v", err)
	}
}

// NATS itself only says that the connection is closed, or not authorized.
func TestConn_CredentialsWereRevoked(t *testing.T) {
	t.Parallel()
	g := bustest.NewGuarded(t)
	c := g.Connect(g.Creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"}))
	if err := g.Authority.Revoke(auth.RoleDevice, "pi"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Life().Done():
	case <-time.After(patience):
		t.Fatal("the connection lives on")
	}
	text := c.Err().Error()
	if strings.Contains(text, "connection closed") || !strings.Contains(text, "these credentials have been revoked") {
		t.Errorf("it ends with %q", text)
	}
}

// The clock may be what is wrong: nobody should be sent to renew credentials that are good.
func TestHolder_ExpiryNamesClock(t *testing.T) {
	h := auth.Holder{Role: auth.RoleDevice, ID: "pi", Expires: time.Now()}
	err := h.CheckExpiry(time.Now().Add(24 * time.Hour))
	if err == nil || !strings.Contains(err.Error(), "set the clock if it is wrong, else renew them (fedpace enroll --renew pi)") {
		t.Errorf("got %v", err)
	}
}
