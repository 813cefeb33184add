package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/coordinator"
	"fedpace/experiment/config"
)

// Connection is how NATS servers are reached and, where one of this process
// listens, how others reach it. It changes no result and stands in none.
type Connection struct {
	URL   string // of the server, with a user and password if need be; empty: as nats.url
	Creds string // file of credentials; empty: none
	TLS   natsbus.TLSFiles
	Keys  string // folder of the keys by which a server that listens knows its users; empty: KeysFolder
}

// KeysFolder is where the keys of this user's servers are, unless said otherwise.
func KeysFolder() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no folder for keys: %w", err)
	}
	return filepath.Join(dir, "fedpace", "keys"), nil
}

// Reach says whether a server answers at the URL, which must be given.
func (c *Connection) Reach(ctx context.Context) error {
	conn, err := natsbus.Connect(ctx, natsbus.ConnConfig{URL: c.URL, Creds: c.Creds, TLS: c.TLS, Name: "is it there"})
	if err != nil {
		return err
	}
	conn.Close()
	return nil
}

// authority opens the keys of a server that listens, and makes them the first
// time.
func (c *Connection) authority() (*auth.Authority, error) {
	if c.Keys != "" {
		return auth.New(c.Keys)
	}
	dir, err := KeysFolder()
	if err != nil {
		return nil, err
	}
	return auth.New(dir)
}

// server is the URL to connect to; Embedded for none.
func (c *Connection) server(config *config.NATS) string {
	if c.URL != "" {
		return c.URL
	}
	return config.URL
}

// startLocal starts an engine for a run of the same process that only finds out how
// long something takes: on a server of its own, with a host of its own.
func startLocal(ctx context.Context, p *problem, o Options) (*engine, error) {
	p.config.NATS = config.Demonstration().NATS
	o.NATS, o.RemoteHosts = Connection{}, false
	return startEngine(ctx, p, o)
}

// connect starts the embedded server, if that is asked for, and says how to
// connect to whichever server there is.
func (e *engine) connect(ctx context.Context, o Options) (natsbus.ConnConfig, error) {
	settings := &e.p.config.NATS
	url := o.NATS.server(settings)
	if url != config.Embedded {
		e.external = true
		return natsbus.ConnConfig{URL: url, Creds: o.NATS.Creds, TLS: o.NATS.TLS, Store: natsbus.NewStore()}, nil
	}
	c := embedded.Config{Listen: settings.Listen}
	if settings.Listen != "" {
		e.external = true
		var err error
		if c.Authority, err = o.NATS.authority(); err != nil {
			return natsbus.ConnConfig{}, err
		}
		if c.TLS, err = o.NATS.TLS.Server(); err != nil {
			return natsbus.ConnConfig{}, err
		}
	} else if o.RemoteHosts {
		return natsbus.ConnConfig{}, errors.New("hosts elsewhere need a server that they can reach: give its URL, or set nats.listen")
	}
	var err error
	if e.server, err = embedded.Start(ctx, c); err != nil {
		return natsbus.ConnConfig{}, err
	}
	if at := e.server.URL(); at != "" {
		o.notice(fmt.Sprintf("Hosts and devices can join on %s with credentials (fedpace enroll).", at))
	}
	return natsbus.ConnConfig{Server: e.server}, nil
}

// tell makes the run known to hosts in other processes.
func (e *engine) tell(c *coordinator.Config, o Options) error {
	settings := &e.p.config.NATS
	if !e.external {
		return nil
	}
	info, err := e.p.info(o.Version)
	if err != nil {
		return err
	}
	c.Bus = bus.CoordinatorConfig{
		PublishModels: true, Replicas: settings.Replicas, Info: info, NeedsHosts: o.RemoteHosts, Notice: o.hostNotice(),
		AckWait:      time.Duration(settings.AckSeconds * float64(time.Second)),
		PlanPatience: planPatience,
	}
	return nil
}

// planPatience is short where hosts are other processes, which may die: tasks that
// are sent again are cheap.
const planPatience = 2 * time.Second
