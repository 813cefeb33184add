//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// One signal ends each command: one that looks for it by itself, one that gets it twice at
// once, and one that hangs.
func TestProgram_OneSignalEnds(t *testing.T) {
	const marks = "FEDPACE_TEST_SIGNALLED" // the process that is the command
	if kind := os.Getenv(marks); kind != "" {
		if kind == "looks twice" {
			repeatWindow = time.Hour // however busy the machine is
		}
		Main(&cobra.Command{Use: "demo", RunE: func(c *cobra.Command, _ []string) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				return err
			}
			if kind != "hangs" {
				<-c.Context().Done()
				if kind == "looks twice" {
					if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
						return err
					}
					time.Sleep(20 * time.Millisecond)
				}
				return Interrupted{Note: "all is kept"}
			}
			select {}
		}, Args: cobra.ArbitraryArgs})
	}
	for kind, want := range map[string]string{"looks": "demo: interrupted: all is kept\n", "looks twice": "demo: interrupted: all is kept\n", "hangs": "demo: interrupted\n"} {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProgram_OneSignalEnds$")
		command.Env = append(os.Environ(), marks+"="+kind)
		said, err := command.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != ExitInterrupted || !strings.HasSuffix(string(said), want) {
			t.Errorf("a command that %s: %v, said %q, want %q", kind, err, said, want)
		}
	}
}
