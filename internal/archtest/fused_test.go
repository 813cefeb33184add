package archtest

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// roundedPackages compute what a run's results follow from to the bit, in plain Go: what trains,
// schedules, combines, draws fleets and data, measures, solves convex problems and compares runs.
var roundedPackages = []string{
	"./learn/...",
	"./algorithm/...",
	"./coordinator/...",
	"./simclock/...",
	"./data/...",
	"./actors",
	"./actors/fleet",
	"./actors/host",
	"./experiment/convex",
	"./internal/keyed",
	"./internal/portable/...",
	"./internal/robust",
	"./internal/statistics",
	"./internal/vector",
	"./study/...",
}

// fusedLine matches an instruction of arm64 that multiplies and adds with one rounding, in what the
// compiler prints with -S. It captures the file and line of the expression.
var fusedLine = regexp.MustCompile(`\(([^()\s]+\.go:\d+)\)\s+FN?M(?:ADD|SUB)[SD]\s`)

// fused lists the places of fused instructions in the compiler's output, each once.
func fused(assembly string) []string {
	var places []string
	for _, m := range fusedLine.FindAllStringSubmatch(assembly, -1) {
		places = append(places, m[1])
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// A product that feeds an addition is rounded explicitly, as in float64(x*y) + z: the Go specification
// lets a compiler fuse the two otherwise, which the one for arm64 does and the one for amd64 does not, so
// that machines would differ in the last digit. The compiler itself is asked, because it also fuses
// where a helper that returns a product is inlined.
func TestFusedMultiplyAdd_NoneInResults(t *testing.T) {
	slow.Test(t, "it compiles packages for arm64")
	build := exec.Command("go", append([]string{"build", "-gcflags=-S"}, roundedPackages...)...)
	build.Dir = "../.."
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out[max(0, len(out)-2000):])
	}
	assembly := string(out)
	if !strings.Contains(assembly, "FMULD") {
		t.Fatal("the compiler's output has no multiplication: its form has changed")
	}
	for _, place := range fused(assembly) {
		t.Errorf("%s: a multiplication is fused with an addition (round the product: float64(x*y) + z)", place)
	}
}

// Fused instructions are found in the form in which the compiler prints them, and others are not.
func TestFused_FormOfCompiler(t *testing.T) {
	const assembly = `	0x0010 00016 (fedpace/learn/adam.go:110)	FMSUBD	F1, F2, F0, F0
	0x0014 00020 (fedpace/learn/adam.go:111)	FMULD	F1, F2, F0
	0x0018 00024 (fedpace/learn/sgd.go:9)	FNMADDS	F1, F2, F0, F0
	0x001c 00028 (fedpace/learn/sgd.go:9)	FMADDS	F1, F2, F0, F0
`
	want := []string{"fedpace/learn/adam.go:110", "fedpace/learn/sgd.go:9"}
	if got := fused(assembly); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
