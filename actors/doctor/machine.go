package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"fedpace/actors/calibrate"
	"fedpace/actors/learn"
	"fedpace/internal/human"
)

// What a device should have free. The smallest boards have 512 MB; a model, its
// gradients and minibatches of the paper's largest task take about 60 MB.
const (
	leastMemory = 128 << 20
	leastDisk   = 64 << 20 // an external trainer's samples lie in a temporary file
)

// earliest is before every program with a doctor, so a clock that shows less is wrong.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// program says what runs where.
func program(_ context.Context, c *Config) []Finding {
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return []Finding{failure("program", err.Error(), "unset FEDPACE_KERNEL, or name a class that this machine has")}
	}
	return []Finding{ok("program", fmt.Sprintf("version %s for %s/%s, kernel class %s (%s)", c.Device.Version, runtime.GOOS, runtime.GOARCH, kernel.Class(), kernel.Instructions()))}
}

// clock checks the wall clock, by which certificates and credentials are judged. Times
// of tasks are measured by another that is never set.
func clock(context.Context, *Config) []Finding {
	now := time.Now()
	text := now.UTC().Format("2006-01-02 15:04:05 UTC")
	const mend = "set the clock, e.g. by timedatectl set-ntp true: certificates and credentials are judged by it (times of tasks are not)"
	if now.Before(earliest) {
		return []Finding{failure("clock", text+" is in the past", mend)}
	}
	if synchronized, known := clockSynchronized(); known && !synchronized {
		return []Finding{warning("clock", text+", not synchronized", mend)}
	}
	return []Finding{ok("clock", text)}
}

// room checks memory and disk, where the system tells.
func room(context.Context, *Config) (findings []Finding) {
	if free := calibrate.ThisBoard().FreeBytes(); free > 0 {
		text := human.Size(free) + " available"
		if free < leastMemory {
			findings = append(findings, warning("memory", text, "end other programs, or add swap: a model, its gradient and minibatches must fit, "+human.Size(leastMemory)+" for the paper's"))
		} else {
			findings = append(findings, ok("memory", text))
		}
	}
	dir := os.TempDir()
	if free, known := freeDisk(dir); known {
		text := human.Size(free) + " free in " + dir
		if free < leastDisk {
			findings = append(findings, warning("disk", text, "free some, or set TMPDIR: the samples for a trainer lie there"))
		} else {
			findings = append(findings, ok("disk", text))
		}
	}
	return findings
}
