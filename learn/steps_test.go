package learn

import (
	"bytes"
	"encoding/binary"
	"math"
	"os/exec"
	"testing"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// Every parameter is where PyTorch's own step leads it, one step at a time: each begins with the
// parameters that the steps before it, taken here, have come to.
func TestParameters_ArePyTorchs(t *testing.T) {
	slow.Test(t, "it plays PyTorch; golden values are compared always")
	onlyLonger(t)
	python := installed.Python(t, "torch")
	const steps = 5
	for _, c := range []struct {
		spec  string
		batch int
		rate  float32
	}{
		{"linear:5000,2", 8, 30}, {"mlp:784,62", 32, 0.05}, {"mlp:784,200,200,62", 32, 0.3},
		{"cnn:3x32x32,32,64,512,100", 32, 0.1}, {"gru:80,79,8,128,2", 32, 0.5},
	} {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			m := parse(t, c.spec)
			w := on(m, c.batch, fastest())
			params := goldenWeights(m, c.spec)
			var before bytes.Buffer
			var after, from [steps][]float32
			for step := range steps {
				from[step] = append(from[step], params...)
				if err := binary.Write(&before, binary.LittleEndian, params); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Step(params, goldenBatch(m, 10_000+3*step, c.batch), c.rate); err != nil {
					t.Fatal(err)
				}
				after[step] = append(after[step], params...)
			}
			torch := exec.Command(python, "testdata/golden.py", c.spec)
			var said bytes.Buffer
			torch.Stdin, torch.Stderr = &before, &said
			out, err := torch.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, said.String())
			}
			theirs := make([]float32, steps*m.Params())
			if err := binary.Read(bytes.NewReader(out), binary.LittleEndian, theirs); err != nil {
				t.Fatal(err)
			}
			worst := 0.0
			for step := range steps {
				for _, tensor := range m.Tensors() {
					moved, off, at := 0.0, 0.0, 0
					for i := tensor.Offset; i < tensor.Offset+tensor.Len(); i++ {
						moved = max(moved, math.Abs(float64(after[step][i]-from[step][i])))
						if d := math.Abs(float64(after[step][i] - theirs[step*m.Params()+i])); d > off {
							off, at = d, i
						}
					}
					// A parameter has 24 bits, of which a step moves the last ones.
					within := 1e-5*moved + 0x1p-23*math.Abs(float64(after[step][at]))
					worst = max(worst, off/moved)
					if off > within {
						t.Errorf("step %d, %s: parameter %d is %g, PyTorch's %g: %.2g of the longest move", step+1, tensor.Name, at, after[step][at], theirs[step*m.Params()+at], off/moved)
					}
				}
			}
			t.Logf("at most %.2g of the longest move of a tensor", worst)
		})
	}
}
