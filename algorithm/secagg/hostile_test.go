package secagg

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// noLeavers are those of a round in which everybody stays.
var noLeavers [stages][]int

// entryOf is an entry of client 0 for the rig's round, changed and signed anew.
func entryOf(t *testing.T, change func(*Entry)) []byte {
	t.Helper()
	r := newRig(t, 1, 1, complete, 3)
	e := r.clients[0].entry
	change(&e)
	copy(e.Signature[:], ed25519.Sign(r.clients[0].identity, e.message(r.server.context)))
	return e.append(nil, true)
}

// A weight enters the sum of weights by which the server divides: one that is too large would make all
// other updates vanish, so it is refused when it is told.
func TestServer_RefusesTooLargeWeights(t *testing.T) {
	r := newRig(t, 1, 1, complete, 1)
	r.server.MaxWeight = func(client uint32) uint64 { return uint64(client) + 7 }
	if err := r.server.Keys(0, entryOf(t, func(e *Entry) { e.Weight = 7 })); err != nil {
		t.Error(err)
	}
	err := r.server.Keys(0, entryOf(t, func(e *Entry) { e.Weight = 8 }))
	if err == nil || !strings.Contains(err.Error(), "client 0 has the weight 8, want at most 7") {
		t.Errorf("error %v", err)
	}
}

// With a public key of low order (here 0 and 1) no neighbour can agree on a secret: X25519 refuses it. The
// server does before the neighbours would.
func TestServer_RefusesKeysOfLowOrder(t *testing.T) {
	r := newRig(t, 1, 1, complete, 1)
	for name, change := range map[string]func(*Entry){
		"mask key":  func(e *Entry) { e.MaskKey = [keyBytes]byte{} },
		"share key": func(e *Entry) { e.ShareKey = [keyBytes]byte{1} },
	} {
		if err := r.server.Keys(0, entryOf(t, change)); err == nil {
			t.Errorf("a %s of low order is taken", name)
		}
	}
}

// spoil changes the record for some members of a message of records with this length.
func spoil(message []byte, length int, of ...int) {
	for at := 0; at < len(message); at += length {
		for _, member := range of {
			if int(binary.LittleEndian.Uint32(message[at:])) == member {
				message[at+length-1] ^= 1
			}
		}
	}
}

// counts plays the rig's round, in which everybody stays, and holds its sum to the members' updates.
func (r *rig) counts() {
	r.t.Helper()
	sum, survivors, err := r.play(noLeavers)
	if err != nil {
		r.t.Fatal(err)
	}
	r.check(sum, survivors)
}

// Member 5 sends shares that do not open, to so few that the rest recovers its seed: the sum counts.
func TestHostile_SomeSharesDoNotOpen(t *testing.T) {
	r := newRig(t, 8, 3, complete, 4)
	r.shares = func(i int, b []byte) {
		if i == 5 {
			spoil(b, shareRecord, 0, 7)
		}
	}
	r.counts()
}

// Member 5 sends shares that do not open to all. Nobody leaves for that, the sum has no model, and the
// error says whose secret is missing.
func TestHostile_NoSharesOpen(t *testing.T) {
	r := newRig(t, 8, 3, complete, 4)
	r.shares = func(i int, b []byte) {
		if i == 5 {
			spoil(b, shareRecord, 0, 1, 2, 3, 4, 6, 7)
		}
	}
	_, _, err := r.play(noLeavers)
	if !errors.Is(err, ErrRound) || !strings.Contains(err.Error(), "client 50: 0 shares") {
		t.Errorf("error %v", err)
	}
}

// Member 0 reveals false shares of all its neighbours: one holder that lies does no harm.
func TestHostile_OneHolderRevealsFalseShares(t *testing.T) {
	r := newRig(t, 8, 3, complete, 4)
	r.reveals = func(i int, b []byte) {
		if i == 0 {
			spoil(b, revealBytes, 1, 2, 3, 4, 5, 6, 7)
		}
	}
	r.counts()
}

// Members that reveal false shares, more than there are to spare, never lead to a wrong sum.
func TestHostile_ManyHoldersRevealFalseShares(t *testing.T) {
	r := newRig(t, 8, 3, complete, 4)
	r.reveals = func(i int, b []byte) {
		if i < 5 {
			spoil(b, revealBytes, 0, 1, 2, 3, 4, 5, 6, 7)
		}
	}
	if _, _, err := r.play(noLeavers); !errors.Is(err, ErrRound) {
		t.Errorf("error %v", err)
	}
}

// The first holder that answers reveals false shares: the sum is ready only once others have revealed one
// share more than the threshold, however many would be enough if all were true.
func TestHostile_ReadyWaitsForTrueShares(t *testing.T) {
	r := newRig(t, 8, 3, complete, 4)
	r.reveals = func(i int, b []byte) {
		if i == 0 {
			spoil(b, revealBytes, 1, 2, 3, 4, 5, 6, 7)
		}
		// Members 0 to i − 1 have revealed: of member 7 there are i shares, one of which is false.
		if i > 0 && r.server.Ready() != (i > complete.Threshold+1) {
			t.Errorf("ready: %v after %d answers", r.server.Ready(), i)
		}
	}
	r.counts()
}
