package run

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/cputime"
	"fedpace/internal/testkit/realdata"
	"fedpace/internal/testkit/slow"
)

// phones returns the path of a file of measured phones; without the file the test is skipped.
func phones(t testing.TB, name string) string {
	t.Helper()
	return realdata.Path(t, "traces/"+name)
}

const byPhones = "availability={model: trace, sessions: %q, columns: [phone, ready_from_s, ready_to_s], period_seconds: 518400%s}"

// Six days of 710 phones, round by round, against a simulation of its own: every phone that is there
// is asked, and drops out when it leaves before its work is done.
func TestTraces_SimulationWrittenOut(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	path := phones(t, "phone_availability.csv")
	const days, work = 6 * 86_400_000_000_000, 601_677_500_000 // nanoseconds: 6.71 Mb at 20 and 5 Mbps, and 100 steps of 6 s
	c := runtest.Small(t, "train=false", "clients=710", "cohort=710", "schedule={k: fixed, k0: 100}", "compute={seconds_per_step: 6, std: 0}",
		"stop={rounds: null, virtual_seconds: 518400}", "dropout.when_unavailable=true", fmt.Sprintf(byPhones, path, ""))
	mustRun(t, c, Options{})
	got, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}

	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	stays := map[string][][2]int64{} // by phone
	for _, row := range rows[1:] {
		from, err1 := strconv.ParseInt(row[1], 10, 64)
		to, err2 := strconv.ParseInt(row[2], 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatal(row)
		}
		stays[row[0]] = append(stays[row[0]], [2]int64{from * 1e9, min(to*1e9, days)})
	}
	at, number := int64(0), 0
	for at < days {
		next, end := int64(math.MaxInt64), at
		var there, accepted int
		for _, list := range stays {
			until := int64(-1)
			for _, s := range list {
				if s[0] >= s[1] || s[0] >= days {
					continue
				}
				if s[0] > at {
					next = min(next, s[0])
				}
				if s[0] <= at && at < s[1] {
					until = s[1]
				} else if until == s[0] { // it stays
					until = s[1]
				}
			}
			if until == days && list[0][0] == 0 { // also into the next turn
				until += list[0][1]
			}
			switch {
			case until < 0:
				continue
			case until < at+work:
				end = max(end, until)
			default:
				end = max(end, at+work)
				accepted++
			}
			there++
		}
		if there == 0 {
			at = next
			continue
		}
		if end > days {
			break // the run ends within this round
		}
		if number == len(got) {
			t.Fatalf("%d rounds, want one more from %d ns", number, at)
		}
		r := &got[number]
		if number++; int64(r.End) != end || r.Cohort != there || r.Outcomes[round.Accepted] != accepted || r.Outcomes[round.Dropped] != there-accepted {
			t.Fatalf("round %d ends at %d with %d asked, %v, want %d, %d asked, %d accepted", number, r.End, r.Cohort, r.Outcomes, end, there, accepted)
		}
		at = end
	}
	if number != len(got) || number < 500 {
		t.Errorf("%d rounds, want %d and many", len(got), number)
	}
}

// What a million clients cost in processor time, by the phones' stays and by a model with as much
// presence, in turns.
func BenchmarkMillionByTraces(b *testing.B) {
	path := phones(b, "phone_availability.csv")
	ways := []string{"availability={model: markov, on_seconds: 900, off_seconds: 11000}", fmt.Sprintf(byPhones, path, ", drawn: true, zones: [{hours: -8}, {hours: 1}, {hours: 8}]")}
	var took [2]time.Duration
	for range b.N {
		for i, way := range ways {
			c, err := config.Load("", []string{
				"task=femnist", "train=false", "clients=1000000", "cohort=1000", "schedule={k: fixed, k0: 10}", "stop.rounds=300", "dropout.when_unavailable=true", "events.sample=off", way,
				"out=" + filepath.Join(b.TempDir(), "run"),
			})
			if err != nil {
				b.Fatal(err)
			}
			used := cputime.Start()
			mustRun(b, c, Options{})
			took[i] += used()
		}
	}
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
	b.ReportMetric(took[0].Seconds()/float64(b.N), "model-cpu-s")
}
