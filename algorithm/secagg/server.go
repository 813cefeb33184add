package secagg

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Server is the coordinator's end of one round. A stage takes the messages of members in any order,
// and ends when the caller says so: whoever has sent nothing by then has left.
//
//	Keys            → Roster
//	Shares          → Inbox, for each member of Members
//	(the caller keeps the uploads)
//	Survivors       → the set
//	Signature       → Signatures
//	Reveal          → Sum
type Server struct {
	// MaxWeight returns the largest weight that a client may have. nil means that any will do.
	MaxWeight func(client uint32) uint64

	context Context
	terms   Terms
	stage   stage

	entries map[uint32]Entry
	roster  *Roster
	encoded []byte
	// encryptedShares has, for each member that sent shares, the encrypted shares for each of its neighbours.
	encryptedShares map[int]map[int][]byte
	// mayUpload says of each member whether it may upload: it has sent shares, and enough of its neighbours have. It
	// is set when the stage of shares ends.
	mayUpload []bool
	// survives says of each member whether it is a survivor, and survivorSet is the bitmap of that.
	survives    []bool
	survivorSet []byte
	// signatures are those of the survivors under the set, by member.
	signatures map[int][]byte
	// revealed has, for each member, the shares of the secret that is wanted of it.
	revealed map[int][]share
	// recoveredSecrets has the secrets that were recovered, by member. sharesAtFailure has, for each member whose
	// secret could not be recovered, how many shares had been revealed at the last attempt, so that the next one
	// waits for a further share.
	recoveredSecrets map[int]secret
	sharesAtFailure  map[int]int
	// answered says of each member whether it has revealed its shares.
	answered []bool
}

// knownPrivateKey is a private X25519 key that everybody knows, with which the server checks that members' public
// keys are valid.
var knownPrivateKey = secret{}.maskKey()

// ErrRound is wrapped by the errors of a round that cannot be completed.
var ErrRound = errors.New("secagg: the round cannot be recovered")

// MemberError is the error of a round in which a member's secret cannot be recovered: the member has given
// its neighbours false shares, or too many neighbours have revealed no share or a false one.
type MemberError struct {
	// Client is the number of the member.
	Client uint32
	Err    error
}

// Error returns the message, with the number of the member.
func (e *MemberError) Error() string { return fmt.Sprintf("client %d: %v", e.Client, e.Err) }

// Unwrap returns what is wrong with the shares.
func (e *MemberError) Unwrap() error { return e.Err }

// NewServer begins the server's end of secure aggregation for the round of context c, in the stage
// of keys. It refuses terms under which a sum would hide nothing.
func NewServer(c Context, terms Terms) (*Server, error) {
	if err := terms.Validate(); err != nil {
		return nil, err
	}
	return &Server{
		context:          c,
		terms:            terms,
		entries:          map[uint32]Entry{},
		encryptedShares:  map[int]map[int][]byte{},
		signatures:       map[int][]byte{},
		revealed:         map[int][]share{},
		recoveredSecrets: map[int]secret{},
		sharesAtFailure:  map[int]int{},
	}, nil
}

// Keys takes a client's entry for the roster. It replaces an earlier one of a client that was restarted,
// which no other member has seen, because the roster is sent when the stage is over.
func (s *Server) Keys(client uint32, entry []byte) error {
	if s.stage != stageKeys {
		return errOrder
	}
	e, err := parseEntry(entry, s.context)
	if err != nil {
		return err
	}
	if e.Client != client {
		return fmt.Errorf("secagg: client %d sends the keys of client %d", client, e.Client)
	}
	if s.MaxWeight != nil && e.Weight > s.MaxWeight(client) {
		return fmt.Errorf("secagg: client %d has the weight %d, want at most %d", client, e.Weight, s.MaxWeight(client))
	}
	// With a key of low order no neighbour could agree on a secret, so that all of them would leave.
	for _, key := range [][keyBytes]byte{e.MaskKey, e.ShareKey} {
		if _, err := agreeOnSecret(knownPrivateKey, key); err != nil {
			return fmt.Errorf("secagg: client %d: %w", client, err)
		}
	}
	s.entries[client] = e
	return nil
}

// Roster ends the stage of keys and returns the encoded roster, which is sent to all members. If
// fewer members have sent keys than the terms need, the error wraps ErrRound, and the round has no
// sum.
func (s *Server) Roster() ([]byte, error) {
	if s.stage != stageKeys {
		return nil, errOrder
	}
	if n := len(s.entries); n < s.terms.Minimum || n-1 < s.terms.Threshold {
		return nil, fmt.Errorf("%w: %d members have sent keys, want %d and %d neighbours of each",
			ErrRound, n, s.terms.Minimum, s.terms.Threshold)
	}
	r := &Roster{Terms: s.terms, Context: s.context}
	for _, e := range s.entries {
		r.Entries = append(r.Entries, e)
	}
	slices.SortFunc(r.Entries, func(a, b Entry) int { return int(int64(a.Client) - int64(b.Client)) })
	s.encoded = r.encode()
	r.arrangeRing(s.encoded)
	s.roster = r
	s.stage = stageShares
	return s.encoded, nil
}

// Encoded returns the roster as Roster has returned it; nil before.
func (s *Server) Encoded() []byte { return s.encoded }

// memberIndex returns the index in the roster of the client with this number. It is an error if the
// client is no member, or if there is no roster yet.
func (s *Server) memberIndex(client uint32) (int, error) {
	if s.roster == nil {
		return notInRoster, errOrder
	}
	i := s.roster.indexOf(client)
	if i == notInRoster {
		return notInRoster, fmt.Errorf("secagg: client %d is no member of the round", client)
	}
	return i, nil
}

// Shares takes the message with a client's encrypted shares in the second stage. It must have one share for
// each neighbour in the ring, in ascending order. The server cannot read the shares; [Server.Inbox] passes
// them on. Shares that are sent again replace the earlier ones.
func (s *Server) Shares(client uint32, message []byte) error {
	member, err := s.memberIndex(client)
	if err != nil {
		return err
	}
	if s.stage != stageShares {
		return errOrder
	}
	recipients, sealed, err := splitRecords(message, shareRecord, len(s.roster.Entries))
	if err != nil {
		return err
	}
	if !slices.Equal(recipients, s.roster.neighbours(member)) {
		return fmt.Errorf("secagg: client %d does not send shares to its neighbours", client)
	}
	byNeighbour := map[int][]byte{}
	for i, recipient := range recipients {
		byNeighbour[recipient] = sealed[i]
	}
	s.encryptedShares[member] = byNeighbour
	return nil
}

// Members ends the stage of shares and returns the clients that may upload. A member with fewer than
// Threshold neighbours that have sent shares could not be recovered, so it is left out, which may leave
// others with too few.
func (s *Server) Members() ([]uint32, error) {
	if s.stage != stageShares {
		return nil, errOrder
	}
	n := len(s.roster.Entries)
	s.mayUpload = make([]bool, n)
	for member := range s.encryptedShares {
		s.mayUpload[member] = true
	}
	// Leaving one member out may bring its neighbours below the threshold, so the loop repeats until
	// nothing changes.
	for changed := true; changed; {
		changed = false
		for member := range n {
			hasTooFew := s.countUploadingNeighbours(member) < s.terms.Threshold
			if s.mayUpload[member] && hasTooFew {
				s.mayUpload[member] = false
				changed = true
			}
		}
	}
	if left := countTrue(s.mayUpload); left < s.terms.Minimum {
		return nil, fmt.Errorf(
			"%w: %d members have sent shares to enough others, want %d",
			ErrRound,
			left,
			s.terms.Minimum,
		)
	}
	s.stage = stageUpload
	return s.clientNumbers(s.mayUpload), nil
}

// countUploadingNeighbours returns how many neighbours in the ring of the member with this index may upload.
func (s *Server) countUploadingNeighbours(member int) (n int) {
	for _, neighbour := range s.roster.neighbours(member) {
		if s.mayUpload[neighbour] {
			n++
		}
	}
	return n
}

// clientNumbers returns the client numbers, ascending, of the members in a set. set has one entry for
// each index in the roster.
func (s *Server) clientNumbers(set []bool) (list []uint32) {
	for i, is := range set {
		if is {
			list = append(list, s.roster.Entries[i].Client)
		}
	}
	return list
}

// Inbox returns the encrypted shares that are meant for a client, from those of its neighbours that may upload, in
// ascending order. The stage of shares must be over, and the client must be one that may upload.
func (s *Server) Inbox(client uint32) ([]byte, error) {
	member, err := s.memberIndex(client)
	if err != nil {
		return nil, err
	}
	if s.stage != stageUpload || !s.mayUpload[member] {
		return nil, errOrder
	}
	var b []byte
	for _, neighbour := range s.roster.neighbours(member) {
		if s.mayUpload[neighbour] {
			b = binary.LittleEndian.AppendUint32(b, uint32(neighbour))
			b = append(b, s.encryptedShares[neighbour][member]...)
		}
	}
	return b, nil
}

// Weight returns the weight of a client.
func (s *Server) Weight(client uint32) uint64 { return s.entries[client].Weight }

// Survivors ends the upload. clients are the numbers of those that have uploaded their masked
// update and count. It returns their set as a bitmap over the roster, for the survivors to sign. If
// there are too few for the terms, the error wraps ErrRound, and the round has no sum.
func (s *Server) Survivors(clients []uint32) ([]byte, error) {
	if s.stage != stageUpload {
		return nil, errOrder
	}
	n := len(s.roster.Entries)
	s.survives = make([]bool, n)
	for _, client := range clients {
		member, err := s.memberIndex(client)
		if err != nil {
			return nil, err
		}
		if !s.mayUpload[member] {
			return nil, fmt.Errorf("secagg: client %d has uploaded and not shared", client)
		}
		s.survives[member] = true
	}
	survivors := countTrue(s.survives)
	// A sum of fewer updates would hide too little, and a set that too few can sign is never
	// accepted.
	if survivors < s.terms.Minimum || survivors < s.terms.Quorum(n) {
		return nil, fmt.Errorf("%w: %d survivors, want %d, of which %d sign",
			ErrRound, survivors, s.terms.Minimum, s.terms.Quorum(n))
	}
	if err := s.roster.Terms.CheckConnected(s.roster.inRingOrder(s.survives)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRound, err)
	}
	s.survivorSet = encodeSet(s.survives)
	s.answered = make([]bool, n)
	s.stage = stageSurvivors
	return s.survivorSet, nil
}

// Signature takes the signature of a survivor, the client with this number, under the set of
// survivors. A signature that is not valid, or of another set, is an error.
func (s *Server) Signature(client uint32, signature []byte) error {
	member, err := s.memberIndex(client)
	if err != nil {
		return err
	}
	if s.stage != stageSurvivors || !s.survives[member] {
		return errOrder
	}
	if !ed25519.Verify(s.roster.Entries[member].Identity[:], s.roster.survivorsMessage(s.survivorSet), signature) {
		return fmt.Errorf("secagg: client %d has not signed the set of survivors", client)
	}
	s.signatures[member] = bytes.Clone(signature)
	return nil
}

// Signatures ends the stage of survivors and returns all signatures of the set, ascending by the
// signer's index. Each member checks them before it reveals a share. If too few survivors have
// signed, the error wraps ErrRound.
func (s *Server) Signatures() ([]byte, error) {
	if s.stage != stageSurvivors {
		return nil, errOrder
	}
	if quorum := s.terms.Quorum(len(s.roster.Entries)); len(s.signatures) < quorum {
		return nil, fmt.Errorf("%w: %d survivors have signed their set, want %d", ErrRound, len(s.signatures), quorum)
	}
	var b []byte
	for member := range s.roster.Entries {
		if signature := s.signatures[member]; signature != nil {
			b = binary.LittleEndian.AppendUint32(b, uint32(member))
			b = append(b, signature...)
		}
	}
	s.stage = stageRecovery
	return b, nil
}

// Reveal takes the message in which a survivor reveals the shares that it holds of its neighbours'
// secrets. ready reports whether there are now enough of them to recover the sum. A message that a
// client repeats changes nothing.
func (s *Server) Reveal(client uint32, message []byte) (ready bool, err error) {
	member, err := s.memberIndex(client)
	if err != nil {
		return false, err
	}
	if s.stage != stageRecovery || !s.survives[member] {
		return false, errOrder
	}
	if s.answered[member] {
		return s.Ready(), nil
	}
	owners, bodies, err := splitRecords(message, revealBytes, len(s.roster.Entries))
	if err != nil {
		return false, err
	}
	if err := s.checkReveal(member, owners, bodies); err != nil {
		return false, err
	}
	s.answered[member] = true
	for i, owner := range owners {
		// The first byte of a body is the kind of the secret, which checkReveal has looked at.
		x := share{holder: member}
		copy(x.value[:], bodies[i][1:])
		s.revealed[owner] = append(s.revealed[owner], x)
	}
	return s.Ready(), nil
}

// checkReveal refuses shares that a member must not reveal. owners[i] is the index of the member whose
// secret the share bodies[i] is of; the share follows a byte for its kind. An owner must be a neighbour of
// the member, and the kind must be the seed of a survivor or the mask secret of a member that left.
func (s *Server) checkReveal(member int, owners []int, bodies [][]byte) error {
	client := s.roster.Entries[member].Client
	neighbours := s.roster.neighbours(member)
	for i, owner := range owners {
		kind := revealKey
		if s.survives[owner] {
			kind = revealSeed
		}
		isNeighbour := slices.Contains(neighbours, owner)
		revealedKind := bodies[i][0]
		if !isNeighbour || revealedKind != kind {
			return fmt.Errorf("secagg: client %d reveals a share of member %d that is not wanted", client, owner)
		}
	}
	return nil
}

// needsSecret reports whether a secret of this member is needed to recover the sum: the seed of a survivor,
// or the mask secret of a member that has shared its secrets, has left, and has a neighbour that survives.
func (s *Server) needsSecret(member int) bool {
	if s.survives[member] {
		return true
	}
	if !s.mayUpload[member] {
		return false
	}
	for _, neighbour := range s.roster.neighbours(member) {
		if s.survives[neighbour] {
			return true
		}
	}
	return false
}

// Ready reports whether the sum can be recovered: whether each secret that it needs follows from the
// revealed shares. It tries to recover them; if some shares are false, more than the threshold are needed.
// It is false before the stage of recovery.
func (s *Server) Ready() bool {
	if s.stage != stageRecovery {
		return false
	}
	for member := range s.roster.Entries {
		if len(s.revealed[member]) < s.terms.Threshold && s.needsSecret(member) {
			return false
		}
	}
	for member := range s.roster.Entries {
		if !s.needsSecret(member) {
			continue
		}
		// The last attempt failed with the same shares.
		if s.sharesAtFailure[member] == len(s.revealed[member]) {
			return false
		}
		if _, err := s.recoverSecretOf(member); err != nil {
			return false
		}
	}
	return true
}

// recoverSecretOf recovers, from the revealed shares, the secret that is needed of the member with this
// index: the seed of a survivor, which must match its commitment in the roster, or the mask secret of a
// member that left, which must match its public mask key.
func (s *Server) recoverSecretOf(member int) (secret, error) {
	if x, ok := s.recoveredSecrets[member]; ok {
		return x, nil
	}
	e := &s.roster.Entries[member]
	matches := func(x secret) bool { return bytes.Equal(x.maskKey().PublicKey().Bytes(), e.MaskKey[:]) }
	if s.survives[member] {
		matches = func(x secret) bool { return x.commitment() == e.Commitment }
	}
	x, err := recoverSecret(s.revealed[member], s.terms.Threshold, matches)
	if err != nil {
		s.sharesAtFailure[member] = len(s.revealed[member])
		return secret{}, err
	}
	s.recoveredSecrets[member] = x
	delete(s.sharesAtFailure, member)
	return x, nil
}

// Unmask removes all masks from words, the sum of the survivors' uploads modulo 2^64, which so becomes the
// sum of their updates. recovered is the number of members that left after they had shared their secrets.
// If a secret cannot be recovered, the error wraps ErrRound and words are of no use.
func (s *Server) Unmask(words []uint64) (recovered int, err error) {
	if s.stage != stageRecovery {
		return 0, errOrder
	}
	for member := range s.roster.Entries {
		if !s.needsSecret(member) {
			continue
		}
		// A survivor's masks of pairs cancel, except those with members that left before their
		// upload.
		if s.survives[member] {
			err = s.removeSelfMask(words, member)
		} else {
			recovered++
			err = s.removePairMasks(words, member)
		}
		if err != nil {
			return recovered, fmt.Errorf("%w: %w", ErrRound, &MemberError{s.roster.Entries[member].Client, err})
		}
	}
	s.stage = stageDone
	return recovered, nil
}

// removeSelfMask subtracts the self-mask of a survivor, the member with this index, from words. The mask
// follows from the survivor's seed, which is recovered from the revealed shares.
func (s *Server) removeSelfMask(words []uint64, member int) error {
	seed, err := s.recoverSecretOf(member)
	if err != nil {
		return err
	}
	const subtract = true
	addMask(words, s.roster.selfMaskKey(seed), subtract)
	return nil
}

// removePairMasks removes from words the masks that survivors share with a member that left before its
// upload, which nothing else cancels. member is its index. Its mask key follows from its mask secret, which
// is recovered from the revealed shares.
func (s *Server) removePairMasks(words []uint64, member int) error {
	found, err := s.recoverSecretOf(member)
	if err != nil {
		return err
	}
	key := found.maskKey()
	for _, neighbour := range s.roster.neighbours(member) {
		// A neighbour that is no survivor has added no mask to the sum.
		if !s.survives[neighbour] {
			continue
		}
		pair, err := s.roster.pairMaskKey(key, neighbour)
		if err != nil {
			return err
		}
		// What the neighbour has added is subtracted, and the other way round.
		subtract := !subtractsPairMask(neighbour, member)
		addMask(words, pair, subtract)
	}
	return nil
}
