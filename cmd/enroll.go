package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fedpace/bus/auth"
	"fedpace/bus/certificate"
	"fedpace/cmd/internal/cli"
	"fedpace/experiment/run"
	"fedpace/internal/atomicfile"
	"fedpace/internal/names"
)

// enrollment holds the flags of one "fedpace enroll". Which of its actions is meant follows
// from the flags that are set; flags of several actions are refused.
type enrollment struct {
	// keys is the folder of the keys, outPath the file or folder to write; empty: standard places.
	keys, outPath string
	// host names a host to enroll, run the only run that a device may join; empty: any.
	host, run string
	// site names a site's own server to enroll, siteServer the URL for which --site-config prints.
	site, siteServer string
	// list is the CSV file of devices to enroll, server the URL that they join.
	list, server string
	// dist is the folder with the archives of the device program, one for each platform.
	dist string
	// devices lists the enrolled devices that may come through the site's server.
	devices []string
	// samples is the most samples with which a device's updates count; 0: no limit.
	samples uint64
	// expires is how long credentials are good for; 0: until they are revoked.
	expires time.Duration
	// coordinator enrolls a coordinator in place of a device.
	coordinator bool
	// revoke ends the credentials that exist, and renew replaces them by new ones.
	revoke, renew bool
	// configuration prints what another NATS server's configuration must include.
	configuration bool
}

// enrollCommand makes "fedpace enroll", which issues, renews and revokes credentials of devices,
// hosts, coordinators and sites, and prints what the configuration of another NATS server must
// include.
func enrollCommand() *cobra.Command {
	var e enrollment
	c := &cobra.Command{
		Use:   "enroll ID | --host NAME | --coordinator | --site NAME",
		Short: "Issue or revoke credentials for a device, a host or a coordinator",
		Long: `Issue credentials for a device, host or coordinator, into NAME.creds in the
folder of the keys. Whoever can read the keys can be anyone. fedpace's own
server (nats.listen) with the same keys heeds a revocation within seconds;
another includes what --server-config prints, and needs a reload after a
revocation. --renew keeps limits that no flag changes.

--list makes an archive for each new device of a CSV file (name, platform,
class, data).`,
		Example: `  fedpace enroll pi-1 --expires 8760h
  fedpace enroll --host box --out /etc/fedpace/box.creds
  fedpace enroll --list boards.csv --server tls://lab:4222 --out boards
  fedpace enroll --revoke pi-1
  fedpace enroll --server-config > auth.conf
  fedpace enroll --site home --devices pi-1,pi-2 && fedpace enroll --site-config tls://server:7422 > site.conf`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			// The flags are checked as a whole before any key is read or made.
			grant, err := e.grant(args)
			if err != nil {
				return cli.Usage(c, err)
			}
			return e.carryOut(c, grant)
		},
	}
	s := c.Flags()
	s.StringVar(&e.keys, "keys", "", "folder of the keys (default this user's)")
	s.StringVar(&e.host, "host", "", "enroll a host of this name")
	s.BoolVar(&e.coordinator, "coordinator", false, "enroll a coordinator, named so unless an ID is given")
	s.StringVar(&e.list, "list", "", "CSV file of devices to enroll")
	s.StringVar(&e.server, "server", "", "URL that they join")
	s.StringVar(&e.dist, "dist", "dist", "folder of their programs (make dist)")
	s.StringVar(&e.run, "run", "", "the only run that it may join")
	s.DurationVar(
		&e.expires,
		"expires",
		0,
		"validity, such as 720h (default until revoked)",
	)
	s.Uint64Var(&e.samples, "samples", 0, "maximum samples of the device")
	s.StringSliceVar(&e.devices, "devices", nil, "enrolled devices of --site, separated by commas")
	s.BoolVar(&e.renew, "renew", false, "end present credentials, and issue new ones")
	s.BoolVar(&e.revoke, "revoke", false, "end present credentials")
	s.BoolVar(&e.configuration, "server-config", false, "print what another nats-server's configuration includes")
	s.StringVar(&e.site, "site", "", "enroll a site's own server of this name")
	s.StringVar(
		&e.siteServer,
		"site-config",
		"",
		"print a site's server configuration for this URL of leaf nodes",
	)
	s.StringVarP(&e.outPath, "out", "o", "", "file to write the credentials to, or folder of archives")
	return c
}

// grant translates the flags into what is to be enrolled or revoked, and returns an error for
// combinations that mean nothing. args holds at most one argument, the ID of a device. The grant is
// empty for --server-config and --site-config, which enroll and revoke nothing.
func (e *enrollment) grant(args []string) (auth.Grant, error) {
	// The command takes one argument at most, so this is that argument or empty.
	id := strings.Join(args, "")
	g := auth.Grant{
		Role:     auth.RoleDevice,
		ID:       id,
		Run:      e.run,
		Samples:  e.samples,
		Devices:  e.devices,
		Lifetime: e.expires,
		Renew:    e.renew,
	}
	// These flags limit what credentials allow, which makes sense only where some are issued.
	limited := e.run != "" || e.samples != 0 || e.expires != 0 || len(e.devices) > 0
	// Exactly one of these may say who is meant. An ID beside --coordinator is the coordinator's.
	subjects := 0
	for _, isGiven := range []bool{
		id != "" && !e.coordinator,
		e.list != "",
		e.host != "",
		e.site != "",
		e.coordinator,
	} {
		if isGiven {
			subjects++
		}
	}
	changes := subjects > 0 || e.revoke || e.renew
	isPrint := e.configuration || e.siteServer != ""
	printsBoth := e.configuration && e.siteServer != ""
	switch {
	case isPrint && (changes || limited || e.outPath != "" || printsBoth):
		return g, errors.New("--server-config and --site-config stand alone, with --keys at most")
	case e.configuration:
		return auth.Grant{}, nil
	case e.siteServer != "":
		return auth.Grant{}, names.CheckURL(e.siteServer)
	case subjects > 1:
		return g, errors.New("one at a time: an ID, --list, --host, --coordinator or --site")
	case subjects == 0:
		return g, errors.New("who is to be enrolled: a device's ID, --host NAME or --coordinator")
	case e.list != "" && (e.server == "" || e.outPath == "" || e.revoke):
		return g, errors.New("--list goes with --server URL, which its devices join, and --out FOLDER for their " +
			"archives")
	case e.list != "":
		// Each device of a list brings its own name. A placeholder lets the other parts be checked.
		g.ID = "each"
		return g, cmp.Or(names.CheckURL(e.server), g.Check())
	case e.site != "":
		g.Role = auth.RoleSite
		g.ID = e.site
	case e.host != "":
		g.Role = auth.RoleHost
		g.ID = e.host
	case e.coordinator:
		g.Role = auth.RoleCoordinator
		g.ID = cmp.Or(id, "coordinator")
	}
	// A revocation needs only to know who is meant.
	writesCredentials := e.renew || e.outPath != "" || limited
	if e.revoke && writesCredentials {
		return g, errors.New("--revoke ends credentials and writes none: nothing but --keys goes with it")
	}
	return g, g.Check()
}

// carryOut carries out the action that the flags ask for, with the authority whose keys lie in the folder
// of the keys. Keys that do not exist yet are made, except for a revocation: new keys cannot have
// signed anything that could be revoked.
func (e *enrollment) carryOut(c *cobra.Command, g auth.Grant) (err error) {
	e.keys, err = run.KeysFolder(e.keys)
	if err != nil {
		return err
	}
	open := auth.New
	if e.revoke {
		// A revocation needs the keys that signed the credentials, so it makes none.
		open = auth.Open
	}
	authority, err := open(e.keys)
	if err != nil {
		return err
	}
	switch {
	case e.configuration, e.siteServer != "":
		text, err := e.serverConfiguration(authority)
		if err != nil {
			return err
		}
		_, err = io.WriteString(c.OutOrStdout(), text)
		return err
	// A running server of fedpace reads the revocation by itself; others need a new configuration.
	case e.revoke:
		if err := authority.Revoke(g.Role, g.ID); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "The credentials of %s %s are revoked. A server of fedpace's own heeds that "+
			"within seconds; for another one, make auth.conf anew (--server-config) and reload it, and for "+
			"a site's the same with site.conf (--site-config).\n", g.Role, g.ID)
		return nil
	case e.list != "":
		return e.enrollList(c, authority, g)
	}
	// What is left is one device, host, site or coordinator to enroll.
	path := cmp.Or(e.outPath, filepath.Join(e.keys, g.ID+".creds"))
	creds, err := issue(authority, g, path, func(w io.Writer, creds []byte) error { return atomicfile.Bytes(creds)(w) })
	if err != nil {
		return err
	}
	// The credentials themselves say until when they are good.
	holder, err := auth.ReadHolder(creds)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "The credentials of %s %s are in %s, good %s. Who has that file is %s: take it "+
		"there by a way that others do not see.\n", g.Role, g.ID, names.Printable(path), holder.Until(), g.ID)
	return nil
}

// serverConfiguration returns what the configuration of a NATS server must include, so that it admits holders
// of this authority's credentials: of the run's server with --server-config, or of a site's own server with
// --site-config, which connects to the run's.
func (e *enrollment) serverConfiguration(authority *auth.Authority) (string, error) {
	if e.siteServer == "" {
		return authority.ServerConfiguration()
	}
	// A server with TLS is checked by the authority's certificate, if there is one.
	ca := ""
	_, err := os.Stat(certificate.Folder(e.keys).CA())
	usesTLS := strings.HasPrefix(e.siteServer, "tls:")
	if usesTLS && err == nil {
		ca = "ca.pem"
	}
	return authority.SiteConfiguration(strings.Split(e.siteServer, ","), "site.creds", ca)
}

// issue makes the credentials of a grant and writes them to path by write, readable by their owner
// alone. It fails if the file exists or the holder is enrolled already, unless the grant renews.
// Credentials that could not be written are revoked.
func issue(a *auth.Authority, g auth.Grant, path string, write func(w io.Writer, creds []byte) error) ([]byte, error) {
	if _, err := os.Lstat(path); err == nil && !g.Renew {
		return nil, fmt.Errorf("%s exists already (--renew replaces it)", path)
	}
	// The grant is noted by the authority before the file is written.
	creds, err := a.Issue(g)
	if errors.Is(err, auth.ErrEnrolled) {
		return nil, fmt.Errorf("%w (--renew issues new ones, --revoke ends them)", err)
	}
	if err != nil {
		return nil, err
	}
	if err := atomicfile.WriteSecret(path, func(w io.Writer) error { return write(w, creds) }); err != nil {
		// Credentials that no file holds are of use to nobody and would block a second attempt.
		return nil, errors.Join(err, a.Revoke(g.Role, g.ID))
	}
	return creds, nil
}
