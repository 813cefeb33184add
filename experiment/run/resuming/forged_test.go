package resuming_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpace/config"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/testkit/slow"
)

// A checkpoint with a right checksum that no run wrote ends in an error that says what to do,
// or in a run, and never in a panic.
func TestCheckpoint_Forged(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	var refused atomic.Int64
	t.Run("of", func(t *testing.T) {
		for name, sets := range map[string][]string{
			"timing only": nil,
			"shared link": {"network.server_upload_mbps=20", "network.server_download_mbps=20"},
			"training":    {"train=true", "schedule.k0=1", "select={rule: oort, seconds: 1}"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				refused.Add(forgedCheckpoints(t, sets))
			})
		}
	})
	if t.Log(refused.Load(), "refused"); refused.Load() == 0 {
		t.Error("no state was forged so that the run cannot go on")
	}
}

// forgedCheckpoints resumes a run of the configuration with these keys from forged checkpoints, and returns how many of
// them were refused as damaged.
func forgedCheckpoints(t *testing.T, sets []string) (refused int64) {
	seeds := uint64(8)
	if slow.On() {
		seeds = 25
	}
	c := pausing(t, sets...)
	stopAt(t, 1, func(ctx context.Context, o run.Options) error {
		_, err := run.Run(ctx, c, o)
		return err
	})
	c.Pace = 0
	for seed := range seeds {
		dir := copyOf(t, c.Out)
		var state checkpoint.Checkpoint
		results, err := folder.ReopenResults(dir)
		if err == nil {
			err = results.ReadCheckpoint(folder.CheckpointFile, state.Read)
		}
		forge(rand.New(rand.NewPCG(seed, 1)), reflect.ValueOf(&state.State.Machine).Elem())
		forge(rand.New(rand.NewPCG(seed, 2)), reflect.ValueOf(&state.State.Clock).Elem())
		forge(rand.New(rand.NewPCG(seed, 3)), reflect.ValueOf(&state.Body.Recorder).Elem())
		if err == nil {
			err = results.Checkpoint(false, func(w io.Writer, _ []folder.FileDigest) error {
				return state.WriteWith(w, state.Body.Outputs)
			})
		}
		if err := errors.Join(err, results.Close()); err != nil {
			t.Fatal(err)
		}
		err = resumedForRounds(t, dir, c, 100)
		again := err != nil && strings.Contains(err.Error(), "start the run again with run --config")
		if err != nil && !again && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Error("nothing says how to begin again:", err)
		}
		if again && strings.Contains(err.Error(), checkpoint.ErrDamaged.Error()) {
			refused++
		}
		t.Log(seed, err)
	}
	return refused
}

// resumedForRounds resumes the run in dir with the configuration c, and stops it after so many rounds, or after three
// seconds if it comes to none.
func resumedForRounds(t *testing.T, dir string, c config.Config, rounds int) error {
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	left := rounds
	progress := func(run.Progress) {
		left--
		if left == 0 {
			stop()
		}
	}
	_, err := run.Resume(ctx, dir, run.Options{
		Version:      "v",
		Continuation: run.Continuation{Overrides: &c},
		Callbacks:    run.Callbacks{Progress: progress},
	})
	return err
}

// forge changes some values of a state to others of their type.
func forge(random *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				forge(random, v.Field(i))
			}
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() != reflect.Uint8 { // what gob has packed already, which it refuses
				forge(random, v.Index(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			forge(random, v.Index(i))
		}
		return
	}
	if random.IntN(40) > 0 {
		return
	}
	switch n := []int64{-1, 0, 1, 7, 1 << 20, 1 << 40}[random.IntN(6)]; v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Slice:
		if v.Len() > 0 {
			v.SetLen(random.IntN(v.Len()))
		}
	}
}
