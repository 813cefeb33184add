package secagg

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Client is one member's end of one round. Its methods are called in the order Keys, Shares, Mask,
// Sign, Reveal, each once, and refuse another order: a member that signed two sets of survivors, or
// masked two updates with one mask, would give its update away.
type Client struct {
	// Trust reports whether an identity is one of the client. nil trusts the coordinator to pass on
	// the members' identities.
	Trust func(client uint32, identity []byte) bool
	// MaxWeight is the largest weight of a member, so that the sum of all does not leave its range; 0: any.
	MaxWeight uint64
	// Balanced says that the member refuses a roster, and a set of survivors, whose sum would be nearly one member's
	// update. It is for weights that the coordinator has a say in, since it could give all the weight to one.
	Balanced bool

	random   io.Reader
	context  Context
	terms    Terms
	identity ed25519.PrivateKey
	entry    Entry

	// seed is the secret from which the member's self-mask follows: the mask that no neighbour shares.
	seed secret
	// maskSecret is the secret from which the mask key follows.
	maskSecret secret
	maskKey    *ecdh.PrivateKey
	shareKey   *ecdh.PrivateKey

	stage  stage
	roster *Roster
	index  int
	// heldShares are the shares that neighbours have given the member, by neighbour: of those alone that finished the
	// stage, and whose shares open.
	heldShares map[int]heldShares
	// maskPartners are the neighbours with which the member shares a mask: those whose shares it has been sent, even
	// if they do not open.
	maskPartners map[int]bool
	// signedSet is the bitmap of survivors, as the member has signed it.
	signedSet []byte
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

// NewClient makes the end of a member of secure aggregation for the round of context c, before its
// first stage. terms are what the member agreed to, and a roster with others is refused. identity
// signs its messages. client is its number in the run, and weight is what its update counts with.
// random must be a secure source: from it come the member's secrets and keys.
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
		random:       random,
		context:      c,
		terms:        terms,
		identity:     identity,
		heldShares:   map[int]heldShares{},
		maskPartners: map[int]bool{},
	}
	var err error
	// The self-mask follows from the seed, and the masks that pairs share from the mask secret.
	x.seed, err = newSecret(random)
	if err != nil {
		return nil, err
	}
	x.maskSecret, err = newSecret(random)
	if err != nil {
		return nil, err
	}
	// The share key encrypts the shares of these two that neighbours get.
	var drawn [keyBytes]byte
	if _, err := io.ReadFull(random, drawn[:]); err != nil {
		return nil, fmt.Errorf("secagg: draw a key: %w", err)
	}
	x.shareKey, err = ecdh.X25519().NewPrivateKey(drawn[:])
	if err != nil {
		return nil, fmt.Errorf("secagg: draw a key: %w", err)
	}
	x.maskKey = x.maskSecret.maskKey()
	x.entry = Entry{
		Client:     client,
		Weight:     weight,
		Commitment: x.seed.commitment(),
	}
	// The entry holds the public halves alone, and the identity's signature of them.
	copy(x.entry.Identity[:], identity.Public().(ed25519.PublicKey))
	copy(x.entry.MaskKey[:], x.maskKey.PublicKey().Bytes())
	copy(x.entry.ShareKey[:], x.shareKey.PublicKey().Bytes())
	copy(x.entry.Signature[:], ed25519.Sign(identity, x.entry.message(c)))
	return x, nil
}

// Keys returns the member's entry for the roster, as it is sent to the server: its number, weight,
// public keys and commitment, signed. It is the first stage, so a second call is an error.
func (x *Client) Keys() ([]byte, error) {
	if x.stage != stageKeys {
		return nil, errOrder
	}
	x.stage = stageShares
	const signed = true
	return x.entry.append(nil, signed), nil
}

// Shares is the second stage. It takes the roster as the server sent it, checks it, and splits each of the
// member's two secrets among its neighbours. It returns the shares, those for each neighbour encrypted for
// it, in ascending order of the neighbours' indices.
func (x *Client) Shares(roster []byte) ([]byte, error) {
	if x.stage != stageShares {
		return nil, errOrder
	}
	r, err := ParseRoster(roster, x.context)
	if err != nil {
		return nil, err
	}
	if err := x.checkRoster(r); err != nil {
		return nil, err
	}
	neighbours := r.neighbours(x.index)
	seeds, err := x.seed.split(x.random, r.Terms.Threshold, neighbours)
	if err != nil {
		return nil, err
	}
	keys, err := x.maskSecret.split(x.random, r.Terms.Threshold, neighbours)
	if err != nil {
		return nil, err
	}
	var b []byte
	for i, neighbour := range neighbours {
		// Every pair of members has a key of its own for each direction, so the nonce can be zero.
		sender := x.index
		receiver := neighbour
		aead, direction, err := r.shareCipher(x.shareKey, neighbour, sender, receiver)
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

// checkRoster refuses a roster with other terms, without the member's own entry, with too few neighbours
// for the threshold, with an identity that occurs twice or that the member does not trust, or with a weight
// above MaxWeight. It sets the member's index.
func (x *Client) checkRoster(roster *Roster) error {
	if roster.Terms != x.terms {
		return fmt.Errorf("secagg: the roster has the terms %+v, the round %+v", roster.Terms, x.terms)
	}
	x.index = roster.indexOf(x.entry.Client)
	if x.index == notInRoster || roster.Entries[x.index] != x.entry {
		return errors.New("secagg: the roster does not have this member's keys")
	}
	// With fewer neighbours the member's secrets could never be recovered.
	if len(roster.neighbours(x.index)) < roster.Terms.Threshold {
		return fmt.Errorf("secagg: a roster of %d members, too few for a threshold of %d",
			len(roster.Entries), roster.Terms.Threshold)
	}
	identities := map[[keyBytes]byte]bool{}
	for i := range roster.Entries {
		entry := &roster.Entries[i]
		// One identity twice could be one party that counts as two members.
		if identities[entry.Identity] {
			return fmt.Errorf("secagg: client %d has the identity of another member", entry.Client)
		}
		identities[entry.Identity] = true
		if x.MaxWeight > 0 && entry.Weight > x.MaxWeight {
			return fmt.Errorf(
				"secagg: client %d has the weight %d, want at most %d",
				entry.Client,
				entry.Weight,
				x.MaxWeight,
			)
		}
		if x.Trust != nil && !x.Trust(entry.Client, entry.Identity[:]) {
			return fmt.Errorf("secagg: the identity of client %d is not known", entry.Client)
		}
	}
	return x.checkBalanced(roster, func(int) bool { return true })
}

// maxImbalance is how many times the weight of the others a member may have where a round is to be balanced.
const maxImbalance = 3

// checkBalanced returns an error if a member of the sum has more than maxImbalance times the weight of all others,
// without the heaviest of these, which may collude. isSummed says which members, by index, are in the sum. It does
// nothing unless the round is to be balanced.
func (x *Client) checkBalanced(roster *Roster, isSummed func(member int) bool) error {
	if !x.Balanced {
		return nil
	}
	var weights []uint64
	for i := range roster.Entries {
		if isSummed(i) {
			weights = append(weights, roster.Entries[i].Weight)
		}
	}
	slices.Sort(weights)
	slices.Reverse(weights)
	others := uint64(0)
	for i, weight := range weights {
		if i > roster.Terms.Colluders {
			others += weight
		}
	}
	if len(weights) > 0 && weights[0] > maxImbalance*others {
		return fmt.Errorf("secagg: a member has the weight %d, and those that do not collude have %d beside it: "+
			"the sum would be nearly its update", weights[0], others)
	}
	return nil
}

// Mask is the third stage. inbox has the encrypted shares of those neighbours that finished the second
// stage; the member decrypts and keeps them. words is the member's weighted update (see [Encode]), to which
// Mask adds the self-mask and one mask for each of these neighbours, modulo 2^64.
func (x *Client) Mask(inbox []byte, words []uint64) error {
	if x.stage != stageUpload {
		return errOrder
	}
	senders, sealed, err := splitRecords(inbox, shareRecord, len(x.roster.Entries))
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
	// The self-mask hides the update even from someone who learns all masks that pairs share.
	const subtractsSelfMask = false
	masks := []mask{newMask(x.roster.selfMaskKey(x.seed), subtractsSelfMask)}
	for i, sender := range senders {
		if !isNeighbour[sender] {
			return fmt.Errorf("secagg: shares of member %d, which is no neighbour", sender)
		}
		x.openShares(sender, sealed[i])
		x.maskPartners[sender] = true
		key, err := x.roster.pairMaskKey(x.maskKey, sender)
		if err != nil {
			return err
		}
		// One of the two members adds this mask and the other subtracts it, so it is not in the
		// sum.
		masks = append(masks, newMask(key, subtractsPairMask(x.index, sender)))
	}
	addMasks(words, masks)
	x.stage = stageSurvivors
	return nil
}

// openShares decrypts sealed, the shares that the neighbour with the index sender has sent to this member,
// and keeps them for the recovery. Shares that cannot be decrypted are dropped without an error: then fewer
// members can help to recover the sender, but a sender of false shares cannot force this member out of the
// round.
func (x *Client) openShares(sender int, sealed []byte) {
	receiver := x.index
	aead, direction, err := x.roster.shareCipher(x.shareKey, sender, sender, receiver)
	if err != nil {
		return
	}
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), sealed, direction)
	if err != nil {
		return
	}
	var h heldShares
	copy(h.seed[:], plain)
	copy(h.key[:], plain[keyBytes:])
	x.heldShares[sender] = h
}

// Clients returns the client numbers, ascending, of the survivors in set, a bitmap over the roster as
// [Server.Survivors] returns it. It is an error before the member has the roster.
func (x *Client) Clients(set []byte) ([]uint32, error) {
	if x.roster == nil {
		return nil, errOrder
	}
	survives, err := parseSet(set, len(x.roster.Entries))
	if err != nil {
		return nil, err
	}
	var list []uint32
	for i, isSurvivor := range survives {
		if isSurvivor {
			list = append(list, x.roster.Entries[i].Client)
		}
	}
	return list, nil
}

// Sign takes the set of survivors and returns the member's signature of it. It refuses a set without the
// member, one with too few members, one with a neighbour whose shares the coordinator has not passed on,
// and one that may fall apart: a coordinator that lies about who left could then see the sums of its parts.
func (x *Client) Sign(set []byte) ([]byte, error) {
	if x.stage != stageSurvivors {
		return nil, errOrder
	}
	survives, err := parseSet(set, len(x.roster.Entries))
	if err != nil {
		return nil, err
	}
	if n := countTrue(survives); n < x.roster.Terms.Minimum {
		return nil, fmt.Errorf("secagg: %d survivors, want at least %d", n, x.roster.Terms.Minimum)
	}
	if !survives[x.index] {
		return nil, errors.New("secagg: the member is not among the survivors")
	}
	for _, neighbour := range x.roster.neighbours(x.index) {
		if survives[neighbour] && !x.maskPartners[neighbour] {
			return nil, fmt.Errorf(
				"secagg: member %d survives and has not shared, by what this member was told",
				neighbour,
			)
		}
	}
	if err := x.roster.Terms.CheckConnected(x.roster.inRingOrder(survives)); err != nil {
		return nil, err
	}
	if err := x.checkBalanced(x.roster, func(member int) bool { return survives[member] }); err != nil {
		return nil, err
	}
	x.signedSet = append([]byte(nil), set...)
	x.stage = stageRecovery
	return ed25519.Sign(x.identity, x.roster.survivorsMessage(set)), nil
}

// The kinds of a share that is revealed.
const (
	// revealSeed marks the share of the seed of a survivor.
	revealSeed byte = iota
	// revealKey marks the share of the mask secret of a member that has left.
	revealKey
)

// Reveal is the last stage. signatures are those of the set of survivors that the member has signed itself.
// If enough survivors have signed it, Reveal returns the shares that the member holds: that of the seed of
// each neighbour that survives, and that of the mask secret of each other neighbour. It never reveals both
// for one neighbour, since the two together would unmask that neighbour's update.
func (x *Client) Reveal(signatures []byte) ([]byte, error) {
	if x.stage != stageRecovery {
		return nil, errOrder
	}
	n := len(x.roster.Entries)
	signers, list, err := splitRecords(signatures, signatureBytes, n)
	if err != nil {
		return nil, err
	}
	message := x.roster.survivorsMessage(x.signedSet)
	for i, signer := range signers {
		if !ed25519.Verify(x.roster.Entries[signer].Identity[:], message, list[i]) {
			return nil, fmt.Errorf("secagg: member %d has not signed this set of survivors", signer)
		}
	}
	// With enough signatures no second set can have as many, even if colluders sign twice.
	if quorum := x.roster.Terms.Quorum(n); len(signers) < quorum {
		return nil, fmt.Errorf("secagg: %d signatures of the survivors, want %d", len(signers), quorum)
	}
	x.stage = stageDone
	survives, err := parseSet(x.signedSet, n)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, neighbour := range x.roster.neighbours(x.index) {
		// Nothing is held of a neighbour that left before it sent shares, and so added no masks, or that
		// sent shares which do not open.
		held, ok := x.heldShares[neighbour]
		if !ok {
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
