package subject

import (
	"strconv"
	"strings"

	"fedpace/bus"
	"fedpace/internal/names"
)

// Root is the first token of every subject.
const Root = "fedpace"

// Chunk returns the verb of the message of an update with this number.
func Chunk(chunk uint32) string { return Update + "." + strconv.FormatUint(uint64(chunk), 10) }

// The verbs of a client's subjects: the last token, or the last two.
const (
	Task = "task"
	Plan = "plan"
	// Update is followed by the number of a chunk.
	Update = "update"
	// Join is followed by how many samples the device may have, where that is limited.
	Join      = "join"
	Heartbeat = "heartbeat"
	// Secure is the verb of a device's messages in secure aggregation. Devices may publish on it by the
	// permission for updates.
	Secure = Update + ".secure"

	// Message is followed by the name of the host that is to serve a message of a Flower app.
	Message = "message"
	// Fetch is the verb on which hosts ask for the parts of such a message, and Reply that on which they
	// send the parts of the reply.
	Fetch = "fetch"
	Reply = "reply"
)

// JoinAs returns the verb by which a device joins whose credentials allow this number of samples, 0 for
// any number.
func JoinAs(samples uint64) string {
	if samples == 0 {
		return Join
	}
	return Join + "." + strconv.FormatUint(samples, 10)
}

// JoinLimit reads the number of samples in a subject on which a device joins. It returns false for every
// other subject, also for that of a device without a limit, and for a number in another spelling.
func JoinLimit(subject string) (samples uint64, ok bool) {
	head, number, _ := strings.Cut(subject, "."+Join+".")
	samples, err := strconv.ParseUint(number, 10, 64)
	isNumber := err == nil && samples > 0
	return samples, isNumber && head+"."+JoinAs(samples) == subject
}

// AnyClient returns the pattern of the subjects of all clients of a run with one verb.
func AnyClient(run, verb string) string { return Root + "." + run + ".client.*." + verb }

// Clients makes and reads the subjects of one run's simulated clients, which begin with it:
// "fedpace.<run>.client.". A simulated client's id is its decimal index; a real device's id starts
// with a letter.
type Clients string

// ClientSubjects returns what makes and reads the subjects of a run's simulated clients.
func ClientSubjects(run string) Clients { return Clients(Root + "." + run + ".client.") }

// Subject returns a simulated client's subject with a verb. It is called for every task, so it builds
// the text in an array on the stack.
func (s Clients) Subject(client int, verb string) string {
	var array [3*64 + 32]byte
	text := append(array[:0], s...)
	text = strconv.AppendInt(text, int64(client), 10)
	text = append(text, '.')
	return string(append(text, verb...))
}

// Client returns the index of the client in a simulated client's subject with this verb. It returns false
// for every other subject, also for those of real devices. It is called for every task and plan.
func (s Clients) Client(subject, verb string) (int, bool) {
	// maxDigits is the number of digits of bus.MaxClients.
	const maxDigits = 10
	if len(subject) < len(s)+2+len(verb) || subject[:len(s)] != string(s) {
		return 0, false
	}
	rest := subject[len(s):]
	dot := len(rest) - len(verb) - 1
	if rest[dot] != '.' || rest[dot+1:] != verb {
		return 0, false
	}
	hasLeadingZero := rest[0] == '0' && dot > 1
	if dot > maxDigits || hasLeadingZero {
		return 0, false
	}
	n := 0
	for i := range dot {
		if rest[i] < '0' || rest[i] > '9' {
			return 0, false
		}
		n = n*10 + int(rest[i]-'0')
	}
	return n, n <= bus.MaxClients
}

// TaskFor returns the verb of a task that one host, given by its name, is to answer.
func TaskFor(host string) string { return Task + "." + host }

// MessageFor returns the verb of a message of a Flower app that one host, given by its name, is to serve.
func MessageFor(host string) string { return Message + "." + host }

// Jobs returns the subject of a run's jobs for the trainers of a kernel class.
func Jobs(run, kernel string) string { return Root + "." + run + ".jobs." + kernel }

// AnyJobs returns the pattern of a run's jobs for all kernel classes.
func AnyJobs(run string) string { return Root + "." + run + ".jobs.*" }

// Sums returns the subject of the results of a run's jobs.
func Sums(run string) string { return Root + "." + run + ".sums" }

// Info returns the subject on which hosts ask for a run's configuration and report that they are present.
func Info(run string) string { return Root + "." + run + ".info" }

// Model returns the subject of one chunk of a model.
func Model(run string, d bus.Digest, chunk int) string {
	return Root + "." + run + ".model." + d.String() + "." + strconv.Itoa(chunk)
}

// NoChunk returns a subject on which a model never has a chunk. A request for it is answered by an empty message, and
// who may request the model's chunks may send it.
func NoChunk(run string, d bus.Digest) string {
	return Root + "." + run + ".model." + d.String() + ".none"
}

// ModelChunks returns the pattern of all chunks of a model.
func ModelChunks(run string, d bus.Digest) string {
	return Root + "." + run + ".model." + d.String() + ".*"
}

// AnyModel returns the pattern of all chunks of all models of a run.
func AnyModel(run string) string { return Root + "." + run + ".model.*.*" }

// Announce is the subject on which coordinators make their runs known.
const Announce = Root + ".runs"

// DirectGet begins the subject of a request to the server for the newest message on a subject of a
// stream.
const DirectGet = "$JS.API.DIRECT.GET."

// JobsStream returns the name of the JetStream stream with a run's jobs, which lives in memory.
func JobsStream(run string) string { return Root + "_" + run + "_jobs" }

// ModelsStream returns the name of the JetStream stream with the chunks of a run's models, which lives in
// memory.
func ModelsStream(run string) string { return Root + "_" + run + "_models" }

// LeaseBucket returns the name of the key-value bucket with a run's lease.
func LeaseBucket(run string) string { return Root + "_" + run + "_lease" }

// Device returns the subject of a real device with a verb, which may have several tokens.
func Device(run, id, verb string) string { return Root + "." + run + ".client." + id + "." + verb }

// RunOfTask returns the run in the subject of a task for the device id. It returns false for other
// subjects.
func RunOfTask(subject, id string) (run string, ok bool) {
	run, ok = strings.CutPrefix(subject, Root+".")
	if ok {
		run, ok = strings.CutSuffix(run, ".client."+id+"."+Task)
	}
	return run, ok && names.CheckToken("run", run) == nil
}
