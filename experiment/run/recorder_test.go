package run

import (
	"reflect"
	"testing"
	"time"
)

// What the recorder remembers is in a checkpoint, or is one of the things that a
// resumed run makes anew.
func TestRecorder_SavedWhole(t *testing.T) {
	t.Parallel()
	anew := map[string]bool{"p": true, "pause": true, "results": true, "lastProgress": true, "reported": true, "checkpoint": true, "due": true, "workers": true, "checkpointFailures": true, "qualities": true, "server": true, "remaining": true, "emptyRounds": true, "warnedTooFew": true}
	saved := map[string]bool{"outputs": true, "started": true, "progress": true, "saved": true}
	of := reflect.TypeFor[recorder]()
	for i := range of.NumField() {
		if name := of.Field(i).Name; !anew[name] && !saved[name] {
			t.Errorf("%s is not in a checkpoint: save it with checkpoint.Recorder, or say here that a resumed run makes it anew", name)
		}
	}
}

// Waiting for devices is no part of the first round, by which the time left is told.
func TestRecorder_FirstRound(t *testing.T) {
	var r recorder
	r.remaining.lastRoundEnd = time.Now().Add(-time.Hour)
	if r.roundsBegin(); time.Since(r.remaining.lastRoundEnd) > 59*time.Minute {
		t.Errorf("the first round began at %v", r.remaining.lastRoundEnd)
	}
}
