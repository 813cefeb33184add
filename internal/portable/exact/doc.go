// Package exact has elementary functions that are rounded correctly: a result is the float64
// nearest to the true value, so it is the same on every architecture and exact where the true
// value is a float64. Pow(2, 10) is 1024 and Cbrt(27) is 3.
//
// Package portable, the folder above, gives the same bits everywhere, too, but only to a few
// units in the last place, at the speed of package math. That is enough for a random time. It is
// not enough where a result is rounded up to a whole number of local steps: a cube root that is
// one unit too large would add a step. Functions here calculate series with 256 bits, take some
// microseconds to a millisecond, and are for what is asked once a round.
package exact
