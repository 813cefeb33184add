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
	"strings"
	"time"

	"fedpace/experiment/config"
	"fedpace/experiment/run"
)

// The targets, on two cores.
const (
	leastPace = 250_000 // client-rounds a second at full scale
	mostBytes = 2e9     // peak resident memory there
	mostRatio = 1.5     // dearest to cheapest client-round over the populations
)

// line is one run.
type line struct {
	name    string
	curve   bool // a point of cost against population
	target  bool // full scale
	clients int
	cohort  int
	rounds  int
	sets    []string
}

// lognormal are clients of whom each has speeds of its own.
const lognormal = "fleet=[{name: phone, seconds_per_step: {dist: lognormal, mean: 0.017, sigma: 0.5}," +
	" download_mbps: {dist: lognormal, mean: 20, sigma: 0.5}, upload_mbps: {dist: lognormal, mean: 5, sigma: 0.5}}]"

const (
	sometimes = "availability={model: bernoulli, probability: 0.3, period_seconds: 600}"
	deadline  = "close={rule: deadline, seconds: 4}"
)

func lines() (all []line) {
	for _, clients := range []int{10_000, 31_623, 100_000, 316_228, 1_000_000} {
		all = append(all, line{
			name: "deadline, 30 % available", curve: true, clients: clients, cohort: 1000, rounds: 500,
			sets: []string{lognormal, sometimes, deadline},
		})
	}
	return append(all,
		line{name: "full scale: deadline, 30 % available", target: true, clients: 1_000_000, cohort: 10_000, rounds: 100, sets: []string{lognormal, sometimes, deadline}},
		line{name: "wait for all, equal clients", clients: 1_000_000, cohort: 10_000, rounds: 100},
		line{name: "first 800 of 1000", clients: 1_000_000, cohort: 1000, rounds: 500, sets: []string{lognormal, "close={rule: first, n: 800}"}},
		line{name: "shared server, wait for all", clients: 1_000_000, cohort: 1000, rounds: 100,
			sets: []string{lognormal, "network={server_download_mbps: 5000, server_upload_mbps: 2000}"}},
		line{name: "buffered, n = 100", clients: 1_000_000, cohort: 1000, rounds: 1000, sets: []string{lognormal, "close={rule: buffered, n: 100}"}},
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
		"train=false", "clients=" + strconv.Itoa(l.clients), "cohort=" + strconv.Itoa(l.cohort),
		"stop.rounds=" + strconv.Itoa(l.rounds), "out=" + filepath.Join(dir, "run"),
	}, l.sets...))
	if err != nil {
		return err
	}
	s, err := run.Run(ctx, c, run.Options{})
	if err != nil {
		return err
	}
	m := measurement{Seconds: s.WallSeconds}
	for _, n := range s.Outcomes {
		m.Tasks += n
	}
	return json.NewEncoder(w).Encode(m)
}

// measurement is what a run came to.
type measurement struct {
	Tasks   int64   // client-rounds
	Seconds float64 // wall time, from an empty process to the summary
	CPU     float64 // processor seconds, its start and end included
	Bytes   float64 // peak resident memory; 0: not known here
}

func (m measurement) pace() float64         { return float64(m.Tasks) / m.Seconds }
func (m measurement) microseconds() float64 { return 1e6 * m.Seconds / float64(m.Tasks) }

// child is the flag that makes this program do one line.
const child = "--line"

// measure does a line so many times, each in a process of its own, and returns
// the fastest with the most memory.
func (l *line) measure(ctx context.Context, number, repeat int) (best measurement, err error) {
	self, err := os.Executable()
	if err != nil {
		return best, err
	}
	for i := range repeat {
		m, err := once(ctx, self, number)
		if err != nil {
			return best, fmt.Errorf("%s, %d clients: %w", l.name, l.clients, err)
		}
		most := max(best.Bytes, m.Bytes)
		if i == 0 || m.Seconds < best.Seconds {
			best = m
		}
		best.Bytes = most
	}
	return best, nil
}

func once(ctx context.Context, self string, number int) (m measurement, err error) {
	cmd := exec.CommandContext(ctx, self, child, strconv.Itoa(number))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return m, err
	}
	if err := json.Unmarshal([]byte(out.String()), &m); err != nil {
		return m, fmt.Errorf("%q: %w", out.String(), err)
	}
	m.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	m.Bytes = peak(cmd.ProcessState)
	return m, nil
}
