package forecast_test

import (
	"math"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/forecast"
	"fedpace/experiment/problem"
)

// A prediction's draws follow the law of the longest of three tasks, which is known: factors that
// are uniform on [1/2, 3/2] have a largest below m with probability (m - 1/2)^3. Of 99 draws the
// 5th, the 50th and the 95th smallest lie at 0.05, 0.5 and 0.95 of it in the mean (David and
// Nagaraja, Order Statistics, 2003, Section 2.1), and rounds' times are those of Eq. 3 to 5 with
// Eq. 10's K_r. Over 200 rounds the means are within five standard errors.
func TestPredictions_Distribution(t *testing.T) {
	const rounds, k0, step, down, up = 200, 64, 0.05, 20e6, 5e6
	c, err := config.Load("", []string{
		"task=sent140", "clients=8", "cohort=4", "network.download_mbps=10000", "network.upload_mbps=10000", "schedule.k0=64", "stop.rounds=200", "nats.listen=127.0.0.1:0",
		"devices.names={a: pi, b: pi, c: pi}",
		"fleet=[{name: phone, weight: 1, seconds_per_step: 0.0001}, {name: pi, download_mbps: 20, upload_mbps: 5, seconds_per_step: 0.05, vary: {compute: {dist: uniform, min: 0.5, max: 1.5}}}]",
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := problem.Prepare(t.Context(), c, true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ahead, err := forecast.Predict(t.Context(), p, rounds)
	if err != nil {
		t.Fatal(err)
	}
	if ahead.Draws != 99 || len(forecast.RoundRows(ahead.Rows)) != rounds {
		t.Fatalf("%d draws of %d rounds", ahead.Draws, len(forecast.RoundRows(ahead.Rows)))
	}
	bits := 32. * (5000*2 + 2) // Sent140's layer of Table 1
	law := func(seconds float64, r int) float64 {
		k := 1
		for k*k*k*r < k0*k0*k0 {
			k++
		}
		m := (seconds - bits/down - bits/up) / (float64(k) * step)
		return math.Pow(min(max(m-0.5, 0), 1), 3)
	}
	var mean [3]float64
	for i, row := range forecast.RoundRows(ahead.Rows) {
		for q, seconds := range []float64{row.P05, row.P50, row.P95} {
			mean[q] += law(seconds, i+1) / rounds
		}
	}
	t.Logf("the interval's ends and the median lie at %.4f", mean)
	for q, want := range []float64{0.05, 0.5, 0.95} {
		if sd := math.Sqrt(want * (1 - want) / 101 / rounds); math.Abs(mean[q]-want) > 5*sd {
			t.Errorf("the quantile %g lies at %.4f of the law, want within %.4f", want, mean[q], 5*sd)
		}
	}
}

// Draws of a setting have cohorts of their own: of ten rounds of one of two clients, whose step takes
// 1 s and 2 s, the slow one has as many as a coin shows heads.
func TestDraws_Cohorts(t *testing.T) {
	c, err := config.Load("", []string{
		"task=sent140", "train=false", "clients=2", "cohort=1", "schedule.k=fixed", "schedule.k0=1", "stop.rounds=10",
		"fleet=[{name: fast, count: 1, seconds_per_step: 1}, {name: slow, count: 1, seconds_per_step: 2}]",
	})
	if err != nil {
		t.Fatal(err)
	}
	u, err := forecast.UsageOf(t.Context(), c, round.Limits{Rounds: 10}, 99, func() {})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[float64]float64{u.Seconds.P05: 2, u.Seconds.P50: 5, u.Seconds.P95: 8} {
		if slow := at - 10*(1+0.32/20+0.32/5); math.Abs(slow-want) > 1.01 {
			t.Errorf("the slow client has %.3f rounds, want %v: %+v", slow, want, u.Seconds)
		}
	}
}
