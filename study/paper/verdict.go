package paper

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"fedpace/config"
	"fedpace/internal/human"
	"fedpace/internal/regular"
	"fedpace/internal/statistics"
	"fedpace/study"
)

// ClaimsFile lists the claims of the paper, beside the folders of curves that decide them.
const ClaimsFile = "claims.yaml"

// Claim is a statement about one quantity of runs: of the paper about a schedule, or of
// docs/paper.md about its controls. It compares either two schedules, seed by seed, or one schedule
// with a value that the paper prints.
type Claim struct {
	// Statement is the claim in words, as the table of verdicts prints it.
	Statement string `yaml:"says"`
	// Folder holds the curves. In ClaimsFile there may be several folders, with spaces between
	// them.
	Folder string `yaml:"where"`
	// Task selects the runs of one task. It may be empty where the folder has only one.
	Task config.Task `yaml:"task"`
	// Megabits selects the runs with this size of the model on the network. 0 selects all.
	Megabits float64 `yaml:"model_megabits"`
	// Quantity is one of the keys of the map quantities.
	Quantity string `yaml:"quantity"`
	// TimeShare is the share of the virtual time at which a best value is taken, from 0 to 1. 0
	// means the end.
	TimeShare float64 `yaml:"at"`
	// Schedule is the schedule that the claim is about.
	Schedule string `yaml:"schedule"`
	// Against is the schedule with which Schedule is compared. It is empty if Value is given.
	Against string `yaml:"than"`
	// Margin is the number that the difference, Schedule less Against, is claimed to be more or less than
	// (Expect), in the unit of the quantity. With more, a Margin below 0 says how far short of the other schedule
	// still counts as no worse.
	Margin float64 `yaml:"by"`
	// Value is the number that the paper prints, with its digits. It is empty if Against is given.
	Value string `yaml:"value"`
	// Expect is more, less or, for a printed value, equal: the measured figure then rounds to the
	// value.
	Expect string `yaml:"expect"`
}

// The verdicts.
const (
	Yes       = "yes"
	No        = "no"
	Undecided = "not decided"
)

// Verdict is what the runs say of a claim.
type Verdict struct {
	Claim
	// Estimated is the mean of the paired differences, or of the figure beside a printed value, with
	// its 95 % interval by Student's t.
	statistics.Estimated
	// Seeds is the number of seeds with runs. Some runs may be cut, or lack the run of the other
	// schedule.
	Seeds int
	// SignFlipP is the exact p-value of the differences, by all signs that they could have; NaN: there
	// is no comparison, or there are too many seeds.
	SignFlipP float64
	// Adjusted is the p-value of the paired t test, adjusted by Holm's method for all comparisons of
	// the list; NaN: no comparison of several seeds.
	Adjusted float64
	// Decision is Yes, No or Undecided.
	Decision string

	// bySeed holds the paired differences or, beside a printed value, the figures themselves.
	bySeed []float64
	// exact says that no seed could change the result: nothing was trained, or the counted steps
	// were the same with all seeds.
	exact bool
}

// quantities are what claims are about, by their names in ClaimsFile.
var quantities = map[string]struct {
	title string
	value func(*Curve) float64
	// point returns the quantity at an evaluation. It is nil where the quantity is only known at
	// the end.
	point func(*Point) float64
	// minDifference is the smallest mean difference that says anything.
	minDifference float64
}{
	"best_accuracy": {"best accuracy", func(c *Curve) float64 { return c.BestAccuracy },
		func(p *Point) float64 { return p.BestAccuracy }, 0},
	"tail_accuracy": {"tail accuracy", func(c *Curve) float64 { return c.TailAccuracy }, nil, 0},
	"best_loss": {"lowest training loss", func(c *Curve) float64 { return c.BestLoss },
		func(p *Point) float64 { return p.BestLoss }, 0.005},
	"relative_steps": {"SGD steps", func(c *Curve) float64 { return c.RelativeSteps }, nil, 0},
}

// ReadClaims reads the claims of a folder. A claim that names several folders of curves becomes one for
// each.
func ReadClaims(dir string) (list []Claim, err error) {
	path := filepath.Join(dir, ClaimsFile)
	text, err := regular.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	var claims []Claim
	if err := yaml.UnmarshalWithOptions(text, &claims, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("paper: %s: %w", path, err)
	}
	for i, c := range claims {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("paper: %s: claim %d, %q: %w", path, i+1, c.Statement, err)
		}
		// Each folder is decided by itself.
		for folder := range strings.FieldsSeq(c.Folder) {
			c.Folder = folder
			list = append(list, c)
		}
	}
	return list, nil
}

// check returns an error that says what is wrong with a claim as it was read from its file, nil for
// a good one. A claim compares a schedule either with another one (than) or with a printed value.
func (c *Claim) check() error {
	q, ok := quantities[c.Quantity]
	switch {
	case c.Statement == "" || strings.TrimSpace(c.Folder) == "" || c.Schedule == "":
		return errors.New("says, where and schedule are needed")
	case !ok:
		return fmt.Errorf(
			"quantity: %q, want one of best_accuracy, tail_accuracy, best_loss, relative_steps",
			c.Quantity,
		)
	case (c.Against == "") == (c.Value == ""):
		return errors.New("either than or value is needed")
	case c.Margin != 0 && c.Against == "":
		return errors.New("by: goes with than")
	case c.TimeShare < 0 || c.TimeShare > 1 || c.TimeShare > 0 && q.point == nil:
		return fmt.Errorf("at: %v, want a share of the virtual time from 0 to 1, and a best value", c.TimeShare)
	case c.Expect == "more" || c.Expect == "less":
	case c.Expect != "equal" || c.Against != "":
		return fmt.Errorf("expect: %q, want more or less, or equal to a value", c.Expect)
	}
	if c.Value == "" {
		return nil
	}
	_, _, err := c.printed()
	return err
}

// printed is the claim's value, and half a unit of its last printed digit.
func (c *Claim) printed() (value, half float64, err error) {
	value, err = strconv.ParseFloat(c.Value, 64)
	_, digits, _ := strings.Cut(c.Value, ".")
	return value, 0.5 * math.Pow10(-len(digits)), err
}

// Verdicts decides the claims in the folder dir from the curves in the folders that they name,
// relative to dir. All claims are judged together, since each test adds to the risk of a false one.
func Verdicts(dir string) ([]Verdict, error) {
	claims, err := ReadClaims(dir)
	if err != nil {
		return nil, err
	}
	loaded := map[string][]Curve{}
	var list []Verdict
	for _, c := range claims {
		// Each folder is read once, however many claims are about it.
		if loaded[c.Folder] == nil {
			loaded[c.Folder], err = Load(filepath.Join(dir, c.Folder))
			if err != nil {
				return nil, err
			}
		}
		v, err := c.measure(loaded[c.Folder])
		if err != nil {
			return nil, fmt.Errorf("paper: %q on %s: %w", c.Statement, c.Folder, err)
		}
		list = append(list, v)
	}
	decideAll(list)
	return list, nil
}

// decideAll sets Adjusted and Decision of all verdicts in list. Some of many intervals of 95 % miss the true
// value by chance, so a comparison of two schedules says yes or no only where its p-value, adjusted by Holm's
// method for all of them, is at most 0.05. A claim about a printed value has no p-value.
func decideAll(list []Verdict) {
	pValues := make([]float64, len(list))
	for i := range list {
		pValues[i] = math.NaN()
		if list[i].Against != "" {
			// The null hypothesis is that the difference of the schedules is the margin.
			beyondMargin := list[i]
			beyondMargin.Mean -= beyondMargin.Margin
			pValues[i] = beyondMargin.P()
		}
	}
	for i, adjusted := range statistics.Holm(pValues) {
		v := &list[i]
		v.Adjusted = adjusted
		isAboutPrinted := v.Value != ""
		if isAboutPrinted {
			v.Decision = v.decidePrinted()
		} else if adjusted <= 0.05 && math.Abs(v.Mean) >= quantities[v.Quantity].minDifference {
			isMore := v.Mean > v.Margin
			v.Decision = yesOrNo(isMore == (v.Expect == "more"))
		}
	}
}

// yesOrNo is the verdict of a decided claim.
func yesOrNo(isTrue bool) string {
	if isTrue {
		return Yes
	}
	return No
}

// measure measures a claim by the runs in curves: it pairs the runs of two schedules by their seeds or, for a
// claim about a printed value, takes the runs' figures themselves. The decision is still [Undecided]; decideAll
// makes it. A verdict is exact if no seed can change it: its interval has no width, and the runs train nothing or
// the claim is about numbers of steps.
func (c *Claim) measure(curves []Curve) (Verdict, error) {
	v := Verdict{Claim: *c, Decision: Undecided}
	runs := map[string][]Curve{}
	seeds := map[uint64]bool{}
	trained := false
	for _, curve := range curves {
		// The claim is about the curves of two schedules, of one task and one size of the model.
		if !c.isAbout(&curve) {
			continue
		}
		hasSeed := func(other Curve) bool { return other.Seed == curve.Seed }
		if slices.ContainsFunc(runs[curve.Schedule], hasSeed) {
			return v, fmt.Errorf(
				"several runs of %s have the seed %d (name task or model_megabits)",
				curve.Schedule,
				curve.Seed,
			)
		}
		runs[curve.Schedule] = append(runs[curve.Schedule], curve)
		seeds[curve.Seed] = true
		trained = trained || curve.Data != ""
	}
	var values []float64
	// A claim with a value holds the runs of one schedule against that value.
	comparesSchedules := c.Value == ""
	if comparesSchedules {
		values = study.Paired(runs[c.Schedule], runs[c.Against], (*Curve).seed, c.valueOf)
	} else {
		for i := range runs[c.Schedule] {
			values = append(values, c.valueOf(&runs[c.Schedule][i]))
		}
	}
	v.bySeed = values
	v.Estimated = statistics.EstimateMean(values)
	v.Seeds = len(seeds)
	v.SignFlipP = math.NaN()
	// One run that trained nothing stands for all seeds.
	if !trained && v.N == 1 {
		v.Half = 0
	}
	v.exact = v.Half == 0 && (!trained || c.Quantity == "relative_steps")
	if c.Against != "" {
		v.SignFlipP = statistics.SignFlip(values, c.Margin)
	}
	return v, nil
}

// isAbout reports whether the claim is about the curve: about its schedule or as the one to compare with, and
// about its task and its size of model, if the claim names them.
func (c *Claim) isAbout(curve *Curve) bool {
	ofSchedule := curve.Schedule == c.Schedule || curve.Schedule == c.Against
	ofTask := c.Task == "" || c.Task == curve.Task
	ofSize := c.Megabits == 0 || c.Megabits == curve.Megabits
	return ofSchedule && ofTask && ofSize
}

// seed is the curve's seed, for [study.Paired].
func (c *Curve) seed() uint64 { return c.Seed }

// valueOf returns the claim's quantity of the run with this curve, at the end or at a share of its
// virtual time. It is NaN for a run that was cut.
func (c *Claim) valueOf(curve *Curve) float64 {
	q := quantities[c.Quantity]
	if !curve.Completed {
		return math.NaN()
	}
	if c.TimeShare == 0 {
		return q.value(curve)
	}
	// The last evaluation in the share of the time counts.
	value := math.NaN()
	for i := range curve.Points {
		if curve.Points[i].VirtualSeconds <= c.TimeShare*curve.VirtualSeconds {
			value = q.point(&curve.Points[i])
		}
	}
	return value
}

// decidePrinted decides a claim about a printed value: yes or no only where the whole interval agrees. Seeds
// that happen to have equal figures leave no interval and decide nothing, unless no seed could change them.
func (v *Verdict) decidePrinted() string {
	if math.IsNaN(v.Half) || v.Half == 0 && !v.exact {
		return Undecided
	}
	low := v.Mean - v.Half
	high := v.Mean + v.Half
	// half is half a unit of the last printed digit. The error was handled when the claim was read.
	value, half, _ := v.printed()
	var holds, fails bool
	switch v.Expect {
	// A figure equals the printed value if it rounds to it.
	case "equal":
		holds = low > value-half && high < value+half
		fails = low >= value+half || high <= value-half
	case "less":
		holds = high < value
		fails = low > value
	default:
		holds = low > value
		fails = high < value
	}
	if !holds && !fails {
		return Undecided
	}
	return yesOrNo(holds)
}

// cells names the runs of the verdict for people: their folder and, if the claim has them, the task
// and the size of the model.
func (v *Verdict) cells() string {
	text := v.Folder
	if v.Task != "" {
		text += " " + string(v.Task)
	}
	if v.Megabits != 0 {
		text += fmt.Sprintf(", %v Mb", v.Megabits)
	}
	return text
}

// question returns for people what the numbers of a row are: the quantity, the schedules that are
// compared or the paper's value, and what the claim expects.
func (v *Verdict) question() string {
	text := quantities[v.Quantity].title
	if v.TimeShare > 0 {
		text += fmt.Sprintf(" after %.3g %% of the time", 100*v.TimeShare)
	}
	if v.Value != "" {
		return fmt.Sprintf("%s: %s, paper %s", v.Schedule, text, v.Value)
	}
	text += fmt.Sprintf(": %s − %s", v.Schedule, v.Against)
	if v.Margin != 0 {
		text += fmt.Sprintf(", %s than %+v", v.Expect, v.Margin)
	}
	return text
}

// seedsText is the number of seeds that decide, with the number of all where some have no value.
func (v *Verdict) seedsText() string {
	if v.N < v.Seeds {
		return fmt.Sprintf("%d of %d", v.N, v.Seeds)
	}
	return strconv.Itoa(v.N)
}

// numbers returns what a row of the table has for people: the mean, of differences between two schedules or of a figure
// beside the value that the paper prints; its interval, with enough digits to tell its ends from zero; the exact
// p-value, with a star if the number of seeds is too small for one of at most 0.05; and Holm's p-value. A number that
// is not known is "-".
func (v *Verdict) numbers() (mean, interval, exactP, holmP string) {
	if v.N == 0 {
		return "-", "-", "-", "-"
	}
	// A difference is written with its sign. A figure beside the paper's value (v.Value) is not.
	sign := "+"
	if v.Value != "" {
		sign = ""
	}
	low := v.Mean - v.Half
	high := v.Mean + v.Half
	digits := 4
	// Digits are added until neither end of the interval is rounded to zero.
	for digits < 7 && (roundsToZero(low, digits) || roundsToZero(high, digits)) {
		digits++
	}
	layout := fmt.Sprintf("%%%s.%df", sign, digits)
	mean = fmt.Sprintf(layout, v.Mean)
	interval = fmt.Sprintf(layout+" to "+layout, low, high)
	exactP = human.Known("%.2g", v.SignFlipP)
	holmP = human.Known("%.2g", v.Adjusted)
	// With N seeds the smallest two-sided p-value is 2^(1-N).
	if !math.IsNaN(v.SignFlipP) && math.Ldexp(1, 1-v.N) > 0.05 {
		exactP += "*"
	}
	switch {
	// One seed has neither an interval nor a p-value.
	case math.IsNaN(v.Half):
		interval = "-"
		exactP = "-"
	// No seed could change the result.
	case v.exact:
		interval = "exact"
	}
	return mean, interval, exactP, holmP
}

// roundsToZero reports whether a number that is not zero is written as zero with these digits.
func roundsToZero(x float64, digits int) bool {
	return x != 0 && math.Abs(x) < 0.5*math.Pow10(-digits)
}

// WriteVerdicts writes the verdicts of list to w as a table for people, a row for each claim, with
// a note on the tests.
func WriteVerdicts(w io.Writer, list []Verdict) error {
	rows := [][]any{{"the paper says", "runs", "measured", "n", "mean", "95 % interval", "exact p", "Holm's p",
		"verdict"}}
	for i := range list {
		v := &list[i]
		mean, interval, exactP, holmP := v.numbers()
		rows = append(
			rows,
			[]any{v.Statement, v.cells(), v.question(), v.seedsText(), mean, interval, exactP, holmP, v.Decision},
		)
	}
	return writeTitled(w, "Claims of the paper; paired differences over seeds, Student's t; exact p by all signs (*: "+
		"with so few seeds never below 0.05)", rows)
}
