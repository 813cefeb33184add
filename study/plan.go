package study

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fedpace/config"
	"fedpace/config/tree"
	"fedpace/internal/portable/exact"
)

// Plan spans the runs of a study: every schedule at every point of the grids, with every seed.
type Plan struct {
	// Load reads the configuration, with the given keys set as key=value.
	Load func(sets ...string) (config.Config, error)
	// Schedules are the schedules to compare. Without any, the configuration's own schedule is run.
	Schedules []string
	// BySchedule holds further keys for single schedules, as key=value, by the schedule's name.
	// Where a grid sets the same key, the grid's value wins.
	BySchedule map[string][]string
	// Grids are the keys that are varied. Their values are combined in all ways.
	Grids []Grid
	// Seeds is the number of runs with each schedule at each point, with seed, seed+1 and so on. 0
	// means one.
	Seeds int
	// Until says when further seeds are added because the first did not decide.
	Until Until
	// Controls names the [Kinds] of control runs that are added; see the function [Controls].
	Controls []string
	// Folder is the folder that holds a folder for each run. If it is empty, the configuration's
	// out is used.
	Folder string
}

// StaticLoad returns a [Plan.Load] that ignores the keys that it is to set and always gives configuration c,
// for a plan without grids.
func StaticLoad(c config.Config) func(...string) (config.Config, error) {
	return func(...string) (config.Config, error) { return c, nil }
}

// Grid is a key of the configuration with the values that it takes.
type Grid struct {
	// Key is the full name of the key, such as network.upload_mbps.
	Key string
	// Values are the values that the key takes one after the other, as text.
	Values []string
}

// ParseGrid reads "key=value,value,...", for example
// "network.upload_mbps=1,5,20". Commas within brackets do not separate. "0.01..1" are [rangeValues]
// values from 0.01 to 1, and "0.01..1/6" are six.
func ParseGrid(text string) (Grid, error) {
	key, list, ok := strings.Cut(text, "=")
	if !ok || key == "" || list == "" {
		return Grid{}, fmt.Errorf("--grid %q: want key=value,value,..., e.g. network.upload_mbps=1,5,20", text)
	}
	g := Grid{Key: key}
	// Commas within brackets belong to a value.
	parts, err := Split(list)
	for _, part := range parts {
		var values []string
		values, err = expandRange(part)
		if err != nil {
			break
		}
		g.Values = append(g.Values, values...)
	}
	if err != nil {
		return Grid{}, fmt.Errorf("--grid %q: %w", text, err)
	}
	return g, nil
}

// Split cuts a list at its commas, but for those within brackets. An empty part is an error.
func Split(list string) (parts []string, err error) {
	depth := 0
	start := 0
	// The comma that is appended ends the last part. depth counts the brackets that are open at r.
	for i, r := range list + "," {
		switch r {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			depth--
		case ',':
			if depth > 0 {
				continue
			}
			if i == start {
				return nil, errors.New("a value is empty")
			}
			parts = append(parts, list[start:i])
			start = i + 1
		}
	}
	if depth != 0 {
		return nil, errors.New("a bracket is not closed")
	}
	return parts, nil
}

// The numbers of values in a range that ParseGrid reads.
const (
	// rangeValues is the number of values in a range that gives no number itself.
	rangeValues = 4
	// maxRangeValues is the largest number of values that a range may have.
	maxRangeValues = 1000
)

// rangeForm matches LOW..HIGH and LOW..HIGH/N; its groups are the two ends and N.
var rangeForm = regexp.MustCompile(`^([0-9.]+(?:e-?[0-9]+)?)\.\.([0-9.]+(?:e-?[0-9]+)?)(?:/([0-9]+))?$`)

// expandRange lists the values of a range between two numbers above 0. Each is the same factor times the
// one before, to three digits, or a whole number where both ends are whole. Text that is no range is a
// value by itself.
func expandRange(value string) (values []string, err error) {
	parts := rangeForm.FindStringSubmatch(value)
	if parts == nil {
		return []string{value}, nil
	}
	lowText := parts[1]
	highText := parts[2]
	countText := parts[3]
	low, err := strconv.ParseFloat(lowText, 64)
	high, highErr := strconv.ParseFloat(highText, 64)
	n, countErr := strconv.Atoi(cmp.Or(countText, strconv.Itoa(rangeValues)))
	isAscending := 0 < low && low < high && high <= math.MaxFloat64
	if errors.Join(err, highErr, countErr) != nil ||
		!isAscending ||
		n < 2 ||
		n > maxRangeValues {
		return nil, fmt.Errorf(
			"%q is no range: want LOW..HIGH or LOW..HIGH/N of numbers above 0, the lower first, with N from 2 to %d",
			value,
			maxRangeValues,
		)
	}
	// The values are spaced evenly on a logarithmic scale.
	isWhole := low == math.Trunc(low) && high == math.Trunc(high)
	for i := range n {
		v := low * exact.Pow(high/low, float64(i)/float64(n-1))
		text := strconv.FormatFloat(v, 'g', 3, 64)
		switch {
		// The ends are kept as they were written.
		case i == 0:
			text = lowText
		case i == n-1:
			text = highText
		case isWhole:
			text = strconv.FormatFloat(math.Round(v), 'f', 0, 64)
		}
		// Rounding may make neighbours equal, and no run may be there twice.
		if !slices.Contains(values, text) {
			values = append(values, text)
		}
	}
	return values, nil
}

// Overridden returns an error if a key among sets chooses a schedule that is not in the list schedules of the same
// command line: the list takes the place of the chosen schedule, and the user would not notice. sets are keys as
// key=value, and configured is the schedule of the configuration after they were set.
func Overridden(sets, schedules []string, configured config.Schedule) error {
	// The key schedule may hold a whole map of keys, of which only some choose the schedule.
	for _, assignment := range sets {
		key, value, _ := strings.Cut(assignment, "=")
		chooses := choosesSchedule(key) && (key != "schedule" || choosingKey.MatchString(value))
		// A list that contains the chosen schedule, or no list, replaces nothing.
		if !chooses || len(schedules) == 0 || slices.Contains(schedules, configured.Name()) {
			continue
		}
		list := strings.Join(schedules, ",")
		return fmt.Errorf("--set %s: --schedules %s takes its place (write --schedules '%s,%s' to compare it, "+
			"too, or choose by --schedules alone)", assignment, list, list, configured.Name())
	}
	return nil
}

// choosingKey matches a key that chooses a schedule within a map of the schedule's keys.
var choosingKey = regexp.MustCompile(`[{,]\s*(k|eta|name)\s*:`)

// Names lists the names of the plan's schedules. It is nil if the plan names none, because its
// grids or the configuration choose them.
func (p *Plan) Names() (list []string) {
	for _, text := range p.Schedules {
		list = append(list, scheduleName(text))
	}
	return list
}

// scheduleName is the name of a schedule as command lines list it: "mine" of "mine=k0/2".
func scheduleName(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name
}

// IsSingle reports whether the plan has one run of each schedule.
func (p *Plan) IsSingle() bool { return len(p.Grids) == 0 && p.Seeds <= 1 }

// Cells lists the plan's runs in the order of grid values, schedules and seeds, the seeds varying
// fastest. It validates every configuration, and returns an error if two runs would compute the
// same.
func (p Plan) Cells() ([]Cell, error) {
	base, err := p.Load()
	if err != nil {
		return nil, err
	}
	if !p.IsSingle() && base.HTTP != "" {
		return nil, &config.KeyError{
			Key:     "http",
			Problem: "the runs of a sweep go side by side and cannot share one page (leave http empty)",
		}
	}
	if err := Shareable(&base); !p.IsSingle() && err != nil {
		return nil, err
	}
	var cells []Cell
	// nameBy holds the names of the cells seen so far, both by cell identity and by cell name.
	nameBy := map[string]string{}
	for cell, err := range p.Each(base, maxCells) {
		if err != nil {
			return nil, err
		}
		for _, same := range []string{cell.ID, cell.Name} {
			if name, taken := nameBy[same]; taken {
				return nil, fmt.Errorf("%q and %q are one run", name, cell.Name)
			}
			nameBy[same] = cell.Name
		}
		cells = append(cells, cell)
	}
	return cells, SameTime(cells)
}

// SameTime returns an error if schedules at one point of the grid would be compared at different virtual
// times. Where stop.equal_runtime_rounds ends the runs, each lasts as long as that many rounds with its
// own K_0, so that runs which differ in k0 or in its unit end at different times.
func SameTime(cells []Cell) error {
	// firstAt holds the first cell of each point. All others at the point are compared with it.
	firstAt := map[string]*Cell{}
	for i := range cells {
		c := &cells[i]
		point := fmt.Sprint(c.Point)
		if firstAt[point] == nil {
			firstAt[point] = c
		}
		mine := c.Config.Schedule
		theirs := firstAt[point].Config.Schedule
		hasOtherRounds := mine.K0 != theirs.K0 || mine.Unit != theirs.Unit
		if c.Config.Stop.EqualRuntimeRounds > 0 && hasOtherRounds {
			// equalTime makes stop.equal_runtime_rounds of the user's stop.rounds, which the message names.
			return &config.KeyError{
				Key: "stop.rounds",
				Problem: fmt.Sprintf("rounds of fixed K take another time with the schedule.k0 or unit of %s "+
					"than with that of %s (set stop.rounds: null and "+
					"stop.virtual_seconds)", c.Schedule, firstAt[point].Schedule),
			}
		}
	}
	return nil
}

// Each yields the plan's runs, at most limit of them, each with the error that prevents it: all combinations
// of the grids' values, with each schedule and each seed. base is the configuration without the grids. A value
// that makes no valid configuration is reported for each schedule and seed, and does not end the list.
func (p *Plan) Each(base config.Config, limit int) iter.Seq2[Cell, error] {
	return func(yield func(Cell, error) bool) {
		schedules := p.Schedules
		if len(schedules) == 0 {
			// An empty name stands for the schedule that the configuration has itself.
			schedules = []string{""}
		}
		seeds := max(1, p.Seeds)
		points, err := gridPoints(p.Grids, seeds*len(schedules), limit)
		if err != nil {
			yield(Cell{}, err)
			return
		}
		dir := cmp.Or(p.Folder, base.Out)
		for _, values := range points {
			atPoint, pointErr := p.configAt(base, values)
			for _, name := range schedules {
				c := atPoint
				err := pointErr
				// Keys of a schedule's own need another load. The grids follow them and so take
				// precedence.
				scheduleSets := p.BySchedule[scheduleName(name)]
				if len(scheduleSets) > 0 && err == nil {
					c, err = p.Load(slices.Concat(scheduleSets, Sets(p.Grids, values))...)
				}
				for n := range seeds {
					c.Seed = base.Seed + uint64(n)
					if !yield(p.cell(c, err, name, values, dir)) {
						return
					}
				}
			}
		}
	}
}

// configAt returns the configuration at a point of the grids: values[i] is the value of grid i. Without grids
// it is base.
func (p *Plan) configAt(base config.Config, values []string) (config.Config, error) {
	if len(values) == 0 {
		return base, nil
	}
	c, err := p.Load(Sets(p.Grids, values)...)
	return c, p.gridError(err)
}

// cell makes one run of the plan from the configuration c, with the named schedule or, for an empty
// name, with the configuration's own. values are the grid values, and dir is the folder that holds
// the run's folder. If err is not nil, the configuration could not be loaded: cell then returns
// that error, with what names the run.
func (p *Plan) cell(c config.Config, err error, schedule string, values []string, dir string) (Cell, error) {
	if err != nil {
		return Cell{Schedule: schedule, Values: values}, err
	}
	cell, err := newCell(c, schedule)
	parts := append([]string{cell.Schedule}, Sets(p.Grids, values)...)
	// A grid that chooses the schedule is not part of the point, because schedules are compared at
	// a point.
	for i, g := range p.Grids {
		if !choosesSchedule(g.Key) {
			cell.Point = append(cell.Point, values[i])
		}
	}
	if !p.IsSingle() {
		parts = append(parts, fmt.Sprintf("seed=%d", c.Seed))
	}
	cell.Name = strings.Join(parts, " ")
	cell.Values = values
	cell.Config.Out = filepath.Join(dir, FileName(strings.Join(parts, ",")))
	if err != nil {
		return cell, fmt.Errorf("%s: %w", cell.Name, err)
	}
	cell.ID, err = Identity(cell.Config)
	return cell, err
}

// gridError returns err with --grid in place of --set if it is about a key that a grid of the plan sets. Other
// errors, and nil, stay as they are.
func (p *Plan) gridError(err error) error {
	if err == nil {
		return nil
	}
	// The loader reports a bad value as one of --set, followed by the key and a colon.
	problem, isOfSet := strings.CutPrefix(err.Error(), tree.SetFlag+" ")
	key, _, _ := strings.Cut(problem, ":")
	for _, g := range p.Grids {
		isOfGrid := key == g.Key || strings.HasPrefix(key, g.Key+".")
		if isOfSet && isOfGrid {
			return errors.New("--grid " + problem)
		}
	}
	return err
}

// choosesSchedule reports whether a configuration's key, such as schedule.k.rule, chooses the schedule,
// as --schedules does. Other keys of the schedule, such as its unit, do not.
func choosesSchedule(key string) bool {
	return key == "schedule" ||
		key == "schedule.k" ||
		key == "schedule.eta" ||
		key == "schedule.name" ||
		strings.HasPrefix(key, "schedule.k.") ||
		strings.HasPrefix(key, "schedule.eta.")
}

// gridPoints returns all combinations of the grids' values, the last grid varying fastest. Without
// a grid it returns one empty point. runsPerPoint is the number of runs at every point; if there would be
// more than limit runs in all, it returns an error.
func gridPoints(grids []Grid, runsPerPoint, limit int) ([][]string, error) {
	all := [][]string{nil}
	if runsPerPoint > limit {
		return nil, fmt.Errorf("over %d runs; take fewer schedules or seeds", limit)
	}
	for _, g := range grids {
		// The limit is checked before the product is built, so that large grids need no memory.
		if len(all)*len(g.Values)*runsPerPoint > limit {
			return nil, fmt.Errorf("over %d runs; take fewer values", limit)
		}
		var next [][]string
		for _, prefix := range all {
			for _, v := range g.Values {
				next = append(next, append(slices.Clone(prefix), v))
			}
		}
		all = next
	}
	return all, nil
}

// Sets lists the assignments, as key=value, that the grids make at a point.
func Sets(grids []Grid, point []string) (list []string) {
	for i, v := range point {
		list = append(list, grids[i].Key+"="+v)
	}
	return list
}

// equalTime turns a stop after a number of rounds into stop.equal_runtime_rounds: every schedule then gets as much
// virtual time as fixed K takes for these rounds, or as much of what else stop.equal names, because schedules are
// compared at equal time, as in the paper. A configuration that has that stop already stays as it is.
func equalTime(c *config.Config) {
	if c.Stop.Rounds > 0 && c.Stop.EqualRuntimeRounds == 0 {
		c.Stop.EqualRuntimeRounds = c.Stop.Rounds
		c.Stop.Rounds = 0
	}
}

// unsafeInNames matches what some file system does not accept in a name.
var unsafeInNames = regexp.MustCompile(`[/\\:*?"<>|{}\[\] ]`)

// FileName turns a name into one that every file system accepts.
func FileName(name string) string { return unsafeInNames.ReplaceAllString(name, "_") }
