package schedule

import (
	"math"
	"slices"
)

// Loss says which loss of a round F_r is made of. The zero value is the mean
// first-step loss of the round's clients (Eq. 15's inner mean).
type Loss struct {
	Validation bool    // the newest validation loss, measured after so many rounds as the run says
	Trim       float64 // or the trimmed mean of the clients' losses, see [TrimmedMean]; below 1/2
}

// TrimmedMean is the mean of a list without the share of it, rounded down, that is
// lowest and the same share that is highest (Yin et al., ICML 2018, Definition 2). A
// few clients with absurd losses do not move it. It does not depend on the list's
// order. NaN: the list is empty.
func TrimmedMean(list []float64, share float64) (mean float64) {
	sorted := slices.Sorted(slices.Values(list))
	cut := int(math.Floor(share * float64(len(list))))
	sorted = sorted[cut : len(sorted)-cut]
	for _, x := range sorted {
		mean += x
	}
	return mean / float64(len(sorted))
}
