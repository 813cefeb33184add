package bus

import (
	"fmt"

	"fedpace/internal/human"
)

// Notice tells people that something has changed about a run's hosts or about a
// connection. Two notices of one subject with equal states say the same.
type Notice struct {
	Subject string // a host or a run; empty: all hosts, or the connection
	State   NoticeState
	Text    string // the line for people
}

// String is the line for people.
func (n Notice) String() string { return n.Text }

// NoticeState is what has become of the subject of a notice.
type NoticeState int

// The states of one host, of all hosts, and of the connection and the server.
const (
	HostPresent       NoticeState = iota // it answers tasks, and trains if it can
	HostLeft                             // it has said so
	HostSilent                           // it has missed its lease
	NoHost                               // no host is there
	NoTrainer                            // hosts are there, and none can do the run's jobs
	ServerStopping                       // the server is about to
	ServerLost                           // the connection is
	ServerBack                           // the connection is
	WaitingForServer                     // the server has not done for some time what it is asked for
	ServerFull                           // a limit of the server keeps it from that
	WaitingForLease                      // another coordinator has the lease of the run
	CredentialsExpire                    // those of the connection, soon
)

// ConcernsServer tells the states of the connection and the server from those of hosts.
func (s NoticeState) ConcernsServer() bool { return s >= ServerStopping }

// HostJoined is the notice of a host that is there with so many workers; trains says
// that the run has jobs.
func HostJoined(host string, workers int, trains bool) Notice {
	n := Notice{host, HostPresent, fmt.Sprintf("Host %s is there with %d %s.", host, workers, human.Plural(workers, "trainer"))}
	if workers == 0 && trains {
		n.Text = fmt.Sprintf("Host %s is there for plans; it does not train.", host)
	}
	return n
}
