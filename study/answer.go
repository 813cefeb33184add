package study

import (
	"fmt"
	"math"
	"slices"
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

// answer says what the differences from the reference show in the quantity by which runs are compared
// first. Controls are no part of the answer: they only say what made a difference.
func (t *Table) answer(all []Difference) answer {
	var list []Difference
	for _, d := range all {
		isTail := d.Quantity == tailQuantity+t.first
		isControl := len(d.Row.Cells) > 0 && d.Row.Cells[0].Control != ""
		if isTail && !isControl && d.N > 0 {
			list = append(list, d)
		}
	}
	switch len(list) {
	case 0:
		return answer{Headline: fmt.Sprintf("No two runs with the same seed have a tail %s, by which schedules are compared.",
			metric.Title(t.first))}
	case 1:
		return answer{Headline: list[0].sentence(t.Grids)}
	}
	result := answer{Headline: headline(list)}
	decided := slices.DeleteFunc(slices.Clone(list), func(d Difference) bool { return d.change() == "" })
	// One difference that is seen is the answer, and the others are told beside it.
	if len(decided) == 1 {
		result.Headline = decided[0].sentence(t.Grids)
		decided = nil
		others := len(list) - 1
		result.Details = append(result.Details, fmt.Sprintf("%d other %s with %s %s no difference in %s.",
			others, verb(others, "comparison", "comparisons"), list[0].Than, verb(others, "shows", "show"), list[0].title))
	}
	// The headline has all that can be said of differences that were not seen. What may be chance stands
	// behind what was seen.
	chance := slices.DeleteFunc(list, func(d Difference) bool { return d.change() != "" || seen(d.Estimated) == 0 })
	shown := append(decided, chance...)
	for _, d := range shown[:min(len(shown), maxDetails)] {
		result.Details = append(result.Details, d.sentence(t.Grids))
	}
	if n := len(shown) - maxDetails; n > 0 {
		result.Details = append(result.Details, fmt.Sprintf("%d more comparisons stand in the table.", n))
	}
	return result
}

// headline returns the sentence above the differences in list, which are all in one quantity and
// against the same schedule: how many were seen to be better, worse, or no different. Differences
// of one seed decide nothing.
func headline(list []Difference) string {
	first := &list[0]
	better := 0
	worse := 0
	tested := 0
	bound := 0.0
	for i := range list {
		d := &list[i]
		// A deviation can be estimated only from several seeds.
		if d.N > 1 {
			tested++
			bound = max(bound, d.bound())
		}
		switch d.change() {
		case "better":
			better++
		case "worse":
			worse++
		}
	}
	switch {
	case tested == 0:
		return fmt.Sprintf("One seed decides nothing: --seeds 5 shows which schedules end better than %s in %s.",
			first.Than, first.title)
	case better+worse == 0 && bound > 0:
		return fmt.Sprintf("Of %d comparisons with %s, none shows a difference in %s; effects above ±%s are unlikely.",
			len(list), first.Than, first.title, upTo(bound))
	}
	return fmt.Sprintf("Of %d comparisons with %s in %s, %d %s better, %d worse, and %d %s no difference.",
		len(list), first.Than, first.title, better, verb(better, "ends", "end"), worse,
		len(list)-better-worse, verb(len(list)-better-worse, "shows", "show"))
}

// verb is the form of a word that n things take.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// change is the word for the direction in which a difference was seen, for example "better". It is empty
// if none was seen.
func (d *Difference) change() string {
	switch d.sign() {
	case 1:
		return d.more
	case -1:
		return d.less
	}
	return ""
}

// bound is the larger distance from zero of the two ends of the difference's interval.
func (d *Difference) bound() float64 { return math.Abs(d.Mean) + d.Half }

// upTo writes a positive number with two significant digits, rounded up, so that what is said of all
// smaller numbers stays true.
func upTo(v float64) string {
	unit := math.Pow10(portable.Decade(v) - 1)
	return fmt.Sprintf("%.2g", math.Ceil(v/unit-1e-9)*unit)
}

// sentence says how a row's runs ended, compared with their partners with the same seeds. The difference
// has a value with one seed at least.
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
	ends := fmt.Sprintf("%s ends %s %s %s in %s", name, size.Digits(3), direction, d.Than, d.title)
	test := fmt.Sprintf("Holm's p = %.2g, %s", d.Adjusted, seeds)
	switch {
	case d.N == 1:
		return fmt.Sprintf("%s; one seed decides nothing.", ends)
	case d.Half == 0 && d.Mean == 0:
		return fmt.Sprintf("%s ends exactly as %s does in %s with each of %s.", name, d.Than, d.title, seeds)
	case d.Half == 0:
		return fmt.Sprintf("%s with each of %s, which leaves no interval.", ends, seeds)
	case d.sign() != 0:
		return fmt.Sprintf("%s, which is %s (%s)%s.", ends, d.change(), test, d.explanation())
	case seen(d.Estimated) != 0:
		return fmt.Sprintf("%s, which may be chance (%s).", ends, test)
	}
	return fmt.Sprintf("No difference between %s and %s is seen in %s (%s, %s); effects above ±%s are unlikely.",
		name, d.Than, d.title, d.Digits(3), seeds, upTo(d.bound()))
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
