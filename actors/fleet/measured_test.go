package fleet

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The real devices, and CIFAR100's beta (Table 2) on a Raspberry Pi 4.
func TestMeasured_RealMeasurements(t *testing.T) {
	const pi = "Raspberry Pi 4"
	m, err := readMeasurements(realFile(t, "mobilenet_v2_fp16.csv"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m) != 403 {
		t.Errorf("%d devices, want 403", len(m))
	}
	d, err := m.stepTimes(0.31, pi)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(m, func(d measurement) bool { return d.device == pi })
	if m[i].milliseconds != 173 || d.Values[i] != 0.31 {
		t.Errorf("the reference takes %g ms and %g s, want 173 and 0.31", m[i].milliseconds, d.Values[i])
	}
	if j := 0; math.Abs(d.Values[j]-0.31*4.2/173) > 1e-15 {
		t.Errorf("%s takes %g s a step", m[j].device, d.Values[j])
	}
	f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{{SecondsPerStep: d}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// A fleet of them: each client keeps one of the measured step times.
	for client := range 20_000 {
		a, err := f.Durations(client, 1, 1, SameBits(0), 0)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := f.Durations(client, 2, 1, SameBits(0), 5)
		if a != b {
			t.Fatalf("client %d takes %+v, then %+v", client, a, b)
		}
		if !slices.ContainsFunc(d.Values, func(s float64) bool { return nanoseconds(s) == a.Compute }) {
			t.Fatalf("client %d takes %d ns, which no device does", client, a.Compute)
		}
	}
	if _, err := m.stepTimes(0.31, "raspberry pi 5"); err == nil || !strings.Contains(err.Error(), "did you mean Raspberry Pi 4") {
		t.Errorf("an unknown reference: %v", err)
	}
}

const measuredHeader = "device,milliseconds\n"

func TestMeasured_BadMeasurements(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty"},
		{measuredHeader, "no row after the columns"},
		{measuredHeader + "a,1\nb,2\na,3\n", `line 4: device "a" stands in line 2 already`},
		{measuredHeader + "a,0\n", "line 2: milliseconds is 0, want"},
		{measuredHeader + "a,+Inf\n", "line 2: milliseconds is +Inf"},
	} {
		if _, err := readMeasurements(strings.NewReader(c.text), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
	m := measurements{{"a", 1}, {"b", 2}}
	if _, err := m.stepTimes(1, "c"); err == nil || !strings.Contains(err.Error(), "want one of the 2 in the file") {
		t.Errorf("an unknown reference: %v", err)
	}
}

func FuzzReadMeasurements(f *testing.F) {
	f.Add(measuredHeader + "vivo iQOO Z1,4.2\nRaspberry Pi 4,173\n")
	f.Add(measuredHeader + "\"a,b\",1e-6\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := readMeasurements(strings.NewReader(text), nil)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "measured devices: ") {
				t.Fatalf("error without its place: %v", err)
			}
			return
		}
		d, err := m.stepTimes(0.1, m[0].device)
		if err != nil || d.Values[0] != 0.1 {
			t.Fatalf("%v: %v, %v", m, d, err)
		}
	})
}
