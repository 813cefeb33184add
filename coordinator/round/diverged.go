package round

import "errors"

// ErrDiverged reports that a loss, an update or the model became NaN or infinite, which ends a run:
// the run itself worked, and its learning rate is too high.
var ErrDiverged = errors.New("diverged")
