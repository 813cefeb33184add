package external

import (
	"math"
	"strings"
	"testing"
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

func TestProgram_InitialModelThatIsNotFinite(t *testing.T) {
	p := &Program{Greeting: Greeting{Name: "a.py", Tensors: []Tensor{
		{Name: "w", Shape: []int{2}, Trainable: true},
		{Name: "attention.mask", Shape: []int{2, 2}},
	}}}
	if err := p.checkInitial([]float32{1, 2, 0, 0, 0, 0}); err != nil {
		t.Error(err)
	}
	err := p.checkInitial([]float32{1, 2, 0, float32(math.Inf(-1)), 0, 0})
	want := "tensor attention.mask of the initial model has -Inf at place 1, and values must be finite (a constant belongs outside the model: register_buffer(..., persistent=False)"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
