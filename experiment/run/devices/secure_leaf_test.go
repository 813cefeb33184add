package devices_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/actors/real"
	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/experiment/run"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
)

// manyDevices has a run of this many devices, every second of which is behind a site's server: a leaf node of the hub,
// which is the run's server.
func manyDevices(t *testing.T, count int, o *run.Options, d *secureDevices) {
	t.Helper()
	dir := t.TempDir()
	authority, err := auth.New(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	creds := func(grant auth.Grant) string {
		t.Helper()
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
	d.ids = nil
	d.creds = map[string]string{}
	var behind []string
	for i := range count {
		id := fmt.Sprint("d", i+1)
		d.ids = append(d.ids, id)
		d.creds[id] = creds(auth.Grant{Role: auth.RoleDevice, ID: id})
		if i%2 == 1 {
			behind = append(behind, id)
		}
	}
	d.site = func(id string) bool { return slices.Contains(behind, id) }
	accounts, err := authority.ServerConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	leafs := testport.Held(t)
	ofSite := creds(auth.Grant{Role: auth.RoleSite, ID: "home", Devices: behind})
	there, err := authority.SiteConfiguration([]string{"nats://" + leafs}, ofSite, "")
	if err != nil {
		t.Fatal(err)
	}
	hub := testserver.Start(t, testserver.File(t, "hub", fmt.Sprintf(
		"listen: 127.0.0.1:-1\nserver_name: hub\njetstream { store_dir: %q }\nleafnodes { listen: %q }\n%s",
		filepath.Join(dir, "js"), leafs, accounts)))
	site := testserver.Start(t, testserver.File(t, "site", "listen: 127.0.0.1:-1\nserver_name: site\n"+there))
	d.url = hub.ClientURL()
	d.siteURL = site.ClientURL()
	o.NATS.URL = d.url
	o.NATS.Creds = creds(auth.Grant{Role: auth.RoleCoordinator, ID: "lab"})
}

// namesOf is the setting of the names of this many devices.
func namesOf(count int) string {
	var names []string
	for i := range count {
		names = append(names, fmt.Sprint("d", i+1))
	}
	return "devices.names=[" + strings.Join(names, ", ") + "]"
}

// Twelve devices, of which half are behind a site's server, mask in rounds of all and in groups of six. In the second
// round a device behind the site dies before its upload. The models have the bits of the sums without masks.
func TestSecure_DevicesBehindLeafNode(t *testing.T) {
	t.Parallel()
	const count = 12
	for name, closing := range map[string]string{"all": "close=all", "buffered": "close={rule: buffered, n: 6}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The others are no less alive on a slow machine.
			o, c, d := secureRun(t, namesOf(count), closing, "stop.rounds=6", "devices.liveness_seconds=6")
			manyDevices(t, count, &o, d)
			if name == "buffered" {
				d.weightOfAll = math.Ldexp(1, secagg.Shift(6*1024))
			}
			died := ""
			diedIn := 0
			d.step = func(id string, s real.SecureStep, kill func()) {
				if died == "" && s.Round > 1 && s.Stage == bus.StageMasked && s.Words != nil && d.site(id) {
					died = id
					diedIn = s.Round
					kill()
				}
			}
			d.expectSurvivors(t, o, c, func(number int, id string) bool { return id != died || number != diedIn })
			if died == "" {
				t.Error("no device has died")
			}
		})
	}
}
