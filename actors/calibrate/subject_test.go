package calibrate

import (
	"slices"
	"strings"
	"testing"

	"fedpace/actors/real"
	"fedpace/bus"
	"fedpace/internal/tasks"
	"fedpace/learn"
)

// little is long enough for a few tasks.
const little = 0.01

// measured measures a subject for a short time and fails the test unless the result is complete. err is the error of
// making the subject, nil if there was none.
func measured(t *testing.T, s *Subject, err error) Compute {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	c, err := MeasureCompute(t.Context(), s, Timing{Seconds: little}, func(string) {})
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	if !(c.SecondsPerStep.Value > 0) || c.Tasks < 3 || c.Kernel == "" {
		t.Errorf("%s: %+v", s.Name, c)
	}
	return c
}

// The paper's tasks are measured beside its Table 2; of the two whose steps take long, one
// is taken.
func TestSubject_PapersTasks(t *testing.T) {
	for _, task := range []tasks.Task{tasks.Sent140, tasks.FEMNIST} {
		s, err := SubjectOfTask(task, DeviceInput{})
		c := measured(t, s, err)
		if paper, _ := task.Paper(); c.Task != task || c.Batch != paper.Batch || c.PaperSeconds != paper.SecondsPerStep || c.PaperStd != paper.StdPerStep || c.Model != paper.Architecture {
			t.Errorf("%+v", c)
		}
		if c := measured(t, s.WithBatch(s.Batch()+1), nil); c.PaperSeconds != 0 || c.PaperStd != 0 {
			t.Errorf("other minibatches than the paper's: %+v", c)
		}
	}
	for _, task := range []tasks.Task{tasks.CIFAR100, tasks.Shakespeare} {
		s, err := SubjectOfTask(task, DeviceInput{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := real.Open(s.deviceConfig(func(string) {}))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Prepare(t.Context(), Run, s.Welcome); err != nil {
			t.Fatal(err)
		}
		params, err := d.Initial(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		u, _, err := d.Compute(t.Context(), params, nil, &bus.Task{Task: 1, LocalSteps: 1, LearningRate: rate})
		if err != nil || u.ComputeNs <= 0 || !(u.FirstStepLoss > 3 && u.FirstStepLoss < 6) || slices.Equal(u.Values, params) {
			t.Errorf("%s: %v, %d ns, loss %g", task, err, u.GetComputeNs(), u.GetFirstStepLoss())
		}
	}
	if _, err := SubjectOfTask(tasks.Quadratic, DeviceInput{}); err == nil || !strings.Contains(err.Error(), "Table 2") {
		t.Errorf("%v", err)
	}
}

// Models of one's own are measured on random samples of their kind, with minibatches as
// large as asked for.
func TestSubject_ModelsOfOnesOwn(t *testing.T) {
	for _, model := range []string{"mlp:4,16,3", "linear:300,2", "gru:20,19,4,8,1", "layers:values=6,targets=2;dense(5),relu,dense(2)"} {
		s, err := SubjectOfModel(model, 8, DeviceInput{})
		if c := measured(t, s, err); c.Task != tasks.Custom || c.Model != model || c.Batch != 8 || c.PaperSeconds != 0 {
			t.Errorf("%s: %+v", model, c)
		}
	}
	s, err := SubjectOfModel("mlp:4,16,3", 8, DeviceInput{})
	if c := measured(t, s.WithBatch(1000), err); c.Batch != 1000 || s.Batch() != 8 {
		t.Errorf("%+v", c)
	}
	if _, err := SubjectOfModel("mlp:4", 8, DeviceInput{}); err == nil {
		t.Error("a model of one layer is taken")
	}
}

// A random minibatch is what the model reads, and has as many samples as asked for.
func TestSubject_RandomSamples(t *testing.T) {
	for _, of := range []learn.Samples{
		{Features: 7, Classes: 3}, {Features: 2, Targets: 4}, {Input: learn.Sparse, Features: 5, Classes: 2}, {Input: learn.Sparse, Features: 90, Classes: 2},
		{Input: learn.Tokens, Features: 6, Vocabulary: 9, Classes: 8},
	} {
		set, info := newRandomSet(of, 600), new(learn.Batch)
		if err := set.Batch(info, 0, []int32{3, 599}); err != nil {
			t.Fatal(err)
		}
		about := set.Info()
		if err := about.Check(info, 2); err != nil {
			t.Errorf("%+v: %v", of, err)
		}
		if err := set.Batch(info, 0, []int32{600}); err == nil {
			t.Error("it has more samples than it says")
		}
	}
}

// What a coordinator says of its runs is enough; one that says nothing leaves nothing to
// measure.
func TestSubject_ModelOfCoordinatorsRuns(t *testing.T) {
	of, err := SubjectOfTask(tasks.FEMNIST, DeviceInput{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := SubjectOfRun(of.Welcome, DeviceInput{})
	if c := measured(t, s, err); c.Task != tasks.FEMNIST || c.Model != "mlp:784,200,200,62" {
		t.Errorf("%+v", c)
	}
	of, err = SubjectOfModel("mlp:4,16,3", 8, DeviceInput{})
	if err != nil {
		t.Fatal(err)
	}
	s, err = SubjectOfRun(of.Welcome, DeviceInput{})
	if c := measured(t, s, err); c.Task != tasks.Custom || c.Batch != 8 {
		t.Errorf("%+v", c)
	}
	if s, err := SubjectOfRun(&bus.Welcome{Spec: &bus.Spec{}}, DeviceInput{}); s != nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
}
