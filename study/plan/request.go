package plan

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fedpace/actors/fleet"
	"fedpace/algorithm/combine"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/forecast"
	"fedpace/experiment/problem"
	"fedpace/study"
	"fedpace/study/choice"
)

// Request says what to plan.
type Request struct {
	// ConfigFiles are the files of the configuration, as for [config.LoadFiles].
	ConfigFiles []string
	// Sets are further keys as key=value, as for [config.LoadFiles].
	Sets []string
	// Schedules are the schedules to compare. Without any, they are [Schedules] and the
	// configuration's own.
	Schedules []string
	// Grids are the keys to vary. A value may hold a part of the cohort, as in {rule: first, n:
	// 80%}. Without grids, values around the configuration's own are taken.
	Grids []study.Grid
	// Hours is the virtual time of each setting. 0 means the time of the configuration itself.
	Hours float64
	// Draws is how often the time of each setting is simulated with other random draws.
	Draws int
	// Learn is the number of settings that are trained, besides the configuration's own. With 0
	// nothing is trained.
	Learn int
	// Limits say with how many seeds these settings are trained.
	choice.Limits
	// Goal says what settings are ranked by: [Updates], [Energy] or [Target]. If it is empty, they
	// are ranked by their models at the end of equal time.
	Goal string

	// Race is a budget of processor time in seconds. Settings then race in heats within it, in place of
	// the trainings that Learn and the limits but Seeds speak of. 0 means no race.
	Race float64
	// ProcessorSeconds returns the processor time that the process has used so far, in seconds. A race needs it.
	ProcessorSeconds func() float64

	// seconds is the virtual time of each setting, as Hours or the configuration says.
	seconds float64
}

// What settings are ranked by: the time to stop.accepted updates, their energy, the time to evaluate.target.
const (
	Updates = "updates"
	Energy  = "energy"
	Target  = "target"
)

// countsUpdates reports whether every setting has the same number of updates, in place of the same time.
func (q *Request) countsUpdates() bool { return q.Goal == Updates || q.Goal == Energy }

// sortKey returns the number by which settings are sorted before anything is trained, the lowest
// first: the median time or energy of the updates, by which they are ranked, or else the negative
// priority of their training, which says only what is trained first.
func (q *Request) sortKey(s *Setting) float64 {
	switch q.Goal {
	case Updates:
		return s.Seconds.P50
	case Energy:
		return s.Joules.P50
	}
	return -s.trainingPriority()
}

// check returns an error that names the key of the configuration that the request needs and that is not
// set.
func (q *Request) check(c *config.Config) error {
	hasWatts := func(k fleet.Class) bool { return k.Watts != fleet.Watts{} }
	switch {
	case q.countsUpdates() && c.Stop.Accepted == 0:
		return &config.KeyError{
			Key:     "stop.accepted",
			Problem: "is not set, the number of updates that --for " + q.Goal + " is about",
		}
	case q.Goal == Energy && !slices.ContainsFunc(c.Fleet, hasWatts):
		return &config.KeyError{Key: "fleet", Problem: "gives no class its watts, so no energy is known"}
	case q.Goal == Target && c.Evaluate.Target == nil:
		return &config.KeyError{Key: "evaluate.target", Problem: "is not set, the level that --for target is about"}
	}
	return nil
}

// Schedules are those that a plan compares unless it is told others.
var Schedules = []string{schedule.Fixed, "rounds", "error"}

// RaceSchedules are those that a race compares besides the configuration's own, unless it is told others.
var RaceSchedules = []string{schedule.Fixed, "rounds", "auto"}

// Setting is a point of the grid.
type Setting struct {
	// Name names the setting for people, by its schedule and its values.
	Name string
	// Schedule is the name of the schedule of K.
	Schedule string
	// Values holds the setting's value for each grid.
	Values []string
	// AsConfigured marks the setting that is the configuration itself.
	AsConfigured bool

	// real is the configuration as it would be run.
	real config.Config
	// config is real with simulated clients in place of real devices.
	config config.Config

	forecast.Usage
	// Trained says what training gave. It is nil if the setting was not trained.
	Trained *Trained
}

// maxSettings bounds the points of the grid.
const maxSettings = 2000

// defaultGrids are the grids of a request without any. They vary K_0, the cohort and the closing rule
// around the configuration's. The cohort stays as it is where all clients are devices that take part in
// every round, and the closing rule where it is not all, or a cohort has fewer than three clients. races
// says that a deadline is wanted, in place of the first updates.
func (s *Setting) defaultGrids(races bool) []study.Grid {
	// The grids are about the configuration as it would be run, with its real devices.
	c := &s.real
	// sharesOf returns shares of n as whole numbers of at least 1, each once.
	sharesOf := func(n int, shares ...float64) (list []string) {
		for _, s := range shares {
			if v := fmt.Sprint(max(1, int(s*float64(n)))); !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
		return list
	}
	grids := []study.Grid{{Key: "schedule.k0", Values: sharesOf(c.Schedule.K0, 0.25, 1)}}
	takesEveryDevice := c.Clients == 0 && c.Devices.Include != config.Sampled
	if c.Cohort > 1 && !takesEveryDevice {
		grids = append(grids, study.Grid{Key: "cohort", Values: sharesOf(c.Cohort, 0.5, 1)})
	}
	_, waitsForAll := c.Close.(closing.All)
	// Where every device takes part in every round, only the simulated form (s.config) has a cohort: all of them.
	if waitsForAll && s.config.Cohort > 2 {
		closes := "{rule: first, n: 80%}"
		if races {
			closes = "{rule: formula, seconds: 1.2 * expected}"
		}
		grids = append(grids, study.Grid{Key: "close", Values: []string{"all", closes}})
	}
	return grids
}

// settings lists the points of the grid, first the configuration's own, all with the virtual time of
// the plan. It also lists the points that make no valid configuration, and why.
func (q *Request) settings(ctx context.Context) (list []*Setting, impossible []string, err error) {
	configured, err := q.configured(ctx)
	if err != nil {
		return nil, nil, err
	}
	list = []*Setting{configured}
	// Settings are compared as they are simulated (config), not as they would be run (real).
	id, err := study.Identity(configured.config)
	// byID finds settings that compute the same as one before, by the identity of their
	// configurations.
	byID := map[string]*Setting{id: configured}
	p := study.Plan{Load: q.load, Schedules: q.Schedules, Grids: q.Grids}
	points := 0
	for cell, problem := range p.Each(configured.real, maxSettings) {
		// A problem without a schedule concerns the whole grid, not one point of it. err is the failure to find the
		// identity of the point before, which ends the list as well.
		isOfGrid := problem != nil && cell.Schedule == ""
		if err != nil || isOfGrid {
			return nil, nil, fmt.Errorf("plan: %w", cmp.Or(err, problem))
		}
		points++
		s := &Setting{
			Name:     strings.Join(append([]string{cell.Schedule}, study.Sets(q.Grids, cell.Values)...), ", "),
			Schedule: cell.Schedule,
			Values:   cell.Values,
			real:     cell.Config,
		}
		if problem == nil {
			s.config, problem = Simulated(cell.Config)
		}
		// A point that gives no valid configuration is reported and left out.
		if problem != nil {
			impossible = append(impossible, fmt.Sprintf("%s: %v", s.Name, problem))
			continue
		}
		id, err = study.Identity(s.config)
		duplicate, isKnown := byID[id]
		switch {
		// A point that computes something new becomes a setting.
		case !isKnown:
			byID[id] = s
			list = append(list, s)
		// The grid contains the configuration itself, which now gets its name in the grid.
		case duplicate.AsConfigured:
			duplicate.Name = s.Name + " (as configured)"
			duplicate.Values = s.Values
		}
	}
	// If nothing of the grid is possible, the first reason is shown as the error.
	if points > 0 && len(impossible) == points {
		return nil, nil, fmt.Errorf("plan: no point of the grid is a setting: %s", impossible[0])
	}
	return list, impossible, err
}

// configured returns the setting that the request's configuration is, and settles from it what the request does
// not say: the schedules, the grids, and the virtual time of the plan.
func (q *Request) configured(ctx context.Context) (*Setting, error) {
	s := &Setting{AsConfigured: true}
	var err error
	s.real, err = config.LoadFiles(q.ConfigFiles, q.Sets)
	if err != nil {
		return nil, err
	}
	if err := q.check(&s.real); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if err := q.fitCohort(&s.real); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	s.config, err = Simulated(s.real)
	if err != nil {
		return nil, err
	}
	s.Schedule = s.real.Schedule.Name()
	s.Name = fmt.Sprintf(
		"%s, schedule.k0=%d, cohort=%d (as configured)",
		s.Schedule,
		s.real.Schedule.K0,
		s.config.Cohort,
	)
	q.fillDefaults(s)
	q.seconds = 3600 * q.Hours
	// Without hours, or with a NaN, the plan takes as long as the configuration's own run.
	if !(q.seconds > 0) {
		q.seconds, err = forecast.Budget(ctx, s.config, q.Draws, ", or give --hours")
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
	}
	q.stopAtSeconds(&s.real)
	q.stopAtSeconds(&s.config)
	return s, nil
}

// fitCohort settles a cohort that the configuration c leaves to its data (cohort: fit), in c and, as a key, in the
// request: the grid is about a number of clients. Real devices alone have a cohort of all of them (see [Simulated]).
func (q *Request) fitCohort(c *config.Config) error {
	if c.Cohort > 0 || c.DevicesAlone() {
		return nil
	}
	clients := *c
	clients.Devices = config.Demonstration().Devices
	resolved, err := problem.Resolve(clients)
	if err != nil {
		return err
	}
	c.Cohort = resolved.Cohort
	q.Sets = append(slices.Clone(q.Sets), fmt.Sprintf("cohort=%d", c.Cohort))
	return nil
}

// fillDefaults fills in the schedules and grids that the request does not give, from the setting
// configured, which is the configuration as it is. Its own schedule is always among them.
func (q *Request) fillDefaults(configured *Setting) {
	if len(q.Grids) == 0 {
		q.Grids = configured.defaultGrids(q.Race > 0)
	}
	if len(q.Schedules) == 0 {
		q.Schedules = slices.Clone(Schedules)
		if q.Race > 0 {
			q.Schedules = slices.Clone(RaceSchedules)
		}
		if name := configured.Schedule; !slices.Contains(q.Schedules, name) {
			q.Schedules = append([]string{name}, q.Schedules...)
		}
	}
}

// load reads the configuration of the request with more keys set, each as key=value, where values
// may hold shares of the cohort. Its stop is the plan's virtual time.
func (q *Request) load(sets ...string) (c config.Config, err error) {
	sets, err = q.resolveShares(sets)
	if err == nil {
		c, err = config.LoadFiles(q.ConfigFiles, slices.Concat(q.Sets, sets))
	}
	q.stopAtSeconds(&c)
	return c, err
}

// stopAtSeconds makes the runs of a configuration end at the plan's virtual time (q.seconds) in place of a number of
// rounds. Other stops of the configuration, such as stop.accepted, stay, and may end the run before.
func (q *Request) stopAtSeconds(c *config.Config) {
	c.Stop.Rounds = 0
	c.Stop.EqualRuntimeRounds = 0
	c.Stop.VirtualSeconds = q.seconds
}

// share matches a part of the cohort in a value of a grid, such as 80%.
var share = regexp.MustCompile(`\b([0-9]+)%`)

// resolveShares replaces shares of the cohort in sets, each as key=value, by numbers of clients:
// with a cohort of 10, close={rule: first, n: 80%} gets n: 8. The cohort is that of the
// configuration with those of sets that have no share.
func (q *Request) resolveShares(sets []string) ([]string, error) {
	plain := slices.DeleteFunc(slices.Clone(sets), share.MatchString)
	if len(plain) == len(sets) {
		return sets, nil
	}
	c, err := config.LoadFiles(q.ConfigFiles, slices.Concat(q.Sets, plain))
	if err != nil {
		return nil, err
	}
	cohort := c.Cohort
	// The cohort is left to the number of devices, which the simulated configuration has.
	if cohort == 0 {
		c, err = Simulated(c)
		if err != nil {
			return nil, err
		}
		cohort = c.Cohort
	}
	if cohort == 0 {
		return nil, &config.KeyError{
			Key:     "cohort",
			Problem: "is not a number, and the grid has a share of it (set cohort)",
		}
	}
	for i, s := range sets {
		sets[i] = share.ReplaceAllStringFunc(s, func(part string) string {
			// The pattern matches digits alone. Too many of them give more clients than there are,
			// which is refused later.
			percent, _ := strconv.Atoi(strings.TrimSuffix(part, "%"))
			return strconv.Itoa(max(1, cohort*percent/100))
		})
	}
	return sets, nil
}

// Simulated returns the configuration with a simulated client in the place of each real device: one client
// more of the device's class. Where all clients were devices, and a robust rule combines their updates, the
// simulated clients' updates are combined by the same rule (see [config.Config.Combining]), so that models
// end as good as the devices'. The run serves no page and does not wait for wall time (pace). Devices need a
// server that they can reach; a run that had devices gets the default server in its place. A device without a
// class is an error.
func Simulated(c config.Config) (config.Config, error) {
	c.HTTP = ""
	c.Pace = 0
	devices := len(c.Devices.Names)
	if devices == 0 {
		return c, c.Validate()
	}
	devicesAlone := c.Clients == 0
	sampled := c.Devices.Include == config.Sampled
	deviceRule := c.Combining().DeviceRule
	c.Fleet = slices.Clone(c.Fleet)
	// Each device becomes one more client of its class.
	for _, d := range c.Devices.Names {
		class := slices.IndexFunc(c.Fleet, func(k fleet.Class) bool { return k.Name == d.Class })
		if d.Class == "" || class < 0 {
			return c, &config.KeyError{
				Key: "devices.names",
				Problem: fmt.Sprintf("%s has no class, so nothing is known of its time (measure it: "+
					"fedpace-device calibrate; or make a class of a run: fedpace fit)", d.ID),
			}
		}
		c.Fleet[class].Count++
	}
	switch {
	// Without other clients, every device has a task in every round.
	case devicesAlone && (!sampled || c.Cohort == 0):
		c.Cohort = devices
	// Devices that are not sampled take part in every round, besides the cohort.
	case !devicesAlone && !sampled:
		c.Cohort += devices
	}
	c.Clients += devices
	c.Devices = config.Demonstration().Devices
	c.NATS = config.Demonstration().NATS
	// The rule of devices is for their updates alone, and rounds with too few of them go without it.
	// So it has a counterpart where all clients were devices, and only lost updates leave too few.
	fewest := closing.Fewest(c.Close, c.Cohort)
	if deviceRule != nil && devicesAlone && fewest >= combine.MinDeviceUpdates {
		c.Aggregate.Combine = deviceRule
	}
	return c, c.Validate()
}
