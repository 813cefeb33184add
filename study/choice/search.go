package choice

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"fedpace/internal/statistics"
)

// Limits say how many seeds a search spends.
type Limits struct {
	// Seeds is the number of seeds with which every setting is tried. It is at least 1.
	Seeds int
	// MaxSeeds is the largest number of seeds with which a setting is tried in the search. A value below
	// Seeds means Seeds.
	MaxSeeds int
	// Fresh is the number of further seeds that confirm the choice. With 0 nothing is confirmed.
	Fresh int
}

// Total is the number of different seeds that a search may use: seeds 0 to Total-1.
func (l Limits) Total() int { return l.searchSeeds() + l.Fresh }

// searchSeeds is the largest number of seeds with which the search tries a setting, without the fresh ones.
func (l Limits) searchSeeds() int { return max(l.Seeds, l.MaxSeeds) }

// stages is the largest number of stages of the search, in each of which settings are tested once. The number
// of seeds doubles from stage to stage.
func (l Limits) stages() int {
	stages := 1
	for seeds := l.Seeds; seeds < l.searchSeeds(); seeds *= 2 {
		stages++
	}
	return stages
}

// Play tries the settings at these indices with count seeds from seed first on. It returns a list for each
// setting, in the order of the argument, with an error for each seed. An error is NaN if the run has no
// result, for example because it diverged.
type Play func(settings []int, first, count int) ([][]float64, error)

// Standing is what a search found out about one setting.
type Standing struct {
	// Setting is the index of the setting.
	Setting int
	// Searched holds the error for each seed of the search with which the setting was tried.
	Searched []float64
	// Fresh holds the error for each fresh seed. It is empty if the setting was not tried with them.
	Fresh []float64
	// Behind is by how much the setting's error exceeds that of the chosen setting, over the seeds that
	// both have, with the 95 % interval of the paired differences. It is zero for the chosen setting.
	Behind statistics.Estimated
	// Distinct reports whether the interval of Behind excludes zero, so that the two are told apart.
	Distinct bool
	// SeedsToDecide is the number of seeds with which an interval of the width seen here would exclude zero. It
	// is [Unknown] if the seeds say nothing about it.
	SeedsToDecide int
}

// Unknown is the value of [Standing.SeedsToDecide] where the seeds do not say how many would be needed: both
// settings have equal errors, or fewer than two seeds have both.
const Unknown = 0

// Outcome is the result of a search.
type Outcome struct {
	// Standings has all settings, the chosen one first, then those tried with fresh seeds, then those
	// with more seeds, each from the lowest mean error to the highest.
	Standings []Standing
	// Confirmed reports whether no other setting is better with the fresh seeds alone: has fewer runs
	// without a result or, with as many, a lower mean error. It is false without fresh seeds.
	Confirmed bool
	// Trials is the number of runs that the search used.
	Trials int
}

// Chosen is the standing of the setting that is recommended.
func (o *Outcome) Chosen() *Standing { return &o.Standings[0] }

// Search finds the setting with the lowest error. settings is the number of settings, which are
// numbered from 0; limits say with how many seeds they are tried, and play tries them. The settings
// in alwaysFresh are tried with fresh seeds whatever the search found, because the others must be
// compared with them.
func Search(settings int, alwaysFresh []int, limits Limits, play Play) (*Outcome, error) {
	if settings < 1 || limits.Seeds < 1 {
		return nil, errors.New("choice: a search needs a setting and a seed")
	}
	s := &search{limits: limits, play: play, standings: make([]Standing, settings)}
	all := make([]int, settings)
	for i := range all {
		all[i] = i
		s.standings[i].Setting = i
	}
	remaining, err := s.halve(all)
	if err != nil {
		return nil, err
	}
	// Fresh seeds show the error of the choice without the favour of having been chosen by it.
	if limits.Fresh > 0 {
		finalists := union(remaining, alwaysFresh)
		if err := s.confirm(finalists); err != nil {
			return nil, err
		}
	}
	return s.outcome(remaining), nil
}

// search is a search under way.
type search struct {
	limits Limits
	play   Play
	// standings has what was found out about each setting so far, by the index of the setting.
	standings []Standing
	// trials is the number of runs so far: one for each setting and seed with which it was tried.
	trials int
}

// halve tries settings, given by their numbers, with ever more seeds and returns those that remain,
// the best first. After each step the better half of those that no test has ruled out goes on,
// until one remains or the seeds are used up.
func (s *search) halve(settings []int) (remaining []int, err error) {
	remaining = settings
	played := 0
	for wanted := s.limits.Seeds; ; wanted = min(2*wanted, s.limits.searchSeeds()) {
		if err := s.try(remaining, played, wanted-played); err != nil {
			return nil, err
		}
		played = wanted
		remaining = s.contenders(remaining)
		if len(remaining) == 1 || played == s.limits.searchSeeds() {
			return remaining, nil
		}
		// At least two settings go on, because one alone would be chosen without a test.
		remaining = remaining[:max(2, (len(remaining)+1)/2)]
	}
}

// try plays count further seeds, from number first on, of these settings and adds their errors to
// the standings. settings are numbers of settings.
func (s *search) try(settings []int, first, count int) error {
	lists, err := s.play(settings, first, count)
	if err != nil {
		return err
	}
	for i, setting := range settings {
		standing := &s.standings[setting]
		standing.Searched = append(standing.Searched, lists[i]...)
	}
	s.trials += len(settings) * count
	return nil
}

// confirm plays the fresh seeds of these settings, given by their numbers, and keeps their errors
// apart from those of the search.
func (s *search) confirm(settings []int) error {
	// The fresh seeds are numbered behind those of the search.
	lists, err := s.play(settings, s.limits.searchSeeds(), s.limits.Fresh)
	if err != nil {
		return err
	}
	for i, setting := range settings {
		s.standings[setting].Fresh = lists[i]
	}
	s.trials += len(settings) * s.limits.Fresh
	return nil
}

// contenders sorts settings, the best first, and leaves out those that a test tells from the best. The
// level of each test is 5 % divided by the number of all tests of a search (Bonferroni), so that in 95 of
// 100 searches no setting leaves that is as good as the best one.
func (s *search) contenders(settings []int) []int {
	sorted := slices.Clone(settings)
	slices.SortStableFunc(sorted, func(a, b int) int { return compare(&s.standings[a], &s.standings[b]) })
	tests := max(1, len(s.standings)-1) * s.limits.stages()
	level := 0.05 / float64(tests)
	best := &s.standings[sorted[0]]
	isRuledOut := func(setting int) bool {
		standing := &s.standings[setting]
		// A setting without a result for every seed leaves if the best one has them all.
		if countMissing(standing.Searched) > countMissing(best.Searched) {
			return true
		}
		behind := statistics.EstimateMean(standing.differencesFrom(best))
		return behind.Mean > 0 && behind.P() < level
	}
	return slices.DeleteFunc(sorted, isRuledOut)
}

// outcome chooses the best among the settings that remained and compares all others with it. The
// standings in the result are sorted: the choice first, then those that were tried with more seeds.
func (s *search) outcome(remaining []int) *Outcome {
	chosen := slices.MinFunc(remaining, func(a, b int) int { return compare(&s.standings[a], &s.standings[b]) })
	o := &Outcome{
		Standings: s.standings,
		Trials:    s.trials,
	}
	winner := s.standings[chosen]
	for i := range o.Standings {
		o.Standings[i].compareWith(&winner)
	}
	// The fresh seeds confirm the choice if no setting is better with them.
	o.Confirmed = len(winner.Fresh) > 0 && !slices.ContainsFunc(o.Standings, func(other Standing) bool {
		return len(other.Fresh) > 0 && compareErrors(other.Fresh, winner.Fresh) < 0
	})
	slices.SortStableFunc(o.Standings, func(a, b Standing) int {
		return cmp.Or(
			oneIf(a.Setting != chosen)-oneIf(b.Setting != chosen),
			len(b.Fresh)-len(a.Fresh),
			len(b.Searched)-len(a.Searched),
			compare(&a, &b),
		)
	})
	return o
}

// oneIf is 1 for true and 0 for false, so that conditions can be sorted by.
func oneIf(condition bool) int {
	if condition {
		return 1
	}
	return 0
}

// compare orders two standings by their errors over all their seeds, the better one first.
func compare(a, b *Standing) int { return compareErrors(a.all(), b.all()) }

// compareErrors orders two settings by their errors, one for each run: first the one with fewer runs without
// a result, then the one with the lower mean error. It is negative if a comes first.
func compareErrors(a, b []float64) int {
	return cmp.Or(countMissing(a)-countMissing(b), cmp.Compare(mean(a), mean(b)))
}

// all returns the errors of the search and then those of the fresh seeds.
func (s *Standing) all() []float64 { return slices.Concat(s.Searched, s.Fresh) }

// differencesFrom returns the setting's errors less those of another setting, seed by seed. It leaves out seeds with
// which one of the two was not tried. All settings are tried with the same seeds in the same order, so the errors at
// one index are of one seed. A difference is NaN if one of its runs has no result.
func (s *Standing) differencesFrom(other *Standing) []float64 {
	var differences []float64
	for i := range min(len(s.Searched), len(other.Searched)) {
		differences = append(differences, s.Searched[i]-other.Searched[i])
	}
	for i := range min(len(s.Fresh), len(other.Fresh)) {
		differences = append(differences, s.Fresh[i]-other.Fresh[i])
	}
	return differences
}

// compareWith sets what the standing says about the distance to the chosen setting.
func (s *Standing) compareWith(chosen *Standing) {
	differences := s.differencesFrom(chosen)
	s.Behind = statistics.EstimateMean(differences)
	s.Distinct = s.Behind.N > 1 && math.Abs(s.Behind.Mean) > s.Behind.Half
	s.SeedsToDecide = statistics.Decisive(differences)
}

// countMissing returns how many errors in list are NaN, those of runs without a result: they diverged, or never
// reached the level.
func countMissing(list []float64) int {
	n := 0
	for _, v := range list {
		if math.IsNaN(v) {
			n++
		}
	}
	return n
}

// mean is the mean of the errors that are known. Without any it is infinite, so that such a setting comes
// last.
func mean(list []float64) float64 {
	e := statistics.EstimateMean(list)
	if e.N == 0 {
		return math.Inf(1)
	}
	return e.Mean
}

// union returns the numbers that are in a or in b, in ascending order and each once. It changes
// neither list.
func union(a, b []int) []int {
	list := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return list
}
