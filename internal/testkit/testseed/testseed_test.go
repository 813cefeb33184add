package testseed

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

func TestDraws_Fixed(t *testing.T) {
	if slow.On() || os.Getenv("RAPID_SEED") != "" {
		t.Skip("the draws of this run are fresh ones, or those of a given seed")
	}
	if got := flag.Lookup("rapid.seed").Value.String(); got == "0" {
		t.Error("property tests draw other values in each run")
	}
}

func TestPropertyTests_UseSeed(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "fedpace/...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	users := 0
	for line := range strings.Lines(string(out)) {
		imports := strings.Fields(line)
		if !slices.Contains(imports[1:], "pgregory.net/rapid") {
			continue
		}
		users++
		if !slices.Contains(imports[1:], "fedpace/internal/testkit/testseed") {
			t.Errorf("the tests of %s import rapid, but not fedpace/internal/testkit/testseed", imports[0])
		}
	}
	if users < 20 {
		t.Errorf("%d packages with property tests were found, want more: is the list read?", users)
	}
}
