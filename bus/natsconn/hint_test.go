package natsconn_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus/natsconn"
)

func TestWithHint_ClusterWithoutLeader(t *testing.T) {
	err := natsconn.WithHint(&jetstream.APIError{
		Code:        503,
		ErrorCode:   10008,
		Description: "JetStream system temporarily unavailable",
	})
	if want := "the cluster has no leader, which takes a majority of its servers"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
