package calibrate

import (
	"fmt"
	"testing"
)

// The sizes that travel hold the model's own, a single value, and another whose distance
// tells the speed.
func TestTransfers_Sizes(t *testing.T) {
	for params, want := range map[int]string{1: "[1 131072 1]", 1000: "[1 131072 1000]", 209662: "[1 52415 209662]", 1 << 22: "[1 1048576 4194304]"} {
		if got := fmt.Sprint(Sizes(params)); got != want {
			t.Errorf("of %d: %s, want %s", params, got, want)
		}
	}
}

// A link of 20 and 5 Mbit/s with 12 ms and 30 ms besides comes out so, for a large model
// and for one that is mostly overhead; the first of each size does not count.
func TestTransfers_LinkIsFound(t *testing.T) {
	for _, params := range []int{209662, 1000, 1} {
		var all []Transfer
		for range 8 {
			for _, i := range []int{2, 0, 1} { // the size that matters first
				n := Sizes(params)[i]
				bits := 32 * float64(n)
				x := Transfer{n, 0.012 + bits/20e6, 0.030 + bits/5e6}
				if len(all) < 3 {
					x.Download, x.Upload = 100, 100
				}
				all = append(all, x)
			}
			if n, ok := fitNetwork(params, all); ok != (len(all) > 3) && params > 1 {
				t.Errorf("after %d transfers: %+v", len(all), n)
			}
		}
		n, ok := fitNetwork(params, all)
		if !ok {
			t.Fatal("nothing comes of it")
		}
		if params == 1 {
			continue // both groups of that size are one, with a warm-up in it
		}
		within(t, "download", n.Download.Mbps.Value, 20, 1e-6)
		within(t, "upload", n.Upload.Mbps.Value, 5, 1e-6)
		within(t, "besides a download", n.Download.Overhead.Value, 0.012, 0.1)
		within(t, "besides an upload", n.Upload.Overhead.Value, 0.030, 0.1)
		within(t, "a round trip", n.RoundTrip.Value, 0.030+32/5e6, 1e-6)
		within(t, "the first download besides", n.Download.FirstTask, 100-n.Download.ModelSeconds.Value, 1e-9)
		if n.Download.Vary != nil || n.Upload.Noisy {
			t.Errorf("%+v", n)
		}
	}
}
