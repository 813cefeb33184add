package gateway

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"fedpace/bus"
)

func FuzzDecodeDeviceTask(f *testing.F) {
	for _, t := range []*bus.Task{
		{}, {Over: true}, {Task: 1 << 52, Round: 1, LocalSteps: 80, LearningRate: 0.3, Proximal: 0.1}, {Task: 1, Round: 1, LocalSteps: 80, Proximal: math.Inf(1)},
	} {
		b, err := proto.Marshal(t)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x := deviceArrival{task: new(bus.Task)}
		if err := decodeDeviceTask(b, x.task); err != nil {
			if !strings.HasPrefix(err.Error(), "bus: ") {
				t.Errorf("%q does not say where it comes from", err)
			}
			return
		}
		if x.isTask() && (x.task.LocalSteps < 1 || !(x.task.Proximal >= 0 && x.task.Proximal <= bus.MaxProximal)) {
			t.Fatalf("%v is taken", x.task)
		}
	})
}
