// Package filelock locks open files by the operating system: a lock goes with
// its process, however that ends.
package filelock

import "errors"

// ErrLocked is what Lock returns for a file that another process, or another
// open file of this one, has locked.
var ErrLocked = errors.New("locked")
