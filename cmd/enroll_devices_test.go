package cmd

import (
	"os"
	"path/filepath"
	"testing"
)

// A second list adds its devices, and gives those that both name its own class.
func TestEarlierDevices_SecondList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "devices.yaml")
	none := map[string]bool{}
	if lines, err := earlierDevices(path, none); err != nil || lines != "" {
		t.Errorf("without a file: %q, %v", lines, err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(devicesHead + "    pi-porch: \"pi4\"\n    pi-hall: null\n")
	lines, err := earlierDevices(path, map[string]bool{"pi-hall": true, "pi-attic": true})
	if want := "    pi-porch: \"pi4\"\n"; err != nil || lines != want {
		t.Errorf("got %q, %v, want %q", lines, err, want)
	}
	write(devicesHead + "    pi-porch: null\n  include: sampled\n")
	if lines, err := earlierDevices(path, none); err == nil {
		t.Errorf("of a file that somebody has changed %q stays", lines)
	}
}
