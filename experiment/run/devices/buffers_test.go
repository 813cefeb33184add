package devices_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/experiment/runtest"
)

// rawFeatures is how many features the samples of these runs have.
const rawFeatures = 4

// withBuffers are settings of a model with a batch norm on raw features, whose samples are a file of eight
// clients.
func withBuffers(t *testing.T) []string {
	t.Helper()
	const clients, samples, classes = 8, 50, 3
	r := rand.New(rand.NewPCG(3, 3))
	text := "client,split,x0,x1,x2,x3,y\n"
	for client := range clients {
		for i := range samples {
			split := "train"
			if i%5 == 0 {
				split = "test"
			}
			text += fmt.Sprintf("c%d,%s", client, split)
			class := i % classes
			for k := range rawFeatures {
				x := 5 + 20*r.NormFloat64()
				if k == class {
					x += 40
				}
				text += fmt.Sprintf(",%v", float32(x))
			}
			text += fmt.Sprintf(",%d\n", class)
		}
	}
	path := filepath.Join(t.TempDir(), "raw.csv")
	runtest.WriteFile(t, path, text)
	return append(slices.Clone(runtest.Custom),
		"data={path: "+path+", client: client, split: split, features: x*, label: y}",
		"model=[batch_norm, dense]", "batch=8", "schedule.eta0=0.1", "schedule.k0=5", "devices.keep_updates=true")
}

// falseBuffers sets the buffers of an honest update: each of the running means to mean, and of the variances
// to variance. They are the last values of the model but the count of batches.
func falseBuffers(mean, variance float32) func(*lie) {
	return func(l *lie) {
		buffers := l.values[len(l.values)-2*rawFeatures-1:]
		for i := range rawFeatures {
			buffers[i] = mean
			buffers[rawFeatures+i] = variance
		}
	}
}

// A device that trains as the others and sends false buffers of a batch norm does not cost the run its
// model. Of six devices the buffers are combined so that one that lies counts little. Where they are
// averaged, or there are three, the round that harms the model is done without the device whose buffers
// moved far more than those of the others, and it is banned. Honest devices are not, and the run can be
// replayed.
func TestBuffers_DeviceLies(t *testing.T) {
	t.Parallel()
	lies := map[string]func(*lie){
		"honest":             func(*lie) {},
		"huge means":         falseBuffers(1e30, 400),
		"huge variances":     falseBuffers(5, 1e38),
		"negative variances": falseBuffers(5, -1e6),
		"small variances":    falseBuffers(5, 0),
	}
	for _, x := range []struct {
		name   string
		honest int
		sets   []string
		// averaged says that no rule combines buffers. Huge variances pass then: they leave a model that
		// guesses, which is no worse than the first one.
		averaged bool
	}{
		{"combined", 5, nil, false},
		{"averaged", 5, []string{"devices.robust=false"}, true},
		{"three devices", 2, nil, true},
	} {
		for name, attack := range lies {
			t.Run(x.name+" "+name, func(t *testing.T) {
				t.Parallel()
				o := siege{
					honest:  x.honest,
					hostile: 1,
					rounds:  12,
					attack:  attack,
					sets:    slices.Concat(withBuffers(t), x.sets),
				}.play(t)
				if o.err != nil {
					t.Fatal(o.err)
				}
				if list := o.bannedOf(x.honest); list != nil {
					t.Errorf("honest devices are banned: %v", list)
				}
				passes := x.averaged && name == "huge variances"
				bans := x.averaged && (name == "huge means" || name == "negative variances")
				if !passes && !(o.loss < 0.6) {
					t.Errorf("a loss of %.3g, where honest devices come to 0.46:\n%s", o.loss, o.lines)
				}
				if bans != (len(o.Banned) == 1) {
					t.Errorf("banned are %+v", o.Banned)
				}
				if strings.Contains(o.lines, "is lost") {
					t.Errorf("a model is lost:\n%s", o.lines)
				}
				sameAgain(t, o.dir, o.Summary)
			})
		}
	}
}
