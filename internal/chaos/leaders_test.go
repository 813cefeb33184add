//go:build unix

package chaos

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stepDownVariable makes the test's binary tell the leaders of a cluster at this URL to step down, so that this can be
// done from a machine of the cluster's network.
const stepDownVariable = "FEDPACE_TEST_STEP_DOWN"

// stepDown has each stream, each consumer and the cluster itself elect another leader. A group that has no leader
// cannot be told, which is no error; without a leader of the cluster none is.
func stepDown(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	for stream := range js.StreamNames(ctx).Name() {
		for _, consumer := range consumerNames(ctx, js, stream) {
			tellLeader(conn, fmt.Sprintf("$JS.API.CONSUMER.LEADER.STEPDOWN.%s.%s", stream, consumer))
		}
		tellLeader(conn, "$JS.API.STREAM.LEADER.STEPDOWN."+stream)
	}
	admin, err := nats.Connect(url, nats.UserInfo(adminName, adminName))
	if err != nil {
		return err
	}
	defer admin.Close()
	tellLeader(admin, "$JS.API.META.LEADER.STEPDOWN")
	return nil
}

// consumerNames returns the names of a stream's consumers; none for a stream that has no leader or is gone meanwhile.
func consumerNames(ctx context.Context, js jetstream.JetStream, stream string) (names []string) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil
	}
	for name := range s.ConsumerNames(ctx).Name() {
		names = append(names, name)
	}
	return names
}

// tellLeader sends a request to a leader, and prints what comes of it.
func tellLeader(conn *nats.Conn, subject string) {
	answer, err := conn.Request(subject, nil, 2*time.Second)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", subject, err)
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", subject, answer.Data)
}
