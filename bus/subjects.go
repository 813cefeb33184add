package bus

import (
	"strconv"
	"strings"

	"fedpace/internal/names"
)

// Subjects of a run (docs/protocol.md):
//
//	fedpace.<run>.client.<id>.<verb>    verb: task, plan, update.<n>, join, heartbeat
//	fedpace.<run>.model.<digest>.<n>
//	fedpace.<run>.jobs.<kernel>
//	fedpace.<run>.sums
//	fedpace.<run>.info
//	fedpace.runs                        of all runs

const root = "fedpace"

// updateVerb is that of one message of an update.
func updateVerb(chunk uint32) string { return verbUpdate + "." + strconv.FormatUint(uint64(chunk), 10) }

// The verbs of a client's subjects.
const (
	verbTask      = "task"
	verbPlan      = "plan"
	verbUpdate    = "update" // with a chunk's number behind it
	verbJoin      = "join"
	verbHeartbeat = "heartbeat"
)

func anyClientSubject(run, verb string) string { return root + "." + run + ".client.*." + verb }

// clientSubjects makes and reads the subjects of one run's simulated clients.
// A simulated client's id is its decimal index; a real device's starts with a
// letter.
type clientSubjects string // "fedpace.<run>.client."

func clientSubjectsOf(run string) clientSubjects {
	return clientSubjects(root + "." + run + ".client.")
}

func (s clientSubjects) of(client int, verb string) string {
	var b [2*64 + 32]byte
	t := append(b[:0], s...)
	t = strconv.AppendInt(t, int64(client), 10)
	t = append(t, '.')
	return string(append(t, verb...))
}

// client finds the index in a simulated client's subject; false for every other
// subject, those of real devices among them.
func (s clientSubjects) client(subject, verb string) (int, bool) {
	if len(subject) < len(s)+2+len(verb) || subject[:len(s)] != string(s) {
		return 0, false
	}
	id := subject[len(s):]
	dot := len(id) - len(verb) - 1
	if id[dot] != '.' || id[dot+1:] != verb || dot > 10 || (id[0] == '0' && dot > 1) {
		return 0, false
	}
	n := 0
	for i := range dot {
		if id[i] < '0' || id[i] > '9' {
			return 0, false
		}
		n = n*10 + int(id[i]-'0')
	}
	return n, n <= MaxClients
}

// answering is the subject on which a client answers what it got on subject:
// the same with another verb of equal length.
func answering(subject string) string { return subject[:len(subject)-len(verbTask)] + verbPlan }

func jobsSubject(run, kernel string) string { return root + "." + run + ".jobs." + kernel }
func sumsSubject(run string) string         { return root + "." + run + ".sums" }
func infoSubject(run string) string         { return root + "." + run + ".info" }
func modelSubject(run string, d Digest, chunk int) string {
	return root + "." + run + ".model." + d.String() + "." + strconv.Itoa(chunk)
}
func anyModelSubject(run string) string { return root + "." + run + ".model.*.*" }
func modelChunks(run string, d Digest) string {
	return root + "." + run + ".model." + d.String() + ".*"
}
func anyJobsSubject(run string) string { return root + "." + run + ".jobs.*" }

// announceSubject is where coordinators say which runs there are.
const announceSubject = root + ".runs"

// DirectGet asks the server for the newest message on a subject of a stream.
const directGet = "$JS.API.DIRECT.GET."

// Streams of a run; both live in memory.
func jobsStream(run string) string   { return root + "_" + run + "_jobs" }
func modelsStream(run string) string { return root + "_" + run + "_models" }

// deviceSubject is a real device's, with several tokens in verb perhaps.
func deviceSubject(run, id, verb string) string {
	return root + "." + run + ".client." + id + "." + verb
}

// runOfTask finds the run in the subject of a device's task.
func runOfTask(subject, id string) (run string, ok bool) {
	run, ok = strings.CutPrefix(subject, root+".")
	if ok {
		run, ok = strings.CutSuffix(run, ".client."+id+"."+verbTask)
	}
	return run, ok && names.CheckToken("run", run) == nil
}
