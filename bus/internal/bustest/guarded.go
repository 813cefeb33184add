package bustest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"fedpace/bus/auth"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
)

// Guarded is a server that listens and asks for credentials.
type Guarded struct {
	*testing.T
	Authority *auth.Authority
	Server    *embedded.Server
	Folder    string // of its keys, in "keys", and of what tests add
}

// NewGuarded starts a server for a test.
func NewGuarded(t *testing.T) *Guarded {
	t.Helper()
	g := &Guarded{T: t, Folder: t.TempDir()}
	var err error
	if g.Authority, err = auth.New(filepath.Join(g.Folder, "keys")); err != nil {
		t.Fatal(err)
	}
	g.Server, err = embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Authority: g.Authority})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Server.Close)
	return g
}

// Creds issues credentials into a file.
func (g *Guarded) Creds(grant auth.Grant) string {
	g.Helper()
	b, err := g.Authority.Issue(grant)
	if err != nil {
		g.Fatal(err)
	}
	path := filepath.Join(g.Folder, grant.ID+".creds")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		g.Fatal(err)
	}
	return path
}

// Connect connects with somebody's credentials.
func (g *Guarded) Connect(creds string) *natsbus.Conn {
	g.Helper()
	c, err := natsbus.Connect(g.Context(), natsbus.ConnConfig{URL: g.Server.URL(), Creds: creds})
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(c.Close)
	return c
}

// Inside connects within the process, as a coordinator.
func (g *Guarded) Inside() *natsbus.Conn {
	g.Helper()
	c, err := natsbus.Connect(g.Context(), natsbus.ConnConfig{Server: g.Server})
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(c.Close)
	return c
}

// Admin is a bare connection that may do everything in the runs' account.
func (g *Guarded) Admin() *nats.Conn {
	g.Helper()
	seed, err := os.ReadFile(filepath.Join(g.Folder, "keys", "runs.nk"))
	if err != nil {
		g.Fatal(err)
	}
	runs, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil {
		g.Fatal(err)
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		g.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		g.Fatal(err)
	}
	token, err := jwt.NewUserClaims(public).Encode(runs)
	if err != nil {
		g.Fatal(err)
	}
	c, err := nats.Connect("", nats.InProcessServer(g.Server), nats.UserJWT(func() (string, error) { return token, nil }, pair.Sign))
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(c.Close)
	return c
}

// Raw is a connection of an attacker with somebody's credentials.
func (g *Guarded) Raw(creds string, options ...nats.Option) (*nats.Conn, chan error) {
	g.Helper()
	refused := make(chan error, 1024)
	defaults := []nats.Option{
		nats.UserCredentials(creds), nats.NoReconnect(), nats.CustomInboxPrefix("_INBOX_pi"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }),
		nats.ClosedHandler(func(c *nats.Conn) { refused <- c.LastError() }),
	}
	c, err := nats.Connect(g.Server.URL(), append(defaults, options...)...)
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(c.Close)
	return c, refused
}
