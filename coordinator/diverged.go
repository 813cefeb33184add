package coordinator

import (
	"errors"

	"fedpace/bus"
)

// ErrDiverged reports that a loss, an update or the model became NaN or
// infinite: the run was sound, and its learning rate too high.
var ErrDiverged = errors.New("diverged")

// failed is a failure that a trainer reports.
type failed struct{ *bus.Failure }

func (f failed) Unwrap() error { return f.Failure }

// Is makes a divergence known as one.
func (f failed) Is(target error) bool { return target == ErrDiverged && f.Kind == bus.Diverged }
