package experiment

import (
	"encoding/json"

	"fedpace/experiment/config"
)

// MarshalJSON writes the estimate as one object; what is not known is null.
func (e Estimate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Config         config.Config `json:"configuration"`
		Data           *string       `json:"data"`
		Model          *string       `json:"model"` // null: timing only
		Rounds         int           `json:"rounds"`
		VirtualSeconds float64       `json:"virtual_seconds"`
		SGDSteps       int64         `json:"sgd_steps"`
		WallSeconds    float64       `json:"wall_seconds"`
		AtMost         bool          `json:"at_most"`        // K_r follows what is learned: steps are those of K_0 throughout
		Sampled        bool          `json:"sampled"`        // rounds are not all alike: figures are carried on from some of them
		MayEndSooner   bool          `json:"may_end_sooner"` // a stop depends on what is learned
	}{
		e.Config, named(e.Data), named(e.Model), e.Rounds, e.Virtual, e.Steps, e.Wall.Seconds(), e.Upper, e.About, e.Open,
	})
}

func named(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// MarshalJSON writes the comparison as one object: what every schedule came to,
// as in its summary.json, and when it first had the loss to reach.
func (r *Comparison) MarshalJSON() ([]byte, error) {
	type run struct {
		Summary
		TimeToLoss *float64 `json:"time_to_loss"` // virtual seconds; null: never
		Diverged   *string  `json:"diverged"`     // why it came to no end; null: it did
	}
	runs := make([]run, len(r.Runs))
	for i, c := range r.Runs {
		runs[i] = run{c.Summary, Measured(c.TimeToTarget), named(c.Diverged)}
	}
	return json.Marshal(struct {
		Reference string   `json:"reference"`
		Loss      *float64 `json:"target_loss"`
		Equal     int      `json:"equal_runtime_rounds"` // 0: by other stops
		Runs      []run    `json:"runs"`
	}{r.Reference, Measured(r.TargetLoss), r.Equal, runs})
}

// MarshalJSON writes the table as one object: a row for each schedule and point
// of the grid, with the mean of every quantity over the seeds.
func (t SweepTable) MarshalJSON() ([]byte, error) {
	type mean struct {
		Mean *float64 `json:"mean"`
		Half *float64 `json:"ci95"` // half the width of the interval; null with fewer than two seeds
		N    int      `json:"n"`
	}
	type row struct {
		Schedule string            `json:"schedule"`
		Values   map[string]string `json:"values"` // of the grids, by key
		Seeds    int               `json:"seeds"`
		Diverged int               `json:"diverged"` // runs that are in no mean
		Columns  map[string]mean   `json:"means"`
	}
	rows := make([]row, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = row{r.Schedule, map[string]string{}, r.Seeds, r.Diverged, map[string]mean{}}
		for g, v := range r.Values {
			rows[i].Values[t.Grids[g].Key] = v
		}
		for q, e := range r.Columns {
			rows[i].Columns[quantities[q].name] = mean{Measured(e.Mean), Measured(e.Half), e.N}
		}
	}
	return json.Marshal(struct {
		Rows []row `json:"rows"`
	}{rows})
}
