package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// mostOfDevice is how many of our packages go to a real device.
const mostOfDevice = 39

// What goes to a Raspberry Pi has no server, no metrics, no linear algebra and nothing that
// draws in it, and of ours neither experiments nor the coordinator. A template would keep
// all methods of all types (see go doc text/template).
func TestDeviceProgram_Small(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "fedpace/cmd/fedpace-device").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ours := 0
	for linked := range strings.Lines(string(out)) {
		if strings.HasPrefix(linked, "fedpace/") {
			ours++
		}
		for _, heavy := range []string{
			"github.com/nats-io/nats-server/", "github.com/prometheus/", "gonum.org/", "fedpace/metrics", "fedpace/coordinator",
			"fedpace/experiment", "codeberg.org/go-fonts/", "html/template", "github.com/goccy/go-yaml",
		} {
			if strings.HasPrefix(linked, heavy) {
				t.Errorf("cmd/fedpace-device links %s", strings.TrimSpace(linked))
			}
		}
	}
	if ours > mostOfDevice {
		t.Errorf("cmd/fedpace-device links %d of our packages, want at most %d", ours, mostOfDevice)
	}
}

// A template calls methods by their names, so that the linker keeps all methods of all types: 8 MB of the program.
// Cobra has templates that the linker leaves out, as nothing sets one.
func TestProgram_NoTemplates(t *testing.T) {
	const imports = `{{$path := .ImportPath}}{{range .Imports}}{{$path}} {{.}}{{"\n"}}{{end}}`
	out, err := exec.Command("go", "list", "-deps", "-f", imports, "fedpace/cmd/fedpace").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		importer, imported, _ := strings.Cut(strings.TrimSpace(line), " ")
		isTemplate := imported == "text/template" || imported == "html/template"
		if isTemplate && importer != "github.com/spf13/cobra" {
			t.Errorf("%s imports %s", importer, imported)
		}
	}
}
