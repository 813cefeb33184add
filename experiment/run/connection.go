package run

import (
	"cmp"
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

// startLocal starts an engine for a run of the same process that only finds out how
// long something takes: on a server of its own, with a host of its own.
func startLocal(ctx context.Context, p *problem, o Options) (*engine, error) {
	p.config.NATS = config.Demonstration().NATS
	o.NATS, o.RemoteHosts = Connection{}, false
	return startEngine(ctx, p, o)
}

// connect starts the embedded server, if that is asked for, and says how to
// connect to whichever server there is.
func (e *engine) connect(ctx context.Context) (to natsbus.ConnConfig, err error) {
	o, settings := &e.options, &e.p.config.NATS
	e.external = true
	if url := cmp.Or(o.NATS.URL, settings.URL); url != config.Embedded {
		return natsbus.ConnConfig{URL: url, Creds: o.NATS.Creds, TLS: o.NATS.TLS, Store: natsbus.NewStore()}, nil
	}
	c := embedded.Config{Listen: settings.Listen}
	if settings.Listen == "" {
		if e.external = false; o.RemoteHosts {
			return to, errors.New("remote hosts need a server that they can reach: give its URL, or set nats.listen")
		}
	} else {
		keys := o.NATS.Keys
		if keys == "" {
			if keys, err = KeysFolder(); err != nil {
				return to, err
			}
		}
		if c.Authority, err = auth.New(keys); err != nil {
			return to, err
		}
		if c.TLS, err = o.NATS.TLS.Server(); err != nil {
			return to, err
		}
	}
	if e.server, err = embedded.Start(ctx, c); err != nil {
		return to, err
	}
	if at := e.server.URL(); at != "" {
		o.notice(fmt.Sprintf("Hosts and devices can join on %s with credentials (fedpace enroll).", at))
	}
	return natsbus.ConnConfig{Server: e.server}, nil
}

// announce makes the run known to hosts in other processes.
func (e *engine) announce(c *coordinator.Config) error {
	if !e.external {
		return nil
	}
	o, settings := &e.options, &e.p.config.NATS
	info, err := e.p.info(o.Version)
	if err != nil {
		return err
	}
	c.Bus = bus.CoordinatorConfig{
		PublishModels: true, Replicas: settings.Replicas, Info: info, NeedsHosts: o.RemoteHosts, Notice: o.HostNotice,
		AckWait:      time.Duration(settings.AckSeconds * float64(time.Second)),
		PlanPatience: planPatience,
	}
	return nil
}

// planPatience is short where hosts are other processes, which may die: tasks that
// are sent again are cheap.
const planPatience = 2 * time.Second
