package forecast

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/internal/human"
	"fedpace/metrics/eventlog"
)

// Growth lists the files of a run that grow with its rounds, with about how large they become.
type Growth []File

// File is a file of the run's folder and the size that is foreseen.
type File struct {
	Name  string  `json:"file"`
	Bytes float64 `json:"bytes"`
}

// rowBytes is about how many bytes a round's row in rounds.csv has.
const rowBytes = 90

// GrowthOf returns the files that this number of rounds of a run with real devices leaves. A replay of a run
// writes no log of devices.
func GrowthOf(p *problem.Problem, rounds float64, replay bool) (list Growth) {
	c := &p.Config
	devices := devicesOf(c)
	simulated := 0
	if !c.DevicesAlone() {
		simulated = c.Cohort
	}
	// Devices that are drawn are a part of the cohort; others come beside it.
	if c.DrawsDevices() {
		simulated = max(0, simulated-devices)
	}
	// Only some tasks of simulated clients are in the event log.
	simulated = min(simulated, c.Events.Sample+config.KeptSlowest)
	if !replay {
		list = append(
			list,
			File{
				devicelog.File,
				rounds * devicelog.GrowthBytes(float64(devices), float64(p.Model.Params()), c.Devices.KeepUpdates),
			},
		)
	}
	if c.Events.Sample != config.NoEvents {
		list = append(list, File{eventlog.File, eventlog.Sink(c.Events).Bytes(devices, simulated, rounds)})
	}
	return append(list, File{folder.RoundsFile, rounds * rowBytes})
}

// String lists the files that a run would leave, each with its size.
func (g Growth) String() string {
	var parts []string
	for _, f := range g {
		parts = append(parts, human.Size(int64(math.Round(f.Bytes)))+" of "+f.Name)
	}
	return strings.Join(parts, ", ")
}

// AboutGrowth says in a sentence how large the files of a run with real devices become, and that the run
// cannot be played again where the log of devices keeps no updates.
func AboutGrowth(p *problem.Problem) string {
	const isReplay = false
	text := fmt.Sprintf("A round takes about %s", GrowthOf(p, 1, isReplay))
	if n := p.Config.Stop.Rounds; n > 0 {
		text += fmt.Sprintf("; %d rounds take %s", n, GrowthOf(p, float64(n), isReplay))
	}
	if !p.Config.Devices.KeepUpdates {
		text += fmt.Sprintf(
			". %s keeps no updates, so the run cannot be played again (devices.keep_updates)",
			devicelog.File,
		)
	}
	return text + "."
}

// devicesOf returns how many real devices have a task at the same time in the run of c.
func devicesOf(c *config.Config) int {
	n := len(c.Devices.Names)
	switch {
	case closing.Overlaps(c.Close):
		return updatesOf(c.Close, c.Cohort)
	case c.DrawsDevices():
		return min(n, c.Cohort)
	}
	return n
}

// maxUpdates bounds the updates that a round waits for.
const maxUpdates = 1 << 20

// updatesOf is the least number of accepted updates with which the rule closes a round of this cohort
// before any deadline. It is maxUpdates + 1 if no number of updates does.
func updatesOf(rule closing.Rule, cohort int) int {
	return 1 + sort.Search(maxUpdates, func(n int) bool {
		return rule.Close(closing.Standing{Cohort: cohort, Accepted: n + 1})
	})
}
