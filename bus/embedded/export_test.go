package embedded

// Update gives a server an account.
var Update = (*Embedded).update

// Renewed tells whether the imports have been made anew an odd number of times.
func (s *Embedded) Renewed() bool { return s.odd }
