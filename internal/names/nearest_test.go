package names

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"run", "resume", "compare", "seeds", "configuration"}
	for mistyped, want := range map[string]string{
		"rnu": "run", "seed": "seeds", "Compare": "compare", "cmopare": "compare", "confguration": "configuration",
		"x": "", "quantise": "", "": "",
	} {
		if got := Nearest(mistyped, known); got != want {
			t.Errorf("%q: %q, want %q", mistyped, got, want)
		}
	}
}
