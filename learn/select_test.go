package learn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fedpace/learn/internal/kernel"
)

func TestSelectKernel_Classes(t *testing.T) {
	for _, isa := range kernel.Available() {
		k, err := SelectKernel(isa.Class())
		if err != nil || k.Class() != isa.Class() {
			t.Errorf("class %s is found as %s, %v", isa.Class(), k.Class(), err)
		}
	}
	if k, err := SelectKernel(AutoKernel); err != nil || k != here() {
		t.Errorf("%s is %v, %v, want %v", AutoKernel, k, err, here())
	}
	for class, want := range map[string]string{
		"sse9":   `"sse9" is not a kernel class (here: go`,
		"avx512": `"avx512" is not a kernel class (here: go`, // but the name of instructions
	} {
		if _, err := SelectKernel(class); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("class %s gives %v, want an error with %q", class, err, want)
		}
	}
	// Plain Go is everywhere, and no machine has all.
	lacking := 0
	for class, what := range needs {
		if _, err := SelectKernel(class); err != nil {
			lacking++
			if want := fmt.Sprintf("%s needs %s, and this machine has go", class, what); !strings.Contains(err.Error(), want) {
				t.Errorf("class %s gives %v, want an error with %q", class, err, want)
			}
		}
	}
	if lacking == 0 {
		t.Error("this machine has all classes")
	}
}

// Classes that round what they multiply are found by their names alone.
func TestSelectKernel_NamedClasses(t *testing.T) {
	if k, err := SelectKernel(AutoKernel); err != nil || k.isa.Tiles() {
		t.Errorf("the fastest kernel is %v, %v", k.isa, err)
	}
	for _, isa := range kernel.Named() {
		k, err := SelectKernel(isa.Class())
		if isa.Emulated() {
			if err == nil && k.isa == isa {
				t.Errorf("class %s is emulated, although nothing limits it to that", isa.Class())
			}
		} else if err != nil || k.isa != isa {
			t.Errorf("class %s is %v, %v, want %v", isa.Class(), k.isa, err, isa)
		}
		want := []kernel.ISA{kernel.Go, isa}
		if got, err := allowedSets(isa.String()); err != nil || !slices.Equal(got, want) {
			t.Errorf("limited to %v there are %v, %v", isa, got, err)
		}
	}
}

// What FEDPACE_KERNEL may hold: instructions, or a class of them.
func TestSelectKernel_LimitedInstructions(t *testing.T) {
	for _, isa := range kernel.Available() {
		want := slices.Compact([]kernel.ISA{kernel.Go, isa})
		if got, err := allowedSets(isa.String()); err != nil || !slices.Equal(got, want) {
			t.Errorf("limited to %v there are %v, %v", isa, got, err)
		}
		got, err := allowedSets(isa.Class())
		if err != nil || got[0] != kernel.Go || !slices.Contains(got, isa) {
			t.Errorf("limited to class %s there are %v, %v", isa.Class(), got, err)
		}
	}
	if got, err := allowedSets("sse9"); err == nil || !strings.Contains(err.Error(), `FEDPACE_KERNEL: this machine has no instructions "sse9" (here: go`) || !slices.Equal(got, []kernel.ISA{kernel.Go}) {
		t.Errorf("limited to what is not there: %v, %v", got, err)
	}
}

// The instruction sets of a class do the same arithmetic in the same order: steps
// and evaluations of every model agree bit for bit, in parameters and in losses.
func TestKernel_SameBitsInClass(t *testing.T) {
	byClass := map[string][]kernel.ISA{}
	for _, isa := range kernel.Available() {
		byClass[isa.Class()] = append(byClass[isa.Class()], isa)
	}
	compared := false
	// What emulates others is slow, so only small models are compared.
	for _, emulated := range []kernel.ISA{kernel.AMXEmulated, kernel.AMX3Emulated} {
		if !slices.Contains(kernel.Named(), emulated+1) {
			continue
		}
		for _, spec := range append(slices.Clone(small), listed[2], "cnn:3x10x10,32,16,5,4") {
			if !slices.Equal(bitsOf(t, spec, emulated), bitsOf(t, spec, emulated+1)) {
				t.Errorf("%s: %v and %v differ", spec, emulated, emulated+1)
			}
		}
	}
	for class, list := range byClass {
		if len(list) == 1 {
			continue
		}
		compared = true
		for _, spec := range append(slices.Clone(small), "mlp:784,200,200,62", "gru:7,79,8,128,2", "cnn:3x20x20,32,64,100,100") {
			want := bitsOf(t, spec, list[0])
			for _, isa := range list[1:] {
				if !slices.Equal(bitsOf(t, spec, isa), want) {
					t.Errorf("class %s, %s: %v and %v differ", class, spec, list[0], isa)
				}
			}
		}
	}
	if !compared {
		t.Skip("this machine has one instruction set of each class")
	}
}

// bitsOf are the losses of some steps and the parameters after them.
func bitsOf(t *testing.T, spec string, isa kernel.ISA) (bits []uint64) {
	t.Helper()
	m := parse(t, spec)
	x := make([]float32, m.Params())
	m.Init(x, 1)
	w := on(m, 40, isa)
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{32, 32, 1, 17, 32, 40, 8} {
		b := randomBatch(m, n, r)
		loss, err := w.Step(x, b, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		sum, _, err := evaluate(m, w, x, b)
		if err != nil {
			t.Fatal(err)
		}
		bits = append(bits, math.Float64bits(loss), math.Float64bits(sum))
	}
	for _, v := range x {
		bits = append(bits, uint64(math.Float32bits(v)))
	}
	return bits
}
