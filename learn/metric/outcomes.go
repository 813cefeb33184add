package metric

import (
	"fmt"
	"math"
	"slices"

	"fedpace/internal/portable"
)

// Outcomes are what a model gave for held-out samples, beside what was right: from them follow
// measures that are no sum over samples. The order of the samples changes no measure.
type Outcomes struct {
	// Width is the number of outputs of a sample: the classes of a classifier, of which the outputs
	// are the logits; 1 where each output is the class that was found; or the targets.
	Width int
	// Outputs has Width values for each sample, one sample after the other.
	Outputs []float32
	// Labels has the class of each sample; nil where samples have targets.
	Labels []int32
	// Targets has Width values for each sample; nil where samples have labels.
	Targets []float32
	// Units says for each target what 1 is worth in the unit of the user's data; nil: 1.
	Units []float64
}

// MaxScored is the largest number of classes whose logits are kept. Of more classes a sample keeps
// the one that was found, from which all measures but the AUROC follow.
const MaxScored = 64

// MaxTargets is the largest number of targets that outcomes have.
const MaxTargets = 64

// WidthOf returns how many outputs of a sample are kept ([Outcomes.Width]), for samples with this many classes or, if
// classes is 0, with this many targets.
func WidthOf(classes, targets int) int {
	switch {
	// Of many classes only the one that was found is kept.
	case classes > MaxScored:
		return 1
	case classes > 0:
		return classes
	}
	return targets
}

// Len returns the number of samples.
func (o *Outcomes) Len() int {
	if o.Labels != nil {
		return len(o.Labels)
	}
	return len(o.Targets) / max(1, o.Width)
}

// Append adds the samples of others, which have the same width and units.
func (o *Outcomes) Append(others *Outcomes) {
	o.Width = others.Width
	o.Units = others.Units
	o.Outputs = append(o.Outputs, others.Outputs...)
	o.Labels = append(o.Labels, others.Labels...)
	o.Targets = append(o.Targets, others.Targets...)
}

// predicted returns the class that the model predicts for sample i: that of the first largest logit or,
// where only the class is kept (Width is 1), that class.
func (o *Outcomes) predicted(i int) int {
	if o.Width == 1 {
		return int(o.Outputs[i])
	}
	best := 0
	logits := o.Outputs[i*o.Width:][:o.Width]
	for class, z := range logits {
		if z > logits[best] {
			best = class
		}
	}
	return best
}

// classCounts are the counts of a confusion matrix that the measures read, by class: the samples of the class,
// those for which it is predicted, and those of both.
type classCounts struct{ samples, predicted, right []int }

// confusionCounts returns the counts, over all samples, of the confusion matrix that the measures need.
func (o *Outcomes) confusionCounts() classCounts {
	var counts classCounts
	for i, label := range o.Labels {
		predicted := o.predicted(i)
		for len(counts.samples) <= max(int(label), predicted) {
			counts.samples = append(counts.samples, 0)
			counts.predicted = append(counts.predicted, 0)
			counts.right = append(counts.right, 0)
		}
		counts.samples[label]++
		counts.predicted[predicted]++
		if predicted == int(label) {
			counts.right[predicted]++
		}
	}
	return counts
}

// MajorityShareOf returns the share of the most frequent class among the samples: the accuracy of a
// model that always finds that class.
func (o *Outcomes) MajorityShareOf() float64 {
	return float64(slices.Max(o.confusionCounts().samples)) / float64(len(o.Labels))
}

// BalancedAccuracyOf returns the mean over the classes of the share of their samples that are
// found, the recall (Brodersen et al. 2010, for any number of classes). Classes without a sample do
// not count. It is scikit-learn's balanced_accuracy_score.
func (o *Outcomes) BalancedAccuracyOf() float64 {
	c := o.confusionCounts()
	sum := 0.0
	classes := 0
	for class, n := range c.samples {
		if n > 0 {
			sum += float64(c.right[class]) / float64(n)
			classes++
		}
	}
	return sum / float64(classes)
}

// F1Of returns the mean over the classes of F1 = 2 TP / (2 TP + FP + FN), the harmonic mean of
// precision and recall (van Rijsbergen 1979). Classes that neither occur nor are predicted do
// not count. It is scikit-learn's f1_score with average="macro".
func (o *Outcomes) F1Of() float64 {
	c := o.confusionCounts()
	sum := 0.0
	classes := 0
	for class, n := range c.samples {
		// The samples of the class are TP + FN, and those for which it is predicted TP + FP.
		if all := n + c.predicted[class]; all > 0 {
			sum += 2 * float64(c.right[class]) / float64(all)
			classes++
		}
	}
	return sum / float64(classes)
}

// AUROCOf returns the area under the receiver operating characteristic: the probability that of two
// samples, one of the class and one of another, the model gives the first the higher probability of
// the class, where equal ones count half (Hanley and McNeil 1982). Of more than two classes it is
// the mean of each against all others, over the classes that have both kinds of samples. It is
// scikit-learn's roc_auc_score, with multi_class="ovr" for more than two classes. NaN says that
// samples are of one class alone, or that the logits were not kept.
func (o *Outcomes) AUROCOf() float64 {
	if o.Width < 2 {
		return math.NaN()
	}
	scores := o.classScores()
	classes := o.Width
	if classes == 2 {
		// The score of one of two classes falls as that of the other grows, so both areas are alike.
		classes = 1
	}
	sum := 0.0
	counted := 0
	for class := range classes {
		if area, ok := o.rocArea(class, scores); ok {
			sum += area
			counted++
		}
	}
	if counted == 0 {
		return math.NaN()
	}
	return sum / float64(counted)
}

// classScores returns scores that grow with the probability of a class, Width for each sample: the
// logarithms of the softmax. With two classes they are the differences of the logits, which need no
// rounding.
func (o *Outcomes) classScores() []float64 {
	scores := make([]float64, len(o.Outputs))
	for i := range o.Labels {
		logits := o.Outputs[i*o.Width:][:o.Width]
		sampleScores := scores[i*o.Width:][:o.Width]
		if o.Width == 2 {
			sampleScores[0] = float64(logits[0]) - float64(logits[1])
			sampleScores[1] = -sampleScores[0]
			continue
		}
		// The terms are added in the order of their size, so that samples with the same logits in another
		// order, or shifted by a number, have the same probabilities, which tie.
		top := float64(slices.Max(logits))
		terms := make([]float64, len(logits))
		for k, x := range logits {
			terms[k] = portable.Exp(max(float64(x)-top, -700))
		}
		log := portable.Log(sortedSum(terms))
		for k, x := range logits {
			sampleScores[k] = float64(x) - top - log
		}
	}
	return scores
}

// rocArea returns the area under the ROC curve of one class against all others, computed from the ranks of
// the samples (Mann and Whitney 1947): the share of all pairs of a sample of the class and one of another
// class in which the first has the higher score. Pairs with equal scores count half. scores has a score of
// each class for each sample. ok is false if all samples are of the class, or none.
func (o *Outcomes) rocArea(class int, scores []float64) (area float64, ok bool) {
	order := make([]int, len(o.Labels))
	for i := range order {
		order[i] = i
	}
	score := func(i int) float64 { return scores[i*o.Width+class] }
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case score(a) < score(b):
			return -1
		case score(a) > score(b):
			return 1
		}
		return 0
	})
	// Samples with equal scores are looked at together, in ascending order. othersBelow counts the samples of
	// other classes with a lower score; doubledPairs is twice the number of ordered pairs, so that it is whole
	// although ties count half.
	othersBelow := 0
	members := 0
	doubledPairs := 0
	for start := 0; start < len(order); {
		end := start
		tied := 0
		tiedOthers := 0
		for end < len(order) && score(order[end]) == score(order[start]) {
			if int(o.Labels[order[end]]) == class {
				tied++
			} else {
				tiedOthers++
			}
			end++
		}
		doubledPairs += tied * (2*othersBelow + tiedOthers)
		members += tied
		othersBelow += tiedOthers
		start = end
	}
	if members == 0 || othersBelow == 0 {
		return 0, false
	}
	return float64(doubledPairs) / (2 * float64(members) * float64(othersBelow)), true
}

// targetSums are the sums that the measures of one target need, in the unit of the user's data.
type targetSums struct {
	// errors is the sum of the squared errors of the model, spread that of the squared distances from
	// the mean, and distances that of the distances themselves.
	errors, spread, distances float64
}

// targetSumsOf returns the sums of target t, in the unit of the user's data: with the samples' values y, the model's
// outputs ŷ and the mean ȳ of the values, Σ(y − ŷ)² (errors), Σ|y − ȳ| (distances) and Σ(y − ȳ)² (spread). Numbers are
// added in the order of their size, so that the order of the samples does not matter.
func (o *Outcomes) targetSumsOf(t int) (sums targetSums) {
	unit := 1.0
	if o.Units != nil {
		unit = o.Units[t]
	}
	n := o.Len()
	values := make([]float64, n)
	errors := make([]float64, n)
	for i := range n {
		values[i] = float64(o.Targets[i*o.Width+t]) * unit
		d := values[i] - float64(float64(o.Outputs[i*o.Width+t])*unit)
		errors[i] = float64(d * d)
	}
	mean := sortedSum(values) / float64(n)
	for i, y := range values {
		values[i] = math.Abs(y - mean)
	}
	sums.errors = sortedSum(errors)
	sums.distances = sortedSum(values)
	for i, d := range values {
		values[i] = float64(d * d)
	}
	sums.spread = sortedSum(values)
	return sums
}

// sortedSum puts numbers into ascending order, in place, and returns their sum in this order, so that the
// order of samples does not matter.
func sortedSum(values []float64) (sum float64) {
	slices.Sort(values)
	for _, v := range values {
		sum += v
	}
	return sum
}

// R2Of returns the mean over the targets of R² = 1 - Σ(y-ŷ)²/Σ(y-ȳ)², the share of the variance that
// the model explains; ȳ is the mean of the samples. A constant target counts 1 if it is met
// everywhere and else 0. It is scikit-learn's r2_score.
func (o *Outcomes) R2Of() float64 {
	sum := 0.0
	for t := range o.Width {
		switch s := o.targetSumsOf(t); {
		case s.spread > 0:
			sum += 1 - s.errors/s.spread
		case s.errors == 0:
			sum++
		}
	}
	return sum / float64(o.Width)
}

// MeanBaselineOf returns the mean absolute error of a model that always gives the mean of the samples,
// averaged over the targets.
func (o *Outcomes) MeanBaselineOf() float64 {
	sum := 0.0
	for t := range o.Width {
		distancesFromMean := o.targetSumsOf(t).distances
		sum += distancesFromMean / float64(o.Len())
	}
	return sum / float64(o.Width)
}

// measure is a metric that follows from outcomes.
type measure struct {
	Metric
	// targets says that it is for targets, not for classes.
	targets bool
	// constant says that it is the same for every model: what a model is to be better than.
	constant bool
	// value computes it.
	value func(*Outcomes) float64
}

// measures are all that follow from outcomes.
var measures = []measure{
	{Metric{Name: "majority_share"}, false, true, (*Outcomes).MajorityShareOf},
	{Metric{Name: "balanced_accuracy"}, false, false, (*Outcomes).BalancedAccuracyOf},
	{Metric{Name: "f1_macro"}, false, false, (*Outcomes).F1Of},
	{Metric{Name: "auroc"}, false, false, (*Outcomes).AUROCOf},
	{Metric{Name: "mean_baseline", Lower: true}, true, true, (*Outcomes).MeanBaselineOf},
	{Metric{Name: "r2"}, true, false, (*Outcomes).R2Of},
}

// MeasuresFor lists the names of the measures of models that predict targets, or else, if targets is false, of
// those that predict classes.
func MeasuresFor(targets bool) (list []string) {
	for _, m := range measures {
		if m.targets == targets {
			list = append(list, m.Name)
		}
	}
	return list
}

// IsShare says that the values of the metric with this name lie between 0 and 1.
func IsShare(name string) bool {
	switch name {
	case Accuracy, "majority_share", "balanced_accuracy", "f1_macro", "auroc":
		return true
	}
	return false
}

// findMeasure returns the measure of this name; ok is false if there is none.
func findMeasure(name string) (m measure, ok bool) {
	i := slices.IndexFunc(measures, func(m measure) bool { return m.Name == name })
	if i < 0 {
		return m, false
	}
	return measures[i], true
}

// IsMeasure reports whether a metric follows from outcomes.
func IsMeasure(name string) bool {
	_, ok := findMeasure(name)
	return ok
}

// Constant reports whether the measure of this name is the same for every model on the same
// samples.
func Constant(name string) bool {
	m, _ := findMeasure(name)
	return m.constant
}

// Measure returns the metric with this name for samples with this many classes or targets, of which the
// other is 0. It is an error if the name is no measure of such samples, or if there are more classes or
// targets than it can be computed for.
func Measure(name string, classes, targets int) (Metric, error) {
	measure, ok := findMeasure(name)
	switch {
	case !ok || measure.targets != (targets > 0):
		kind := "classes"
		if targets > 0 {
			kind = "numbers"
		}
		return Metric{}, fmt.Errorf("%q is no measure of %s; want some of %v", name, kind, MeasuresFor(targets > 0))
	case targets > MaxTargets:
		return Metric{}, fmt.Errorf("%s of %d targets; want at most %d", name, targets, MaxTargets)
	case name == "auroc" && classes > MaxScored:
		return Metric{}, fmt.Errorf("auroc of %d classes; want at most %d", classes, MaxScored)
	}
	return measure.Metric, nil
}

// Value returns the value of a measure, which Measure knows, for these outcomes; NaN where they do not
// determine it.
func (o *Outcomes) Value(name string) float64 {
	m, _ := findMeasure(name)
	return m.value(o)
}
