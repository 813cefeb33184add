package secagg

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// rig is a round with all its ends in one place.
type rig struct {
	t       *testing.T
	server  *Server
	clients []*Client
	// alive says which clients still answer, updates what each adds, before masks.
	alive   []bool
	updates [][]uint64
	words   [][]uint64
	// shares and reveals change what a client sends in these stages; nil: nothing.
	shares  func(i int, message []byte)
	reveals func(i int, message []byte)
}

// testRandom is a source of bytes that a seed decides.
func testRandom(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// newRig makes a round of n clients, each with an update of length words.
func newRig(t *testing.T, n, length int, terms Terms, seed uint64) *rig {
	t.Helper()
	return newRigOf(t, NewContext("test", 1), n, length, terms, seed, nil)
}

// newRigOf makes the round of context c, with the identities of the clients of an earlier one, if there is
// one.
func newRigOf(t *testing.T, c Context, n, length int, terms Terms, seed uint64, earlier *rig) *rig {
	t.Helper()
	random := testRandom(seed)
	server, err := NewServer(c, terms)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, server: server}
	for i := range n {
		_, identity, err := ed25519.GenerateKey(random)
		if err != nil {
			t.Fatal(err)
		}
		if earlier != nil {
			identity = earlier.clients[i].identity
		}
		client, err := NewClient(random, c, terms, identity, uint32(10*i), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		update := make([]uint64, length)
		for j := range update {
			update[j] = random.Uint64()
		}
		r.clients = append(r.clients, client)
		r.updates = append(r.updates, update)
		r.words = append(r.words, slices.Clone(update))
		r.alive = append(r.alive, true)
	}
	return r
}

// each calls a function for the clients that are alive.
func (r *rig) each(do func(i int, client uint32, x *Client) error) {
	r.t.Helper()
	for i, x := range r.clients {
		if !r.alive[i] {
			continue
		}
		if err := do(i, x.entry.Client, x); err != nil {
			r.t.Fatalf("client %d: %v", i, err)
		}
	}
}

// leave has clients leave before they do anything else.
func (r *rig) leave(clients []int) {
	for _, i := range clients {
		r.alive[i] = false
	}
}

// stages is how many points there are at which a client may leave: before and after each of the five
// messages but the last.
const stages = 9

// play plays the round; leavers[p] leave at point p. It returns the sum and the survivors.
func (r *rig) play(leavers [stages][]int) (sum []uint64, survivors []int, err error) {
	r.t.Helper()
	s := r.server
	r.leave(leavers[0])
	r.each(func(_ int, client uint32, x *Client) error {
		b, err := x.Keys()
		if err != nil {
			return err
		}
		return s.Keys(client, b)
	})
	r.leave(leavers[1])
	roster, err := s.Roster()
	if err != nil {
		return nil, nil, err
	}
	r.leave(leavers[2])
	r.each(func(i int, client uint32, x *Client) error {
		b, err := x.Shares(roster)
		if err != nil {
			return err
		}
		if r.shares != nil {
			r.shares(i, b)
		}
		return s.Shares(client, b)
	})
	r.leave(leavers[3])
	members, err := s.Members()
	if err != nil {
		return nil, nil, err
	}
	r.leave(leavers[4])
	sum = make([]uint64, len(r.words[0]))
	var uploaded []uint32
	r.each(func(i int, client uint32, x *Client) error {
		if !slices.Contains(members, client) {
			return nil
		}
		inbox, err := s.Inbox(client)
		if err != nil {
			return err
		}
		if err := x.Mask(inbox, r.words[i]); err != nil {
			return err
		}
		for j, w := range r.words[i] {
			sum[j] += w
		}
		uploaded = append(uploaded, client)
		survivors = append(survivors, i)
		return nil
	})
	r.leave(leavers[5])
	set, err := s.Survivors(uploaded)
	if err != nil {
		return nil, nil, err
	}
	r.each(func(i int, client uint32, x *Client) error {
		b, err := x.Sign(set)
		if err != nil {
			return err
		}
		return s.Signature(client, b)
	})
	r.leave(leavers[6])
	signatures, err := s.Signatures()
	if err != nil {
		return nil, nil, err
	}
	r.leave(leavers[7])
	r.each(func(i int, client uint32, x *Client) error {
		b, err := x.Reveal(signatures)
		if err != nil {
			return err
		}
		if r.reveals != nil {
			r.reveals(i, b)
		}
		_, err = s.Reveal(client, b)
		return err
	})
	if _, err := s.Unmask(sum); err != nil {
		return nil, nil, err
	}
	return sum, survivors, nil
}

// check compares a sum with that of the survivors' updates without masks.
func (r *rig) check(sum []uint64, survivors []int) {
	r.t.Helper()
	want := make([]uint64, len(sum))
	for _, i := range survivors {
		for j, w := range r.updates[i] {
			want[j] += w
		}
	}
	if !slices.Equal(sum, want) {
		r.t.Fatal("the sum differs from that without masks")
	}
}

// complete are terms for eight clients that all are neighbours.
var complete = Terms{
	Neighbours: 7,
	Threshold:  4,
	Minimum:    3,
}

func TestRound_SumHasBitsWithoutMasks(t *testing.T) {
	r := newRig(t, 8, 5000, complete, 1)
	sum, survivors, err := r.play([stages][]int{})
	if err != nil {
		t.Fatal(err)
	}
	if len(survivors) != 8 {
		t.Fatalf("%d survivors", len(survivors))
	}
	r.check(sum, survivors)
}

func TestRound_ClientsLeaveAtEveryPoint(t *testing.T) {
	for point := range stages {
		r := newRig(t, 8, 100, complete, uint64(point))
		var leavers [stages][]int
		leavers[point] = []int{2, 5}
		sum, survivors, err := r.play(leavers)
		if err != nil {
			t.Fatalf("two leave at point %d: %v", point, err)
		}
		want := 6
		if point > 4 {
			want = 8
		}
		if len(survivors) != want {
			t.Errorf("point %d: %d survivors, want %d", point, len(survivors), want)
		}
		r.check(sum, survivors)
	}
}

func TestRound_SparseGraphWithLeavers(t *testing.T) {
	plan, err := Choose(60, 0.05, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Neighbours >= 59 {
		t.Fatalf("the graph of %+v is complete", plan)
	}
	r := newRig(t, 60, 50, plan.Terms, 7)
	var leavers [stages][]int
	leavers[0] = []int{0, 59}
	leavers[2] = []int{10, 11}
	leavers[4] = []int{20, 21, 22}
	leavers[7] = []int{30, 31, 32}
	sum, survivors, err := r.play(leavers)
	if err != nil {
		t.Fatal(err)
	}
	if len(survivors) != 53 {
		t.Fatalf("%d survivors", len(survivors))
	}
	r.check(sum, survivors)
}

func TestServer_TooManyLeave(t *testing.T) {
	for point := range stages - 1 { // at the last point all have answered
		r := newRig(t, 8, 10, complete, 3)
		var leavers [stages][]int
		leavers[point] = []int{0, 1, 2, 3, 4, 5}
		if _, _, err := r.play(leavers); err == nil {
			t.Errorf("six of eight leave at point %d and the sum is there", point)
		}
	}
}

func TestUnmask_OneFalseShareIsHarmless(t *testing.T) {
	r := newRig(t, 8, 10, complete, 4)
	reveal := r.forgingReveal(t, 1)
	r.check(reveal, []int{0, 1, 2, 3, 4, 5, 6, 7})
}

// forgingReveal plays the round, in which a client reveals false shares, and returns the sum.
func (r *rig) forgingReveal(t *testing.T, liar int) []uint64 {
	t.Helper()
	s := r.server
	r.each(func(_ int, client uint32, x *Client) error {
		b, _ := x.Keys()
		return s.Keys(client, b)
	})
	roster, _ := s.Roster()
	r.each(func(i int, client uint32, x *Client) error {
		b, err := x.Shares(roster)
		if err != nil {
			return err
		}
		if r.shares != nil {
			r.shares(i, b)
		}
		return s.Shares(client, b)
	})
	members, _ := s.Members()
	sum := make([]uint64, 10)
	r.each(func(i int, client uint32, x *Client) error {
		inbox, _ := s.Inbox(client)
		err := x.Mask(inbox, r.words[i])
		for j, w := range r.words[i] {
			sum[j] += w
		}
		return err
	})
	set, err := s.Survivors(members)
	if err != nil {
		t.Fatal(err)
	}
	r.each(func(_ int, client uint32, x *Client) error {
		b, err := x.Sign(set)
		if err != nil {
			return err
		}
		return s.Signature(client, b)
	})
	signatures, err := s.Signatures()
	if err != nil {
		t.Fatal(err)
	}
	r.each(func(i int, client uint32, x *Client) error {
		b, err := x.Reveal(signatures)
		if i == liar {
			for from := 0; from < len(b); from += revealBytes {
				b[from+5] ^= 1
			}
		}
		if err != nil {
			return err
		}
		_, err = s.Reveal(client, b)
		return err
	})
	if _, err := s.Unmask(sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestRecoverSecret_WrongSharesAreNoticed(t *testing.T) {
	random := testRandom(5)
	s, err := newSecret(random)
	if err != nil {
		t.Fatal(err)
	}
	members := []int{0, 3, 4, 9, 11}
	parts, err := s.split(random, 3, members)
	if err != nil {
		t.Fatal(err)
	}
	shares := make([]share, len(parts))
	for i, p := range parts {
		shares[i] = share{holder: members[i], value: p}
	}
	matches := func(x secret) bool { return x.commitment() == s.commitment() }
	t.Run("threshold shares", func(t *testing.T) {
		got, err := recoverSecret(shares[2:], 3, matches)
		if err != nil || got != s {
			t.Errorf("%v", err)
		}
	})
	t.Run("one share fewer", func(t *testing.T) {
		if _, err := recoverSecret(shares[:2], 3, matches); err == nil {
			t.Error("two shares of three give the secret")
		}
	})
	t.Run("two shares more and one false", func(t *testing.T) {
		forged := slices.Clone(shares)
		forged[1].value[0] ^= 1
		got, err := recoverSecret(forged, 3, matches)
		if err != nil || got != s {
			t.Errorf("%v", err)
		}
	})
	t.Run("two of three false", func(t *testing.T) {
		forged := slices.Clone(shares[:3])
		// The points 1 and 4 have the coefficients 5/3 and -5/3 beside point 5, so equal errors would cancel.
		forged[0].value[0] ^= 1
		forged[1].value[1] ^= 1
		if _, err := recoverSecret(forged, 3, matches); err == nil {
			t.Error("false shares give a secret")
		}
	})
}

func TestClient_NoSharesForTwoSets(t *testing.T) {
	// A coordinator that names one set to half of the clients and another to the rest gets a quorum
	// for neither.
	r := newRig(t, 8, 10, complete, 6)
	s := r.server
	r.each(func(_ int, client uint32, x *Client) error {
		b, _ := x.Keys()
		return s.Keys(client, b)
	})
	roster, _ := s.Roster()
	r.each(func(_ int, client uint32, x *Client) error {
		b, _ := x.Shares(roster)
		return s.Shares(client, b)
	})
	if _, err := s.Members(); err != nil {
		t.Fatal(err)
	}
	r.each(func(i int, client uint32, x *Client) error {
		inbox, _ := s.Inbox(client)
		return x.Mask(inbox, r.words[i])
	})
	all := encodeSet([]bool{true, true, true, true, true, true, true, true})
	less := encodeSet([]bool{true, true, true, true, true, true, true, false})
	signatures := map[string][]byte{}
	r.each(func(i int, _ uint32, x *Client) error {
		set := all
		if i < 4 {
			set = less
		}
		b, err := x.Sign(set)
		signatures[string(set)] = binary.LittleEndian.AppendUint32(signatures[string(set)], uint32(i))
		signatures[string(set)] = append(signatures[string(set)], b...)
		if _, again := x.Sign(set); again == nil {
			t.Errorf("client %d signs twice", i)
		}
		return err
	})
	r.each(func(i int, _ uint32, x *Client) error {
		if b, err := x.Reveal(signatures[string(x.signedSet)]); err == nil {
			t.Errorf("client %d reveals %d bytes of shares for a set that half has signed", i, len(b))
		}
		return nil
	})
}

// A coordinator that says that all neighbours of a client have left would get the shares of their keys from
// others, and that of the client's seed: it would see the update. Nobody signs such a set, nor one by which
// a neighbour survives that the client was told had left.
func TestClient_RefusesIsolation(t *testing.T) {
	plan, err := Choose(60, 0.05, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	const victim = 17
	toSignature := func() (*rig, []int) {
		r := newRig(t, 60, 10, plan.Terms, 12)
		r.uploads()
		return r, r.server.roster.neighbours(victim)
	}
	all := slices.Repeat([]bool{true}, 60)
	t.Run("all neighbours have left", func(t *testing.T) {
		r, neighbours := toSignature()
		set := slices.Clone(all)
		for _, i := range neighbours {
			set[i] = false
		}
		if n := countTrue(set); n < plan.Quorum(60) || n < plan.Minimum {
			t.Fatalf("%d survivors are refused for their number", n)
		}
		for i, x := range r.clients {
			if _, err := x.Sign(encodeSet(set)); err == nil {
				t.Fatalf("client %d signs", i)
			}
		}
		var uploaded []uint32
		for i, x := range r.clients {
			if set[i] {
				uploaded = append(uploaded, x.entry.Client)
			}
		}
		if _, err := r.server.Survivors(uploaded); !errors.Is(err, ErrRound) {
			t.Errorf("an honest coordinator goes on: %v", err)
		}
	})
	t.Run("one has left by what the client was told", func(t *testing.T) {
		r, neighbours := toSignature()
		delete(r.clients[victim].maskPartners, neighbours[0])
		if _, err := r.clients[victim].Sign(encodeSet(all)); err == nil {
			t.Error("signed")
		}
		if _, err := r.clients[victim+1].Sign(encodeSet(all)); err != nil {
			t.Error(err)
		}
	})
}

// Messages of an earlier round are of no use in the next one, with the same devices: neither the entry, the
// shares, the signature nor what is revealed.
func TestServer_ReplayedMessages(t *testing.T) {
	first := newRig(t, 8, 10, complete, 21)
	first.uploads()
	second := newRigOf(t, NewContext("test", 2), 8, 10, complete, 22, first)
	old := first.clients[2]
	var all []uint32
	for _, x := range first.clients {
		all = append(all, x.entry.Client)
	}
	set, err := first.server.Survivors(all)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := old.Sign(set)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.server.Keys(old.entry.Client, old.entry.append(nil, true)); err == nil {
		t.Error("an entry of another round is taken")
	}
	second.uploads()
	if _, err := second.server.Survivors(all); err != nil {
		t.Fatal(err)
	}
	if err := second.server.Signature(old.entry.Client, signature); err == nil {
		t.Error("a signature of another round is taken")
	}
	// What the first round sealed for a neighbour cannot be opened in the second one.
	sealed := first.server.encryptedShares[2][3]
	delete(second.clients[3].heldShares, 2)
	second.clients[3].openShares(2, sealed)
	if _, held := second.clients[3].heldShares[2]; held {
		t.Error("shares of another round are opened")
	}
}

// A client that reveals the share of the other kind, both kinds, or one twice is refused.
func TestServer_RefusesBothKinds(t *testing.T) {
	r := newRig(t, 8, 10, complete, 23)
	r.uploads()
	var all []uint32
	for _, x := range r.clients {
		all = append(all, x.entry.Client)
	}
	set, err := r.server.Survivors(all[:7])
	if err != nil {
		t.Fatal(err)
	}
	r.alive[7] = false
	r.each(func(_ int, client uint32, x *Client) error {
		b, err := x.Sign(set)
		if err != nil {
			return err
		}
		return r.server.Signature(client, b)
	})
	signatures, err := r.server.Signatures()
	if err != nil {
		t.Fatal(err)
	}
	good, err := r.clients[0].Reveal(signatures)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.clients[0].Reveal(signatures); err == nil {
		t.Error("a client reveals twice")
	}
	record := good[:revealBytes]
	other := slices.Clone(record)
	other[4] = revealKey
	for name, message := range map[string][]byte{
		"the other kind": other,
		"both kinds":     append(slices.Clone(record), other...),
		"one twice":      append(slices.Clone(record), record...),
	} {
		if _, err := r.server.Reveal(all[0], message); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := r.server.Reveal(all[0], good); err != nil {
		t.Error(err)
	}
}

func TestClient_RefusesSets(t *testing.T) {
	x := &Client{stage: stageSurvivors, roster: &Roster{Terms: complete, Entries: make([]Entry, 8)}, index: 1}
	for name, set := range map[string][]byte{
		"without itself":    encodeSet([]bool{true, false, true, true, true, true, true, true}),
		"below the minimum": encodeSet([]bool{true, true, false, false, false, false, false, false}),
		"of another length": {255, 255},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := x.Sign(set); err == nil {
				t.Error("signed")
			}
		})
	}
}

func TestClient_TrustsKnownIdentitiesAlone(t *testing.T) {
	r := newRig(t, 8, 1, complete, 8)
	r.clients[3].Trust = func(client uint32, _ []byte) bool { return client != 50 }
	r.each(func(_ int, client uint32, x *Client) error {
		b, _ := x.Keys()
		return r.server.Keys(client, b)
	})
	roster, err := r.server.Roster()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.clients[3].Shares(roster); err == nil {
		t.Error("a client gives shares to a member that it does not know")
	}
	if _, err := r.clients[4].Shares(roster); err != nil {
		t.Error(err)
	}
}

// A member refuses a sum in which one update has more than three quarters of the weight of those that do not collude.
func TestClient_RefusesUnbalancedSums(t *testing.T) {
	for _, c := range []struct {
		name      string
		weights   []uint64
		colluders int
		refused   bool
	}{
		{"all alike", []uint64{1024, 1024, 1024}, 0, false},
		{"three quarters", []uint64{100, 300, 200, 1800}, 0, false},
		{"more", []uint64{100, 300, 200, 1801}, 0, true},
		{"one beside colluders", []uint64{1024, 1024, 1}, 1, true},
		{"two beside a colluder", []uint64{1024, 1024, 1024}, 1, false},
		{"one beside old ones", []uint64{1, 1024, 1, 1, 1, 1, 1, 1}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			roster := &Roster{Terms: Terms{Colluders: c.colluders}}
			for _, weight := range c.weights {
				roster.Entries = append(roster.Entries, Entry{Weight: weight})
			}
			all := func(int) bool { return true }
			if err := (&Client{Balanced: true}).checkBalanced(roster, all); (err != nil) != c.refused {
				t.Errorf("%v", err)
			}
			if err := (&Client{}).checkBalanced(roster, all); err != nil {
				t.Errorf("where no balance is asked for: %v", err)
			}
		})
	}
}

func TestServer_RefusesForgedMessages(t *testing.T) {
	r := newRig(t, 8, 1, complete, 9)
	entry, _ := r.clients[0].Keys()
	other, _ := r.clients[1].Keys()
	changed := slices.Clone(entry)
	changed[20] ^= 1
	for name, b := range map[string][]byte{
		"another's":            other,
		"a changed one":        changed,
		"a short one":          entry[:len(entry)-1],
		"of another round":     forRound(t, 2),
		"of another's context": forRound(t, 3),
	} {
		t.Run(name, func(t *testing.T) {
			if err := r.server.Keys(0, b); err == nil {
				t.Error("taken")
			}
		})
	}
	if err := r.server.Keys(0, entry); err != nil {
		t.Error(err)
	}
}

// forRound is an entry of client 0 for another round.
func forRound(t *testing.T, round uint32) []byte {
	t.Helper()
	random := testRandom(1)
	_, identity, _ := ed25519.GenerateKey(random)
	x, err := NewClient(random, NewContext("test", round), complete, identity, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := x.Keys()
	return b
}

func TestAddMask_IsAESCounterMode(t *testing.T) {
	// NIST SP 800-38A, F.5.1, CTR-AES128: key, first counter, and the first two output blocks.
	key, err := hex.DecodeString("2b7e151628aed2a6abf7158809cf4f3c" + "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, 4)
	addMask(words, key, false)
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	want := "ec8cdf7398607cb0f2d21675ea9ea1e4" + "362b7c3c6773516318a077d7fc5073ae"
	if hex.EncodeToString(b) != want {
		t.Errorf("%x, want %x", b, want)
	}
	addMask(words, key, true)
	if slices.ContainsFunc(words, func(w uint64) bool { return w != 0 }) {
		t.Error("a mask that is added and subtracted leaves something")
	}
}
