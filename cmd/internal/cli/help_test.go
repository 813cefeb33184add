package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"pgregory.net/rapid"

	"fedpace/internal/testkit/installed"
)

func TestHelp_Wrapped(t *testing.T) {
	text := `A paragraph of two lines,
which is filled.

Examples:
  fedpace run --set schedule.k=error --out runs/error
  fedpace run --set 'a value with spaces which nobody breaks'

Flags:
      --out DIR    DIR for the results of the run
  -h, --help       help
`
	want := `A paragraph of two lines, which is
filled.

Examples:
  fedpace run --set schedule.k=error \
      --out runs/error
  fedpace run --set 'a value with spaces which nobody breaks'

Flags:
      --out DIR    DIR for the results
                   of the run
  -h, --help       help
`
	if diff := cmp.Diff(want, wrapped(text, 40)); diff != "" {
		t.Error(diff)
	}
	if got := wrapped("x\n"+strings.Repeat("word ", 40), 500); len(strings.Split(got, "\n")[0]) > widestHelp {
		t.Errorf("a line as wide as a wide terminal: %s", got)
	}
}

// Where there is no terminal, the environment says how wide lines are.
func TestHelp_WidthWithoutTerminal(t *testing.T) {
	for columns, want := range map[string]int{"": usualWidth, "60": 60, "wide": usualWidth, "0": usualWidth} {
		t.Setenv("COLUMNS", columns)
		if got := screenOf(new(bytes.Buffer)).width(); got != want {
			t.Errorf("COLUMNS=%s: %d columns, want %d", columns, got, want)
		}
	}
}

// Nothing is lost or added but line breaks, and what can be broken fits.
func TestHelp_WrappingLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.StringMatching(` {0,4}([a-zé]{1,9} {1,3}){0,12}[a-z]`), 1, 6).Draw(t, "lines"), "\n")
		columns := rapid.IntRange(20, 120).Draw(t, "columns")
		got := wrapped(text, columns)
		if a, b := strings.Fields(text), strings.Fields(got); !cmp.Equal(a, b) {
			t.Fatalf("%q became %q", a, b)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > columns {
				t.Fatalf("%d of %d columns: %q", n, columns, line)
			}
		}
	})
}

// A bash without the package bash-completion is told so when it loads the script.
func TestCompletion_BashWithoutPackage(t *testing.T) {
	bash := installed.Program(t, "bash", "bash")
	root := Group(&cobra.Command{Use: "fedpace"}, VersionCommand("fedpace"))
	var script bytes.Buffer
	if status := Perform(t.Context(), root, []string{"completion", "bash"}, &script, os.Stderr); status != ExitOK {
		t.Fatal(status)
	}
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, script.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	for before, want := range map[string]string{
		"": "fedpace: completion needs the package bash-completion", "_get_comp_words_by_ref() { :; }; ": "",
	} {
		said, err := exec.Command(bash, "--noprofile", "--norc", "-c", before+"source "+path).CombinedOutput()
		if err != nil || (want == "") != (len(said) == 0) || !strings.HasPrefix(string(said), want) {
			t.Errorf("%q: %v, %q, want %q", before, err, said, want)
		}
	}
}

func TestVersions(t *testing.T) {
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3":             {Main: debug.Module{Version: "v1.2.3"}},
		"0123456789ab+dirty": {Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}},
		unknownVersion:       {},
	} {
		if got := versionOf(&info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
