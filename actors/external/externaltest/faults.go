package externaltest

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

// shouldFail reports whether a fault of this kind is to happen now: always if the trainer was started
// with it or, with a file for it, once.
func (t *trainer) shouldFail(kind string) bool {
	if t.fault != kind {
		return false
	}
	if t.once == "" {
		return true
	}
	// The file is made by the first process that comes here, so that its successor works.
	f, err := os.OpenFile(t.once, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	check(f.Close())
	return true
}

// dieOrHang lets the process die or hang at a place, such as its start, if it was started with that
// fault.
func (t *trainer) dieOrHang(place string) {
	if t.shouldFail("die at " + place) {
		fmt.Fprintln(os.Stderr, "these are the last words")
		os.Exit(3)
	}
	if t.shouldFail("hang at " + place) {
		never := make(chan os.Signal, 1)
		// All signals arrive here and end nothing, so that the process ends by SIGKILL alone.
		signal.Notify(never)
		for range never {
		}
	}
}

// spoilTask spoils a task or an evaluation by the fault that the trainer was started with, and reports
// whether the request is over. id is that of the request, index the number of the task in it, or -1 for an
// evaluation, and model is the result of the task.
func (t *trainer) spoilTask(id uint64, index int, model []float32) (over bool) {
	isTask := index >= 0
	isEarly := isTask && t.tasks < t.from
	isOtherFault := !isTask && !strings.HasSuffix(t.fault, "evaluation")
	if isEarly || isOtherFault {
		return false
	}
	place := "evaluation"
	if isTask {
		place = "task"
	}
	t.dieOrHang(place)
	// say sends a wrong reply in place of the right one.
	wrongReply := func(kind string, o object) {
		if t.shouldFail(kind) {
			over = true
			t.say(o)
		}
	}
	wrongReply("wrong index", object{"id": id, "task": object{"index": index + 1, "loss": 1}})
	wrongReply("no loss", object{"id": id, "task": object{"index": index}})
	wrongReply("much kept", object{"id": id, "task": object{"index": index, "loss": 1, "state": 99}})
	wrongReply("wrong id", object{"id": id + 1, "task": object{"index": index, "loss": 1}})
	wrongReply("done early", object{"id": id, "done": object{}})
	wrongReply("two things", object{"id": id, "done": object{}, "cancelled": object{}})
	wrongReply("exception", object{"id": id, "error": object{
		"index": index,
		"text":  "ValueError: no such thing",
		"file":  "my_model.py",
		"line":  12,
	}})
	wrongReply("exception of none", object{"id": id, "error": object{"index": 99, "text": "x"}})
	wrongReply("diverged", object{"id": id, "diverged": object{"index": index, "step": 3, "cause": "the loss is nan"}})
	score := object{"sum": 1, "weight": 1}
	weightless := object{"sum": 1, "weight": 0}
	wrongReply("few metrics in evaluation", object{"id": id, "scores": object{"loss": score, "metrics": []object{}}})
	wrongReply("no weight in evaluation", object{"id": id, "scores": object{
		"loss":    weightless,
		"metrics": []object{score},
	}})
	wrongReply("done in evaluation", object{"id": id, "done": object{}})
	if t.shouldFail("garbage") {
		_, err := t.out.WriteString("Epoch 1: loss 3.2\n")
		check(err)
	}
	if t.shouldFail("long line") {
		_, err := t.out.WriteString("{" + strings.Repeat(" ", 17<<20) + "}\n")
		check(err)
	}
	if t.shouldFail("shrink") {
		_ = t.shared.Truncate(0) // which fedpace may refuse
	}
	if t.shouldFail("nan") {
		model[1] = float32(math.NaN())
	}
	return over
}

// spoilGreeting spoils the greeting o by the fault that the trainer was started with: another
// digest, output before it, or a field with a wrong value.
func (t *trainer) spoilGreeting(o object) {
	if t.shouldFail("another script") {
		o["digest"] = strings.Repeat("ab", 32)
	}
	if t.shouldFail("chatter") {
		for i := range 15 {
			fmt.Printf("line %d of standard output\n", i)
		}
	}
	// Such a fault has the form greeting KEY=NAME: the field KEY gets the wrong value of that name.
	assignment, isGreetingFault := strings.CutPrefix(t.fault, "greeting ")
	key, value, isAssignment := strings.Cut(assignment, "=")
	if !isGreetingFault || !isAssignment {
		return
	}
	digest := strings.Repeat("0f", 32)
	weights := object{"name": "w", "shape": []int{3}, "trainable": true}
	means := object{"name": "m", "shape": []int{3}, "trainable": false}
	frozen := object{
		"name":      "f",
		"shape":     []int{3},
		"trainable": false,
		"frozen":    true,
	}
	allWeights := object{"name": "w", "shape": []int{t.model.Params()}, "trainable": true}
	hugeFrozen := object{
		"name":      "f",
		"shape":     []int{100_000},
		"trainable": false,
		"frozen":    true,
	}
	// These are the wrong values by the names that tests give them.
	wrong := map[string]any{
		"negative": []object{{"name": "w", "shape": []int{-3}, "trainable": true}},
		"huge":     []object{{"name": "w", "shape": []int{1 << 20, 1 << 20}, "trainable": true}},
		"behind":   []object{means, weights},
		"twice":    []object{weights, weights},
		"both":     []object{{"name": "w", "shape": []int{3}, "trainable": true, "frozen": true}},
		"frozen":   []object{allWeights, hugeFrozen},
		"middle":   []object{weights, frozen, means},
		"none":     []object{},
		"better":   []object{{"name": "accuracy", "better": "sideways"}},
		"dash":     []object{{"name": "top-1", "better": "higher"}},
		"data": object{
			"names":    []string{"a", "b"},
			"samples":  []int{3},
			"held_out": 4,
			"digest":   digest,
		},
		"empty": object{
			"names":    []string{"a"},
			"samples":  []int{0},
			"held_out": 4,
			"digest":   digest,
		},
		"zero": 0,
		"word": "x y",
	}
	o[key] = wrong[value]
}

// leaveChild starts a child process that holds all descriptors of this process, and ends this process
// at once, so that the child outlives it.
func leaveChild() {
	c := exec.Command("sleep", "600")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.ExtraFiles = []*os.File{os.NewFile(3, "3"), os.NewFile(4, "4"), os.NewFile(5, "5")}
	check(c.Start())
	fmt.Fprintln(os.Stderr, "child", c.Process.Pid)
	os.Exit(4)
}
