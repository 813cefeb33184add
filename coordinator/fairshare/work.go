package fairshare

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
)

// Work is an amount of service, in units of 2^-63 ns of the whole server. It is
// a whole number of 128 bits, so that sums of it are exact.
type Work struct{ Hi, Lo uint64 }

// fullRate is the rate of a transfer that has the whole server. A rate is a multiple of 2^-63 of the whole
// server, so a rate times nanoseconds is work.
const fullRate = uint64(1) << 63

// maxAlone is the longest that a transfer may take the whole server: 9 years.
const maxAlone = int64(1) << 58

// Need returns the work of a transfer of size bits at a server with this many megabits (10^6 bits)
// a second: how long the transfer takes the whole server, in units of 2^-63 ns, rounded down. It is an error if that is
// more than 9 years.
func Need(size int64, mbps float64) (Work, error) {
	if !(mbps > 0) || math.IsInf(mbps, 0) || size < 0 {
		return Work{}, fmt.Errorf(
			"fairshare: %d bits at %v Mbit/s, want 0 bits or more and a positive finite speed",
			size,
			mbps,
		)
	}
	// The transfer takes size·10^9 / (mbps·10^6) = 1000 size/mbps nanoseconds.
	speed := new(big.Rat).SetFloat64(mbps)
	work := new(big.Int).Mul(big.NewInt(size), big.NewInt(1000))
	work.Lsh(work, 63)
	work.Mul(work, speed.Denom())
	work.Quo(work, speed.Num())
	low64 := new(big.Int).SetUint64(math.MaxUint64)
	result := Work{
		Hi: new(big.Int).Rsh(work, 64).Uint64(),
		Lo: new(big.Int).And(work, low64).Uint64(),
	}
	if work.BitLen() > 128 || workAt(fullRate, maxAlone).Less(result) {
		return Work{}, errors.New("fairshare: one transfer takes the server longer than 9 years")
	}
	return result, nil
}

// IsZero reports whether no work is left.
func (w Work) IsZero() bool { return w == Work{} }

// Less reports whether w is less than v.
func (w Work) Less(v Work) bool { return w.Hi < v.Hi || w.Hi == v.Hi && w.Lo < v.Lo }

// Over returns the quotient w/v, rounded as floats are. v must not be zero.
func (w Work) Over(v Work) float64 { return w.float() / v.float() }

// float returns the work rounded to a float.
func (w Work) float() float64 { return math.Ldexp(float64(w.Hi), 64) + float64(w.Lo) }

// add returns w + v, modulo 2^128.
func (w Work) add(v Work) Work {
	lo, carry := bits.Add64(w.Lo, v.Lo, 0)
	hi, _ := bits.Add64(w.Hi, v.Hi, carry)
	return Work{hi, lo}
}

// sub returns w - v, modulo 2^128.
func (w Work) sub(v Work) Work {
	lo, borrow := bits.Sub64(w.Lo, v.Lo, 0)
	hi, _ := bits.Sub64(w.Hi, v.Hi, borrow)
	return Work{hi, lo}
}

// workAt returns the work that is done in this many nanoseconds at a rate.
func workAt(rate uint64, ns int64) Work {
	hi, lo := bits.Mul64(rate, uint64(ns))
	return Work{hi, lo}
}

// durationAt returns how many whole nanoseconds the work takes at this rate (see [fullRate]), rounded up. It is at
// most never, which stands for work that does not end; at rate 0 that is any work but none.
func (w Work) durationAt(rate uint64) int64 {
	// The quotient would not fit 64 bits, or the rate is 0.
	if w.Hi >= rate {
		if w.IsZero() {
			return 0
		}
		return never
	}
	quotient, remainder := bits.Div64(w.Hi, w.Lo, rate)
	if remainder > 0 {
		quotient++
	}
	return int64(min(quotient, uint64(never)))
}

// never is later than any time that is waited for.
const never = int64(1) << 62

// rateWithin returns the least rate at which the work takes no more than this many nanoseconds: w/ns, rounded up,
// as work is a rate times nanoseconds. It is the full rate if even that takes longer, or if ns is not positive.
func (w Work) rateWithin(ns int64) uint64 {
	// Hi counts 2^64 units of work. With as many of them as nanoseconds or more the quotient has more than 64 bits.
	exceedsWord := ns > 0 && w.Hi >= uint64(ns)
	if ns <= 0 || exceedsWord {
		return fullRate
	}
	quotient, remainder := bits.Div64(w.Hi, w.Lo, uint64(ns))
	if remainder > 0 && quotient < fullRate {
		quotient++
	}
	return min(quotient, fullRate)
}
