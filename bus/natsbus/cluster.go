package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus/natsconn"
)

// A run's streams live in the memory of a cluster's servers, as several copies with an elected leader.
// A server that is started again comes back with an empty copy. If one more server is down at that time,
// no majority of the copies has the data and the cluster elects no leader, however long one waits. The
// holder of the lease has all that the streams held, so it deletes such a stream and makes it again.

// maxCopies is how many servers hold a copy of a stream unless the configuration says otherwise: with
// three copies one server may fail.
const maxCopies = 3

// defaultCopies returns how many copies of a stream are asked for on the servers of this
// connection: maxCopies on a cluster, and 1 on a single server. A cluster with fewer servers gives
// as many as it has (withCopies).
func (c *Conn) defaultCopies() int {
	isCluster := c.NATS().ConnectedClusterName() != ""
	if isCluster {
		return maxCopies
	}
	return 1
}

// withCopies calls create with a number of copies of a stream, and then with one fewer each time
// for as long as the cluster has too few servers. It returns the last error of create.
func withCopies(copies int, create func(copies int) error) error {
	for {
		err := create(copies)
		if copies <= 1 || !tooFewServers(err) {
			return err
		}
		copies--
	}
}

// These are the errors of JetStream by which a cluster says that it has not enough servers for a
// stream's copies.
const (
	noSuitablePeers jetstream.ErrorCode = 10005
	// replicasNotSupported is the error of a server that is in no cluster.
	replicasNotSupported jetstream.ErrorCode = 10074
)

// tooFewServers reports whether a stream could not be made for want of servers, so that fewer
// copies of it might succeed.
func tooFewServers(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	return api.ErrorCode == noSuitablePeers || api.ErrorCode == replicasNotSupported
}

// electionPatience is how long a stream may be without a leader before it is deleted. A cluster
// elects a leader within a few seconds if it can at all. Tests shorten the time.
var electionPatience = 15 * time.Second

// leaderlessWatch finds streams that have no leader and will get none, and deletes them, so that
// they can be made again with a leader.
type leaderlessWatch struct {
	conn *Conn
	js   jetstream.JetStream

	mu sync.Mutex
	// silent holds the streams that do not answer, and since when.
	silent map[string]time.Time
}

// newLeaderlessWatch makes a watch for streams that have all answered so far.
func newLeaderlessWatch(conn *Conn, js jetstream.JetStream) *leaderlessWatch {
	return &leaderlessWatch{conn: conn, js: js, silent: map[string]time.Time{}}
}

// answered notes that a stream works, which starts its time anew.
func (w *leaderlessWatch) answered(stream string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.silent, stream)
}

// deleteStream is called with the error of a request to a stream. If the stream has been without a leader
// for longer than electionPatience, while the cluster itself answers, it deletes the stream and returns
// true. The attempt in which the request failed may be over, so its context does not bound this.
func (w *leaderlessWatch) deleteStream(ctx context.Context, stream string, failure error) (deleted bool, err error) {
	if !isLeaderless(failure) || !w.isOverdue(stream) {
		return false, nil
	}
	ctx, cancel := w.conn.Attempt(context.WithoutCancel(ctx), natsconn.RequestTimeout)
	defer cancel()
	// The leader of the cluster answers this request: without one nothing could be made again.
	if _, err := w.js.AccountInfo(ctx); err != nil {
		return false, fmt.Errorf("bus: ask the cluster about stream %s: %w", stream, err)
	}
	err = w.js.DeleteStream(ctx, stream)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, fmt.Errorf("bus: delete stream %s, which has no leader: %w", stream, err)
	}
	w.answered(stream)
	return true, nil
}

// notAvailable is the error of JetStream for a stream without a leader.
const notAvailable jetstream.ErrorCode = 10008

// isLeaderless reports whether a request may have failed because its stream has no leader: the cluster
// says so, or nobody answers. Every other error is an answer of the stream's leader.
func isLeaderless(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == notAvailable
	}
	return !errors.Is(err, errNotHeld)
}

// isOverdue reports whether a stream has been silent for longer than electionPatience. The first call
// for a stream starts the time.
func (w *leaderlessWatch) isOverdue(stream string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, isSilent := w.silent[stream]
	if !isSilent {
		w.silent[stream] = time.Now()
		return false
	}
	return time.Since(since) > electionPatience
}
