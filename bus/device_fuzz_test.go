package bus

import (
	"math"
	"testing"
)

func FuzzDecodeJoin(f *testing.F) {
	fuzzMessage(f, func(j *Join) bool {
		return j.Samples <= MaxDeviceSamples && len(j.Name) <= maxLine && len(j.Kernel) <= maxLine && len(j.Version) <= maxLine
	},
		&Join{Name: "kitchen", Kernel: "neon", Samples: 170, Version: "v1"},
		&Join{Samples: math.MaxUint64})
}

func FuzzDecodeHeartbeat(f *testing.F) {
	fuzzMessage(f, func(h *Heartbeat) bool { return h.Phase >= NoPhase && h.Phase <= Recovery },
		&Heartbeat{Task: 1 << 52, Phase: Upload}, &Heartbeat{Phase: 99})
}

func FuzzDecodeUpdate(f *testing.F) {
	fuzzMessage(f, func(u *Update) bool {
		values, packed := len(u.Values) > 0, len(u.Packed) > 0
		if u.Task == 0 || u.Chunk > u.Chunks || u.Chunks > maxChunks || len(u.Values)%4 != 0 || values && packed || u.Last() == (values || packed) {
			return false
		}
		return !u.Last() || min(u.DownloadNs, u.ComputeNs, u.UploadNs) >= 0 && (u.FirstStepLoss == UnreportedLoss || u.FirstStepLoss >= 0 && u.FirstStepLoss <= MaxDeviceLoss) && u.Samples <= MaxDeviceSamples
	},
		&Update{Task: 7, Chunk: 0, Chunks: 2, Values: []byte{0, 0, 128, 63}},
		&Update{Task: 7, Chunk: 0, Chunks: 2, Packed: []byte{1, 2, 3}},
		&Update{Task: 7, Chunk: 2, Chunks: 2, DownloadNs: 1, ComputeNs: 2, UploadNs: 3, FirstStepLoss: 4.1, Samples: 170},
		&Update{Task: 7, Chunk: 1, Chunks: 1, FirstStepLoss: UnreportedLoss},
		&Update{Task: 7, Chunk: 1, Chunks: 1, FirstStepLoss: math.NaN(), Samples: 1},
		&Update{Task: 7, Chunk: math.MaxUint32, Chunks: math.MaxUint32, ComputeNs: -1},
		&Update{Task: 7, Chunks: 1, Values: []byte{1, 2, 3}})
}

func FuzzDecodeReply(f *testing.F) {
	fuzzMessage(f, func(r *DeviceReply) bool {
		w := r.Welcome
		return w == nil || w.Client < w.Clients && w.Params >= 1 && w.Params <= MaxParams && w.HeartbeatEvery() >= minHeartbeat
	},
		&DeviceReply{Status: Accepted, Welcome: &Welcome{
			Client: 200, Clients: 202, Params: 7, HeartbeatSeconds: 1, Task: "femnist", Heterogeneity: 1, DataSeed: 3,
			Spec: &Spec{Model: "linear:2,2", DataDigest: "d", Seed: 1, Batch: 32, Augment: "none"},
		}},
		&DeviceReply{Status: 99, Reason: "no", Welcome: &Welcome{HeartbeatSeconds: math.Inf(1)}},
		&DeviceReply{Welcome: &Welcome{Client: math.MaxUint64, Params: math.MaxUint32}})
}
