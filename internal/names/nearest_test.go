package names

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"run", "resume", "compare", "seeds", "configuration"}
	for mistyped, want := range map[string]string{
		"rnu": "run", "seed": "seeds", "Compare": "compare", "cmopare": "compare", "confguration": "configuration",
		"conf": "configuration", "configs": "configuration",
		"x": "", "quantise": "", "": "",
	} {
		if got := Nearest(mistyped, known); got != want {
			t.Errorf("%q: %q, want %q", mistyped, got, want)
		}
	}
}

// A key that was cut short is the one that begins so, not one that is spelt like it.
func TestNearest_Beginning(t *testing.T) {
	if got := Nearest("compute.secs", []string{"compute.std", "compute.seconds_per_step"}); got != "compute.seconds_per_step" {
		t.Errorf("got %q", got)
	}
}
