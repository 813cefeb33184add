package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"fedpace/internal/robust"
)

// measurement is one run.
type measurement struct {
	cpu, wall float64 // seconds
	memory    float64 // bytes, at its peak
	scrapes   int
	frames    int // that viewers have got

	fingerprint, model string
}

// comparison is the pairs of one kind of run.
type comparison struct {
	kind           kind
	watched, alone []measurement
}

// pair measures one pair; watchedFirst says which run comes first.
func (c *comparison) pair(ctx context.Context, binary, dir string, watchedFirst bool) error {
	for _, watched := range []bool{watchedFirst, !watchedFirst} {
		m, err := c.kind.run(ctx, binary, dir, watched)
		if err != nil {
			return err
		}
		if watched {
			c.watched = append(c.watched, m)
		} else {
			c.alone = append(c.alone, m)
		}
	}
	on, off := c.watched[len(c.watched)-1], c.alone[len(c.alone)-1]
	if on.fingerprint != off.fingerprint || on.model != off.model {
		return fmt.Errorf("the run that is watched has another history: fingerprint %s, model %s; not watched %s, %s", on.fingerprint, on.model, off.fingerprint, off.model)
	}
	if on.scrapes == 0 || on.frames == 0 {
		return fmt.Errorf("nobody watched: %d scrapes, %d frames", on.scrapes, on.frames)
	}
	return nil
}

// medians are those of each quantity on its own.
func (c *comparison) medians() (watched, alone measurement) {
	of := func(list []measurement) measurement {
		return measurement{
			cpu:    median(list, func(m measurement) float64 { return m.cpu }),
			wall:   median(list, func(m measurement) float64 { return m.wall }),
			memory: median(list, func(m measurement) float64 { return m.memory }),
		}
	}
	return of(c.watched), of(c.alone)
}

func median(list []measurement, of func(measurement) float64) float64 {
	var values []float64
	for _, m := range list {
		values = append(values, of(m))
	}
	return robust.Median(values)
}

// address finds where a run is shown.
var address = regexp.MustCompile(`http://[^/\s]+`)

// run does one run in a process of its own.
func (k *kind) run(ctx context.Context, binary, dir string, watched bool) (m measurement, err error) {
	args := []string{"run", "--json", "--force", "--out", filepath.Join(dir, "run")}
	for _, s := range k.sets {
		args = append(args, "--set", s)
	}
	if watched {
		args = append(args, "--set", "http=127.0.0.1:0")
	} else {
		args = append(args, "--set", "events.sample=off")
	}
	c := exec.CommandContext(ctx, binary, args...)
	var result bytes.Buffer
	c.Stdout = &result
	stderr, err := c.StderrPipe()
	if err != nil {
		return m, err
	}
	started := time.Now()
	if err := c.Start(); err != nil {
		return m, err
	}
	var said []string
	var audience *audience
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said = append(said, lines.Text())
		if base := address.FindString(lines.Text()); base != "" && watched && audience == nil {
			audience = watch(base)
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // what a scanner did not take is of no use
	err = c.Wait()
	m.wall = time.Since(started).Seconds()
	if audience != nil {
		m.scrapes, m.frames = audience.leave()
	}
	if err != nil {
		return m, fmt.Errorf("%w: %q", err, said)
	}
	m.cpu, m.memory = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds(), peak(c.ProcessState)
	var s struct {
		Fingerprint string
		Model       string `json:"model_sha256"`
	}
	if err := json.Unmarshal(result.Bytes(), &s); err != nil {
		return m, fmt.Errorf("the summary: %w", err)
	}
	m.fingerprint, m.model = s.Fingerprint, s.Model
	return m, nil
}
