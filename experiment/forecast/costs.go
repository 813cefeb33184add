package forecast

// pair has a value for each of two causes of a time.
type pair [2]float64

// costs explains times by a sum of two causes, each times its cost, by least squares. Later
// times weigh more: the weight of the n-th is n, so that a change of pace shows.
type costs struct {
	n                      int
	xx, xy, yy             float64 // weighted sums of products of the causes x and y
	xt, yt, tt, weightedBy float64 // and with the time t
}

func (c *costs) add(causes pair, time float64) {
	c.n++
	keep := 1 - 1/float64(c.n)
	x, y := causes[0], causes[1]
	c.xx, c.xy, c.yy = keep*c.xx+x*x, keep*c.xy+x*y, keep*c.yy+y*y
	c.xt, c.yt, c.tt, c.weightedBy = keep*c.xt+x*time, keep*c.yt+y*time, keep*c.tt+time*time, keep*c.weightedBy+1
}

// square is the sum of squared times by such costs.
func (c *costs) square(of pair) float64 {
	return of[0]*of[0]*c.xx + 2*of[0]*of[1]*c.xy + of[1]*of[1]*c.yy
}

// proportional is a guess at the scale of the times.
func (c *costs) proportional(guess pair) pair {
	scale := 0.0
	if s := c.square(guess); s > 0 {
		scale = max(0, (guess[0]*c.xt+guess[1]*c.yt)/s)
	}
	return pair{scale * guess[0], scale * guess[1]}
}

// How much a guess counts beside the times: as one that may be off by doubt, against the
// scatter of the times; and at least a little, so that it decides alone where the times
// cannot, as when a cause has not varied.
const (
	doubt     = 0.5 // of the guess
	leastPull = 1e-5
)

// find returns the causes' costs, none of them negative. guess is what they are as far as the
// times do not tell.
func (c *costs) find(guess pair) pair {
	pull := pair{leastPull * c.xx, leastPull * c.yy}
	found := c.solve(guess, pull)
	scatter := max(0, c.tt-2*(found[0]*c.xt+found[1]*c.yt)+c.square(found)) / max(1, c.weightedBy)
	for i, g := range guess {
		if g > 0 {
			pull[i] += scatter / (doubt * g * doubt * g)
		}
	}
	return c.solve(guess, pull)
}

// solve solves the normal equations, which the pull keeps regular. A cost that would be
// negative is none.
func (c *costs) solve(guess, pull pair) pair {
	xx, yy, xt, yt := c.xx+pull[0], c.yy+pull[1], c.xt+pull[0]*guess[0], c.yt+pull[1]*guess[1]
	if c.xx == 0 { // the cause has not been seen
		xx, xt = 1, guess[0]
	}
	if c.yy == 0 {
		yy, yt = 1, guess[1]
	}
	det := xx*yy - c.xy*c.xy
	x, y := (xt*yy-yt*c.xy)/det, (yt*xx-xt*c.xy)/det
	switch {
	case x < 0:
		return pair{0, max(0, yt/yy)}
	case y < 0:
		return pair{max(0, xt/xx), 0}
	}
	return pair{x, y}
}
