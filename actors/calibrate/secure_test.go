package calibrate

import (
	"bytes"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/internal/robust"
)

// The constants are times of something, and a mask of a million words takes longer than a signature.
func TestMeasureSecure_Times(t *testing.T) {
	s, err := MeasureSecure(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]robust.Estimate{"neighbour": s.Neighbour, "signature": s.Signature, "mask": s.Mask} {
		if !(e.Value > 0) || e.Low > e.Value || e.High < e.Value {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// The class file has the constants where a run's configuration reads them.
func TestWriteClass_SecureAggregation(t *testing.T) {
	r := Result{Name: "pi", Secure: &Secure{
		Neighbour: robust.Estimate{Value: 0.0025},
		Signature: robust.Estimate{Value: 0.0004},
		Mask:      robust.Estimate{Value: 0.0125},
		Members:   21,
	}}
	var b bytes.Buffer
	if err := r.WriteClass(&b); err != nil {
		t.Fatal(err)
	}
	want := "secure_aggregation: {neighbour_seconds: 0.0025, signature_seconds: 0.0004, mask_seconds: 0.0125}\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
	c, err := config.Load("", []string{"secure_aggregation={neighbour_seconds: 0.0025, signature_seconds: 0.0004, mask_seconds: 0.0125}"})
	if err != nil || c.Secure.MaskSeconds != 0.0125 {
		t.Errorf("%v, %+v", err, c.Secure)
	}
}
