package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"fedpace/actors/calibrate"
	"fedpace/actors/real"
	"fedpace/bus/natsconn"
	"fedpace/internal/human"
	"fedpace/learn"
)

// State is the severity of a finding.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failure State = "failure"
)

// Finding is the result of a check, with what to do about it.
type Finding struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Text  string `json:"text"`
	// Mend is what the user can do about it, empty if there is nothing to do.
	Mend string `json:"mend,omitempty"`
}

// Config is what is examined: a device as it would take part, and its connection to the server.
type Config struct {
	Device real.Config
	// Conn is the connection. Without a URL no server is asked.
	Conn natsconn.Config
	// Listen is how long to wait for runs that call the device. 0 means 3 s, two calls and a pause.
	Listen time.Duration

	// callingRuns are the runs of this version that call the device.
	callingRuns []string
}

// defaultListen is longer than two calls of a run to devices that are away.
const defaultListen = 3 * time.Second

// Examine makes all checks in order and reports each finding at once. It ends early only if ctx
// does.
func Examine(ctx context.Context, c Config, report func(Finding)) error {
	checks := []func(context.Context, *Config) []Finding{program, clock, resources, credentials, server, samples}
	for _, check := range checks {
		findings := check(ctx, &c)
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, f := range findings {
			report(f)
		}
	}
	return nil
}

// ok returns the finding of a check that has found no problem.
func ok(check, text string) Finding { return Finding{Check: check, State: OK, Text: text} }

// warning returns a finding that does not keep the device from taking part.
func warning(check, text, mend string) Finding { return Finding{check, Warning, text, mend} }

// failure returns a finding that keeps the device from taking part.
func failure(check, text, mend string) Finding { return Finding{check, Failure, text, mend} }

const (
	// minMemory is how many bytes of memory a device should have free. The smallest boards have 512 MB;
	// a model, its gradients and minibatches of the paper's largest task take about 60 MB.
	minMemory = 128 << 20
	// minDisk is how many bytes of disk it should have free, as an external trainer's samples lie in a
	// temporary file.
	minDisk = 64 << 20
)

// earliest is before every version with a doctor, so a clock that shows less is wrong.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// program reports the version and the kernel of this program.
func program(_ context.Context, c *Config) []Finding {
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return []Finding{failure("program", err.Error(), "unset FEDPACE_KERNEL, or name a class that this machine has")}
	}
	return []Finding{ok(
		"program",
		fmt.Sprintf(
			"version %s for %s/%s, kernel class %s (%s)",
			c.Device.Version,
			runtime.GOOS,
			runtime.GOARCH,
			kernel.Class(),
			kernel.Instructions(),
		),
	)}
}

// clock checks the wall clock, by which certificates and credentials are judged. Times of tasks
// come from a monotonic clock.
func clock(context.Context, *Config) []Finding {
	now := time.Now()
	text := now.UTC().Format("2006-01-02 15:04:05 UTC")
	const mend = "set the clock, e.g. by timedatectl set-ntp true: certificates and credentials are judged by it " +
		"(times of tasks are not)"
	if now.Before(earliest) {
		return []Finding{failure("clock", text+" is in the past", mend)}
	}
	if synchronized, supported := clockSynchronized(); supported && !synchronized {
		return []Finding{warning("clock", text+", not synchronized", mend)}
	}
	return []Finding{ok("clock", text)}
}

// resources checks free memory and disk, where the system reports them.
func resources(context.Context, *Config) (findings []Finding) {
	if free := calibrate.ThisBoard().FreeBytes(); free > 0 {
		text := human.Size(free) + " available"
		if free < minMemory {
			findings = append(
				findings,
				warning(
					"memory",
					text,
					"end other programs, or add swap: a model, its gradient and minibatches must fit, "+
						human.Size(minMemory)+" for the paper's",
				),
			)
		} else {
			findings = append(findings, ok("memory", text))
		}
	}
	dir := os.TempDir()
	if free, supported := freeDisk(dir); supported {
		text := human.Size(free) + " free in " + dir
		if free < minDisk {
			findings = append(
				findings,
				warning("disk", text, "free some, or set TMPDIR: the samples for a trainer lie there"),
			)
		} else {
			findings = append(findings, ok("disk", text))
		}
	}
	return findings
}
