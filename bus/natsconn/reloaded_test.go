package natsconn_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

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
