package bus

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// A message with several tasks is a task with others to protobuf, and comes apart into the same tasks.
func TestSplit_TasksAsAppended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tasks []*Task
		var message []byte
		for i := range rapid.IntRange(1, 5).Draw(t, "tasks") {
			task := &Task{
				Task:        rapid.Uint64Range(1, 1<<50).Draw(t, "task"),
				Round:       1,
				LocalSteps:  80,
				ModelDigest: make([]byte, 32*rapid.IntRange(0, 1).Draw(t, "digests")),
				BatchPart:   rapid.Float64Range(0, 1).Draw(t, "part"),
			}
			if i > 0 {
				task.Client = rapid.Uint64Range(0, MaxClients).Draw(t, "client")
			}
			tasks = append(tasks, task)
			var err error
			message, err = AppendTask(message, task)
			if err != nil {
				t.Fatal(err)
			}
		}
		whole := new(Task)
		if err := proto.Unmarshal(message, whole); err != nil {
			t.Fatal(err)
		}
		nested := whole.Others
		whole.Others = nil
		var parts []*Task
		for encoded := range SplitTasks(message) {
			part := new(Task)
			if err := Unmarshal(encoded, part); err != nil {
				t.Fatal(err)
			}
			parts = append(parts, part)
		}
		equal := func(a, b *Task) bool { return proto.Equal(a, b) }
		if !slices.EqualFunc(append([]*Task{whole}, nested...), tasks, equal) || !slices.EqualFunc(parts, tasks, equal) {
			t.Fatalf("%v became %v, with others %v, and %v", tasks, whole, nested, parts)
		}
	})
}

// Of a message that is cut off, or has other bytes, the parts that come are tasks of it or do not decode.
func TestSplit_DamagedMessage(t *testing.T) {
	var message []byte
	for i := range uint64(3) {
		message, _ = AppendTask(message, &Task{Task: 1 + i, Round: 1, LocalSteps: 1, Client: i})
	}
	for cut := range message {
		last := uint64(0)
		for encoded := range SplitTasks(message[:cut]) {
			part := new(Task)
			if Unmarshal(encoded, part) != nil {
				break
			}
			last++
			if part.Task != last {
				t.Errorf("task %d of a message cut at %d is number %d", last, cut, part.Task)
			}
		}
		if last == 3 {
			t.Errorf("a message cut at %d has all tasks", cut)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for encoded := range SplitPlans(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) {
			_ = Unmarshal(encoded, new(Plan))
		}
	})
}
