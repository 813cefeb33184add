package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// The server's own parser reads the configuration, as every server of the
// cluster would.
func TestNATSReadsItsConfiguration(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"nats.conf": text, "auth.conf": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("NATS_NAME", "nats-2")
	t.Setenv("NATS_STORE", dir)
	t.Setenv("NATS_ROUTES", "[nats://nats-1:6222, nats://nats-2:6222, nats://nats-3:6222]")
	o, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if o.ServerName != "nats-2" || o.StoreDir != dir || len(o.Routes) != 3 || o.Routes[1].Host != "nats-2:6222" {
		t.Errorf("the server is %s in %s with routes %v", o.ServerName, o.StoreDir, o.Routes)
	}
	if o.MaxPayload != 16<<20 || !o.NoSublistCache || !o.JetStream {
		t.Errorf("payload %d, sublist cache off %v, JetStream %v", o.MaxPayload, o.NoSublistCache, o.JetStream)
	}
}
