package device

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The real devices, and CIFAR100's beta (Table 2) on a Raspberry Pi 4.
func TestRealMeasurements(t *testing.T) {
	const pi = "Raspberry Pi 4"
	m, err := ReadMeasurements(realFile(t, "mobilenet_v2_fp16.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if len(m) != 403 {
		t.Errorf("%d devices, want 403", len(m))
	}
	d, err := m.StepTimes(0.31, pi)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(m, func(d Measurement) bool { return d.Device == pi })
	if m[i].Milliseconds != 173 || d.Values[i] != 0.31 {
		t.Errorf("the reference takes %g ms and %g s, want 173 and 0.31", m[i].Milliseconds, d.Values[i])
	}
	if j := 0; math.Abs(d.Values[j]-0.31*4.2/173) > 1e-15 {
		t.Errorf("%s takes %g s a step", m[j].Device, d.Values[j])
	}
	classes, err := m.Classes(0.31, pi, 4)
	if err != nil {
		t.Fatal(err)
	}
	total, slowest := 0.0, 0.0
	for _, k := range classes {
		total += k.Weight
		if low := slices.Min(k.SecondsPerStep.Values); low < slowest {
			t.Errorf("%s starts at %g s, the class before ends at %g", k.Name, low, slowest)
		}
		slowest = slices.Max(k.SecondsPerStep.Values)
	}
	if total != 403 || math.Abs(slowest-0.31*807/173) > 1e-15 {
		t.Errorf("%g devices, the slowest %g s", total, slowest)
	}
	f, err := NewFleet(Config{DownloadMbps: 20, UploadMbps: 5, Classes: classes}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// A fleet of them: each client keeps one of the measured step times.
	counts := make([]float64, 4)
	for client := range 20_000 {
		a, err := f.Durations(client, 1, 1, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := f.Durations(client, 2, 1, 0, 5)
		if a != b {
			t.Fatalf("client %d takes %+v, then %+v", client, a, b)
		}
		k := f.Class(client)
		counts[k]++
		if !slices.ContainsFunc(classes[k].SecondsPerStep.Values, func(s float64) bool { return nanoseconds(s) == a.Compute }) {
			t.Fatalf("client %d of %s takes %d ns, which no device of its class does", client, classes[k].Name, a.Compute)
		}
	}
	for k, n := range counts {
		p := classes[k].Weight / total
		if z := (n/20_000 - p) / math.Sqrt(p*(1-p)/20_000); math.Abs(z) > 5 {
			t.Errorf("%s has %g clients, want %g (%.1f sd)", classes[k].Name, n, 20_000*p, z)
		}
	}
	if _, err := m.StepTimes(0.31, "raspberry pi 5"); err == nil || !strings.Contains(err.Error(), "did you mean Raspberry Pi 4") {
		t.Errorf("an unknown reference: %v", err)
	}
}

const measuredHeader = "device,milliseconds\n"

func TestBadMeasurements(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty"},
		{measuredHeader, "no row after the columns"},
		{measuredHeader + "a,1\nb,2\na,3\n", `line 4: device "a" stands in line 2 already`},
		{measuredHeader + "a,0\n", "line 2: milliseconds is 0, want"},
		{measuredHeader + "a,+Inf\n", "line 2: milliseconds is +Inf"},
	} {
		if _, err := ReadMeasurements(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
	m := Measurements{{"a", 1}, {"b", 2}}
	for _, tiers := range []int{0, 3} {
		if _, err := m.Classes(1, "a", tiers); err == nil || !strings.Contains(err.Error(), "want 1 to 2") {
			t.Errorf("%d tiers of 2 devices: %v", tiers, err)
		}
	}
	if _, err := m.StepTimes(0, "a"); err == nil || !strings.Contains(err.Error(), "reference device is 0") {
		t.Errorf("no beta: %v", err)
	}
	if _, err := m.StepTimes(1, "c"); err == nil || !strings.Contains(err.Error(), "want one of the 2 in the file") {
		t.Errorf("an unknown reference: %v", err)
	}
}

func FuzzReadMeasurements(f *testing.F) {
	f.Add(measuredHeader + "vivo iQOO Z1,4.2\nRaspberry Pi 4,173\n")
	f.Add(measuredHeader + "\"a,b\",1e-6\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ReadMeasurements(strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "device: measured devices: ") {
				t.Fatalf("error without its place: %v", err)
			}
			return
		}
		d, err := m.StepTimes(0.1, m[0].Device)
		if err != nil || d.Values[0] != 0.1 {
			t.Fatalf("%v: %v, %v", m, d, err)
		}
	})
}
