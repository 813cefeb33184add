package natsbus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
)

// configured starts a server with the text of a configuration file, as an external one.
func configured(t *testing.T, text string) *server.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return testserver.Start(t, path)
}

// issuer returns an authority with its keys in dir, and a function that writes credentials there and returns their
// path.
func issuer(t *testing.T, dir string) (*auth.Authority, func(auth.Grant) string) {
	t.Helper()
	authority, err := auth.New(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	return authority, func(grant auth.Grant) string {
		b, err := authority.Issue(grant)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, grant.ID+".creds")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// The devices of a site come through a server of their own, which is a leaf of
// the one where the runs are.
func TestSite_DevicesThroughLeafNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, creds := issuer(t, dir)
	accounts, err := authority.ServerConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	leafs := testport.Held(t)
	hub := configured(t, fmt.Sprintf("listen: 127.0.0.1:-1\nserver_name: hub\njetstream { store_dir: %q }\nleafnodes { listen: %q }\n%s", filepath.Join(dir, "js"), leafs, accounts))
	device, stranger := creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"}), creds(auth.Grant{Role: auth.RoleDevice, ID: "pj"})
	limited := creds(auth.Grant{Role: auth.RoleDevice, ID: "small", Samples: 10, Run: "r"})
	there, err := authority.SiteConfiguration([]string{"nats://" + leafs}, creds(auth.Grant{Role: auth.RoleSite, ID: "home", Devices: []string{"pi", "small"}}), "")
	if err != nil {
		t.Fatal(err)
	}
	site := configured(t, "listen: 127.0.0.1:-1\nserver_name: site\n"+there)

	conn, err := natsbus.Connect(t.Context(), natsconn.Config{URL: hub.ClientURL(), Creds: creds(auth.Grant{Role: auth.RoleCoordinator, ID: "lab"})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := conn.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go", PublishModels: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	digest := bus.DigestOf(model)
	if err := c.PutModel(t.Context(), digest, model); err != nil {
		t.Fatal(err)
	}
	pi, err := nats.Connect(site.ClientURL(), nats.UserCredentials(device), nats.CustomInboxPrefix("_INBOX_pi"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // what it may not do is tried below
	if err != nil {
		t.Fatal(err)
	}
	defer pi.Close()
	var last error
	often := time.NewTicker(50 * time.Millisecond)
	defer often.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-often.C { // until the leaf is there
		m, err := pi.Request("$JS.API.DIRECT.GET.fedpace_r_models.fedpace.r.model."+digest.String()+".0", nil, time.Second)
		last = err
		if err == nil && len(m.Data) > 0 {
			break
		}
	}
	if last != nil {
		t.Fatalf("the model does not come through: %v", last)
	}
	// What the coordinator's account hears of it, and what it may not say.
	admin, err := nats.Connect(hub.ClientURL(), nats.UserCredentials(filepath.Join(dir, "lab.creds")), nats.CustomInboxPrefix("_INBOX_lab"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Subscribe("fedpace.r.client.pi.join", func(m *nats.Msg) { _ = m.Respond([]byte("welcome")) }); err != nil {
		t.Fatal(err)
	}
	heard, err := admin.SubscribeSync("fedpace.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Flush(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		m, err := pi.Request("fedpace.r.client.pi.join", []byte("x"), time.Second)
		last = err
		if err == nil && string(m.Data) == "welcome" {
			break
		}
	}
	if last != nil {
		t.Fatalf("its join is not answered: %v", last)
	}
	tasks, err := pi.SubscribeSync("fedpace.r.client.pi.task")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; {
		if err := admin.Publish("fedpace.r.client.pi.task", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := tasks.NextMsg(100 * time.Millisecond); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("its task does not come")
		}
	}
	for len(drain(heard, 100*time.Millisecond)) > 0 {
	}
	for _, s := range foreign {
		_ = pi.Publish(s, []byte("x")) // the site's server says no
	}
	for s := range drain(heard, 500*time.Millisecond) {
		if s != "fedpace.r.client.pi.task" && s != "fedpace.r.client.pi.join" { // which may have been under way
			t.Errorf("%s is reached through the leaf", s)
		}
	}
	// Of the other devices, those that the site's credentials list can do what their own
	// let them, and the rest nothing: also a server there that lets them cannot help.
	for name, c := range map[string]struct {
		creds, subject string
		arrives        bool
	}{
		"a listed device":            {limited, "fedpace.r.client.small.join.10", true},
		"more than it is allowed":    {limited, "fedpace.r.client.small.join.11", false},
		"another run":                {limited, "fedpace.q.client.small.join.10", false},
		"a device of another site":   {stranger, "fedpace.r.client.pj.join", false},
		"its heartbeat":              {stranger, "fedpace.r.client.pj.heartbeat", false},
		"the heartbeat of one of it": {limited, "fedpace.r.client.small.heartbeat", true},
	} {
		d, err := nats.Connect(site.ClientURL(), nats.UserCredentials(c.creds), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Publish(c.subject, nil), d.Flush()); err != nil {
			t.Fatal(err)
		}
		quiet := 500 * time.Millisecond
		if c.arrives {
			quiet = patience
		}
		m, err := heard.NextMsg(quiet)
		if (err == nil && m.Subject == c.subject) != c.arrives {
			t.Errorf("%s: %s arrives: %v, %v", name, c.subject, m, err)
		}
		d.Close()
	}
}

// What a site's credentials let it do is what its devices may do, whoever holds them: a
// server of somebody's own that joins with them, say.
func TestPermissions_Site(t *testing.T) {
	t.Parallel()
	authority, err := auth.New(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		grant auth.Grant
		want  string
	}{
		"no devices":   {auth.Grant{Role: auth.RoleSite, ID: "home"}, "a site without devices can do nothing"},
		"not enrolled": {auth.Grant{Role: auth.RoleSite, ID: "home", Devices: []string{"pi"}}, "device pi of site home has no credentials: enroll it first"},
		"a number":     {auth.Grant{Role: auth.RoleSite, ID: "home", Devices: []string{"7"}}, "want a letter"},
	} {
		if _, err := authority.Issue(c.grant); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	var ids []string
	for i := range 128 {
		ids = append(ids, fmt.Sprintf("device-of-some-length-%03d", i))
		if _, err := authority.Issue(auth.Grant{Role: auth.RoleDevice, ID: ids[i]}); err != nil {
			t.Fatal(err)
		}
	}
	accounts, err := authority.ServerConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	leafs := testport.Held(t)
	hub := configured(t, fmt.Sprintf("listen: 127.0.0.1:-1\nserver_name: hub\nleafnodes { listen: %q }\n%s", leafs, accounts))
	b, err := authority.Issue(auth.Grant{Role: auth.RoleSite, ID: "home", Devices: ids})
	if err != nil {
		t.Fatal(err)
	}
	creds := filepath.Join(t.TempDir(), "home.creds")
	if err := os.WriteFile(creds, b, 0o600); err != nil {
		t.Fatal(err)
	}
	lab, err := authority.Issue(auth.Grant{Role: auth.RoleCoordinator, ID: "lab"})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := nats.Connect(hub.ClientURL(), nats.UserCredentialBytes(lab), nats.CustomInboxPrefix("_INBOX_lab"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	heard, err := admin.SubscribeSync("fedpace.>")
	if err == nil {
		err = admin.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	// A thief's own server, where everybody may do everything.
	thief := configured(t, fmt.Sprintf("listen: 127.0.0.1:-1\nserver_name: thief\nleafnodes { remotes: [ { url: %q, credentials: %q } ] }\n", "nats://"+leafs, creds))
	evil, err := nats.Connect(thief.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer evil.Close()
	own := "fedpace.r.client." + ids[127] + ".join"
	for end := time.Now().Add(patience); ; {
		if err := evil.Publish(own, nil); err != nil {
			t.Fatal(err)
		}
		if m, err := heard.NextMsg(100 * time.Millisecond); err == nil && m.Subject == own {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a device of the site does not come through")
		}
	}
	for len(drain(heard, 100*time.Millisecond)) > 0 {
	}
	for _, s := range foreign {
		_ = evil.Publish(s, nil)
	}
	if err := evil.Flush(); err != nil {
		t.Fatal(err)
	}
	for s := range drain(heard, 500*time.Millisecond) {
		if s != own { // which may have been under way
			t.Errorf("%s is reached with a site's credentials", s)
		}
	}
}
