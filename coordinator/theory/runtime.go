package theory

import "fmt"

// Runtime is the time model of FedAvg with equal clients (Eq. 3 to 5). Sizes
// are in megabits (10^6 bit), speeds in megabits a second, times in seconds.
// Below Eq. 4 "D^c = C" is a misprint for D.
type Runtime struct {
	Megabits     float64 // |x|
	DownloadMbps float64 // D
	UploadMbps   float64 // U
	Step         float64 // β, seconds a minibatch
}

func (r Runtime) Validate() error {
	switch {
	case !(r.Megabits > 0):
		return fmt.Errorf("theory: a model of %v Mb, want more than 0", r.Megabits)
	case !(r.DownloadMbps > 0) || !(r.UploadMbps > 0):
		return fmt.Errorf("theory: links of %v and %v Mbit/s, want more than 0", r.DownloadMbps, r.UploadMbps)
	case !(r.Step >= 0):
		return fmt.Errorf("theory: %v s a minibatch, want 0 or more", r.Step)
	}
	return nil
}

// Communication is |x|/D + |x|/U, a round's seconds without computing.
func (r Runtime) Communication() float64 { return r.Megabits/r.DownloadMbps + r.Megabits/r.UploadMbps }

// Round is the seconds of a round of K local steps (Eq. 3).
func (r Runtime) Round(k float64) float64 { return r.Communication() + r.Step*k }

// Iterations is T, the iterations that fit W seconds with a fixed K: Eq. 7
// solved for T.
func (r Runtime) Iterations(w, k float64) float64 { return w / r.Round(k) * k }
