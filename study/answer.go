package study

import (
	"fmt"
	"math"
	"strings"

	"fedpace/internal/portable"
	"fedpace/learn/metric"
)

// answer says in words what a comparison found: how well the schedules ended in the metric by which
// runs are compared.
type answer struct {
	// Headline is one sentence about all comparisons with the reference.
	Headline string `json:"headline"`
	// Details has a sentence for each difference whose interval leaves out zero, first for those that
	// Holm's p decides, and at most [maxDetails]. It is empty if the headline says all.
	Details []string `json:"details"`
}

// maxDetails bounds the differences that a page has sentences for; the table has the others.
const maxDetails = 8

// answer says in sentences what a comparison of schedules has shown: a headline, and details below it. It
// looks at the differences of the rows from the reference schedule in the quantity by which runs are compared
// first, the mean of the metric over the runs' ends (their tails). Controls are no part of the answer: they
// only say what made a difference.
func (t *Table) answer(differences []Difference) answer {
	var tails []Difference
	for _, d := range differences {
		isTail := d.Quantity == tailQuantity+t.primaryMetric
		isControl := len(d.Row.Cells) > 0 && d.Row.Cells[0].Control != ""
		if isTail && !isControl && d.N > 0 {
			tails = append(tails, d)
		}
	}
	switch len(tails) {
	case 0:
		if len(differences) == 0 {
			return answer{Headline: "One schedule is compared with nothing: --schedules fixed,rounds sets two side " +
				"by side, and fedpace tune compares settings of one schedule for equal time."}
		}
		return answer{Headline: fmt.Sprintf(
			"No two runs with the same seed have a tail %s, by which schedules are compared.",
			metric.Title(t.primaryMetric),
		)}
	case 1:
		return answer{Headline: tails[0].sentence(t.Grids)}
	}
	result := answer{Headline: headline(tails)}
	var significant, undecided []Difference
	for _, d := range tails {
		if d.directionWord() != "" {
			significant = append(significant, d)
		}
		if d.mayBeChance() {
			undecided = append(undecided, d)
		}
	}
	// One significant difference is the answer, and a sentence about the others follows it.
	if len(significant) == 1 {
		result.Headline = significant[0].sentence(t.Grids)
		significant = nil
		others := len(tails) - 1 - len(undecided)
		if others > 0 {
			result.Details = append(result.Details, fmt.Sprintf("%d other %s with %s %s no difference in %s.",
				others, verb(others, "comparison", "comparisons"), tails[0].Against,
				verb(others, "shows", "show"), tails[0].title))
		}
	}
	// The headline has all that can be said of differences that were not seen. Those that may be chance stand
	// behind the significant ones.
	shown := append(significant, undecided...)
	for _, d := range shown[:min(len(shown), maxDetails)] {
		result.Details = append(result.Details, d.sentence(t.Grids))
	}
	if n := len(shown) - maxDetails; n > 0 {
		result.Details = append(result.Details, fmt.Sprintf("%d more comparisons stand in the table.", n))
	}
	return result
}

// headline returns the sentence above these differences, which are all in one quantity and against the same
// schedule: how many were seen to be better, worse, or no different, and how many may be chance. Differences
// of one seed decide nothing.
func headline(differences []Difference) string {
	first := &differences[0]
	better := 0
	worse := 0
	tested := 0
	undecided := 0
	largestEffect := 0.0
	for i := range differences {
		d := &differences[i]
		// A deviation can be estimated only from several seeds.
		if d.N > 1 {
			tested++
			largestEffect = max(largestEffect, d.farEnd())
		}
		if d.mayBeChance() {
			undecided++
		}
		switch d.directionWord() {
		case "better":
			better++
		case "worse":
			worse++
		}
	}
	switch {
	case tested == 0:
		return fmt.Sprintf("One seed decides nothing: --seeds 5 shows which schedules end better than %s in %s.",
			first.Against, first.title)
	case better+worse == 0 && largestEffect > 0:
		return fmt.Sprintf("Of %d comparisons with %s, none shows a difference in %s; effects above ±%s are unlikely.",
			len(differences), first.Against, first.title, roundedUp(largestEffect))
	}
	chance := ""
	if undecided > 0 {
		chance = fmt.Sprintf("%d may be chance, ", undecided)
	}
	others := len(differences) - better - worse - undecided
	return fmt.Sprintf("Of %d comparisons with %s in %s, %d %s better, %d worse, %sand %d %s no difference.",
		len(differences), first.Against, first.title, better, verb(better, "ends", "end"), worse, chance,
		others, verb(others, "shows", "show"))
}

// verb returns the form of a word that n things take: singular for 1, and plural otherwise.
func verb(n int, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}

// directionWord is the word for the direction in which a difference was seen, for example "better". It is empty
// if none was seen.
func (d *Difference) directionWord() string {
	switch d.significantSign() {
	case 1:
		return d.positiveWord
	case -1:
		return d.negativeWord
	}
	return ""
}

// mayBeChance reports whether the difference is not significant by Holm's p although its own interval
// excludes zero.
func (d *Difference) mayBeChance() bool {
	return d.directionWord() == "" && intervalSign(d.Estimated) != 0
}

// farEnd is the larger distance from zero of the two ends of the difference's interval: effects above it are
// unlikely.
func (d *Difference) farEnd() float64 { return math.Abs(d.Mean) + d.Half }

// roundedUp writes a positive number with two significant digits, rounded up, so that a bound on an effect
// stays a bound.
func roundedUp(v float64) string {
	// A number that has two digits already may lie a rounding error above them.
	const rounding = 1e-9
	// The unit is that of the second digit, since the first one counts the decade of v.
	unit := math.Pow10(portable.Decade(v) - 1)
	return fmt.Sprintf("%.2g", math.Ceil(v/unit-rounding)*unit)
}

// sentence says how a row's runs ended, compared with their partners with the same seeds. At least one seed
// must have a difference (d.N > 0). grids are those of the table, in the order of the row's values.
func (d *Difference) sentence(grids []Grid) string {
	name := d.Row.label(grids)
	seeds := fmt.Sprintf("%d seeds", d.N)
	if d.N < d.Row.Seeds {
		seeds = fmt.Sprintf("%d of %d seeds", d.N, d.Row.Seeds)
	}
	direction := "above"
	if d.Mean < 0 {
		direction = "below"
	}
	// The direction is in words, so that the number has no sign.
	size := d.Estimated
	size.Mean = math.Abs(size.Mean)
	ends := fmt.Sprintf("%s ends %s %s %s in %s", name, size.Digits(3), direction, d.Against, d.title)
	test := fmt.Sprintf("Holm's p = %.2g, %s", d.Adjusted, seeds)
	switch {
	case d.N == 1:
		return fmt.Sprintf("%s; one seed decides nothing.", ends)
	case d.Half == 0 && d.Mean == 0:
		return fmt.Sprintf("%s ends exactly as %s does in %s with each of %s.", name, d.Against, d.title, seeds)
	case d.Half == 0:
		return fmt.Sprintf("%s with each of %s, which leaves no interval.", ends, seeds)
	case d.significantSign() != 0:
		return fmt.Sprintf("%s, which is %s (%s)%s.", ends, d.directionWord(), test, d.explanation())
	case intervalSign(d.Estimated) != 0:
		return fmt.Sprintf("%s, which may be chance (%s).", ends, test)
	}
	return fmt.Sprintf("No difference between %s and %s is seen in %s (%s, %s); effects above ±%s are unlikely.",
		name, d.Against, d.title, d.Digits(3), seeds, roundedUp(d.farEnd()))
}

// explanation returns the end of a sentence that says what the controls show to be the reason of
// the difference. It is empty if no controls were played.
func (d *Difference) explanation() string {
	switch d.Decided {
	case "":
		return ""
	case notDecided:
		return "; the controls do not decide why"
	}
	return fmt.Sprintf("; %s explains it", d.Decided)
}

// label is the row's schedule with its values of the grids.
func (r *Row) label(grids []Grid) string {
	return r.labelled(settings(grids, r.Values, func(string) bool { return true }))
}

// labelled is the row's schedule with values of the grids in brackets, if there are any.
func (r *Row) labelled(values string) string {
	if values == "" {
		return r.Schedule
	}
	return fmt.Sprintf("%s (%s)", r.Schedule, values)
}

// settings returns the values of those grids for which shown is true, as text: "key=value;
// key=value". values[i] is the value of grids[i]; shown is asked with the key of a grid.
func settings(grids []Grid, values []string, shown func(key string) bool) string {
	var list []string
	for i, g := range grids {
		if shown(g.Key) {
			list = append(list, g.Key+"="+shortValue(values[i]))
		}
	}
	return strings.Join(list, "; ")
}
