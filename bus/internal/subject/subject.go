package subject

import (
	"strconv"
	"strings"

	"fedpace/bus"
	"fedpace/internal/names"
)

// Root is the first token of every subject.
const Root = "fedpace"

// Chunk is the verb of one message of an update.
func Chunk(chunk uint32) string { return Update + "." + strconv.FormatUint(uint64(chunk), 10) }

// The verbs of a client's subjects.
const (
	Task      = "task"
	Plan      = "plan"
	Update    = "update" // with a chunk's number behind it
	Join      = "join"   // with the most samples behind it that the device may have
	Heartbeat = "heartbeat"
)

// JoinAs is the verb by which a device joins whose credentials let it have so many
// samples; 0: any number.
func JoinAs(samples uint64) string {
	if samples == 0 {
		return Join
	}
	return Join + "." + strconv.FormatUint(samples, 10)
}

// JoinLimit reads the most samples in a subject on which a device joins; false for
// every other subject, those without a limit among them.
func JoinLimit(subject string) (samples uint64, ok bool) {
	head, number, _ := strings.Cut(subject, "."+Join+".")
	samples, err := strconv.ParseUint(number, 10, 64)
	return samples, err == nil && samples > 0 && head+"."+JoinAs(samples) == subject
}

// AnyClient matches the subjects of all clients with one verb.
func AnyClient(run, verb string) string { return Root + "." + run + ".client.*." + verb }

// Clients makes and reads the subjects of one run's simulated clients.
// A simulated client's id is its decimal index; a real device's starts with a
// letter.
type Clients string // "fedpace.<run>.client."

// ClientSubjects are the subjects of a run's clients.
func ClientSubjects(run string) Clients { return Clients(Root + "." + run + ".client.") }

// Subject is a simulated client's subject.
func (s Clients) Subject(client int, verb string) string {
	var b [3*64 + 32]byte
	t := append(b[:0], s...)
	t = strconv.AppendInt(t, int64(client), 10)
	t = append(t, '.')
	return string(append(t, verb...))
}

// Client finds the index in a simulated client's subject; false for every other
// subject, those of real devices among them.
func (s Clients) Client(subject, verb string) (int, bool) {
	if len(subject) < len(s)+2+len(verb) || subject[:len(s)] != string(s) {
		return 0, false
	}
	id := subject[len(s):]
	dot := len(id) - len(verb) - 1
	if id[dot] != '.' ||
		id[dot+1:] != verb ||
		dot > 10 ||
		(id[0] == '0' && dot > 1) {
		return 0, false
	}
	n := 0
	for i := range dot {
		if id[i] < '0' || id[i] > '9' {
			return 0, false
		}
		n = n*10 + int(id[i]-'0')
	}
	return n, n <= bus.MaxClients
}

// TaskFor is the verb of a task that one host is to answer.
func TaskFor(host string) string { return Task + "." + host }

// PlanSubject is the subject on which a client answers what it got on subject, which
// ends with a verb.
func PlanSubject(subject, verb string) string { return subject[:len(subject)-len(verb)] + Plan }

// The subjects of a run, and the patterns that match several of them.
func Jobs(run, kernel string) string { return Root + "." + run + ".jobs." + kernel }
func Sums(run string) string         { return Root + "." + run + ".sums" }
func Info(run string) string         { return Root + "." + run + ".info" }
func Model(run string, d bus.Digest, chunk int) string {
	return Root + "." + run + ".model." + d.String() + "." + strconv.Itoa(chunk)
}
func AnyModel(run string) string { return Root + "." + run + ".model.*.*" }
func ModelChunks(run string, d bus.Digest) string {
	return Root + "." + run + ".model." + d.String() + ".*"
}
func AnyJobs(run string) string { return Root + "." + run + ".jobs.*" }

// Announce is where coordinators say which runs there are.
const Announce = Root + ".runs"

// DirectGet asks the server for the newest message on a subject of a stream.
const DirectGet = "$JS.API.DIRECT.GET."

// Streams of a run; both live in memory.
func JobsStream(run string) string   { return Root + "_" + run + "_jobs" }
func ModelsStream(run string) string { return Root + "_" + run + "_models" }

// LeaseBucket is the key-value bucket of the lease of a run.
func LeaseBucket(run string) string { return Root + "_" + run + "_lease" }

// Device is a real device's, with several tokens in verb perhaps.
func Device(run, id, verb string) string { return Root + "." + run + ".client." + id + "." + verb }

// RunOfTask finds the run in the subject of a device's task.
func RunOfTask(subject, id string) (run string, ok bool) {
	run, ok = strings.CutPrefix(subject, Root+".")
	if ok {
		run, ok = strings.CutSuffix(run, ".client."+id+"."+Task)
	}
	return run, ok && names.CheckToken("run", run) == nil
}
