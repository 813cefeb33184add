package secagg

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Client is one member's end of one round. Its methods are called in the order Keys, Shares, Mask,
// Sign, Reveal, each once, and refuse another order: a member that signed two sets of survivors, or
// masked two updates with one mask, would give its update away.
type Client struct {
	// Trust reports whether an identity is one of the client. nil trusts the coordinator to pass on
	// the members' identities.
	Trust func(client uint32, identity []byte) bool

	random   io.Reader
	context  Context
	terms    Terms
	identity ed25519.PrivateKey
	entry    Entry

	seed       secret // of the own mask
	maskSecret secret // from which the mask key follows
	maskKey    *ecdh.PrivateKey
	shareKey   *ecdh.PrivateKey

	stage  stage
	roster *Roster
	index  int
	// held are the shares that neighbours have given the member, by neighbour: of those alone that
	// finished the stage.
	held map[int]heldShares
	set  []byte // of survivors, as it was signed
}

// heldShares are the two shares of a neighbour's secrets.
type heldShares struct {
	seed secret
	key  secret
}

// stage is how far a member or a round is.
type stage uint8

const (
	stageKeys stage = iota
	stageShares
	stageUpload
	stageSurvivors
	stageRecovery
	stageDone
)

// errOrder is the error of a method that is called out of order.
var errOrder = errors.New("secagg: a stage out of order")

// NewClient makes a member's end of the round of a context. client is its number in the run and weight
// what its update counts with. terms are what it agreed to take part under. random is a secure source.
func NewClient(
	random io.Reader,
	c Context,
	terms Terms,
	identity ed25519.PrivateKey,
	client uint32,
	weight uint64,
) (*Client, error) {
	if err := terms.Validate(); err != nil {
		return nil, err
	}
	x := &Client{
		random:     random,
		context:    c,
		terms:      terms,
		identity:   identity,
		seed:       newSecret(random),
		maskSecret: newSecret(random),
		held:       map[int]heldShares{},
	}
	var drawn [keyBytes]byte
	if _, err := io.ReadFull(random, drawn[:]); err != nil {
		return nil, fmt.Errorf("secagg: draw a key: %w", err)
	}
	var err error
	if x.shareKey, err = ecdh.X25519().NewPrivateKey(drawn[:]); err != nil {
		return nil, fmt.Errorf("secagg: draw a key: %w", err)
	}
	x.maskKey = x.maskSecret.maskKey()
	x.entry = Entry{
		Client:     client,
		Weight:     weight,
		Commitment: x.seed.commitment(),
	}
	copy(x.entry.Identity[:], identity.Public().(ed25519.PublicKey))
	copy(x.entry.MaskKey[:], x.maskKey.PublicKey().Bytes())
	copy(x.entry.ShareKey[:], x.shareKey.PublicKey().Bytes())
	copy(x.entry.Signature[:], ed25519.Sign(identity, x.entry.message(c)))
	return x, nil
}

// Keys returns the member's entry.
func (x *Client) Keys() ([]byte, error) {
	if x.stage != stageKeys {
		return nil, errOrder
	}
	x.stage = stageShares
	return x.entry.append(nil, true), nil
}

// Shares takes the roster and returns the encrypted shares for the neighbours, in the order of their
// indices.
func (x *Client) Shares(roster []byte) ([]byte, error) {
	if x.stage != stageShares {
		return nil, errOrder
	}
	r, err := ParseRoster(roster, x.context)
	if err != nil {
		return nil, err
	}
	if err := x.check(r); err != nil {
		return nil, err
	}
	neighbours := r.neighbours(x.index)
	seeds := x.seed.split(x.random, r.Terms.Threshold, neighbours)
	keys := x.maskSecret.split(x.random, r.Terms.Threshold, neighbours)
	var b []byte
	for i, neighbour := range neighbours {
		aead, direction, err := r.sealer(x.shareKey, neighbour, x.index, neighbour)
		if err != nil {
			return nil, err
		}
		plain := append(seeds[i][:], keys[i][:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(neighbour))
		b = aead.Seal(b, make([]byte, aead.NonceSize()), plain, direction)
	}
	x.roster = r
	x.stage = stageUpload
	return b, nil
}

// check refuses a roster of other terms, without the member as it described itself, or with an
// identity that the member does not trust. It notes the member's index.
func (x *Client) check(r *Roster) error {
	if r.Terms != x.terms {
		return fmt.Errorf("secagg: the roster has the terms %+v, the round %+v", r.Terms, x.terms)
	}
	x.index = r.indexOf(x.entry.Client)
	if x.index == notThere || r.Entries[x.index] != x.entry {
		return errors.New("secagg: the roster does not have this member's keys")
	}
	if len(r.neighbours(x.index)) < r.Terms.Threshold {
		return fmt.Errorf("secagg: a roster of %d members, too few for a threshold of %d",
			len(r.Entries), r.Terms.Threshold)
	}
	identities := map[[keyBytes]byte]bool{}
	for i := range r.Entries {
		e := &r.Entries[i]
		if identities[e.Identity] {
			return fmt.Errorf("secagg: client %d has the identity of another member", e.Client)
		}
		identities[e.Identity] = true
		if x.Trust != nil && !x.Trust(e.Client, e.Identity[:]) {
			return fmt.Errorf("secagg: the identity of client %d is not known", e.Client)
		}
	}
	return nil
}

// Mask takes the shares of the neighbours that have finished the stage, and adds the member's masks to
// words, which are its weighted update.
func (x *Client) Mask(inbox []byte, words []uint64) error {
	if x.stage != stageUpload {
		return errOrder
	}
	senders, sealed, err := records(inbox, shareRecord, len(x.roster.Entries))
	if err != nil {
		return err
	}
	isNeighbour := map[int]bool{}
	for _, neighbour := range x.roster.neighbours(x.index) {
		isNeighbour[neighbour] = true
	}
	if len(senders) < x.roster.Terms.Threshold {
		return fmt.Errorf("secagg: shares of %d neighbours, want %d", len(senders), x.roster.Terms.Threshold)
	}
	masks := []mask{newMask(x.roster.ownKey(x.seed), false)}
	for i, sender := range senders {
		if !isNeighbour[sender] {
			return fmt.Errorf("secagg: shares of member %d, which is no neighbour", sender)
		}
		if err := x.hold(sender, sealed[i]); err != nil {
			return err
		}
		key, err := x.roster.pairKey(x.maskKey, sender)
		if err != nil {
			return err
		}
		masks = append(masks, newMask(key, subtracts(x.index, sender)))
	}
	addMasks(words, masks)
	x.stage = stageSurvivors
	return nil
}

// hold decrypts and keeps the shares of a neighbour.
func (x *Client) hold(sender int, sealed []byte) error {
	aead, direction, err := x.roster.sealer(x.shareKey, sender, sender, x.index)
	if err != nil {
		return err
	}
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), sealed, direction)
	if err != nil {
		return fmt.Errorf("secagg: the shares of member %d cannot be read: %w", sender, err)
	}
	var h heldShares
	copy(h.seed[:], plain)
	copy(h.key[:], plain[keyBytes:])
	x.held[sender] = h
	return nil
}

// Clients returns the numbers of the clients of a set of survivors, ascending.
func (x *Client) Clients(set []byte) ([]uint32, error) {
	if x.roster == nil {
		return nil, errOrder
	}
	survives, err := parseSet(set, len(x.roster.Entries))
	if err != nil {
		return nil, err
	}
	var list []uint32
	for i, is := range survives {
		if is {
			list = append(list, x.roster.Entries[i].Client)
		}
	}
	return list, nil
}

// Sign takes the set of survivors and returns the member's signature of it. It refuses a set without
// the member, and one below the minimum.
func (x *Client) Sign(set []byte) ([]byte, error) {
	if x.stage != stageSurvivors {
		return nil, errOrder
	}
	survives, err := parseSet(set, len(x.roster.Entries))
	if err != nil {
		return nil, err
	}
	if n := count(survives); n < x.roster.Terms.Minimum {
		return nil, fmt.Errorf("secagg: %d survivors, want at least %d", n, x.roster.Terms.Minimum)
	}
	if !survives[x.index] {
		return nil, errors.New("secagg: the member is not among the survivors")
	}
	x.set = append([]byte(nil), set...)
	x.stage = stageRecovery
	return ed25519.Sign(x.identity, x.roster.survivorsMessage(set)), nil
}

// The kinds of a share that is revealed.
const (
	revealSeed byte = iota // of a survivor
	revealKey              // of a member that has left
)

// Reveal takes the signatures of the set that the member signed, and returns the shares of its
// neighbours: of the seeds of survivors and of the keys of the others.
func (x *Client) Reveal(signatures []byte) ([]byte, error) {
	if x.stage != stageRecovery {
		return nil, errOrder
	}
	n := len(x.roster.Entries)
	signers, list, err := records(signatures, signatureBytes, n)
	if err != nil {
		return nil, err
	}
	message := x.roster.survivorsMessage(x.set)
	for i, signer := range signers {
		if !ed25519.Verify(x.roster.Entries[signer].Identity[:], message, list[i]) {
			return nil, fmt.Errorf("secagg: member %d has not signed this set of survivors", signer)
		}
	}
	if quorum := x.roster.Terms.Quorum(n); len(signers) < quorum {
		return nil, fmt.Errorf("secagg: %d signatures of the survivors, want %d", len(signers), quorum)
	}
	x.stage = stageDone
	survives, err := parseSet(x.set, n)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, neighbour := range x.roster.neighbours(x.index) {
		held, finished := x.held[neighbour]
		if !finished {
			continue
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(neighbour))
		if survives[neighbour] {
			b = append(b, revealSeed)
			b = append(b, held.seed[:]...)
		} else {
			b = append(b, revealKey)
			b = append(b, held.key[:]...)
		}
	}
	return b, nil
}
