//go:build !linux

package process

import "os"

// Peak is not known on this system: its unit differs from one to the next.
func Peak(*os.ProcessState) float64 { return 0 }
