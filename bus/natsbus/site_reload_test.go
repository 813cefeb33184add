package natsbus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/testport"
)

// A reload of the hub's accounts, as after each revocation, withdraws a part of what the hub listens to through a leaf
// node with permissions, and does not announce it again (nats-server 2.15.3): updates reach nobody, heartbeats do. By
// these a device tells the run that it leaves (package gateway).
func TestSite_HeartbeatsPassAfterReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, creds := issuer(t, dir)
	device := creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"})
	creds(auth.Grant{Role: auth.RoleDevice, ID: "pj"})
	leafs := testport.Held(t)
	listen := testport.Held(t)
	hubText := func() string {
		accounts, err := authority.ServerConfiguration()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("listen: %q\nserver_name: hub\njetstream { store_dir: %q }\nleafnodes { listen: %q }\n%s", listen,
			filepath.Join(dir, "js"), leafs, accounts)
	}
	hubFile := filepath.Join(dir, "hub.conf")
	writeHub := func() {
		if err := os.WriteFile(hubFile, []byte(hubText()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeHub()
	hub := configuredBy(t, hubFile)
	grant := auth.Grant{Role: auth.RoleSite, ID: "home", Devices: []string{"pi"}}
	there, err := authority.SiteConfiguration([]string{"nats://" + leafs}, creds(grant), "")
	if err != nil {
		t.Fatal(err)
	}
	site := configured(t, "listen: 127.0.0.1:-1\nserver_name: site\n"+there)
	lab := creds(auth.Grant{Role: auth.RoleCoordinator, ID: "lab"})
	admin, err := nats.Connect(hub.ClientURL(), nats.UserCredentials(lab), nats.CustomInboxPrefix("_INBOX_lab"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	_, err = admin.Subscribe("fedpace.r.client.pi.update.*", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	beats, beatsErr := admin.SubscribeSync("fedpace.r.client.pi.heartbeat")
	if err := errors.Join(err, beatsErr, admin.Flush()); err != nil {
		t.Fatal(err)
	}
	conn, err := natsconn.Connect(t.Context(), natsconn.Config{
		URL:      site.ClientURL(),
		Creds:    device,
		Patience: -1,
		Slow:     true,
		Notice:   func(n bus.Notice) { t.Log(n.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// ask sends an update, and gives up when nobody listens to it.
	ask := func() error {
		return conn.Ask(t.Context(), &bus.Request{
			Subject: "fedpace.r.client.pi.update.0",
			Data:    []byte("x"),
			Retry:   func(err error) bool { return !errors.Is(err, bus.ErrNoListener) },
			Decode:  func([]byte) error { return nil },
		})
	}
	for errors.Is(ask(), bus.ErrNoListener) {
		// The leaf has not told the site yet what the hub listens to.
		time.Sleep(10 * time.Millisecond)
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if err := authority.Revoke(auth.RoleDevice, "pj"); err != nil {
		t.Fatal(err)
	}
	writeHub()
	if err := hub.Reload(); err != nil {
		t.Fatal(err)
	}
	for !errors.Is(ask(), bus.ErrNoListener) {
		// The withdrawal is under way to the site.
		time.Sleep(10 * time.Millisecond)
	}
	if err := conn.Publish("fedpace.r.client.pi.heartbeat", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := beats.NextMsg(patience); err != nil {
		t.Fatalf("a heartbeat does not pass: %v", err)
	}
}
