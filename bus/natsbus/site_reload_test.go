package natsbus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus/auth"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
)

// A reload of the hub's accounts, as after each revocation, withdraws what the hub listens to through a leaf node, and
// offers it again where the leaf's permissions let nats-server 2.15.3 find it. Those of a site do: its devices are
// answered after each reload as before, and get their tasks.
//
// It is not for the race detector: nats-server 2.15.3 reads an option for a direct get without the lock under which a
// reload replaces it.
func TestSite_ServedAfterReloads(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	dir := t.TempDir()
	authority, creds := issuer(t, dir)
	device := creds(auth.Grant{Role: auth.RoleDevice, ID: "pi"})
	creds(auth.Grant{Role: auth.RoleDevice, ID: "pj"})
	creds(auth.Grant{Role: auth.RoleDevice, ID: "pk"})
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
	hub := testserver.Start(t, hubFile)
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
	echo := func(m *nats.Msg) { _ = m.Respond(m.Data) }
	requests := []string{"update.0", "update.secure", "join"}
	for _, verb := range []string{"update.*", "join"} {
		if _, err := admin.Subscribe("fedpace.r.client.pi."+verb, echo); err != nil {
			t.Fatal(err)
		}
	}
	// A direct get of a model arrives as the site's server has mapped it.
	models, err := admin.JetStream()
	if err == nil {
		err = addStream(models, &nats.StreamConfig{
			Name:        "fedpace_r_models",
			Subjects:    []string{"fedpace.r.model.*.*"},
			AllowDirect: true,
			Storage:     nats.MemoryStorage,
		})
	}
	if err == nil {
		_, err = models.Publish("fedpace.r.model.d.0", []byte("values"))
	}
	beats, beatsErr := admin.SubscribeSync("fedpace.r.client.pi.heartbeat")
	if err := errors.Join(err, beatsErr, admin.Flush()); err != nil {
		t.Fatal(err)
	}
	pi, err := nats.Connect(site.ClientURL(), nats.UserCredentials(device), nats.CustomInboxPrefix("_INBOX_pi"))
	if err != nil {
		t.Fatal(err)
	}
	defer pi.Close()
	tasks, err := pi.SubscribeSync("fedpace.r.client.pi.task")
	if err := errors.Join(err, pi.Flush()); err != nil {
		t.Fatal(err)
	}
	// task sends the device a task. It arrives behind all that the hub has said to the site before.
	task := func() {
		t.Helper()
		for end := time.Now().Add(patience); ; {
			if err := admin.Publish("fedpace.r.client.pi.task", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := tasks.NextMsg(100 * time.Millisecond); err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatal("its task does not come")
			}
		}
	}
	served := func(reloads int) {
		t.Helper()
		for _, verb := range requests {
			if _, err := pi.Request("fedpace.r.client.pi."+verb, []byte("x"), patience); err != nil {
				t.Errorf("after %d reloads %s: %v", reloads, verb, err)
			}
		}
		m, err := pi.Request("$JS.API.DIRECT.GET.fedpace_r_models.fedpace.r.model.d.0", nil, patience)
		if err != nil || string(m.Data) != "values" {
			t.Errorf("after %d reloads the model: %v, %v", reloads, m, err)
		}
		if err := pi.Publish("fedpace.r.client.pi.heartbeat", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := beats.NextMsg(patience); err != nil {
			t.Errorf("after %d reloads a heartbeat: %v", reloads, err)
		}
	}
	task()
	served(0)
	for i, revoked := range []string{"pj", "pk"} {
		if err := authority.Revoke(auth.RoleDevice, revoked); err != nil {
			t.Fatal(err)
		}
		writeHub()
		if err := hub.Reload(); err != nil {
			t.Fatal(err)
		}
		task()
		served(i + 1)
	}
}

// addStream adds a stream as soon as the server answers for the account: where a leaf node has just made the server
// load the account, a client that logs in at the same moment may ask before the account listens.
func addStream(js nats.JetStreamContext, config *nats.StreamConfig) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		_, err := js.AddStream(config)
		if !errors.Is(err, nats.ErrNoResponders) || time.Now().After(end) {
			return err
		}
	}
}
