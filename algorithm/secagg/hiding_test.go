package secagg

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"fedpace/internal/testkit/slow"
)

// hidingWords is the number of words of an update in a round of the game that TestMask_UpdatesNotToldApart plays.
const hidingWords = 16

// TestMask_UpdatesNotToldApart plays a game against a coordinator that logs all it receives. In each round two of
// four members have very different updates, and a coin says which of them has which; their sum is the same either
// way. Another member colludes, and the fourth leaves after it has shared, so that its masks are recovered. From
// the first member's upload the coordinator removes all masks that it knows: those that the sum's recovery has
// revealed and those that the colluder shares. The mask of the first two members is left.
//
// Two tests look for the coin in what is left. Each finds something where there is nothing with a probability of
// 10^-6. The same tests find the coin where masks are missing.
func TestMask_UpdatesNotToldApart(t *testing.T) {
	t.Parallel()
	rounds := 500
	if slow.On() {
		rounds = 10_000
	}
	const size = 1e-6
	coins := rand.New(rand.NewPCG(63, 0))
	masked := make([]view, rounds)
	open := make([]view, rounds)
	// seldom has each tenth view without masks.
	seldom := make([]view, rounds)
	for number := range rounds {
		swapped := coins.IntN(2) == 1
		masked[number], open[number] = playHiding(t, uint64(number), swapped)
		seldom[number] = masked[number]
		if number%10 == 0 {
			seldom[number] = open[number]
		}
	}
	expectDifferent(t, "masked", masked, size, false)
	expectGuessed(t, "masked", masked, size, false)
	// One view in ten gives one coin in twenty away, for which the classifier needs many rounds.
	expectDifferent(t, "one in ten without masks", seldom, size, true)
	expectDifferent(t, "without masks", open, size, true)
	expectGuessed(t, "without masks", open, size, true)
}

// expectDifferent expects that the bytes of views differ between the sides of the coin, or that they do not, by
// [compareBytes] at this size.
func expectDifferent(t *testing.T, name string, views []view, size float64, want bool) {
	t.Helper()
	p := compareBytes(views)
	t.Logf("%s: bytes differ with p = %.3g", name, p)
	if differ := p < size; differ != want {
		t.Errorf("%s: bytes differ with p = %.3g, want below %v: %v", name, p, size, want)
	}
}

// expectGuessed expects that the coins of views are guessed more or less often than those of a fair coin, or that
// they are not, by [classify]. Hoeffding's bound for the guesses of a fair coin, on both sides, has this size.
func expectGuessed(t *testing.T, name string, views []view, size float64, want bool) {
	t.Helper()
	right, of := classify(views)
	limit := math.Sqrt(float64(of) * math.Log(2/size) / 2)
	distance := math.Abs(float64(right) - float64(of)/2)
	t.Logf("%s: %d of %d coins are guessed", name, right, of)
	if guessed := distance > limit; guessed != want {
		t.Errorf("%s: %d of %d coins are guessed, want more than %.0f off half of them: %v", name, right, of, limit, want)
	}
}

// view is what a coordinator knows of the first member's update, and whether it is the second member's instead.
type view struct {
	words   []uint64
	swapped bool
}

// playHiding plays a round of the game with this seed. The first member has the largest update that there can be,
// and the second none, or swapped. It returns the coordinator's view, and that without any masks.
func playHiding(t *testing.T, seed uint64, swapped bool) (masked, open view) {
	t.Helper()
	const members = 4
	const colluder, leaver = 2, 3
	r := newRig(t, members, hidingWords, Terms{
		Neighbours: members - 1,
		Threshold:  2,
		Colluders:  1,
		Minimum:    3,
	}, seed)
	large := 0
	if swapped {
		large = 1
	}
	for i := range 2 {
		clear(r.updates[i])
		if i == large {
			for j := range r.updates[i] {
				r.updates[i][j] = 1 << 60
			}
		}
		copy(r.words[i], r.updates[i])
	}
	const afterShares = 4
	sum, survivors, err := r.play([stages][]int{afterShares: {leaver}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(survivors, []int{0, 1, colluder}) {
		t.Fatalf("the survivors are %v", survivors)
	}
	for j, got := range sum {
		if want := 1<<60 + r.updates[colluder][j]; got != want {
			t.Fatalf("word %d of the sum is %d, want %d", j, got, want)
		}
	}
	first := r.clients[0]
	masked = view{slices.Clone(r.words[0]), swapped}
	const subtract = true
	addMask(masked.words, first.roster.selfMaskKey(first.seed), subtract)
	for _, other := range []int{colluder, leaver} {
		key, err := first.roster.pairMaskKey(first.maskKey, other)
		if err != nil {
			t.Fatal(err)
		}
		addMask(masked.words, key, !subtractsPairMask(0, other))
	}
	return masked, view{r.updates[0], swapped}
}

// compareBytes returns the probability with which the bytes of views differ at least as much between the two sides
// of the coin as they do, if the coin has no part in them: by a chi-square test of homogeneity for each of the
// eight bytes of a word, taken together.
func compareBytes(views []view) float64 {
	// counts has how often a byte's place in a word has a value, on either side.
	var counts [2][8][256]float64
	var of [2]float64
	for _, x := range views {
		side := sideOf(x.swapped)
		of[side] += hidingWords
		for _, w := range x.words {
			for place := range 8 {
				counts[side][place][w>>(8*place)&0xff]++
			}
		}
	}
	statistic := 0.0
	freedom := 0.0
	for place := range 8 {
		values := 0.0
		for value := range 256 {
			both := counts[0][place][value] + counts[1][place][value]
			if both == 0 {
				continue
			}
			values++
			for side := range 2 {
				expected := both * of[side] / (of[0] + of[1])
				d := counts[side][place][value] - expected
				statistic += d * d / expected
			}
		}
		freedom += values - 1
	}
	return distuv.ChiSquared{K: freedom}.Survival(statistic)
}

// sideOf is 1 where the updates are swapped, else 0.
func sideOf(swapped bool) int {
	if swapped {
		return 1
	}
	return 0
}

// classify trains a linear classifier of the bits of views, by logistic regression on the first half of them, and
// has it guess the coins of the other half. It returns how many of them it guesses right.
func classify(views []view) (right, of int) {
	const bits = 64 * hidingWords
	var weights [bits + 1]float64
	// score has the bits enter as −1 and 1, behind a constant.
	score := func(x view, each func(i int, value float64)) (sum float64) {
		sum = weights[bits]
		each(bits, 1)
		for i := range bits {
			value := float64(x.words[i/64]>>(i%64)&1)*2 - 1
			sum += weights[i] * value
			each(i, value)
		}
		return sum
	}
	const passes = 5
	const rate = 1e-3
	half := len(views) / 2
	var inputs [bits + 1]float64
	for range passes {
		for _, x := range views[:half] {
			z := score(x, func(i int, value float64) { inputs[i] = value })
			missing := float64(sideOf(x.swapped)) - 1/(1+math.Exp(-z))
			for i, value := range inputs {
				weights[i] += rate * missing * value
			}
		}
	}
	for _, x := range views[half:] {
		z := score(x, func(int, float64) {})
		if (z > 0) == x.swapped {
			right++
		}
		of++
	}
	return right, of
}

// uploads plays a round up to the masked uploads.
func (r *rig) uploads() {
	r.t.Helper()
	s := r.server
	r.each(func(_ int, client uint32, x *Client) error {
		b, err := x.Keys()
		if err != nil {
			return err
		}
		return s.Keys(client, b)
	})
	roster, err := s.Roster()
	if err != nil {
		r.t.Fatal(err)
	}
	r.each(func(_ int, client uint32, x *Client) error {
		b, err := x.Shares(roster)
		if err != nil {
			return err
		}
		return s.Shares(client, b)
	})
	if _, err := s.Members(); err != nil {
		r.t.Fatal(err)
	}
	r.each(func(i int, client uint32, x *Client) error {
		inbox, err := s.Inbox(client)
		if err != nil {
			return err
		}
		return x.Mask(inbox, r.words[i])
	})
}
