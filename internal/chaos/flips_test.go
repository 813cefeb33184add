//go:build unix

package chaos

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fedpace/bus/embedded"
	"fedpace/internal/testkit/slow"
)

// One bit is flipped in a message of each kind on which results depend, on its way to
// the server and on its way from there: every run comes to the results of one that
// nothing disturbs. So does one in which every tenth such message is damaged.
func TestFlips_EveryMessageWithValues(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	address := strings.TrimPrefix(s.URL(), "nats://")
	whole := newFlipper(t, address, func(string, int) bool { return false })
	want, err := play(t, whole.Addr().String(), "unflipped")
	if err != nil {
		t.Fatal(err)
	}
	seen := whole.kinds()
	t.Logf("messages: %v", seen)
	// at is the message to flip, if it is one; not every run has as many as the one that was counted.
	check := func(name, kind string, at int, flips func(kind string, n int) bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFlipper(t, address, flips)
			got, err := play(t, x.Addr().String(), "flip-"+strings.ReplaceAll(name, " ", "-"))
			switch {
			case err != nil:
				t.Fatal(err)
			case x.flipped() == 0 && (kind == "" || x.kinds()[kind] > at):
				t.Error("no bit was flipped")
			case x.flipped() == 0:
				t.Logf("this run had %d messages of the kind, not %d", x.kinds()[kind], seen[kind])
			case got.Fingerprint != want.Fingerprint || *got.ModelSHA256 != *want.ModelSHA256:
				t.Errorf("%s, %s; want %s, %s", got.Fingerprint, *got.ModelSHA256, want.Fingerprint, *want.ModelSHA256)
			}
		})
	}
	var every []string
	for _, of := range []string{"info", "model", "job", "sum", "reply"} {
		every = append(every, "PUB "+of, "MSG "+of)
	}
	for _, kind := range every {
		all := []int{seen[kind] / 2}
		if seen[kind] == 0 {
			t.Errorf("there is no %s in a run", kind)
		}
		if slow.On() {
			all = nil
			for n := range seen[kind] {
				all = append(all, n)
			}
		}
		for _, n := range all {
			check(fmt.Sprint(kind, " ", n), kind, n, func(k string, i int) bool { return k == kind && i == n })
		}
	}
	// The same messages are damaged in every run of the test: with draws of its own, one run in 150 would flip none.
	check("one in ten", "", 0, func(k string, n int) bool {
		hash := fnv.New32a()
		fmt.Fprint(hash, k, " ", n)
		return hash.Sum32()%10 == 0
	})
}

// flipper is a proxy that knows NATS's protocol, and flips one bit of some messages.
type flipper struct {
	net.Listener
	flips func(kind string, n int) bool // whether to flip one in the n-th message of a kind

	mu      sync.Mutex
	seen    map[string]int    // messages by kind
	answers map[string]string // kinds of those that will come on a subject
	done    int               // bits flipped
}

func newFlipper(t *testing.T, server string, flips func(kind string, n int) bool) *flipper {
	t.Helper()
	x := &flipper{flips: flips, seen: map[string]int{}, answers: map[string]string{}}
	x.Listener = relay(t, server, func(client, server net.Conn) {
		go x.pump(client, server)
		x.pump(server, client)
	})
	return x
}

func (x *flipper) kinds() map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.seen)
}

func (x *flipper) flipped() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.done
}

// pump carries messages one way.
func (x *flipper) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	in := bufio.NewReader(from)
	for {
		_, message, err := readMessage(in)
		if err != nil {
			return
		}
		x.look(message)
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}

// The subjects of what matters, and where a chunk of a model that was asked for says
// what it is.
var (
	subjects = regexp.MustCompile(`^fedpace\.[^.]+\.(info|model|jobs|sums)\b`)
	fetched  = []byte("\r\nNats-Subject: fedpace.")
)

// look counts a message if it matters, and flips a bit of it if that is to be.
func (x *flipper) look(message []byte) {
	head, _, _ := bytes.Cut(message, []byte("\r\n"))
	words := strings.Fields(string(head))
	if len(words) < 3 || !strings.HasSuffix(strings.ToUpper(words[0]), "PUB") && !strings.HasSuffix(words[0], "MSG") {
		return
	}
	verb := strings.TrimPrefix(strings.ToUpper(words[0]), "H")
	payload := message[len(head)+2 : len(message)-2]
	if headers := words[0][0] == 'H'; headers {
		n, err := strconv.Atoi(words[len(words)-2])
		if err != nil {
			return
		}
		if bytes.Contains(payload[:n], fetched) && bytes.Contains(payload[:n], []byte(".model.")) {
			x.count(verb+" model", payload[n:])
		}
		return
	}
	x.mu.Lock()
	kind := x.answers[words[1]]
	x.mu.Unlock()
	if m := subjects.FindStringSubmatch(words[1]); m != nil {
		kind = strings.TrimSuffix(m[1], "s")
		asks := map[string]string{"sum": "reply", "info": "info"}[kind]
		if from := map[string]int{"PUB": 3, "MSG": 4}[verb]; asks != "" && len(words) > from {
			x.mu.Lock()
			x.answers[words[from-1]] = asks
			x.mu.Unlock()
		}
		if kind == "info" {
			return // a question or a heartbeat, on which no result depends
		}
	}
	if kind != "" {
		x.count(verb+" "+kind, payload)
	}
}

// count counts a message of a kind. Which bit it may flip depends on the message's
// number.
func (x *flipper) count(kind string, payload []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.seen[kind]
	x.seen[kind]++
	if most := len(payload) - 9; most > 0 && x.flips(kind, n) { // before the digest
		bit := (n*977 + len(kind)*131) % (8 * most)
		payload[bit/8] ^= 1 << (bit % 8)
		x.done++
	}
}
