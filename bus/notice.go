package bus

import (
	"fmt"

	"fedpace/internal/human"
)

// Notice is a message to people that the state of a host, of all hosts, of the connection or of the
// server has changed. Two notices with equal Subject and State mean the same and need not both be
// shown.
type Notice struct {
	// Subject is the name of a host, a run or a stream; it is empty if State is one of all hosts, of the
	// connection or of the server.
	Subject string
	// State is the new state.
	State NoticeState
	// Text is the line that people are shown.
	Text string
}

// String returns the text for people.
func (n Notice) String() string { return n.Text }

// NoticeState is the new state of a notice's subject.
type NoticeState int

// The states of one host, of all hosts, and of the connection and the server.
const (
	// HostPresent: the host answers tasks, and trains if it has trainers.
	HostPresent NoticeState = iota
	// HostLeft: the host has announced that it leaves.
	HostLeft
	// HostSilent: the host has missed its lease.
	HostSilent
	// NoHost: no host is present.
	NoHost
	// NoTrainer: hosts are present, but none can do the run's jobs.
	NoTrainer
	// ServerStopping: the server has announced that it stops.
	ServerStopping
	// ServerLost: the connection to the server is lost.
	ServerLost
	// ServerBack: the connection to the server is back.
	ServerBack
	// WaitingForServer: a request to the server has been without success for some time.
	WaitingForServer
	// ServerFull: a request has been without success because of a limit of the server.
	ServerFull
	// WaitingForLease: another coordinator has the lease of the run.
	WaitingForLease
	// StreamRebuilt: a stream without a leader was deleted, and is made again.
	StreamRebuilt
	// CredentialsExpire: the credentials of the connection expire soon.
	CredentialsExpire
)

// ConcernsServer reports whether a state is one of the connection or the server, not of hosts.
func (s NoticeState) ConcernsServer() bool { return s >= ServerStopping }

// HostJoined returns the notice that a host is present with a number of workers, each of which is a
// trainer. trains says that the run has jobs: only then does the text mention that a host without
// workers does not train.
func HostJoined(host string, workers int, trains bool) Notice {
	n := Notice{
		host,
		HostPresent,
		fmt.Sprintf("Host %s is there with %d %s.", host, workers, human.Plural(workers, "trainer")),
	}
	if workers == 0 && trains {
		n.Text = fmt.Sprintf("Host %s is there for plans; it does not train.", host)
	}
	return n
}
