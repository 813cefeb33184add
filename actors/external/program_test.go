package external

import (
	"slices"
	"testing"
)

// What decides bits in a process is the same in all of them.
func TestProgram_Environment(t *testing.T) {
	t.Setenv("PYTHONHASHSEED", "random")
	t.Setenv("OMP_NUM_THREADS", "7")
	list := (&Config{}).environment()
	for first, last := range map[string]string{"PYTHONHASHSEED=random": "PYTHONHASHSEED=0", "OMP_NUM_THREADS=7": "OMP_NUM_THREADS=1"} {
		if at := slices.Index(list, last); at < slices.Index(list, first) { // the last one counts
			t.Errorf("%s does not stand behind %s", last, first)
		}
	}
}

// A trainer that was started again and freezes another part of its model is another one: what
// is frozen travels nowhere.
func TestProgram_FrozenPartIdentifiesModel(t *testing.T) {
	one := &Greeting{Tensors: []Tensor{{Name: "w", Shape: []int{2}, Trainable: true}, {Name: "base", Shape: []int{3}}}}
	other := &Greeting{Tensors: slices.Clone(one.Tensors)}
	if d := one.differs(other); d != "" {
		t.Errorf("alike: %s", d)
	}
	other.Tensors[1].Frozen = true
	if one.differs(other) == "" {
		t.Error("one that freezes what the other lets move counts as the same")
	}
}
