package bustest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"fedpace/bus/auth"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
)

// Guarded is a server that listens and asks for credentials.
type Guarded struct {
	*testing.T
	Authority *auth.Authority
	Server    *embedded.Embedded
	// Folder contains the keys, in "keys", and what tests add.
	Folder string
}

// NewGuarded starts a server with an authority for test t, on a free port of this machine. The
// server and its keys are removed when the test ends.
func NewGuarded(t *testing.T) *Guarded {
	t.Helper()
	g := &Guarded{T: t, Folder: t.TempDir()}
	g.Authority = must(auth.New(filepath.Join(g.Folder, "keys")))(t)
	g.Server = must(embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Authority: g.Authority}))(t)
	t.Cleanup(g.Server.Close)
	return g
}

// must turns the result of a call, which a test cannot do without, into a function that returns it and
// ends the test if the call failed. It is used as must(call())(t).
func must[R any](result R, err error) func(*testing.T) R {
	return func(t *testing.T) R {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

// Creds issues credentials for a grant into a file and returns the path of the file. An error ends
// the test.
func (g *Guarded) Creds(grant auth.Grant) string {
	g.Helper()
	path := filepath.Join(g.Folder, grant.ID+".creds")
	if err := os.WriteFile(path, must(g.Authority.Issue(grant))(g.T), 0o600); err != nil {
		g.Fatal(err)
	}
	return path
}

// Connect connects over TCP with the credentials in a file.
func (g *Guarded) Connect(creds string) *natsbus.Conn {
	g.Helper()
	return g.connect(natsconn.Config{URL: g.Server.URL(), Creds: creds})
}

// Inside connects within the process, with a coordinator's credentials.
func (g *Guarded) Inside() *natsbus.Conn {
	g.Helper()
	return g.connect(natsconn.Config{Server: g.Server})
}

// connect makes a connection that is closed at the end of the test.
func (g *Guarded) connect(config natsconn.Config) *natsbus.Conn {
	g.Helper()
	c := must(natsbus.Connect(g.Context(), config, nil))(g.T)
	g.Cleanup(c.Close)
	return c
}

// Admin returns a bare connection that may do everything in the account of runs. Its credentials
// are signed with that account's own key.
func (g *Guarded) Admin() *nats.Conn {
	g.Helper()
	seed := must(os.ReadFile(filepath.Join(g.Folder, "keys", "runs.nk")))(g.T)
	runs := must(nkeys.FromSeed(bytes.TrimSpace(seed)))(g.T)
	pair := must(nkeys.CreateUser())(g.T)
	token := must(jwt.NewUserClaims(must(pair.PublicKey())(g.T)).Encode(runs))(g.T)
	jwts := nats.UserJWT(func() (string, error) { return token, nil }, pair.Sign)
	c := must(nats.Connect("", nats.InProcessServer(g.Server), jwts))(g.T)
	g.Cleanup(c.Close)
	return c
}

// Raw returns a bare connection, as an attacker may make it, with the credentials in a file, and a channel
// with the errors by which the server refuses what the connection does.
func (g *Guarded) Raw(creds string, options ...nats.Option) (*nats.Conn, chan error) {
	g.Helper()
	refused := make(chan error, 1024)
	defaults := []nats.Option{
		nats.UserCredentials(creds), nats.NoReconnect(), nats.CustomInboxPrefix("_INBOX_pi"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }),
		nats.ClosedHandler(func(c *nats.Conn) { refused <- c.LastError() }),
	}
	c := must(nats.Connect(g.Server.URL(), append(defaults, options...)...))(g.T)
	g.Cleanup(c.Close)
	return c, refused
}
