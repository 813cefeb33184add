package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/certificate"
	"fedpace/bus/embedded"
	"fedpace/bus/memory"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/config"
	"fedpace/coordinator"
	"fedpace/experiment/folder"
	"fedpace/internal/names"
)

// KeysFolder returns the folder of keys that was given or, if it is empty, that of this user's
// servers within the user's configuration. It makes no folder.
func KeysFolder(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no folder for keys: %w", err)
	}
	return filepath.Join(dir, "fedpace", "keys"), nil
}

// Embedded starts the NATS server of s in this process. If s has an address to listen at, whoever
// connects must show credentials that the folder keys knows (see [KeysFolder]), and connections are
// encrypted by the certificate in files. Without files, a server that other machines reach takes the
// certificate in the folder of keys, or none if insecure is true. The caller closes the server.
func Embedded(
	ctx context.Context,
	s embedded.Config,
	keys string,
	files natsconn.TLSFiles,
	insecure bool,
) (_ *embedded.Embedded, err error) {
	// A server that does not listen is reached from this process alone and needs no keys.
	if s.Listen == "" {
		return embedded.Start(ctx, s)
	}
	keys, err = KeysFolder(keys)
	if err != nil {
		return nil, err
	}
	s.Authority, err = auth.New(keys)
	if err != nil {
		return nil, err
	}
	// Other machines reach the server, so it is encrypted by the folder's certificate.
	if files == (natsconn.TLSFiles{}) && !names.Loopback(s.Listen) && !insecure {
		files, err = folderCertificate(s.Listen, certificate.Folder(keys))
		if err != nil {
			return nil, err
		}
	}
	s.TLS, err = files.Server()
	if err != nil {
		return nil, err
	}
	return embedded.Start(ctx, s)
}

// folderCertificate returns the paths of the certificate and its key in a folder of keys, for a server
// that listens at an address. If the folder has no key, the error says how to make a certificate.
func folderCertificate(listen string, keys certificate.Folder) (files natsconn.TLSFiles, err error) {
	files.Cert = keys.Cert()
	files.Key = keys.Key()
	if _, err := os.Stat(files.Key); errors.Is(err, fs.ErrNotExist) {
		host := names.Host(listen)
		// An address that stands for all interfaces, such as 0.0.0.0, cannot be the name in a certificate.
		ip, err := netip.ParseAddr(host)
		isUnspecified := err == nil && ip.IsUnspecified()
		if host == "" || isUnspecified {
			host = "NAME"
		}
		return files, fmt.Errorf("nats.listen: other machines reach %s, and models and updates would cross the "+
			"network in the clear: make a certificate (fedpace certificate --host %s), or set nats.insecure=true "+
			"if you trust the network",
			listen, host)
	}
	return files, nil
}

// Joining returns the end of a sentence that begins with who joins ("Hosts and devices "): how they join
// the server s, which listens in this process, until when its certificate is valid, and how many
// connections it takes.
func Joining(s *embedded.Embedded) string {
	text := fmt.Sprintf("can join on %s with credentials (fedpace enroll)", s.URL())
	if end := s.CertificateEnd(); !end.IsZero() {
		text += fmt.Sprintf(" and --tls-ca; its certificate ends on %s", end.Local().Format(time.DateOnly))
	}
	return fmt.Sprintf("%s, over %d connections at most.", text, s.Front().MaxConnections())
}

// startLocal starts an engine that measures how long experiment p takes on this machine: with the hosts
// of this process alone and, if the run has a server, with an embedded server that nobody else reaches.
// The caller closes the engine.
func startLocal(ctx context.Context, p *experiment) (*engine, error) {
	local := *p
	// A run with a server is measured with one of its own, so that messages cost as much.
	if local.serverURL() != config.None {
		local.Config.NATS = config.Demonstration().NATS
	}
	local.options.NATS = natsconn.Config{}
	local.options.RemoteHosts = false
	return startEngine(ctx, &local)
}

// serverURL returns the URL of the run's server: that of the options, else nats.url.
func (p *experiment) serverURL() string { return cmp.Or(p.options.NATS.URL, p.Config.NATS.URL) }

// carrier says, in the words of the summary, whether the run's messages stay in memory or go over NATS.
func (p *experiment) carrier() string {
	if p.serverURL() == config.None {
		return folder.InMemory
	}
	return folder.OverNATS
}

// connect opens one connection of the run's transport, which Close closes. name is what people see it
// called; notice takes lines about the connection, and may be nil.
func (e *engine) connect(ctx context.Context, name string, notice func(bus.Notice)) (bus.Transport, error) {
	// Messages within this process need no server.
	if e.memory != nil {
		return e.memory.Connect(name), nil
	}
	settings := e.serverSettings
	settings.Name = name
	settings.Notice = notice
	conn, err := natsbus.Connect(ctx, settings, e.store)
	if err != nil {
		return nil, err
	}
	e.conns = append(e.conns, conn.Conn)
	return conn, nil
}

// open decides by the options and the configuration how the run's messages travel: within this process
// without a server (it sets memory), over a server of another process, or over an embedded one, which it
// starts. It sets serverSettings for connect, and external where other processes can reach the run. It is an
// error if hosts elsewhere are to do the work and could not.
func (e *engine) open(ctx context.Context) (err error) {
	o := &e.p.options
	settings := &e.p.Config.NATS
	switch url := e.p.serverURL(); {
	case url == config.None && o.RemoteHosts:
		return errors.New("nats.url: hosts elsewhere need a server to meet the run on, and it is none (give a " +
			"server's URL, or set nats.listen)")
	case url == config.None:
		e.memory = memory.New()
		return nil
	// The server is another process, which may start later than this one.
	case url != config.Embedded:
		e.external = true
		e.serverSettings = o.NATS
		e.serverSettings.URL = url
		e.serverSettings.Await = true
		return nil
	}
	// Other processes reach the embedded server only if it listens.
	e.external = settings.Listen != ""
	if !e.external && o.RemoteHosts {
		return errors.New("remote hosts need a server that they can reach: give its URL, or set nats.listen")
	}
	// The run starts a server of its own, which other processes reach if it listens.
	server := embedded.Config{Listen: settings.Listen, Quota: e.p.Config.Devices.Quota, Notice: o.Notify}
	e.embedded, err = Embedded(ctx, server, o.Keys, o.NATS.TLS, settings.Insecure)
	if err != nil {
		return err
	}
	if front := e.embedded.Front(); front != nil {
		o.Notify("Hosts and devices " + Joining(e.embedded))
	}
	e.serverSettings = natsconn.Config{Server: e.embedded}
	return nil
}

// announce puts into c what the coordinator publishes to hosts in other processes: a description of the
// run, and its models. It does nothing where no such host can reach the run.
func (e *engine) announce(c *coordinator.Config) error {
	if !e.external {
		return nil
	}
	o := &e.p.options
	settings := &e.p.Config.NATS
	info, err := e.p.Info(o.Version)
	if err != nil {
		return err
	}
	// Hosts elsewhere need the models and a description of the run to train for it.
	c.Bus = bus.CoordinatorConfig{
		PublishModels: true,
		Replicas:      settings.Replicas,
		Info:          info,
		NeedsHosts:    o.RemoteHosts,
		Notice:        o.HostNotice,
		AckWait:       wall(settings.AckSeconds),
		MaxDeliver:    settings.MaxDeliver,
		PlanPatience:  planPatience,
	}
	return nil
}

// planPatience is how long a plan may take before its task is sent again. It is short where hosts are
// other processes, which may die: tasks that are sent twice are cheap.
const planPatience = 2 * time.Second
