// Package doctor checks whether this machine can take part in runs as a real device,
// and says of everything that is wrong what mends it.
//
// It changes nothing: it joins no run, answers no call, and what it subscribes to ends
// with it. A finding is a failure where the device cannot take part, and a warning
// where it can but something may go wrong later.
package doctor
