package outlook

// features is how many causes a time is explained by.
const features = 2

type vector [features]float64

func (v vector) dot(w vector) (sum float64) {
	for i, x := range v {
		sum += x * w[i]
	}
	return sum
}

// fit explains times by a sum of causes, each times its cost, by least squares. Later
// times weigh more: the weight of the n-th is n, so that a change of pace shows.
type fit struct {
	n    int
	gram [features]vector
	with vector // of the causes with the times
	// Sums of squared times and of weights.
	square, weight float64
}

func (f *fit) add(causes vector, time float64) {
	f.n++
	keep := 1 - 1/float64(f.n)
	for i, x := range causes {
		for j, y := range causes {
			f.gram[i][j] = keep*f.gram[i][j] + x*y
		}
		f.with[i] = keep*f.with[i] + x*time
	}
	f.square, f.weight = keep*f.square+time*time, keep*f.weight+1
}

// proportional is the guess at the scale of the times.
func (f *fit) proportional(guess vector) vector {
	var of vector
	for i := range of {
		of[i] = f.gram[i].dot(guess)
	}
	scale := 0.0
	if s := of.dot(guess); s > 0 {
		scale = max(0, f.with.dot(guess)/s)
	}
	for i := range guess {
		guess[i] *= scale
	}
	return guess
}

// How much the guess counts beside the times: as one that may be off by doubt, against the
// scatter of the times; and at least a little, so that it decides alone where the times
// cannot, as when a cause has not varied.
const (
	doubt     = 0.5 // of the guess
	leastPull = 1e-5
)

// costs are the causes' costs, none of them negative. guess is what they are as far as the
// times do not tell.
func (f *fit) costs(guess vector) vector {
	pull := vector{}
	for i := range pull {
		pull[i] = leastPull * f.gram[i][i]
	}
	c := f.solve(guess, pull)
	scatter := f.square - 2*c.dot(f.with)
	for i := range c {
		scatter += c[i] * f.gram[i].dot(c)
	}
	scatter = max(0, scatter) / max(1, f.weight)
	for i := range pull {
		if guess[i] > 0 {
			pull[i] += scatter / (doubt * guess[i] * doubt * guess[i])
		}
	}
	return f.solve(guess, pull)
}

// solve are the costs by the normal equations. A cost that would be negative is none.
func (f *fit) solve(guess, pull vector) vector {
	var fixed [features]bool
	for {
		c := f.eliminate(guess, pull, fixed)
		least := 0
		for i := range c {
			if c[i] < c[least] {
				least = i
			}
		}
		if c[least] >= 0 {
			return c
		}
		fixed[least] = true
	}
}

// eliminate solves the equations with some costs fixed at 0; the pull keeps them regular.
func (f *fit) eliminate(guess, pull vector, fixed [features]bool) (c vector) {
	var m [features][features + 1]float64
	for i := range m {
		switch {
		case fixed[i]:
			m[i][i] = 1
			continue
		case f.gram[i][i] == 0: // it has not been seen
			m[i][i], m[i][features] = 1, guess[i]
			continue
		}
		for j := range features {
			if !fixed[j] {
				m[i][j] = f.gram[i][j]
			}
		}
		m[i][i] += pull[i]
		m[i][features] = f.with[i] + pull[i]*guess[i]
	}
	for i := range m { // positive definite: no pivot is 0
		for k := range m {
			if k != i {
				by := m[k][i] / m[i][i]
				for j := range m[k] {
					m[k][j] -= by * m[i][j]
				}
			}
		}
	}
	for i := range c {
		c[i] = m[i][features] / m[i][i]
	}
	return c
}
