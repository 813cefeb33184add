package cmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"fedpace/bus"
	"fedpace/cmd/internal/cli"
	"fedpace/internal/testkit/slow"
)

// hostile is a folder and a configuration file from somebody else, which make the file executed if what they name is
// executed, and a place for what commands write.
type hostile struct{ folder, file, app, executed, out string }

// newHostile plays a run, and changes its configuration: it names a trainer's command and a policy, or, if it is of a
// Flower app, a Python of its own.
func newHostile(t *testing.T, isFlower bool) *hostile {
	t.Helper()
	at := t.TempDir()
	h := &hostile{
		folder:   filepath.Join(at, "runs", "received"),
		file:     filepath.Join(at, "hostile.yaml"),
		app:      filepath.Join(at, "app"),
		executed: filepath.Join(at, "executed"),
		out:      filepath.Join(at, "out"),
	}
	small := []string{"run", "--quiet", "--set", "clients=5", "--set", "cohort=2", "--set", "stop.rounds=1", "--out", h.folder}
	if status, printed := played(t, small...); status != cli.ExitOK {
		t.Fatal(printed)
	}
	policy := filepath.Join(at, "policy.py")
	python := filepath.Join(at, "python.sh")
	text := fmt.Sprintf(`clients: 5
cohort: 2
kernel: auto
network: {model_megabits: 6}
trainer: touch %s
schedule: {k: {rule: python, path: %s}}
`, h.executed, policy)
	if isFlower {
		text = fmt.Sprintf("clients: 5\ntask: flower\nflower: {app: %s, python: %s}\n", h.app, python)
	}
	if err := os.Mkdir(h.app, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		policy: fmt.Sprintf("open(%q, 'w').close()\n", h.executed),
		python: fmt.Sprintf("#!/bin/sh\ntouch %q\n", h.executed),
		h.file: text,

		filepath.Join(h.folder, "config.yaml"): text,
		filepath.Join(h.app, "pyproject.toml"): flowerProject,
		filepath.Join(h.app, "app.py"):         "",
	} {
		if err := os.WriteFile(path, []byte(content), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// flowerProject is the file by which a folder is a Flower app.
const flowerProject = `[project]
name = "app"
version = "1"
[tool.flwr.app]
publisher = "somebody"
[tool.flwr.app.components]
serverapp = "app:app"
clientapp = "app:app"
`

// plays are the command lines by which a command meets what is hostile, by its name in the table of the page, without
// --trust and without a trainer of the user's own.
func (h *hostile) plays() []struct{ name, line string } {
	return []struct{ name, line string }{
		{"ls", "ls " + h.folder},
		{"ui", "ui --http 127.0.0.1:0 " + h.folder},
		{"report", "report " + h.folder + " -o " + h.out + ".html"},
		{"export", "export dashboards " + h.out},
		{"export", "export openmetrics " + h.folder},
		{"export", "export perfetto " + h.folder},
		{"fit", "fit " + h.folder},
		{"theory", "theory advise --config " + h.file},
		{"theory", "theory advise --run " + h.folder},
		{"theory", "theory errata"},
		{"data", "data info --config " + h.file},
		{"data", "data info " + h.folder},
		{"data", "data fetch nothing-alike"},
		{"data", "data prepare " + h.folder + " --out " + h.out},
		{"data", "data partition " + h.folder + " --kind iid --out " + h.out},
		{"init", "init " + h.folder + " --out " + h.out + ".yaml"},
		{"configuration", "configuration reference"},
		{"configuration", "configuration schema"},
		{"help", "help trainer"},
		{"completion", "completion bash"},
		{"man", "man " + h.out},
		{"version", "version"},
		{"enroll", "enroll pi --keys " + h.out + " --out " + h.out + ".creds"},
		{"certificate", "certificate --host here --keys " + h.out},
		{"verify", "verify " + h.folder},
		{"run --dry-run --config FILE", "run --dry-run --set stop.rounds=1 --config " + h.file},
		{"resume", "resume " + h.folder},
		{"run --replay DIR", "run --replay " + h.folder + " --out " + h.out},
		{"predict DIR", "predict " + h.folder},
		{"validate", "validate " + h.folder},
		{"host", "host --nats nats://127.0.0.1:1"},
		{"actor", "actor --nats nats://127.0.0.1:1 --client pi"},
		{"doctor", "doctor"},
		{"run", "run --config " + h.file + " --set stop.rounds=1 --out " + h.out},
		{"coordinator", "coordinator --config " + h.file + " --set stop.rounds=1 --set nats.listen=127.0.0.1:0 --keys " + h.out + " --out " + h.out},
		{"compare", "compare --config " + h.file + " --set stop.rounds=1 --schedules fixed,dsgd --out " + h.out},
		{"tune", "tune --config " + h.file + " --set stop.rounds=1 --grid schedule.eta0=0.1,0.2 --out " + h.out},
		{"plan", "plan --config " + h.file + " --set stop.rounds=1 --out " + h.out},
		{"paper", "paper --tasks femnist --config " + h.file + " --scale 0.001 --out " + h.out},
		{"predict", "predict --config " + h.file + " --set stop.rounds=1 --set devices.names=[pi]"},
		{"calibrate", "calibrate --config " + h.file},
		{"calibrate", "calibrate serve --config " + h.file + " --devices pi --listen 127.0.0.1:0 --keys " + h.out},
		{"flower", "flower " + h.app + " --config " + h.file + " --out " + h.out},
		{"rm", "rm --force " + h.folder},
	}
}

// proofs are commands that execute what the file says, of a trainer or of a Flower app, which shows that it would do
// harm. Others of the user's own need not, such as a plan in which nothing is trained.
var proofs = map[bool]map[string]bool{false: {"run": true, "compare": true}, true: {"run": true, "flower": true}}

// waiting are the commands that wait for others until they are stopped, and execute nothing.
var waiting = map[string]bool{"ui": true, "host": true, "actor": true}

// executes plays a command line until the command ends or the file executed is there, and reports whether it is there
// then. A command that waits is stopped after some seconds.
func (h *hostile) executes(t *testing.T, name, line string) (did bool, printed string) {
	t.Helper()
	if err := os.RemoveAll(h.executed); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if waiting[name] {
		const playFor = 5 * time.Second
		ctx, stop = context.WithTimeout(ctx, playFor)
		defer stop()
	}
	go func() {
		for range bus.Ticks(ctx, 10*time.Millisecond) {
			if _, err := os.Lstat(h.executed); err == nil {
				stop()
			}
		}
	}()
	var said bytes.Buffer
	execute(ctx, library, strings.Fields(line), &said, &said)
	_, err := os.Lstat(h.executed)
	return err == nil, said.String()
}

// What the page's table says of each command is what it does with a folder and a configuration of somebody else.
func TestSecurityPage_TableHolds(t *testing.T) {
	slow.Test(t, "it plays every command")
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## A folder from somebody else")
	section, _, _ = strings.Cut(section, "\n## ")
	verdicts := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 {
			continue
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			if _, known := verdicts[name[1]]; !known {
				verdicts[name[1]] = strings.TrimSpace(cells[1])
			}
		}
	}
	met := ""
	for _, isFlower := range []bool{false, true} {
		h := newHostile(t, isFlower)
		for _, play := range h.plays() {
			met += play.line + "\n"
			verdict, known := verdicts[play.name]
			if !known {
				t.Errorf("the table does not name %s", play.name)
			}
			mayExecute := strings.HasPrefix(verdict, "yes")
			did, printed := h.executes(t, play.name, play.line)
			if did && !mayExecute || !did && proofs[isFlower][play.name] {
				t.Errorf("fedpace %s executes: %v; the page says %q:\n%s", play.line, did, verdict, printed)
			}
			// A command that is mistyped would execute nothing in any case.
			if strings.Contains(printed, "unknown flag") || strings.Contains(printed, "unknown command") {
				t.Errorf("fedpace %s is not played: %s", play.line, printed)
			}
		}
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			name := strings.TrimPrefix(below.CommandPath(), "fedpace ")
			if below.HasAvailableSubCommands() && !below.Runnable() {
				check(below)
				continue
			}
			check(below)
			isMet := strings.HasPrefix(met, name+" ") || strings.Contains(met, "\n"+name+" ") || strings.Contains(met, "\n"+name+"\n")
			if below.IsAvailableCommand() && !isMet {
				t.Errorf("fedpace %s is not played", name)
			}
		}
	}
	check(rootCommand(library))
}
