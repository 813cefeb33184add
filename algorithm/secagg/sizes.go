package secagg

import "crypto/ed25519"

// Size is what a member sends and gets in a stage, in bytes of payload.
type Size struct {
	Up   int
	Down int
}

// Sizes returns what one member sends and gets in the stages of keys, shares, survivors and recovery, in this order,
// for a round of n members with k neighbours each, of which none has left and all sign. The masked upload, between
// the second and the third, has 8 bytes a parameter beside them.
func Sizes(n, k int) [4]Size {
	return [4]Size{
		{Up: entryBytes, Down: headerBytes + n*entryBytes},
		{Up: k * shareRecord, Down: k * shareRecord},
		{Up: ed25519.SignatureSize, Down: (n + 7) / 8},
		{Up: k * revealBytes, Down: n * signatureBytes},
	}
}
