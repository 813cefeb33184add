package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fedpace/internal/testkit/throttle"
)

// board is a device.
type board struct {
	name             string
	download, upload float64 // Mbit/s of its link
	processor        float64 // share of one
	emulated         bool

	link  *throttle.Proxy
	limit *limit
}

// site is where a deployment is measured: a folder, an address for its server, and
// links to it.
type site struct {
	dir     string
	told    io.Writer
	seconds float64
	boards  []*board
}

// prediction is what of a run's summary.json is reported.
type prediction struct {
	Rounds  int    `json:"rounds"`
	Inside  int    `json:"rounds_inside"`
	Seconds figure `json:"seconds"`
	Phases  []struct {
		Phase string `json:"phase"`
		figure
	} `json:"phases"`
}

type figure struct {
	Measured *float64 `json:"measured"`
	P50      float64  `json:"p50"`
	Ratio    *float64 `json:"ratio"`
}

// open writes the configuration, enrolls the devices and opens their links.
func (s *site) open(ctx context.Context, rounds, k0 int) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return err
	}
	var names []string
	for i := range boards {
		b := boards[i]
		names = append(names, b.name)
		if text, err := s.program(ctx, "enroll", b.name, "--keys", s.path("keys"), "--out", s.path(b.name+".creds")).CombinedOutput(); err != nil {
			return fmt.Errorf("enroll: %w: %s", err, text)
		}
		if b.link, err = throttle.Start(throttle.Config{Server: address, Download: b.download, Upload: b.upload, Latency: latency}); err != nil {
			return err
		}
		s.boards = append(s.boards, &b)
		if b.limit, err = newLimit(b.name, b.processor); err != nil {
			fmt.Fprintf(s.told, "The processor of %s is not limited: %v.\n", b.name, err)
		}
	}
	return os.WriteFile(s.path("exp.yaml"), fmt.Appendf(nil, `name: pis
task: femnist
clients: 0
devices: {names: [%s], liveness_seconds: 120}
schedule: {k: rounds, k0: %d}
stop: {rounds: %d}
evaluate: {every: %d, samples: 200}
nats: {listen: '%s'}
`, strings.Join(names, ", "), k0, rounds, rounds, address), 0o600)
}

func (s *site) close() {
	for _, b := range s.boards {
		b.link.Close()
		if b.limit != nil {
			b.limit.remove()
		}
	}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// program is a command of the coordinator's machine.
func (s *site) program(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, s.path("fedpace"), args...)
}

// device is a command of a board.
func (s *site) device(ctx context.Context, b *board, args ...string) *exec.Cmd {
	args = append(args, "--nats", "nats://"+b.link.Address(), "--client", b.name, "--creds", s.path(b.name+".creds"))
	if b.emulated {
		return exec.CommandContext(ctx, emulator, append([]string{s.path("fedpace-device-arm64")}, args...)...)
	}
	return exec.CommandContext(ctx, s.path("fedpace-device"), args...)
}

// together runs a command of the coordinator's machine and one of each board until all
// have ended, and returns the output of the first.
func (s *site) together(ctx context.Context, first *exec.Cmd, each func(*board) *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	first.Stdout = &out
	commands := []*exec.Cmd{first}
	for _, b := range s.boards {
		commands = append(commands, each(b))
	}
	said := make([]bytes.Buffer, len(commands))
	var failed error
	for i, c := range commands {
		c.Stderr = &said[i]
		if failed = c.Start(); failed != nil {
			commands = commands[:i]
			break
		}
		if b := i - 1; b >= 0 && s.boards[b].limit != nil {
			failed = errors.Join(failed, s.boards[b].limit.add(c.Process.Pid))
		}
	}
	for i, c := range commands {
		if failed != nil {
			_ = c.Process.Kill()
		}
		if err := c.Wait(); err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, said[i].String())
		}
	}
	return out.Bytes(), failed
}

// calibrate measures all boards, each through its link, and joins their classes with
// the configuration in deployment.yaml.
func (s *site) calibrate(ctx context.Context) error {
	fmt.Fprintln(s.told, "Calibrating.")
	seconds := fmt.Sprint(s.seconds)
	_, err := s.together(ctx, s.program(ctx, "calibrate", "serve", "--config", s.path("exp.yaml"), "--keys", s.path("keys"), "--seconds", seconds), func(b *board) *exec.Cmd {
		return s.device(ctx, b, "calibrate", "--name", b.name, "--out", s.path(b.name+".yaml"), "--seconds", seconds)
	})
	if err != nil {
		return err
	}
	var names, classes []string
	for _, b := range s.boards {
		text, err := os.ReadFile(s.path(b.name + ".yaml"))
		if err != nil {
			return err
		}
		_, class, found := strings.Cut(string(text), "\nfleet:\n")
		if !found {
			return fmt.Errorf("%s.yaml has no fleet:\n%s", b.name, text)
		}
		names, classes = append(names, b.name+": "+b.name), append(classes, class)
	}
	fleet := fmt.Sprintf("devices: {names: {%s}}\nfleet:\n%s", strings.Join(names, ", "), strings.Join(classes, ""))
	fmt.Fprint(s.told, fleet)
	return os.WriteFile(s.path("fleet.yaml"), []byte(fleet), 0o600)
}

// run plays the deployment once.
func (s *site) run(ctx context.Context, number int) (prediction, error) {
	fmt.Fprintf(s.told, "Run %d.\n", number)
	out := fmt.Sprintf("run%d", number)
	text, err := s.together(ctx, s.program(ctx, "run", "--config", s.path("exp.yaml"), "--config", s.path("fleet.yaml"), "--keys", s.path("keys"), "--out", s.path(out), "--json", "--quiet"), func(b *board) *exec.Cmd {
		return s.device(ctx, b, "actor", "--once", "--quiet")
	})
	if err != nil {
		return prediction{}, err
	}
	var summary struct {
		Prediction *prediction `json:"prediction"`
	}
	if err := json.Unmarshal(text, &summary); err != nil {
		return prediction{}, err
	}
	if summary.Prediction == nil {
		return prediction{}, errors.New("its summary has no prediction")
	}
	return *summary.Prediction, nil
}
