package embedded

// Update gives a server an account.
var Update = (*Embedded).update

// Renewed reports whether the accounts' imports were changed an odd number of times.
func (s *Embedded) Renewed() bool { return s.tracesImports }
