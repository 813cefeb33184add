package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"fedpace/bench/internal/process"
	"fedpace/experiment/config"
	"fedpace/experiment/run"
)

// The targets, on two cores.
const (
	leastPace = 250_000 // client-rounds a second at full scale
	mostBytes = 2e9     // peak resident memory there
	mostRatio = 1.5     // dearest to cheapest client-round over the populations
)

// digits of the numbers in the CSV file.
const digits = 10

// line is a run and what it came to: a line of the table.
type line struct {
	Name    string  `csv:"run"`
	Clients int     `csv:"clients"`
	Cohort  int     `csv:"cohort"`
	Tasks   int     `csv:"client_rounds"`
	Seconds float64 `csv:"seconds"`                  // wall time, from an empty process to the summary
	Pace    float64 `csv:"client_rounds_per_second"` // client-rounds a second
	CPU     float64 `csv:"cpu_seconds"`              // its start and end included
	Bytes   float64 `csv:"peak_bytes"`               // peak resident memory; 0: not known here

	rounds int
	sets   []string
	server string // nats.url
}

// each is the part of a client-round, in microseconds.
func (l *line) each(seconds float64) float64 { return 1e6 * seconds / float64(l.Tasks) }

// populations are those of the first lines, whose costs make a curve. The line
// behind them is full scale.
var populations = []int{10_000, 31_623, 100_000, 316_228, 1_000_000}

// lognormal are clients of whom each has speeds of its own.
const lognormal = "fleet=[{name: phone, seconds_per_step: {dist: lognormal, mean: 0.017, sigma: 0.5}," +
	" download_mbps: {dist: lognormal, mean: 20, sigma: 0.5}, upload_mbps: {dist: lognormal, mean: 5, sigma: 0.5}}]"

const (
	sometimes = "availability={model: bernoulli, probability: 0.3, period_seconds: 600}"
	deadline  = "close={rule: deadline, seconds: 4}"
)

func lines() (all []line) {
	const million = 1_000_000
	bernoulli := []string{lognormal, sometimes, deadline}
	for _, clients := range populations {
		all = append(all, line{Name: "deadline, 30 % available", Clients: clients, Cohort: 1000, rounds: 500, sets: bernoulli})
	}
	return append(all,
		line{Name: "full scale: deadline, 30 % available", Clients: million, Cohort: 10_000, rounds: 100, sets: bernoulli},
		line{Name: "wait for all, equal clients", Clients: million, Cohort: 10_000, rounds: 100},
		line{Name: "first 800 of 1000", Clients: million, Cohort: 1000, rounds: 500, sets: []string{lognormal, "close={rule: first, n: 800}"}},
		line{Name: "shared server, wait for all", Clients: million, Cohort: 1000, rounds: 100,
			sets: []string{lognormal, "network={server_download_mbps: 5000, server_upload_mbps: 2000}"}},
		line{Name: "buffered, n = 100", Clients: million, Cohort: 1000, rounds: 1000, sets: []string{lognormal, "close={rule: buffered, n: 100}"}},
	)
}

// run does a line's run in this process and writes what it came to.
func (l *line) run(ctx context.Context, w io.Writer) error {
	dir, err := os.MkdirTemp("", "fedpace-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := config.Load("", append([]string{
		"train=false", "nats.url=" + l.server, "clients=" + strconv.Itoa(l.Clients), "cohort=" + strconv.Itoa(l.Cohort),
		"stop.rounds=" + strconv.Itoa(l.rounds), "out=" + filepath.Join(dir, "run"),
	}, l.sets...))
	if err != nil {
		return err
	}
	s, err := run.Run(ctx, c, run.Options{})
	if err != nil {
		return err
	}
	m := line{Seconds: s.WallSeconds}
	for _, n := range s.Outcomes {
		m.Tasks += int(n)
	}
	return json.NewEncoder(w).Encode(m)
}

// child is the flag that makes this program do one line.
const child = "--line"

// measure does a line so many times, each in a process of its own, and keeps the
// fastest with the most memory.
func (l *line) measure(ctx context.Context, number int, server string, repeat int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range repeat {
		cmd := exec.CommandContext(ctx, self, child, strconv.Itoa(number), "--nats", server)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay, cmd.Stderr = 10*time.Second, os.Stderr
		var m line
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &m)
		}
		if err != nil {
			return fmt.Errorf("%s, %d clients: %w: %q", l.Name, l.Clients, err, out)
		}
		l.Bytes = max(l.Bytes, process.Peak(cmd.ProcessState))
		if i == 0 || m.Seconds < l.Seconds {
			l.Tasks, l.Seconds, l.CPU, l.Pace = m.Tasks, m.Seconds, process.CPU(cmd.ProcessState), float64(m.Tasks)/m.Seconds
		}
	}
	return nil
}
