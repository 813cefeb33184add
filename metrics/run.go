package metrics

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"time"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
)

// Run says what a run is. Outputs must not change it, but for Sample when they are opened.
type Run struct {
	Name string
	// Task is the name of the learning task as in configurations, e.g. femnist.
	Task string
	// Schedule is the name of the schedule as on command lines, e.g. rounds.
	Schedule string
	// Data describes the data set in words; empty: the run is timed only and learns nothing.
	Data string
	// Close is the name of the rule by which rounds close.
	Close string
	// Closing describes the closing rule in words.
	Closing string
	// Version is the version of this program.
	Version string
	// Kernel is the class of kernels that trains; empty: none.
	Kernel string
	Seed   uint64
	// Train says whether the run trains a model, so that losses are measured.
	Train bool

	// Metrics are by what models are measured besides their loss, in the order of the
	// values in reports. Quality is the one that is shown first.
	Metrics []metric.Metric
	Quality metric.Quality

	// Tokens says that samples consist of tokens, which are counted.
	Tokens bool
	// Secure says that updates are aggregated securely, which has columns of its own.
	Secure bool
	// CountsUse says that the run counts what clients use, for a budget or with a trace of the grid.
	CountsUse bool
	// ClosesByFormula says that formulas give the numbers by which rounds close.
	ClosesByFormula bool
	// CohortByFormula says that a formula gives the number of clients of each round, and LateByFormula
	// that one gives the limit of late updates.
	CohortByFormula, LateByFormula bool
	// Steered says that the schedule of K gives reasons, and TestsChanges that it looks for changes of the
	// data, too.
	Steered, TestsChanges bool
	// Clients is the number of simulated clients, which are numbered from 0.
	Clients int
	// Cohort is the number of clients in a round.
	Cohort int
	// Window is the number of rounds in the mean of the training loss (Eq. 15).
	Window int
	// NonDefault are the settings that differ from the task's defaults, and Settings all of them, as
	// key=value.
	NonDefault, Settings []string
	// Client returns the name of a simulated client in the data. With nil clients have numbers alone.
	Client func(client int) string
	// Devices names the real devices, whose numbers follow the simulated clients'.
	Devices []string
	// Classes names the classes of devices. With fewer than two, all devices are alike.
	Classes []string
	// Class returns the class of a simulated client, as an index of Classes. With nil it is not known.
	Class func(client int) int

	// Deadline is how long after its start a round closes at the latest; 0: there is no deadline.
	Deadline round.Time
	// Rounds is the number of rounds after which the run ends; 0: not known.
	Rounds int
	// VirtualSeconds is the virtual time at which the run ends, in seconds; 0: not known.
	VirtualSeconds float64
	// Targets are the validation results of which any one ends the run when it is reached.
	Targets []metric.Target
	// FixedSteps is the number of local steps that a client of K-eta-fixed does in a virtual
	// second, where rounds are all alike. It is 0 where that is not known.
	FixedSteps float64
	// Epsilon returns the epsilon of differential privacy, at Delta, of this number of rounds. It is nil for
	// a run without. It is safe for concurrent use.
	Epsilon func(rounds int) float64
	Delta   float64
	// Slowest and Sample say how many tasks of each round outputs see, beside those of real devices.
	Slowest, Sample int

	// ClientValues returns columns that the table of clients has besides its own. With nil there are none. It
	// is called at the run's end.
	ClientValues func() []ClientColumn

	// Power is what clients transfer and what power they draw, from which usage is computed.
	Power Power
	// DeviceClass returns the class of a real device, as an index of Classes. It is below 0 if none is known.
	DeviceClass func(client int) int
	// MeanPlan returns how long a real device's task of this number of local steps takes a simulated client
	// of mean speed (Eq. 3): the mean over a class, or over all classes if class is below 0. It is an
	// error if virtual time cannot hold it.
	MeanPlan func(class, steps int) (round.Plan, error)
	// WriteModel writes parameters as safetensors. description says in words which model
	// of the run they are.
	WriteModel func(w io.Writer, params []float32, description string) error
	// Stats returns how the run keeps up with wall time. It is safe for concurrent
	// use, does not wait, and answers also after the run's end. The result is false before the run's start.
	Stats func() (Stats, bool)
	// Remaining returns the wall time that the run is expected to take from now on, in seconds, with its
	// interval of 90 %. ok is false as long as that cannot be said. It may be nil and is safe for concurrent
	// use.
	Remaining func() (seconds, low, high float64, ok bool)
	// Seen returns what is known of each real device. It may be nil, is safe for concurrent use and
	// answers also after the run's end.
	Seen func() []Device
	// Waiting returns what the run waits for the server to do, and since when. action is empty if it waits for
	// nothing, or not for long yet. It may be nil and is safe for concurrent use.
	Waiting func() (action string, since time.Time)
	// Notice shows the user a line. It is safe for concurrent use.
	Notice func(line string)
	// Started is when this attempt of the run started.
	Started time.Time
}

// ClientColumn is a column of the table of clients that only this run has.
type ClientColumn struct {
	// Name is the column's, and Help says in a phrase what it is.
	Name, Help string
	// Value is the value of a client; NaN: it has none.
	Value func(client int) float64
}

// Real reports whether a client is a real device: their numbers follow those of the simulated clients.
func (r *Run) Real(client int) bool { return client >= r.Clients }

// maxName bounds the name of a client in bytes, because the event log holds very many.
const maxName = 64

// ClientName returns the name of a real device, or of a simulated client in its data, at most maxName bytes; empty
// where it has none.
func (r *Run) ClientName(client int) string {
	device := client - r.Clients
	switch {
	case device >= len(r.Devices):
		return ""
	case device >= 0:
		return r.Devices[device]
	case r.Client == nil:
		return ""
	}
	name := r.Client(client)
	// A cut within a character leaves bytes that are not UTF-8.
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

// ClassName is the name of the class of a client's device; empty where there is one class or the client's
// is not known.
func (r *Run) ClassName(client int) string {
	if class := r.class(client); class >= 0 && len(r.Classes) > 1 {
		return r.Classes[class]
	}
	return ""
}

// class returns the number of the class of the client's device, or unknownClass if the run has no
// classes for clients of its kind.
func (r *Run) class(client int) int {
	classOf := r.Class
	// Simulated clients and real devices have separate functions, either of which may be nil.
	if r.Real(client) {
		classOf = r.DeviceClass
	}
	if classOf == nil {
		return unknownClass
	}
	return classOf(client)
}

// unknownClass stands for the class of a device that is not known.
const unknownClass = -1

// Fraction is the part of the run that is done, from 0 to 1, after a number of rounds and at a virtual
// time. A run ends at the first of its limits that it reaches, so the largest fraction of a limit counts.
// It is 0 where no limit is known.
func (r *Run) Fraction(rounds int, virtualSeconds float64) float64 {
	f := 0.0
	if r.Rounds > 0 {
		f = float64(rounds) / float64(r.Rounds)
	}
	if r.VirtualSeconds > 0 {
		f = max(f, virtualSeconds/r.VirtualSeconds)
	}
	return min(f, 1)
}

// Stats are figures of how a run keeps up with wall time.
type Stats struct {
	// PacingLag is how far the run is behind the pace that was asked for, in wall time.
	PacingLag time.Duration
	// BusLag is the wall time from the sending of the last cohort's tasks until its last plan was
	// back.
	BusLag time.Duration
	// Pending is the number of messages that wait for the coordinator.
	Pending int
	// Ignored counts the messages that did not count, because they were repeated, stale or refused.
	Ignored int64
	// Workers is the number of workers in this process and in the hosts that are present.
	Workers int
	// Checkpoint is when the last checkpoint was written; the zero time: none was.
	Checkpoint time.Time
	// Due is when the next checkpoint is to be written.
	Due time.Time
	// CheckpointFailures counts the checkpoints that could not be written.
	CheckpointFailures int64
	// Devices describes the behaviour of the real devices.
	Devices DeviceStats
	// Server describes the connections to the run's own server; nil: the run has none that listens.
	Server *ServerStats
	// NATS holds the figures of the run's own NATS server; nil: the run has none.
	NATS *NATSStats
}

// Traffic is what has passed, in messages and in bytes.
type Traffic struct{ InMessages, OutMessages, InBytes, OutBytes float64 }

// NATSStats are figures that the run's own NATS server counts.
type NATSStats struct {
	Traffic
	// Stored is the number of bytes that JetStream holds. The other fields are numbers of
	// connections, of subscriptions and of consumers that were too slow.
	Connections, Subscriptions, SlowConsumers, Stored float64
}

// ServerStats are figures of the connections over TCP to the run's own server.
type ServerStats struct {
	// Admitted and Waiting count the open connections: with accepted credentials, and before that.
	Admitted, Waiting int
	// Pending is the number of bytes that wait to be sent to devices.
	Pending int64
	// Closed counts, by reason, the connections that were not carried on.
	Closed map[string]int64
}

// DeviceVersion is a version of the program that some real devices run.
type DeviceVersion struct {
	Version string `json:"version"`
	// Devices is the number of devices that stated this version when they last joined.
	Devices int `json:"devices"`
	// Names holds the names of the first of these devices, at most maxVersionNames.
	Names []string `json:"names"`
}

// Limits of the versions that are shown. A device may state any version.
const (
	maxVersions     = 16
	maxVersionNames = 8
)

// ByVersion groups devices by the version that each stated, the most frequent version first. Devices
// that stated none are left out.
func ByVersion(devices []Device) (list []DeviceVersion) {
	places := map[string]int{}
	for _, d := range devices {
		v := d.Version
		if v == "" {
			continue
		}
		// This is the first device with the version, which gets the next place in the list.
		if _, ok := places[v]; !ok {
			places[v] = len(list)
			list = append(list, DeviceVersion{Version: v})
		}
		version := &list[places[v]]
		version.Devices++
		if len(version.Names) < maxVersionNames {
			version.Names = append(version.Names, d.Name)
		}
	}
	slices.SortFunc(list, func(a, b DeviceVersion) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Version, b.Version))
	})
	return list[:min(len(list), maxVersions)]
}
