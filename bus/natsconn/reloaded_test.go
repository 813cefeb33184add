package natsconn_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startReloaded starts a server with the configuration in a file, which the test may reload.
func startReloaded(t *testing.T, path string) *server.Server {
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
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return s
}

// answerAll answers every request to fedpace's subjects until the test ends.
func answerAll(t *testing.T, url string) {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	_, err = conn.Subscribe("fedpace.>", func(m *nats.Msg) { _ = m.Respond([]byte("yes")) })
	if err := errors.Join(err, conn.Flush()); err != nil {
		t.Fatal(err)
	}
}
