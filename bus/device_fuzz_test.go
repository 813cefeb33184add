package bus

import (
	"bytes"
	"math"
	"testing"
	"time"

	"fedpace/bus/wire"
)

func FuzzDecodeJoin(f *testing.F) {
	f.Add(encoded(&wire.Join{Name: "kitchen", Kernel: "neon", Samples: 170}))
	f.Add(encoded(&wire.Join{Samples: math.MaxUint64}))
	f.Add([]byte("\xff noise"))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := decodeJoin(b)
		if err != nil {
			explained(t, err)
			return
		}
		if j.Samples < 0 || j.Samples > MaxDeviceSamples || len(j.Name) > maxText || len(j.Kernel) > maxText {
			t.Fatalf("%+v is taken", j)
		}
		sent, err := encodeJoin(&j)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeJoin(sent); err != nil || again != j {
			t.Fatalf("%+v comes back as %+v, %v", j, again, err)
		}
	})
}

func FuzzDecodeHeartbeat(f *testing.F) {
	f.Add(encoded(&wire.Heartbeat{Task: 1 << 52, Phase: wire.Phase_PHASE_UPLOAD}))
	f.Add(encoded(&wire.Heartbeat{Phase: 99}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeartbeat(b)
		if err != nil {
			explained(t, err)
			return
		}
		if h.Phase > Upload {
			t.Fatalf("%+v is taken", h)
		}
		sent, err := encodeHeartbeat(&h)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decodeHeartbeat(sent); err != nil || again != h {
			t.Fatalf("%+v comes back as %+v, %v", h, again, err)
		}
	})
}

func FuzzDecodeUpdate(f *testing.F) {
	f.Add(encoded(&wire.Update{Task: 7, Chunk: 0, Chunks: 2, Values: []byte{0, 0, 128, 63}}))
	f.Add(encoded(&wire.Update{Task: 7, Chunk: 2, Chunks: 2, DownloadNs: 1, ComputeNs: 2, UploadNs: 3, FirstStepLoss: 4.1, Samples: 170}))
	f.Add(encoded(&wire.Update{Task: 7, Chunk: 1, Chunks: 1, FirstStepLoss: math.NaN(), Samples: 1}))
	f.Add(encoded(&wire.Update{Task: 7, Chunk: math.MaxUint32, Chunks: math.MaxUint32, ComputeNs: -1}))
	f.Add(encoded(&wire.Update{Task: 7, Chunks: 1, Values: []byte{1, 2, 3}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeUpdatePart(b)
		if err != nil {
			explained(t, err)
			return
		}
		if p.Task == 0 || p.chunk < 0 || p.chunk > p.chunks || p.chunks > maxChunks || len(p.values)%4 != 0 || p.last() != (len(p.values) == 0) {
			t.Fatalf("%+v is taken", p)
		}
		if p.last() && (min(p.DownloadNs, p.ComputeNs, p.UploadNs) < 0 || !(p.FirstStepLoss >= 0 && p.FirstStepLoss <= MaxDeviceLoss) || p.Samples < 1) {
			t.Fatalf("%+v is taken", p)
		}
		sent, err := encodeUpdatePart(&p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeUpdatePart(sent)
		if err != nil || again.Task != p.Task || again.chunk != p.chunk || !bytes.Equal(again.values, p.values) || again.ComputeNs != p.ComputeNs {
			t.Fatalf("%+v comes back as %+v, %v", p, again, err)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	welcome := someWelcome()
	b, err := encodeReply(wire.Verdict_VERDICT_ACCEPTED, "", &welcome)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(encoded(&wire.DeviceReply{Verdict: 99, Reason: "no", Welcome: &wire.Welcome{HeartbeatSeconds: math.Inf(1)}}))
	f.Add(encoded(&wire.DeviceReply{Welcome: &wire.Welcome{Client: math.MaxUint64, Params: math.MaxUint32}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeReply(b)
		if err != nil {
			explained(t, err)
			return
		}
		if w := r.welcome; w != nil && (w.Client < 0 || w.Client >= w.Clients || w.Params < 1 || w.Params > MaxParams || w.Heartbeat < minHeartbeat) {
			t.Fatalf("%+v is taken", w)
		}
	})
}

func FuzzDecodeDeviceTask(f *testing.F) {
	f.Add(encoded(&wire.Task{}))
	f.Add(encoded(&wire.Task{Over: true}))
	f.Add(encoded(&wire.Task{Task: 1 << 52, Round: 1, LocalSteps: 80, LearningRate: 0.3, Proximal: 0.1}))
	f.Add(encoded(&wire.Task{Task: 1, Round: 1, LocalSteps: 80, Proximal: math.Inf(1)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var task Task
		kind, err := decodeDeviceTask(b, &task, &wire.Task{})
		if err != nil {
			explained(t, err)
			return
		}
		if kind == taskMessage && (task.Task == 0 || task.LocalSteps < 1 || !(task.Proximal >= 0 && task.Proximal <= MaxProximal)) {
			t.Fatalf("%+v is taken", task)
		}
	})
}

func someWelcome() Welcome {
	return Welcome{
		Client: 200, Clients: 202, Params: 7, Heartbeat: time.Second, Task: "femnist", Heterogeneity: 1, DataSeed: 3,
		Spec: Spec{Model: "linear:2,2", Data: "d", Seed: 1, Batch: 32, Augment: "none"},
	}
}

// What a device is told comes back as it was.
func TestWelcomesComeBack(t *testing.T) {
	w := someWelcome()
	b, err := encodeReply(wire.Verdict_VERDICT_ACCEPTED, "", &w)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := decodeReply(b); err != nil || *r.welcome != w {
		t.Errorf("%+v comes back as %+v, %v", w, r.welcome, err)
	}
}
