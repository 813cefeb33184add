package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/natsconn"
)

// A run's streams live in the memory of a cluster's servers, as several copies with an elected leader.
// A server that is started again comes back with an empty copy. If one more server is down at that time,
// no majority of the copies has the data and the cluster elects no leader, however long one waits
// (nats-server 2.12 and later counts the vote of an empty log only if all servers of the group vote). The
// consumer of the jobs is a group of its own, which may be without a leader while its stream has one. The
// holder of the lease has all that the streams held, so it deletes such a stream and makes it again.
//
// A stream that is made again has one copy. Such a stream needs no election, which would take another 4
// to 9 seconds where a server that is gone is drawn as the preferred leader. When the cluster has been
// quiet for raiseAfter, the streams get all their copies again.

// maxCopies is how many servers hold a copy of a stream unless the configuration says otherwise: with
// three copies one server may fail.
const maxCopies = 3

// defaultCopies returns how many copies of a stream are requested from the servers of this
// connection: maxCopies on a cluster, and 1 on a single server. A cluster with fewer servers has one on
// each of them (withCopies).
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

// tooFewServers reports whether err says that a stream could not be made because the cluster has too few
// servers, so that fewer copies might succeed.
func tooFewServers(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	return api.ErrorCode == noSuitablePeers || api.ErrorCode == replicasNotSupported
}

// electionPatience is how long a stream may be without a leader before it is deleted. A cluster
// elects a leader within 4 to 9 seconds if it can at all. A stream that is deleted too early is only made
// again for nothing. Tests shorten the time.
var electionPatience = 10 * time.Second

// maxElectionPatience bounds the patience with a stream that was deleted several times and never answered.
const maxElectionPatience = time.Minute

// remadePatience is how long a stream that was deleted may be silent until the connection moves to another server. The
// new stream has one copy and works at once, but two servers that each reach the rest of the cluster may not reach each
// other.
const remadePatience = 3 * time.Second

// raiseAfter is how long all streams must have answered before they get more copies again.
const raiseAfter = time.Minute

// probeTimeout bounds a request whose answer shows that a stream works. Servers that work answer within
// milliseconds.
const probeTimeout = 2 * time.Second

// leaderlessWatch finds streams that have no leader and will get none, and deletes them, so that
// they can be made again with a leader.
type leaderlessWatch struct {
	conn *Conn
	js   jetstream.JetStream
	// cluster watches the cluster's own leader.
	cluster headless

	mu sync.Mutex
	// silent holds the streams and consumers that do not answer, by name.
	silent map[string]silence
}

// silence is what is known of a stream or a consumer that does not answer.
type silence struct {
	// since is when the first request was sent that the stream or consumer did not answer.
	since time.Time
	// patience is how long it may be silent before its stream is deleted.
	patience time.Duration
	// deleted says that its stream was deleted, and has not answered since.
	deleted bool
}

// newLeaderlessWatch makes a watch for streams that have all answered so far.
func newLeaderlessWatch(conn *Conn, js jetstream.JetStream) *leaderlessWatch {
	return &leaderlessWatch{conn: conn, js: js, silent: map[string]silence{}}
}

// answered notes that the stream or consumer of this name has answered, which ends its silence. The connection is
// useful, so the pauses between its moves to other servers start small again, and the cluster is known to have as
// many servers as the connection has heard of.
func (w *leaderlessWatch) answered(name string) {
	w.conn.Useful()
	w.cluster.noteSize(clusterSize(w.conn.NATS()))
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.silent, name)
}

// inCluster reports whether the server is in a cluster. Elsewhere no leader is elected, so none is missing.
func (w *leaderlessWatch) inCluster() bool { return w.conn.NATS().ConnectedClusterName() != "" }

// isOverdue is called with the error of a request that was sent at the time started to the stream or consumer with
// this name. It reports whether the stream or consumer has been without a leader for longer than a cluster needs to
// elect one. The time of a name starts with the first such request. It is false for every name if the server is in no
// cluster. If the watch has already had the stream made again and that one is silent, too, the connection's server
// does not reach it, so the connection moves on to another server.
func (w *leaderlessWatch) isOverdue(name string, started time.Time, failure error) bool {
	if !isLeaderless(failure) || !w.inCluster() {
		return false
	}
	s := w.silenceOf(name, started)
	silent := time.Since(s.since)
	if s.deleted && silent > remadePatience {
		w.conn.MoveOn("the server does not reach " + name + ", which was made again")
	}
	return silent > s.patience
}

// silenceOf returns what is known of the silence of a name, which starts with the request that was sent at the time
// started if the name has answered before.
func (w *leaderlessWatch) silenceOf(name string, started time.Time) silence {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, isSilent := w.silent[name]
	if !isSilent {
		s = silence{since: started, patience: electionPatience}
		w.silent[name] = s
	}
	return s
}

// deleteStream deletes a stream without a leader. name is what isOverdue was true for: the stream itself or its
// consumer. If the stream that is made again stays silent, too, it is not deleted before twice the time has passed.
//
// If the cluster's own leader does not answer, the stream is left, since it could not be made again, and the
// connection moves to another server, which may have more of the cluster around it. The error is then transient,
// unless w.cluster has seen for so long that no server has a leader that the cluster will get none by itself.
//
// ctx gives values alone: its end, with which the attempt of the failed request ends, does not end the deletion.
func (w *leaderlessWatch) deleteStream(ctx context.Context, stream, name string) error {
	ctx = context.WithoutCancel(ctx)
	asking, cancel := w.conn.Attempt(ctx, probeTimeout)
	defer cancel()
	// The leader of the cluster answers this request.
	if _, err := w.js.AccountInfo(asking); err != nil {
		// w.cluster notes the silence of this server. If a majority of the servers is up and has no leader all the
		// same, waiting does not help.
		w.cluster.noteSize(clusterSize(w.conn.NATS()))
		hopeless := w.cluster.noteSilence(w.conn.NATS().ConnectedServerName(), time.Now())
		if hopeless != nil {
			return hopeless
		}
		// Useful makes the pause before the move short. Many clients must not hurry so, but a run has one coordinator.
		w.conn.Useful()
		w.conn.MoveOn("the server is cut off from the leader of its cluster")
		return fmt.Errorf("bus: ask the cluster about stream %s: %w", stream, err)
	}
	w.cluster.noteAnswer()
	deleting, stop := w.conn.Attempt(ctx, probeTimeout)
	defer stop()
	err := w.js.DeleteStream(deleting, stream)
	// Without an answer the cluster may have deleted the stream, all servers of which are gone: the next probe then
	// does not find it. Or the leader that was asked is cut off from the others, and does not know it yet.
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("bus: delete stream %s, which has no leader: %w", stream, err)
	}
	w.mu.Lock()
	patience := max(w.silent[name].patience, electionPatience)
	w.silent[name] = silence{
		since:    time.Now(),
		patience: min(2*patience, maxElectionPatience),
		deleted:  true,
	}
	w.mu.Unlock()
	w.conn.Notice(bus.Notice{
		Subject: stream,
		State:   bus.StreamRebuilt,
		Text:    fmt.Sprintf("Stream %s has no leader in the cluster; it is made again.", stream),
	})
	return nil
}

// errNoLeader is the failure of a stream or a consumer of which servers answer, but none as its leader.
const errNoLeader = natsconn.TransientError("the servers that hold it have no leader")

// hasLeader reports whether a stream or a consumer has a leader, by a server's information about its group. A nil
// group means that the server is in no cluster and leads by itself.
func hasLeader(group *jetstream.ClusterInfo) bool { return group == nil || group.Leader != "" }

// notAvailable is the error of JetStream for a stream without a leader.
const notAvailable jetstream.ErrorCode = 10008

// leaderlessCodes are the errors of JetStream for a stream or a consumer that no server leads.
var leaderlessCodes = []jetstream.ErrorCode{notAvailable, natsconn.StreamOffline, natsconn.ConsumerOffline}

// isLeaderless reports whether a request may have failed because its stream has no leader: the cluster
// says so, or there was no answer. Every other error is an answer of the stream's leader.
func isLeaderless(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return slices.Contains(leaderlessCodes, api.ErrorCode)
	}
	// Without the lease no request was made.
	return !errors.Is(err, errNotHeld)
}
