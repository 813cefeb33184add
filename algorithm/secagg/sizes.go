package secagg

import "crypto/ed25519"

// Size is what a member sends and gets in a stage, in bytes of payload.
type Size struct {
	Up   int
	Down int
}

// Sizes returns the sizes of the stages of keys, shares, survivors and recovery for a member of a
// round of n members with k neighbours each, of which none has left. The masked upload has 8 bytes a
// parameter beside them.
func Sizes(n, k int) [4]Size {
	return [4]Size{
		{Up: entryBytes, Down: headerBytes + n*entryBytes},
		{Up: k * shareRecord, Down: k * shareRecord},
		{Up: ed25519.SignatureSize, Down: (n + 7) / 8},
		{Up: k * revealBytes, Down: n * signatureBytes},
	}
}
