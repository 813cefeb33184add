package secagg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"fedpace/internal/cputime"
	"fedpace/learn"
)

// The round that BenchmarkMember plays: a hundred devices, and a network of convolutions with 1.7 million
// parameters that is like CIFAR-100's.
const (
	benchMembers = 100
	benchModel   = "cnn:3x32x32,32,64,700,100"
	benchBatch   = 32
)

// BenchmarkMember is what one device of a hundred computes in a round for a model of 1.7 million
// parameters, beside its local steps. It reports the parts that the configuration's constants stand for,
// a local step of the same model on the same core, how often the computation of a plain round it makes
// with K steps, from which K on that is at most twice, and the time that AES alone takes for the bytes
// of all masks. The best turn counts, in processor time, whatever else the machine does.
func BenchmarkMember(b *testing.B) {
	m, err := learn.Parse(benchModel)
	if err != nil {
		b.Fatal(err)
	}
	params := m.Params()
	plan, err := Choose(benchMembers, 0.1, 0.2)
	if err != nil {
		b.Fatal(err)
	}
	r := newBenchRound(b, plan.Terms)
	after := make([]float32, params)
	base := make([]float32, params)
	m.Init(base, 1)
	m.Init(after, 2)
	words := make([]uint64, params)
	step := stepOf(b, m)
	best := map[string]time.Duration{}
	// timed notes the shortest time of a part.
	timed := func(part string, do func() error) {
		used := cputime.Start()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		took := used()
		if old, ok := best[part]; !ok || took < old {
			best[part] = took
		}
	}
	for b.Loop() {
		var x *Client
		timed("keys", func() (err error) {
			_, identity, err := ed25519.GenerateKey(r.random)
			if err == nil {
				_, err = NewClient(r.random, r.context, plan.Terms, identity, 0, 1)
			}
			return err
		})
		copied := *r.first
		x = &copied
		x.heldShares = map[int]heldShares{}
		x.maskPartners = map[int]bool{}
		timed("shares", func() error {
			shares, err := x.Shares(r.roster)
			if err == nil {
				r.share(b, shares)
			}
			return err
		})
		timed("encode", func() error { return Encode(words, 0.0078125, after, base) })
		timed("masks", func() error { return x.Mask(r.inbox, words) })
		r.survive(b, x)
		timed("recovery", func() error {
			_, err := x.Reveal(r.signatures)
			return err
		})
		timed("step", step)
		timed("AES", func() error { return streams(8*params, plan.Neighbours+1) })
	}
	ms := func(part string) float64 { return best[part].Seconds() * 1e3 }
	added := 0.0
	for _, part := range []string{"keys", "shares", "encode", "masks", "recovery"} {
		b.ReportMetric(ms(part), "ms-"+part)
		added += ms(part)
	}
	b.ReportMetric(float64(plan.Neighbours), "neighbours")
	b.ReportMetric(ms("AES"), "ms-AES-alone")
	b.ReportMetric(ms("step"), "ms-step")
	for _, k := range []int{1, 4, 8, 80} {
		plain := float64(k) * ms("step")
		b.ReportMetric((plain+added)/plain, fmt.Sprintf("times-at-K=%d", k))
	}
	b.ReportMetric(math.Ceil(added/ms("step")), "K-for-twice")
	plain := float64(2 * 4 * params)
	masked := float64((4 + 8) * params)
	for _, size := range Sizes(benchMembers, plan.Neighbours) {
		masked += float64(size.Up + size.Down)
	}
	b.ReportMetric(masked/plain, "bytes-ratio")
}

// stepOf returns a function that takes one local step of a model.
func stepOf(b *testing.B, m learn.Model) func() error {
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	batch := &learn.Batch{N: benchBatch}
	for range benchBatch * m.Samples().Features {
		batch.X = append(batch.X, random.Float32()*2-1)
	}
	for range benchBatch {
		batch.Labels = append(batch.Labels, random.Int32N(int32(m.Samples().Classes)))
	}
	params := make([]float32, m.Params())
	m.Init(params, 1)
	w := m.NewWorkspace(benchBatch, kernel)
	return func() error {
		_, err := w.Step(params, batch, 0.01)
		return err
	}
}

// streams makes n key streams of some bytes in blocks, and does nothing with them.
func streams(bytes, n int) error {
	var block [maskBlock]byte
	var zeros [maskBlock]byte
	for i := range n {
		key := make([]byte, cipherKeyBytes)
		key[0] = byte(i)
		c, err := aes.NewCipher(key)
		if err != nil {
			return err
		}
		stream := cipher.NewCTR(c, make([]byte, aes.BlockSize))
		for left := bytes; left > 0; left -= maskBlock {
			stream.XORKeyStream(block[:], zeros[:])
		}
	}
	return nil
}

// benchRound is a round in which all members but the first have sent their shares.
type benchRound struct {
	random  *rand.ChaCha8
	context Context
	server  *Server
	first   *Client
	all     []*Client
	roster  []byte
	// inbox are the shares for the first member, and signatures those of its set; nil before.
	inbox      []byte
	signatures []byte
}

// newBenchRound plays the stages of keys and shares.
func newBenchRound(b *testing.B, terms Terms) *benchRound {
	r := &benchRound{random: testRandom(1), context: NewContext("bench", 1)}
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	var err error
	r.server, err = NewServer(r.context, terms)
	check(err)
	for i := range benchMembers {
		_, identity, _ := ed25519.GenerateKey(r.random)
		x, err := NewClient(r.random, r.context, terms, identity, uint32(i), 1)
		check(err)
		r.all = append(r.all, x)
		entry, _ := x.Keys()
		check(r.server.Keys(uint32(i), entry))
	}
	r.first = r.all[0]
	r.roster, err = r.server.Roster()
	check(err)
	for i, x := range r.all[1:] {
		shares, err := x.Shares(r.roster)
		check(err)
		check(r.server.Shares(uint32(i+1), shares))
	}
	return r
}

// share ends the stage of shares with those of the first member, at the first call.
func (r *benchRound) share(b *testing.B, shares []byte) {
	if r.inbox != nil {
		return
	}
	err := r.server.Shares(0, shares)
	if err == nil {
		_, err = r.server.Members()
	}
	if err == nil {
		r.inbox, err = r.server.Inbox(0)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// survive has the first member, x, sign the set of all, whose signatures are made at the first call.
func (r *benchRound) survive(b *testing.B, x *Client) {
	set := encodeSet(slices.Repeat([]bool{true}, benchMembers))
	if _, err := x.Sign(set); err != nil {
		b.Fatal(err)
	}
	if r.signatures != nil {
		return
	}
	for i, y := range r.all {
		r.signatures = append(r.signatures, byte(i), 0, 0, 0)
		r.signatures = append(r.signatures, ed25519.Sign(y.identity, x.roster.survivorsMessage(set))...)
	}
}
