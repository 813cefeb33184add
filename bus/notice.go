package bus

import (
	"fmt"

	"fedpace/internal/human"
)

// Notice tells people that the state of a host, of all hosts, of the connection or of the server has
// changed. Two notices with equal Subject and State mean the same and need not both be shown.
type Notice struct {
	Subject string // a host or a run; empty: all hosts, or the connection
	State   NoticeState
	Text    string // the line for people
}

// String is the text for people.
func (n Notice) String() string { return n.Text }

// NoticeState is the new state of a notice's subject.
type NoticeState int

// The states of one host, of all hosts, and of the connection and the server.
const (
	HostPresent       NoticeState = iota // the host answers tasks, and trains if it has trainers
	HostLeft                             // the host has announced that it leaves
	HostSilent                           // the host has missed its lease
	NoHost                               // no host is present
	NoTrainer                            // hosts are present, and none can do the run's jobs
	ServerStopping                       // the server has announced that it stops
	ServerLost                           // the connection to the server is lost
	ServerBack                           // the connection to the server is back
	WaitingForServer                     // a request to the server has been without success for some time
	ServerFull                           // a limit of the server is the reason for that
	WaitingForLease                      // another coordinator has the lease of the run
	CredentialsExpire                    // the credentials of the connection expire soon
)

// ConcernsServer reports whether a state is one of the connection or the server, not of hosts.
func (s NoticeState) ConcernsServer() bool { return s >= ServerStopping }

// HostJoined is the notice of a host that is present with a number of trainers. trains says that the
// run has jobs: only then is a host without trainers worth mentioning.
func HostJoined(host string, workers int, trains bool) Notice {
	n := Notice{host, HostPresent, fmt.Sprintf("Host %s is there with %d %s.", host, workers, human.Plural(workers, "trainer"))}
	if workers == 0 && trains {
		n.Text = fmt.Sprintf("Host %s is there for plans; it does not train.", host)
	}
	return n
}
