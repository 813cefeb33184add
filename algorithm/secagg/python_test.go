package secagg

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// python is testdata/coordinator.py, an implementation of docs/secure-protocol.md in another language.
type python struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// inPython is a command that runs a script by uv, which fetches numpy and PyCA cryptography.
func inPython(t *testing.T, script ...string) *exec.Cmd {
	uv := installed.Program(t, "uv", "python3-venv")
	args := []string{"run", "--no-project", "--quiet", "--with", "numpy==2.3.5", "--with", "cryptography==46.0.3", "python"}
	return exec.Command(uv, append(args, script...)...)
}

// startPython starts it.
func startPython(t *testing.T) *python {
	t.Helper()
	cmd := inPython(t, "testdata/coordinator.py")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, text.Bytes())
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	return &python{t, in, lines}
}

// ask sends a request and returns the bytes of the answer.
func (p *python) ask(request map[string]any) []byte {
	p.t.Helper()
	line, err := json.Marshal(request)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		p.t.Fatal(err)
	}
	if !p.out.Scan() {
		p.t.Fatal("no answer")
	}
	var answer []byte
	if err := json.Unmarshal(p.out.Bytes(), &answer); err != nil {
		p.t.Fatal(err)
	}
	return answer
}

// TestPython_MixedRound has members in Go and in Python in one round, of which some leave. The sum that
// either coordinator recovers has the bits of the sum without masks.
func TestPython_MixedRound(t *testing.T) {
	slow.Test(t, "it fetches numpy and PyCA cryptography")
	p := startPython(t)
	const members = 13
	const length = 1000
	terms := Terms{
		Neighbours: 8,
		Threshold:  4,
		Colluders:  1,
		Minimum:    3,
	}
	random := testRandom(11)
	c := NewContext("mixed", 7)
	server, err := NewServer(c, terms)
	if err != nil {
		t.Fatal(err)
	}
	floats := func() []float32 {
		x := make([]float32, length)
		for i := range x {
			x[i] = float32(int32(random.Uint64())) * 0x1p-30
		}
		return x
	}
	encoded := func(x []float32) []byte {
		b, err := binary.Append(nil, binary.LittleEndian, x)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := floats()
	shift := Shift(members * (members + 1) / 2)
	inGo := map[uint32]*Client{}
	after := map[uint32][]float32{}
	var clients []uint32
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range members {
		client := uint32(3 * i)
		weight := uint64(i + 1)
		clients = append(clients, client)
		after[client] = floats()
		if i%2 == 0 {
			_, identity, err := ed25519.GenerateKey(random)
			check(err)
			inGo[client], err = NewClient(random, c, terms, identity, client, weight)
			check(err)
			entry, err := inGo[client].Keys()
			check(err)
			check(server.Keys(client, entry))
			continue
		}
		entry := p.ask(map[string]any{
			"do": "keys", "run": "mixed", "round": 7, "client": client, "weight": weight,
			"terms": map[string]any{
				"neighbours": terms.Neighbours, "threshold": terms.Threshold, "colluders": terms.Colluders,
				"minimum": terms.Minimum, "max_weight": members,
			},
		})
		check(server.Keys(client, entry))
	}
	roster, err := server.Roster()
	check(err)
	left := []uint32{6, 9} // a member in Go and one in Python leave before they upload
	for _, client := range clients {
		var shares []byte
		if x := inGo[client]; x != nil {
			shares, err = x.Shares(roster)
			check(err)
		} else {
			shares = p.ask(map[string]any{"do": "shares", "client": client, "roster": roster})
		}
		check(server.Shares(client, shares))
	}
	_, err = server.Members()
	check(err)
	total := make([]uint64, length)
	want := make([]uint64, length)
	var uploaded []uint32
	for _, client := range clients {
		if slices.Contains(left, client) {
			continue
		}
		inbox, err := server.Inbox(client)
		check(err)
		share := Share(server.Weight(client), shift)
		words := make([]uint64, length)
		check(Encode(words, share, after[client], before))
		for i, w := range words {
			want[i] += w
		}
		if x := inGo[client]; x != nil {
			check(x.Mask(inbox, words))
		} else {
			b := p.ask(map[string]any{
				"do": "masked", "client": client, "inbox": inbox,
				"weight": server.Weight(client), "shift": shift,
				"after": encoded(after[client]), "before": encoded(before),
			})
			for i := range words {
				words[i] = binary.LittleEndian.Uint64(b[8*i:])
			}
		}
		for i, w := range words {
			total[i] += w
		}
		uploaded = append(uploaded, client)
	}
	set, err := server.Survivors(uploaded)
	check(err)
	for _, client := range uploaded {
		var signature []byte
		if x := inGo[client]; x != nil {
			signature, err = x.Sign(set)
			check(err)
		} else {
			signature = p.ask(map[string]any{"do": "sign", "client": client, "set": set})
		}
		check(server.Signature(client, signature))
	}
	signatures, err := server.Signatures()
	check(err)
	reveals := map[int][]byte{}
	for _, client := range uploaded {
		var shares []byte
		if x := inGo[client]; x != nil {
			shares, err = x.Reveal(signatures)
			check(err)
		} else {
			shares = p.ask(map[string]any{"do": "reveal", "client": client, "signatures": signatures})
		}
		reveals[server.roster.indexOf(client)] = shares
		_, err = server.Reveal(client, shares)
		check(err)
	}
	masked, err := binary.Append(nil, binary.LittleEndian, total)
	check(err)
	inPython := p.ask(map[string]any{
		"do": "unmask", "roster": roster, "finished": server.mayUpload, "set": set, "reveals": reveals, "total": masked,
	})
	recovered, err := server.Unmask(total)
	check(err)
	if recovered != len(left) {
		t.Errorf("%d members recovered, want %d", recovered, len(left))
	}
	for i := range want {
		if total[i] != want[i] {
			t.Fatalf("parameter %d: Go recovers %d, without masks %d", i, total[i], want[i])
		}
		if got := binary.LittleEndian.Uint64(inPython[8*i:]); got != want[i] {
			t.Fatalf("parameter %d: Python recovers %d, without masks %d", i, got, want[i])
		}
	}
}

// The vectors are what their script prints, and the Python device of examples agrees with them.
func TestPython_Vectors(t *testing.T) {
	slow.Test(t, "it fetches numpy and PyCA cryptography")
	printed, err := inPython(t, "testdata/vectors.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(printed, kept) {
		t.Error("testdata/vectors.json is not what testdata/vectors.py prints")
	}
	if out, err := inPython(t, "../../examples/device-py/test_vectors.py").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
