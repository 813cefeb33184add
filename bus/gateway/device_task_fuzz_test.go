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
		{}, {Over: true}, {Task: 1 << 52, Round: 1, LocalSteps: 80, LearningRate: 0.3}, {Task: 1, Round: 1, LocalSteps: 80, LearningRate: math.Inf(1)},
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
		if x.isTask() && x.task.LocalSteps < 1 {
			t.Fatalf("%v is taken", x.task)
		}
	})
}
