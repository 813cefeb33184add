package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
)

// A run whose coordinator is of another version than the device is a warning.
func TestDoctor_VersionsAreCompared(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	to := natsconn.Config{URL: server.URL(), Name: "test"}
	conn, err := natsconn.Connect(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	g, err := gateway.Open(t.Context(), conn, "ward", gateway.Config{
		Devices: []string{"pi"}, Welcome: &bus.Welcome{Clients: 1, Params: 3, HeartbeatSeconds: 1, Version: "v2", Spec: &bus.Spec{Model: "linear:2,2", Batch: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() }) // never fails
	for version, want := range map[string]Finding{
		"v1": {Check: "runs", State: Warning, Text: "called by ward; ward is coordinated by version v2, and this program is version v1"},
		"v2": {Check: "runs", State: OK, Text: "called by ward"},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			found := map[string]Finding{}
			err := Examine(t.Context(), Config{Device: real.Config{ID: "pi", Data: real.SyntheticData, Version: version, Withhold: []string{real.Losses}}, Conn: to}, func(f Finding) { found[f.Check] = f })
			if err != nil {
				t.Fatal(err)
			}
			got := found["runs"]
			if (got.Mend != "") != (want.State == Warning) {
				t.Errorf("what mends it is %q", got.Mend)
			}
			got.Mend = ""
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if told := found["told"]; !strings.Contains(told.Text, "all but loss") {
				t.Errorf("what is told is %+v", told)
			}
		})
	}
}

// A file of two clients is no device's until --owner names one of them, and the finding says so.
func TestDoctor_DataOfTwoClients(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "two.json")
	image := "[" + strings.Repeat("1,", 783) + "1]"
	samples := `{"x": [` + strings.Repeat(image+",", 4) + image + `], "y": [0, 1, 2, 3, 4]}`
	leaf := `{"users": ["anna", "ben"], "num_samples": [5, 5], "user_data": ` +
		`{"anna": ` + samples + `, "ben": ` + samples + `}}`
	if err := os.WriteFile(path, []byte(leaf), 0o600); err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[string]Finding{
		"":     {State: Failure, Text: "holds 2 clients (anna, ben)", Mend: "--owner NAME"},
		"carl": {State: Failure, Text: `has no client "carl"`, Mend: "--owner NAME"},
		"ben":  {State: OK, Text: "4 samples"},
	} {
		var found Finding
		device := real.Config{ID: "pi", Data: path, Owner: owner}
		err := Examine(t.Context(), Config{Device: device}, func(f Finding) {
			if f.Check == "data" {
				found = f
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		says := strings.Contains(found.Text, want.Text) && strings.Contains(found.Mend, want.Mend)
		if found.State != want.State || !says {
			t.Errorf("owner %q: %+v, want %+v", owner, found, want)
		}
	}
}
