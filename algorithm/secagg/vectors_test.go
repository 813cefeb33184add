package secagg

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/testkit/installed"
)

// vectors is testdata/vectors.json, a round that testdata/vectors.py has played with the Python device of
// examples, what a device refuses and takes, and numbers that follow from terms.
type vectors struct {
	Run   string `json:"run"`
	Round uint32 `json:"round"`
	Terms struct {
		Neighbours int    `json:"neighbours"`
		Threshold  int    `json:"threshold"`
		Colluders  int    `json:"colluders"`
		Minimum    int    `json:"minimum"`
		MaxWeight  uint64 `json:"max_weight"`
	} `json:"terms"`
	Shift       int            `json:"shift"`
	Context     hexBytes       `json:"context"`
	Start       hexBytes       `json:"start"`
	Members     []vectorMember `json:"members"`
	Roster      hexBytes       `json:"roster"`
	RosterHash  hexBytes       `json:"roster_hash"`
	Survivors   hexBytes       `json:"survivors"`
	Signatures  hexBytes       `json:"signatures"`
	SumOfMasked hexBytes       `json:"sum_of_masked"`
	Sum         hexBytes       `json:"sum"`
	Refuses     int            `json:"refuses"`
	Refused     []vectorCase   `json:"refused"`
	Taken       []vectorCase   `json:"taken"`
	Cuts        []struct {
		Members    int `json:"members"`
		Neighbours int `json:"neighbours"`
		Colluders  int `json:"colluders"`
		Fewest     int `json:"fewest"`
	} `json:"cuts"`
}

// vectorCase is a payload of a stage that the member Refuses refuses or takes.
type vectorCase struct {
	Stage   string   `json:"stage"`
	Why     string   `json:"why"`
	Payload hexBytes `json:"payload"`
}

// vectorMember is one member: what it has drawn, and what it sends and gets. One that leaves has nothing
// of the stages behind.
type vectorMember struct {
	Client           uint32     `json:"client"`
	Weight           uint64     `json:"weight"`
	Identity         hexBytes   `json:"identity"`
	ShareKey         hexBytes   `json:"share_key"`
	Seed             hexBytes   `json:"seed"`
	MaskSecret       hexBytes   `json:"mask_secret"`
	SeedCoefficients []hexBytes `json:"seed_coefficients"`
	MaskCoefficients []hexBytes `json:"mask_coefficients"`
	Entry            hexBytes   `json:"entry"`
	Neighbours       []int      `json:"neighbours"`
	Shares           hexBytes   `json:"shares"`
	Inbox            hexBytes   `json:"inbox"`
	Model            hexBytes   `json:"model"`
	Words            hexBytes   `json:"words"`
	Masked           hexBytes   `json:"masked"`
	Signature        hexBytes   `json:"signature"`
	Reveal           hexBytes   `json:"reveal"`
}

// hexBytes are bytes that JSON has in hexadecimal.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

func readVectors(t *testing.T) *vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	v := &vectors{}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// terms are those of the vectors' Welcome.
func (v *vectors) terms() Terms {
	return Terms{
		Neighbours: v.Terms.Neighbours,
		Threshold:  v.Terms.Threshold,
		Colluders:  v.Terms.Colluders,
		Minimum:    v.Terms.Minimum,
	}
}

// member makes the end of the member with this index, which draws what the vectors say. A number of the
// field is drawn as 64 bytes modulo the field's order.
func (v *vectors) member(t *testing.T, index int) *Client {
	t.Helper()
	m := &v.Members[index]
	var random bytes.Buffer
	draw := func(number []byte) {
		random.Write(number)
		random.Write(make([]byte, 32))
	}
	draw(m.Seed)
	draw(m.MaskSecret)
	random.Write(m.ShareKey)
	for _, coefficient := range slices.Concat(m.SeedCoefficients, m.MaskCoefficients) {
		draw(coefficient)
	}
	identity := ed25519.NewKeyFromSeed(m.Identity)
	x, err := NewClient(&random, NewContext(v.Run, v.Round), v.terms(), identity, m.Client, m.Weight)
	if err != nil {
		t.Fatal(err)
	}
	x.MaxWeight = v.Terms.MaxWeight
	return x
}

// before takes the member with this index through its stages up to the one in which it gets a payload of
// this kind, and returns the function that takes that. It compares what the member sends on the way.
func (v *vectors) before(t *testing.T, index int, kind string) func([]byte) error {
	t.Helper()
	m := &v.Members[index]
	x := v.member(t, index)
	same := func(what string, got, want []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("client %d: %s: %v", m.Client, what, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("client %d: %s: %x, want %x", m.Client, what, got, want)
		}
	}
	entry, err := x.Keys()
	same("entry", entry, m.Entry, err)
	if kind == "roster" {
		return func(b []byte) error { _, err := x.Shares(b); return err }
	}
	shares, err := x.Shares(v.Roster)
	same("shares", shares, m.Shares, err)
	same("hash of the roster", x.roster.digest[:], v.RosterHash, nil)
	if got := x.roster.neighbours(index); !slices.Equal(got, m.Neighbours) {
		t.Fatalf("client %d has the neighbours %v, want %v", m.Client, got, m.Neighbours)
	}
	words := make([]uint64, len(v.Start)/4)
	if kind == "inbox" {
		return func(b []byte) error { return x.Mask(b, words) }
	}
	if m.Inbox == nil {
		return nil
	}
	err = Encode(words, Share(m.Weight, v.Shift), floatsOf(m.Model), floatsOf(v.Start))
	same("words", bytesOfWords(words), m.Words, err)
	err = x.Mask(m.Inbox, words)
	same("masked", bytesOfWords(words), m.Masked, err)
	if kind == "survivors" {
		return func(b []byte) error { _, err := x.Sign(b); return err }
	}
	if m.Signature == nil {
		return nil
	}
	signature, err := x.Sign(v.Survivors)
	same("signature", signature, m.Signature, err)
	if kind == "signatures" {
		return func(b []byte) error { _, err := x.Reveal(b); return err }
	}
	reveal, err := x.Reveal(v.Signatures)
	same("reveal", reveal, m.Reveal, err)
	return nil
}

func floatsOf(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	if _, err := binary.Decode(b, binary.LittleEndian, x); err != nil {
		panic(err)
	}
	return x
}

func wordsOf(b []byte) []uint64 {
	x := make([]uint64, len(b)/8)
	if _, err := binary.Decode(b, binary.LittleEndian, x); err != nil {
		panic(err)
	}
	return x
}

func bytesOfWords(words []uint64) []byte {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// The devices' end sends in each stage what an implementation in Python sends that has drawn the same.
func TestVectors_Members(t *testing.T) {
	v := readVectors(t)
	if c := NewContext(v.Run, v.Round); !bytes.Equal(c[:], v.Context) {
		t.Fatalf("context %x, want %x", c, v.Context)
	}
	const allStages = ""
	for i := range v.Members {
		v.before(t, i, allStages)
	}
}

// The coordinator's end makes of their messages the payloads and the sum that Python has.
func TestVectors_Coordinator(t *testing.T) {
	v := readVectors(t)
	s, err := NewServer(NewContext(v.Run, v.Round), v.terms())
	same := func(what string, got, want []byte, err error) {
		t.Helper()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v: %x, want %x", what, err, got, want)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range v.Members {
		same("keys", nil, nil, s.Keys(m.Client, m.Entry))
	}
	roster, err := s.Roster()
	same("roster", roster, v.Roster, err)
	var survivors []uint32
	for _, m := range v.Members {
		if m.Inbox != nil {
			same("shares", nil, nil, s.Shares(m.Client, m.Shares))
		}
		if m.Signature != nil {
			survivors = append(survivors, m.Client)
		}
	}
	if _, err := s.Members(); err != nil {
		t.Fatal(err)
	}
	total := make([]uint64, len(v.Start)/4)
	for _, m := range v.Members {
		if m.Inbox == nil {
			continue
		}
		inbox, err := s.Inbox(m.Client)
		same("inbox", inbox, m.Inbox, err)
		if m.Signature == nil {
			continue
		}
		for i, w := range wordsOf(m.Masked) {
			total[i] += w
		}
	}
	same("sum of the masked updates", bytesOfWords(total), v.SumOfMasked, nil)
	set, err := s.Survivors(survivors)
	same("survivors", set, v.Survivors, err)
	for _, m := range v.Members {
		if m.Signature != nil {
			same("signature", nil, nil, s.Signature(m.Client, m.Signature))
		}
	}
	signatures, err := s.Signatures()
	same("signatures", signatures, v.Signatures, err)
	for _, m := range v.Members {
		if m.Reveal != nil {
			_, err := s.Reveal(m.Client, m.Reveal)
			same("reveal", nil, nil, err)
		}
	}
	_, err = s.Unmask(total)
	same("sum", bytesOfWords(total), v.Sum, err)
}

// A device refuses what the vectors say that it must, as devices in Python and JavaScript do.
func TestVectors_Refused(t *testing.T) {
	v := readVectors(t)
	for _, c := range v.Refused {
		take := v.before(t, v.Refuses, c.Stage)
		if err := take(c.Payload); err == nil {
			t.Errorf("%s: it is taken, but %s", c.Stage, c.Why)
		}
	}
}

// It takes what the vectors say that it must, as they do.
func TestVectors_Taken(t *testing.T) {
	v := readVectors(t)
	for _, c := range v.Taken {
		take := v.before(t, v.Refuses, c.Stage)
		if err := take(c.Payload); err != nil {
			t.Errorf("%s: %v, but %s", c.Stage, err, c.Why)
		}
	}
}

// Two runs must have as many survivors as exact numbers say.
func TestVectors_Cuts(t *testing.T) {
	for _, c := range readVectors(t).Cuts {
		terms := Terms{Neighbours: c.Neighbours, Colluders: c.Colluders}
		if got := terms.Cut(c.Members); got != c.Fewest {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// The JavaScript device of examples agrees with the vectors, too. It needs no packages for that.
func TestVectors_JavaScript(t *testing.T) {
	node := installed.Program(t, "node", "nodejs")
	out, err := exec.CommandContext(t.Context(), node, "--test", "../../examples/device-js/secure.test.js").CombinedOutput()
	report := string(out)
	allPass := strings.Contains(report, "# fail 0\n") && strings.Contains(report, "# skipped 0\n")
	if err != nil || !allPass || !strings.Contains(report, "# pass 48\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
