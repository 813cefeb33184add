package external

import (
	"math"
	"strings"
	"testing"

	"fedpace/learn"
)

func TestGreeting_DifferentTensors(t *testing.T) {
	first := Greeting{Tensors: []Tensor{{Name: "a.weight", Shape: []int{3}, Trainable: true}, {Name: "b.weight", Shape: []int{4}, Trainable: true}}}
	second := first
	second.Tensors = []Tensor{first.Tensors[1], first.Tensors[0]}
	want := "tensor 1 of its model is b.weight [4], in the first process a.weight [3]: the script must make the same model"
	if got := first.differs(&second); !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	second.Tensors = first.Tensors[:1]
	if got := first.differs(&second); !strings.Contains(got, "its model has 1 tensors, the first process's 2") {
		t.Errorf("%q", got)
	}
}

func TestGreeting_OwnSteps(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps *OwnSteps
		want  string
	}{
		{"none", nil, ""},
		{"momentum", &OwnSteps{Optimizer: "SGD", Momentum: 0.9}, ""},
		{"no name", &OwnSteps{}, `optimizer "": want 1 to 256 bytes`},
		{"negative", &OwnSteps{Optimizer: "SGD", Momentum: -1}, "momentum -1, want a number from 0"},
		{"contradiction", &OwnSteps{Optimizer: "SGD", Momentum: 0.9, Plain: true}, "want one of the two"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.steps.check()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestProgram_InitialModelNotFinite(t *testing.T) {
	p := &Program{Greeting: Greeting{Name: "a.py", Tensors: []Tensor{
		{Name: "w", Shape: []int{2}, Trainable: true},
		{Name: "attention.mask", Shape: []int{2, 2}},
	}}}
	if err := p.checkInitial([]float32{1, 2, 0, 0, 0, 0}); err != nil {
		t.Error(err)
	}
	err := p.checkInitial([]float32{1, 2, 0, float32(math.Inf(-1)), 0, 0})
	want := `initial model: tensor attention.mask has -Inf at place 1, and values must be finite (a constant can be kept: serve(..., buffers={"attention.mask": "kept"}))`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestGreeting_TypedTensors(t *testing.T) {
	weight := Tensor{Name: "w", Shape: []int{2}, Trainable: true}
	mean := Tensor{Name: "mean", Shape: []int{2}}
	count := Tensor{Name: "count", Shape: []int{}, Type: "int64", Rule: "largest"}
	mask := Tensor{Name: "mask", Shape: []int{2, 2}, Frozen: true, Type: "float32", Rule: "kept"}
	for name, x := range map[string]struct {
		protocol int
		tensors  []Tensor
		want     string
	}{
		"all":          {2, []Tensor{weight, mean, count, mask}, ""},
		"old":          {1, []Tensor{weight, mean}, ""},
		"old typed":    {1, []Tensor{weight, count}, `tensor "count" has a type, and it speaks protocol 1, want 2`},
		"order":        {2, []Tensor{weight, count, mean}, `tensor "count" is of integers, and one of floats that travels lies behind it`},
		"kept, sent":   {2, []Tensor{weight, {Name: "m", Shape: []int{1}, Type: "bool", Rule: "kept"}}, "want it frozen if it is kept"},
		"sent, frozen": {2, []Tensor{weight, {Name: "m", Shape: []int{1}, Frozen: true, Type: "bool", Rule: "majority"}}, "want it frozen if it is kept"},
		"no rule":      {2, []Tensor{weight, {Name: "m", Shape: []int{1}, Type: "bool"}}, "has the rule"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Greeting{Protocol: x.protocol, Tensors: x.tensors}).checkTensors()
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
	m := (&Program{Greeting: Greeting{Tensors: []Tensor{weight, mean, count, mask}}}).Model()
	// A float32 that is kept takes two numbers: 2 + 2 + 1 + 4·2.
	if m.params != 13 || m.trainable != 2 || m.frozen != 8 || learn.Integers(m) != 1 || learn.Communicated(m) != 5 {
		t.Errorf("%+v", m)
	}
}
