package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/study"
	"fedpace/study/choice"
)

// heatDivisors says how far each heat of a race plays its settings: heat i ends at the plan's virtual time divided by
// heatDivisors[i].
var heatDivisors = []float64{9, 3, 1}

// keptInHeat is one over the part of a heat's settings that go on to the next, at least two of them.
const keptInHeat = 3

// raceEvaluations is how often models are measured in the virtual time of a plan that races, unless the
// configuration says: ten times in the first heat.
const raceEvaluations = 90

// race plays settings against each other in heats, within a budget of processor time.
type race struct {
	plan *Plan
	dir  string
	o    study.Options

	// began is what the process had used when the plan began, in seconds of processor time.
	began float64
	// trainingSeconds is the processor time that the heats took so far, and trainedSteps is about the number of local
	// steps of all clients in them. Their ratio foretells the cost of further steps.
	trainingSeconds, trainedSteps float64
	// settingsByHeat holds, by heat, the settings that were played to it, the best first. It has no entry for a heat
	// that the budget had no time for.
	settingsByHeat [][]*Setting
	// cells holds a setting's runs, one for each seed, and tails, by heat, their quality at its end, NaN
	// where a run diverged.
	cells map[*Setting][]study.Cell
	tails map[*Setting][][]float64
}

// race plays the settings against each other within the request's budget, and recommends the one that is
// ahead in the last heat. began is the processor time of the process when the plan began.
func (p *Plan) race(ctx context.Context, dir string, o study.Options, began float64) error {
	if !p.configuredSetting().config.Train {
		return errors.New("plan: a race compares models, and train: false makes none")
	}
	if len(p.Settings) < 2 {
		return errors.New("plan: a race needs two settings (give a --grid)")
	}
	r := &race{
		plan:  p,
		dir:   dir,
		o:     o,
		began: began,
		cells: map[*Setting][]study.Cell{},
		tails: map[*Setting][][]float64{},
	}
	// The configuration is what others must beat, so it is raced in any case.
	settings := slices.Clone(p.Settings)
	slices.SortStableFunc(settings, func(a, b *Setting) int {
		switch {
		case a.AsConfigured:
			return -1
		case b.AsConfigured:
			return 1
		}
		return 0
	})
	for heat := range heatDivisors {
		var err error
		settings, err = r.run(ctx, settings, heat)
		if err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		if len(settings) == 0 {
			break
		}
		r.settingsByHeat = append(r.settingsByHeat, settings)
		// The best of the settings go on to the next heat. Of settings with the same results one is enough.
		kept := max(2, len(settings)/keptInHeat)
		settings = r.distinct(settings, heat)
		settings = settings[:min(len(settings), kept)]
	}
	return r.conclude()
}

// run plays a heat, an index of [heatDivisors], with as many of the settings, from the first on, as the budget has
// time for, and returns them, the best first. A heat that others follow gets half of what is left of the budget, in
// seconds of processor time, and the last one all of it. In the first heat two settings are played whatever they
// cost; a later one that has no time for two has none.
func (r *race) run(ctx context.Context, settings []*Setting, heat int) ([]*Setting, error) {
	isFirst := heat == 0
	isLast := heat == len(heatDivisors)-1
	if isFirst {
		// What a step costs is known from the first setting's heat.
		if err := r.play(ctx, settings[:1], heat); err != nil {
			return nil, err
		}
	}
	allowance := r.plan.request.Race - r.used()
	if !isLast {
		allowance /= 2
	}
	n := r.affordable(settings, heat, allowance)
	if isFirst {
		n = max(2, n)
	}
	if n < 2 {
		return nil, nil
	}
	settings = settings[:n]
	unplayed := settings
	if isFirst {
		unplayed = settings[1:]
	}
	if err := r.play(ctx, unplayed, heat); err != nil {
		return nil, err
	}
	sorted := slices.Clone(settings)
	slices.SortStableFunc(sorted, func(a, b *Setting) int {
		return cmp.Compare(r.meanError(a, heat), r.meanError(b, heat))
	})
	return sorted, nil
}

// distinct returns the settings without those that had the same results in a heat as one before
// them: a deadline that nobody misses changes nothing.
func (r *race) distinct(settings []*Setting, heat int) (list []*Setting) {
	for _, s := range settings {
		twice := slices.ContainsFunc(list, func(other *Setting) bool {
			return slices.Equal(r.tails[other][heat], r.tails[s][heat])
		})
		if !twice {
			list = append(list, s)
		}
	}
	return list
}

// used returns the processor time that the plan has taken so far, in seconds.
func (r *race) used() float64 { return r.plan.request.ProcessorSeconds() - r.began }

// affordable returns how many of the settings, from the first on, can be played to the end of a heat within
// an allowance of processor time, in seconds. It takes the mean cost of a local step so far for that of all further
// ones.
func (r *race) affordable(settings []*Setting, heat int, allowance float64) int {
	perStep := r.trainingSeconds / max(1, r.trainedSteps)
	cost := 0.0
	for i, s := range settings {
		cost += float64(perStep * r.stepsIn(s, heat))
		if cost > allowance {
			return i
		}
	}
	return len(settings)
}

// stepsIn returns about how many local steps all clients of a setting take between the end of the heat before this
// one and its own end, over all seeds. A heat ends at the plan's virtual time divided by heatDivisors[heat], and s.Work
// forecasts the local steps of one run in all of that time.
func (r *race) stepsIn(s *Setting, heat int) float64 {
	partOfTime := 1 / heatDivisors[heat]
	if heat > 0 {
		// The runs continue where the heat before has left them.
		partOfTime -= 1 / heatDivisors[heat-1]
	}
	return float64(partOfTime*s.Work.P50) * float64(r.plan.request.Seeds)
}

// play plays settings to the end of a heat, with every seed, and measures them. It adds the processor time and the
// local steps of that to r's sums, from which [race.affordable] foretells what further settings cost.
func (r *race) play(ctx context.Context, settings []*Setting, heat int) error {
	p := r.plan
	until := p.Seconds / heatDivisors[heat]
	o := r.o
	// The last heat goes to the end of the runs.
	if heat+1 < len(heatDivisors) {
		o.Until = until
	}
	var cells []study.Cell
	for _, s := range settings {
		for n := range p.request.Seeds {
			cells = append(cells, p.cell(s, n, r.dir))
		}
	}
	before := p.request.ProcessorSeconds()
	if err := study.Play(ctx, r.dir, cells, o); err != nil {
		return err
	}
	r.trainingSeconds += p.request.ProcessorSeconds() - before
	var err error
	p.quality, err = cells[0].Run().Quality()
	if err != nil {
		return err
	}
	// The cells of a setting follow each other, one for each seed.
	for i, s := range settings {
		r.trainedSteps += r.stepsIn(s, heat)
		r.cells[s] = cells[i*p.request.Seeds : (i+1)*p.request.Seeds]
		tails, err := r.measure(s, heat)
		if err != nil {
			return err
		}
		r.tails[s] = append(r.tails[s], tails)
	}
	return nil
}

// measure returns the quality of a setting's runs in the last tenth of the virtual time up to the end of a
// heat, one for each seed. It is NaN for a run that diverged.
func (r *race) measure(s *Setting, heat int) (tails []float64, err error) {
	for i := range r.cells[s] {
		c := &r.cells[s][i]
		tail := math.NaN()
		switch {
		case c.Diverged != "":
		// The final model is evaluated, too.
		case heat == len(heatDivisors)-1:
			tail, _, err = c.EndTail()
		default:
			tail, _, err = c.TailAt(r.plan.Seconds / heatDivisors[heat])
		}
		if err != nil {
			return nil, err
		}
		tails = append(tails, tail)
	}
	return tails, nil
}

// meanError returns the mean error of a setting at the end of a heat, over its seeds, the lower the better. It is
// infinite if a seed has no value.
func (r *race) meanError(s *Setting, heat int) float64 {
	tails := r.tails[s][heat]
	e := statistics.EstimateMean(tails)
	if e.N < len(tails) {
		return math.Inf(1)
	}
	return r.plan.quality.Error(e.Mean)
}

// conclude recommends the setting that is ahead in the last heat that was played, and says in five lines what to set
// and how sure that is. The settings of that heat become the trained settings of the plan, compared seed by seed.
func (r *race) conclude() error {
	p := r.plan
	heat := len(r.settingsByHeat) - 1
	p.trainedSettings = r.settingsByHeat[heat]
	if math.IsInf(r.meanError(p.trainedSettings[0], heat), 1) {
		return errors.New("plan: no setting of the race has a result with every seed: one run of each has diverged, " +
			"or was not evaluated (evaluate.every_seconds)")
	}
	// known is a [choice.Play] that plays nothing: every run of the last heat was played already, and it looks up the
	// errors of count seeds from seed first on.
	known := func(settings []int, first, count int) (errors [][]float64, err error) {
		for _, i := range settings {
			var list []float64
			for _, tail := range r.tails[p.trainedSettings[i]][heat][first : first+count] {
				list = append(list, p.quality.Error(tail))
			}
			errors = append(errors, list)
		}
		return errors, nil
	}
	var err error
	p.outcome, err = choice.Search(len(p.trainedSettings), nil, choice.Limits{Seeds: p.request.Seeds}, known)
	if err != nil {
		return err
	}
	for _, standing := range p.outcome.Standings {
		s := p.trainedSettings[standing.Setting]
		s.Trained = s.outcome()
		s.Trained.cells = r.cells[s]
		s.Trained.tails = r.tails[s][heat]
		s.Trained.summarize(p.quality.Name, p.request.Seeds)
		s.Trained.Diverged = s.Trained.Seeds - s.Trained.Tail.N
		s.Trained.Standing = standing
	}
	p.sortByTraining()
	p.Chosen = p.Settings[0]
	p.Answer = r.answer()
	p.Reason = strings.Join(p.Answer, " ")
	return nil
}

// question is something that a race decides: K, the deadline or the cohort.
type question struct {
	name string
	// value says in words what a setting has.
	value func(*Setting) string
}

// questions are what a race answers, one line each.
var questions = []question{
	{"K", func(s *Setting) string {
		return s.Schedule + " with schedule.k0 = " + strconv.Itoa(s.config.Schedule.K0)
	}},
	{"Deadline", func(s *Setting) string { return "rounds close " + s.config.ClosingText() }},
	{"Cohort", func(s *Setting) string { return strconv.Itoa(s.config.Cohort) + " clients" }},
}

// answer returns the lines that a race prints: for each question one that says what to set, then how sure that is,
// and what it took to find out.
func (r *race) answer() (lines []string) {
	for _, q := range questions {
		lines = append(lines, fmt.Sprintf("%s: %s. %s", q.name, q.value(r.plan.Chosen), r.nextBest(q)))
	}
	return append(lines, r.sureness(), r.cost())
}

// nextBest says in a sentence how far the best setting with another answer to a question is behind the
// chosen one, in the last heat that it was in.
func (r *race) nextBest(q question) string {
	chosen := r.plan.Chosen
	for heat := len(r.settingsByHeat) - 1; heat >= 0; heat-- {
		// The settings are sorted, so the first one with another answer is the best of those.
		for _, s := range r.settingsByHeat[heat] {
			if q.value(s) == q.value(chosen) {
				continue
			}
			behind := make([]float64, r.plan.request.Seeds)
			for n := range behind {
				mine := r.plan.quality.Error(r.tails[s][heat][n])
				behind[n] = mine - r.plan.quality.Error(r.tails[chosen][heat][n])
			}
			e := statistics.EstimateMean(behind)
			verdict := "not told apart"
			if e.Mean > e.Half {
				verdict = "told apart"
			}
			return fmt.Sprintf("Next best is %s, behind by %s after %s: %s.",
				q.value(s), e.Digits(3), human.VirtualTime(r.plan.Seconds/heatDivisors[heat]), verdict)
		}
	}
	return "Nothing else was raced."
}

// sureness says in a sentence with how many seeds and after how much of the time the answer was found.
func (r *race) sureness() string {
	p := r.plan
	// This is the last heat that was played.
	heat := len(r.settingsByHeat) - 1
	text := fmt.Sprintf("How sure: by %d %s, with 95 %% intervals, and favoured by the choice",
		p.request.Seeds, human.Plural(p.request.Seeds, "seed"))
	if heat == len(heatDivisors)-1 {
		return text + "; the last two or more were played to the end."
	}
	return text + fmt.Sprintf("; after %s of %s, so who is ahead at the end is not known (a larger --race).",
		human.VirtualTime(p.Seconds/heatDivisors[heat]), human.VirtualTime(p.Seconds))
}

// cost says in a sentence how many settings each heat played, for how long in virtual time, and how much of the
// budget of processor time that took.
func (r *race) cost() string {
	p := r.plan
	var played []string
	for heat, settings := range r.settingsByHeat {
		played = append(played, fmt.Sprintf("%d to %s", len(settings), human.VirtualTime(p.Seconds/heatDivisors[heat])))
	}
	return fmt.Sprintf("Spent: %.3g s of %.3g s of processor time; of %d settings, all of them timed, %s.",
		r.used(), p.request.Race, len(p.Settings), strings.Join(played, ", "))
}
