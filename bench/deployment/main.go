package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"fedpace/bench/internal/process"
)

// boards are the devices, from the fastest link to the slowest.
var boards = []board{
	{name: "pi1", download: 20, upload: 5, processor: 0.25},
	{name: "pi2", download: 10, upload: 2, processor: 0.25},
	{name: "pi3", download: 5, upload: 1, processor: 0.25},
	{name: "arm", download: 20, upload: 5, processor: 0.5, emulated: true},
}

// latency of each link, one way.
const latency = 5 * time.Millisecond

// emulator runs programs for arm64; Debian's qemu-user-static has it.
const emulator = "qemu-aarch64-static"

func main() { process.Main("deployment", command) }

func command(ctx context.Context, args []string, out, told io.Writer) error {
	flags := flag.NewFlagSet("deployment", flag.ContinueOnError)
	flags.SetOutput(told)
	runs := flags.Int("runs", 3, "runs of the deployment")
	rounds := flags.Int("rounds", 20, "rounds of each")
	k0 := flags.Int("k0", 20, "local steps of the first round")
	seconds := flags.Float64("seconds", 20, "how long each device's steps and transfers are calibrated")
	if err := process.Parse(flags, args, func() bool { return *runs > 0 && *rounds > 0 && *k0 > 0 && *seconds > 0 }, "--runs, --rounds, --k0 and --seconds are above 0"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fedpace-deployment-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &site{dir: dir, told: told, seconds: *seconds}
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.open(ctx, *rounds, *k0); err != nil {
		return err
	}
	defer s.close()
	if err := s.calibrate(ctx); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	var all []prediction
	for i := range *runs {
		p, err := s.run(ctx, i+1)
		if err != nil {
			return fmt.Errorf("run %d: %w", i+1, err)
		}
		all = append(all, p)
	}
	return report(out, all)
}

// build makes the programs.
func (s *site) build(ctx context.Context) error {
	for _, p := range []struct{ name, architecture, of string }{
		{"fedpace", "", "fedpace/cmd/fedpace"}, {"fedpace-device", "", "fedpace/cmd/fedpace-device"}, {"fedpace-device-arm64", "arm64", "fedpace/cmd/fedpace-device"},
	} {
		c := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(s.dir, p.name), p.of)
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+p.architecture)
		if text, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", p.name, err, text)
		}
	}
	return nil
}

// report prints each run's time and rounds beside its prediction.
func report(out io.Writer, all []prediction) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "run\tmeasured s\tpredicted s\tratio\trounds inside 90 %\tdownload\tcompute\tupload\t")
	inside, rounds := 0, 0
	for i, p := range all {
		if p.Seconds.Measured == nil || p.Seconds.Ratio == nil {
			return fmt.Errorf("run %d has no measured time", i+1)
		}
		fmt.Fprintf(t, "%d\t%.2f\t%.2f\t%.3f\t%d of %d\t", i+1, *p.Seconds.Measured, p.Seconds.P50, *p.Seconds.Ratio, p.Inside, p.Rounds)
		for _, phase := range p.Phases {
			if phase.Ratio != nil {
				fmt.Fprintf(t, "%.3f", *phase.Ratio)
			}
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintln(t)
		inside, rounds = inside+p.Inside, rounds+p.Rounds
	}
	fmt.Fprintf(t, "all\t\t\t\t%d of %d\t\t\t\t\n", inside, rounds)
	return t.Flush()
}
