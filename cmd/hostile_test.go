package cmd

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
)

// hostileConfiguration is a configuration file of somebody else, and the path that its trainer's command makes.
func hostileConfiguration(t *testing.T) (config, executed string) {
	dir := t.TempDir()
	config = filepath.Join(dir, "hostile.yaml")
	executed = filepath.Join(dir, "executed")
	text := "clients: 5\ncohort: 2\nstop: {rounds: 1}\ntrainer: touch " + executed + "\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return config, executed
}

// played runs the command line and returns its status and all that it printed.
func played(t *testing.T, args ...string) (status int, printed string) {
	var stdout, stderr bytes.Buffer
	status = execute(t.Context(), library, args, &stdout, &stderr)
	return status, stdout.String() + stderr.String()
}

func TestDryRun_StartsNoTrainerOfFile(t *testing.T) {
	config, executed := hostileConfiguration(t)
	for _, look := range [][]string{
		{"run", "--dry-run", "--config", config},
		{"run", "--dry-run", "--json", "--config", config},
		{"data", "info", "--config", config},
		{"theory", "advise", "--config", config},
		{"compare", "--config", config, "--set", "cohort=0.5"},
		{"help", "trainer"},
	} {
		_, printed := played(t, look...)
		if _, err := os.Lstat(executed); err == nil {
			t.Fatalf("%v executes the trainer of the file: %s", look, printed)
		}
		if look[0] == "run" && !strings.Contains(strings.ReplaceAll(printed, "_", " "), "would start") {
			t.Errorf("%v does not say what it would start: %s", look, printed)
		}
	}
	_, printed := played(t, "run", "--dry-run", "--trust", "--config", config)
	if _, err := os.Lstat(executed); err != nil {
		t.Errorf("--trust starts nothing: %s", printed)
	}
}

// The page says of every command what it executes.
func TestSecurityPage_NamesEveryCommand(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## A folder from somebody else")
	section, _, _ = strings.Cut(section, "\n## ")
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			if !below.IsAvailableCommand() {
				continue
			}
			check(below)
			name := strings.TrimPrefix(below.CommandPath(), "fedpace ")
			group, _, _ := strings.Cut(name, " ")
			if !strings.Contains(section, "`"+name+"`") && !strings.Contains(section, "`"+group+"`") {
				t.Errorf("the table of what executes what does not name %s", name)
			}
		}
	}
	check(rootCommand(library))
}

func TestUI_PortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "run")
	status, printed := played(t, "run", "--quiet", "--set", "train=false", "--set", "stop.rounds=1", "--out", dir)
	if status != cli.ExitOK {
		t.Fatal(printed)
	}
	status, printed = played(t, "ui", dir, "--http", l.Addr().String())
	if status != cli.ExitFailure || !strings.Contains(printed, "by which program") {
		t.Errorf("status %d: %s", status, printed)
	}
}

// A folder's name from somebody else writes nothing on the screen but its characters.
func TestCommands_EscapeControlCharacters(t *testing.T) {
	t.Chdir(t.TempDir())
	const folder, shown = "r\x1b[2Jn", `r\x1b[2Jn`
	status, printed := played(t, "run", "--quiet", "--set", "train=false", "--set", "stop.rounds=1", "--out", "made")
	if status != cli.ExitOK {
		t.Fatal(printed)
	}
	if err := os.Rename("made", folder); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"verify none" + folder, "verify", "report", "fit", "predict", "validate", "resume", "export openmetrics",
		"export perfetto", "export dashboards", "theory errata", "ls", "run --replay", "rm --force",
	} {
		_, printed := played(t, append(strings.Fields(line), folder)...)
		if strings.Contains(printed, "\x1b") {
			t.Errorf("%s: %q", line, printed)
		}
		if line == "resume" && !strings.Contains(printed, shown) {
			t.Errorf("%s does not name the folder: %q", line, printed)
		}
	}
}

// What commands say of the files that they have written, or do not find, holds no character that a terminal obeys.
func TestResults_EscapeControlCharacters(t *testing.T) {
	t.Chdir(t.TempDir())
	const name = "r\x1b[2Jn"
	if err := os.WriteFile(name+".csv", []byte("client,x,y\na,1,0\na,2,1\nb,1,0\nb,2,1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"init NAME.csv --out NAME.yaml",
		"init NAME.none",
		"data info NAME.csv",
		"data prepare NAME.csv --client client --features x --label y --out NAME.fedpace",
		"enroll pi --keys NAME.keys --out pi.creds",
		"enroll --revoke NAME --keys NAME.keys",
		"certificate --host NAME --keys NAME.keys",
		"certificate --host here --keys NAME.keys",
		"doctor --data NAME.none",
		"man NAME",
		"plan --config NAME.none",
		"run --quiet --set train=false --set stop.rounds=1 --out NAME.run",
		"report NAME.run --out NAME.html",
		"compare --schedules fixed,dsgd --set train=false --set stop.rounds=1 --out NAME.compared",
	} {
		_, printed := played(t, strings.Fields(strings.ReplaceAll(line, "NAME", name))...)
		if printed == "" && !strings.Contains(line, "--quiet") {
			t.Errorf("%s says nothing", line)
		}
		if strings.Contains(printed, "\x1b") {
			t.Errorf("%s: %q", line, printed)
		}
	}
}

// A key in the place of a flag is answered by the nearest key and how to write it.
func TestFlags_KeysOfConfiguration(t *testing.T) {
	for flag, want := range map[string]string{
		"--rounds":        "--set stop.rounds=VALUE",
		"--epochs":        "--set schedule.unit=epochs --set schedule.k0=VALUE",
		"--lr":            "--set schedule.eta0=VALUE",
		"--learning-rate": "--set schedule.eta0=VALUE",
		"--clients":       "--set clients=VALUE",
		"--batch-size":    "--set batch=VALUE",
	} {
		status, printed := played(t, "run", flag, "5")
		if status != cli.ExitUsage || !strings.Contains(printed, "did you mean "+want+"?") {
			t.Errorf("%s: status %d: %s", flag, status, printed)
		}
	}
	_, printed := played(t, "run", "--set", "lr=0.1")
	if !strings.Contains(printed, `did you mean "schedule.eta0"?`) {
		t.Errorf("--set lr: %s", printed)
	}
}

func TestDryRun_NoUpdateInTime(t *testing.T) {
	small := []string{"run", "--dry-run", "--set", "train=false", "--set", "clients=5", "--set", "cohort=2", "--set", "stop.rounds=3"}
	for seconds, want := range map[string]bool{"0.001": true, "1000": false} {
		_, printed := played(t, append(small, "--set", "close={rule: deadline, seconds: "+seconds+"}")...)
		if got := strings.Contains(printed, "No update would count"); got != want {
			t.Errorf("a deadline of %s s: %s", seconds, printed)
		}
	}
}

func TestExpect_AcceptedAndEmptyRounds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{"run", "--quiet", "--set", "train=false", "--set", "clients=5", "--set", "cohort=2", "--set", "stop.rounds=3",
		"--set", "close={rule: deadline, seconds: 0.001}", "--out", dir}
	status, printed := played(t, append(args, "--expect", "empty_rounds >= 3", "--expect", "accepted > 0")...)
	if status != cli.ExitMissed || !strings.Contains(printed, "expected accepted > 0: it is 0") || strings.Contains(printed, "empty_rounds") {
		t.Errorf("status %d: %s", status, printed)
	}
	_, printed = played(t, "run", "--expect", "nothing_alike > 0")
	_, list, _ := strings.Cut(printed, "want one of ")
	list, _, _ = strings.Cut(list, ")")
	seen := map[string]bool{}
	for name := range strings.SplitSeq(list, ", ") {
		if seen[name] {
			t.Errorf("%s is listed twice: %s", name, list)
		}
		seen[name] = true
	}
	if !seen["accepted"] {
		t.Errorf("the values are not listed: %s", printed)
	}
}
