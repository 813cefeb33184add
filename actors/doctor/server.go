package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
)

const (
	// serverPatience is how long a server may take to answer.
	serverPatience = 10 * time.Second
	// roundTrips is how many round trips are measured, of which the median counts.
	roundTrips = 5
)

// credentials checks the file with the device's credentials: that it can be read, is of this device,
// has not ended, and is closed to other users. It notes the number of samples that they allow. Without
// a file there is nothing to check.
func credentials(_ context.Context, c *Config) []Finding {
	path := c.Conn.Creds
	if path == "" {
		return nil
	}
	const enroll = "copy the file that fedpace enroll made for this device here"
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []Finding{failure("credentials", path+" does not exist", enroll)}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return []Finding{failure("credentials", err.Error(), "let the user that the device runs as read it")}
	}
	holder, err := auth.ReadHolder(b)
	if err != nil {
		return []Finding{failure("credentials", fmt.Sprintf("%s: %v", path, err), enroll)}
	}
	text := fmt.Sprintf("%s is of %s %s, good %s", path, holder.Role, holder.ID, holder.Until())
	if holder.Samples > 0 {
		text += fmt.Sprintf(", for at most %d samples", holder.Samples)
	}
	c.Device.Samples = holder.Samples
	now := time.Now()
	ending, renewal := holder.RenewalDue(now)
	switch {
	case holder.Role != auth.RoleDevice:
		return []Finding{failure(
			"credentials",
			text,
			"a device needs its own: fedpace enroll "+cmp.Or(c.Device.ID, "NAME"),
		)}
	case c.Device.ID != "" && holder.ID != c.Device.ID:
		return []Finding{failure(
			"credentials",
			text+", and this is "+c.Device.ID,
			"use --client "+holder.ID+", or the file of "+c.Device.ID,
		)}
	case holder.CheckExpiry(now) != nil:
		return []Finding{failure("credentials", text+": it has ended", "renew it: "+renewal)}
	case ending != "":
		return []Finding{warning("credentials", text, "renew it: "+renewal)}
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return []Finding{warning(
			"credentials",
			fmt.Sprintf("%s; others on this machine can read it (mode %#o)", text, info.Mode().Perm()),
			"chmod 600 "+path,
		)}
	}
	return []Finding{ok("credentials", text)}
}

// server checks the connection to the server: its certificate, its round trip and the size of its
// messages, the device's permissions, and which runs call the device.
func server(ctx context.Context, c *Config) (findings []Finding) {
	if c.Conn.URL == "" {
		return []Finding{warning("server", "not tried: no URL is given", "give --nats URL")}
	}
	if _, err := c.Conn.Holder(); err != nil {
		return []Finding{warning("server", "not tried without credentials that can be used", "mend these first")}
	}
	connecting, stop := context.WithTimeout(ctx, serverPatience)
	defer stop()
	conn, err := natsconn.Connect(connecting, c.Conn)
	if unknown := new(x509.UnknownAuthorityError); errors.As(err, unknown) {
		return []Finding{failure(
			"encryption",
			err.Error(),
			"give --tls-ca ca.pem, the file that fedpace certificate made with the server's",
		)}
	}
	if errors.As(err, new(x509.CertificateInvalidError)) || errors.As(err, new(x509.HostnameError)) {
		return []Finding{failure(
			"encryption",
			err.Error(),
			"set the clock; or make the server's certificate again, "+
				"for what stands in the URL: fedpace certificate --host NAME",
		)}
	}
	if natsconn.Refused(err) {
		return []Finding{failure(
			"permissions",
			err.Error(),
			"give --creds with the file that fedpace enroll made with the keys of this server; "+
				"if they were revoked, renew them: fedpace enroll --renew "+cmp.Or(c.Device.ID, "NAME"),
		)}
	}
	if err != nil {
		return []Finding{failure(
			"server",
			err.Error(),
			"check the URL, that the server runs, and that no firewall is between: nc -vz HOST PORT",
		)}
	}
	defer conn.Close()
	n := conn.NATS()
	trips := make([]time.Duration, roundTrips)
	for i := range trips {
		trips[i], err = n.RTT()
		if err != nil {
			return []Finding{failure(
				"server",
				fmt.Sprintf("%s answers no ping: %v", conn.Address(), err),
				"try again; look for a connection that breaks",
			)}
		}
	}
	slices.Sort(trips)
	text := fmt.Sprintf(
		"%s, NATS %s, round trip %v",
		conn.Address(),
		n.ConnectedServerVersion(),
		trips[roundTrips/2].Round(10*time.Microsecond),
	)
	if maxPayload := n.MaxPayload(); maxPayload < bus.ChunkBytes {
		findings = append(
			findings,
			warning(
				"server",
				fmt.Sprintf("%s, takes messages of %d bytes", text, maxPayload),
				fmt.Sprintf(
					"raise its max_payload to %d or more: an update travels in pieces of that size",
					2*bus.ChunkBytes,
				),
			),
		)
	} else {
		findings = append(findings, ok("server", text))
	}
	findings = append(findings, certificate(conn))
	if c.Device.ID == "" {
		return append(findings, warning("permissions", "not tried: the device has no name", "give --client NAME"))
	}
	return append(findings, calls(ctx, c, conn)...)
}

// certificate checks the encryption of the connection: it warns if there is none, or if the server's
// certificate expires soon.
func certificate(conn *natsconn.Conn) Finding {
	state, err := conn.NATS().TLSConnectionState()
	if err != nil || len(state.PeerCertificates) == 0 {
		return warning(
			"encryption",
			"none: who can read the network reads models and updates",
			"give the server a certificate (fedpace certificate) and use a tls:// URL, unless the network is trusted",
		)
	}
	leaf := state.PeerCertificates[0]
	text := fmt.Sprintf("the server's certificate is valid until %s", leaf.NotAfter.Format(time.DateOnly))
	if time.Until(leaf.NotAfter) < auth.Soon {
		return warning("encryption", text, "renew it in time: devices cannot connect after that")
	}
	return ok("encryption", text)
}

// calls subscribes as the device does, which shows whether its permissions suffice, and listens for runs
// that call it. It notes those of this version in c.callingRuns.
func calls(ctx context.Context, c *Config, conn *natsconn.Conn) []Finding {
	listen := cmp.Or(c.Listen, defaultListen)
	listening, stop := context.WithTimeout(ctx, listen)
	defer stop()
	// A last call may arrive while the listening ends, so a lock guards the lists.
	var mu sync.Mutex
	// otherVersions are texts about runs of another version, sameVersion the names of the others.
	var runs, otherVersions, sameVersion []string
	err := gateway.Calls(listening, conn, c.Device.ID, func(run, version string) {
		mu.Lock()
		defer mu.Unlock()
		runs = append(runs, run)
		if bus.VersionsDiffer(version, c.Device.Version) {
			otherVersions = append(otherVersions, run+" is coordinated by version "+version)
		} else if version != "" {
			// A coordinator without a version is so old that it may not know the question of fitRun.
			sameVersion = append(sameVersion, run)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	c.callingRuns = slices.Sorted(slices.Values(sameVersion))
	slices.Sort(runs)
	switch {
	case err != nil:
		return []Finding{failure(
			"permissions",
			err.Error(),
			"use credentials of this device: fedpace enroll "+c.Device.ID,
		)}
	case len(runs) == 0:
		return []Finding{
			ok("permissions", c.Device.ID+" may hear its tasks"),
			ok(
				"runs",
				fmt.Sprintf(
					"none calls %s within %v: none names it in devices.names, or it takes part already",
					c.Device.ID,
					listen,
				),
			),
		}
	}
	finding := ok("runs", "called by "+strings.Join(runs, ", "))
	if slices.Sort(otherVersions); len(otherVersions) > 0 {
		versions := strings.Join(otherVersions, ", ")
		finding = warning(
			"runs",
			fmt.Sprintf("%s; %s, and this program is version %s", finding.Text, versions, c.Device.Version),
			"install the program of the coordinator's version, or update the coordinator; "+
				"versions that differ work together as far as the protocol allows",
		)
	}
	return []Finding{ok("permissions", c.Device.ID+" may hear its tasks"), finding}
}
