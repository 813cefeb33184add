package testserver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"fedpace/internal/testkit/slow"
)

// File writes the text of a configuration to a file of this name with the ending .conf, in a folder of the
// test's own, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Start starts a server with the configuration in the file path, which listens when Start returns. The server
// ends with the test. If the file has changed, the server's Reload reads it again.
func Start(t testing.TB, path string) *server.Server {
	t.Helper()
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs = true
	options.NoLog = true
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(slow.Patience(t)) {
		t.Fatalf("the server of %s does not listen", path)
	}
	return s
}
