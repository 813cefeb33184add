package simclock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// At pace 60 a virtual minute takes a wall second, wherever the run begins.
func TestPacer_KeepsPace(t *testing.T) {
	for _, origin := range []Time{0, 1e12} {
		synctest.Test(t, func(t *testing.T) {
			p := NewPacer(60, origin)
			start := time.Now()
			for minute := range Time(5) {
				if err := p.Wait(t.Context(), origin+minute*60e9); err != nil {
					t.Fatal(err)
				}
				if got, want := time.Since(start), time.Duration(minute)*time.Second; got != want {
					t.Errorf("minute %d came after %v, want %v", minute, got, want)
				}
				if p.Lag() != 0 {
					t.Errorf("lag %v at minute %d, want none", p.Lag(), minute)
				}
			}
		})
	}
}

// A run that falls behind does not wait until it has caught up, and says so.
func TestPacer_Lag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPacer(2, 0)
		start := time.Now()
		time.Sleep(10 * time.Second) // virtual time should be 20 s
		for _, step := range []struct {
			at      Time
			lag     time.Duration
			elapsed time.Duration
		}{
			{4e9, 8 * time.Second, 10 * time.Second},
			{16e9, 2 * time.Second, 10 * time.Second},
			{20e9, 0, 10 * time.Second},
			{30e9, 0, 15 * time.Second},
		} {
			if err := p.Wait(t.Context(), step.at); err != nil {
				t.Fatal(err)
			}
			if p.Lag() != step.lag || time.Since(start) != step.elapsed {
				t.Errorf("at %v: lag %v after %v, want %v after %v", time.Duration(step.at), p.Lag(), time.Since(start), step.lag, step.elapsed)
			}
		}
	})
}

func TestPacer_Free(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPacer(0, 0)
		start := time.Now()
		if err := p.Wait(t.Context(), Never); err != nil || time.Since(start) != 0 || p.Lag() != 0 {
			t.Errorf("running free waited %v, lag %v, error %v", time.Since(start), p.Lag(), err)
		}
	})
}

func TestPacer_Stops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		p := NewPacer(1e-9, 0) // the time of the event is beyond what a Duration holds
		if err := p.Wait(ctx, Never); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("stopped with %v after %v, want the deadline after 3s", err, time.Since(start))
		}
		over, stop := context.WithCancel(context.Background())
		stop()
		for _, pace := range []float64{0, 1} {
			if err := NewPacer(pace, 0).Wait(over, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("pace %v: %v in a context that has ended", pace, err)
			}
		}
	})
}
