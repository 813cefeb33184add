package natsconn_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
	"fedpace/internal/testkit/throttle"
)

// hub is a server, another of a site that is its leaf node, and what answers requests for a model in the hub's place.
type hub struct {
	*testing.T
	file, url string
	server    *server.Server
	// site is the address of the site's server.
	site string

	mu sync.Mutex
	// chunks are the requests for chunks of a model that have arrived, and probes the others for the model.
	chunks, probes int
}

// openHub starts the servers. The site gets this many Mbit/s from the hub, 0 for any number. answer gets each request,
// in their order, and how many requests for chunks and probes have arrived with it.
func openHub(t *testing.T, download float64, answer func(h *hub, m *nats.Msg, chunks, probes int)) *hub {
	t.Helper()
	listen := testport.Held(t)
	leafs := testport.Held(t)
	site := testport.Held(t)
	h := &hub{
		T:    t,
		url:  "nats://" + listen,
		site: "nats://" + site,
	}
	h.file = testserver.File(t, "hub", fmt.Sprintf("listen: %q\nserver_name: hub\nleafnodes { listen: %q, compression: off }\n",
		listen, leafs))
	h.server = testserver.Start(t, h.file)
	if download > 0 {
		proxy, err := throttle.Start(throttle.Config{Server: leafs, Download: download})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { proxy.Close() })
		leafs = proxy.Address()
	}
	testserver.Start(t, testserver.File(t, "site", fmt.Sprintf("listen: %q\nserver_name: site\n"+
		"mappings { \"$JS.API.DIRECT.GET.*.fedpace.*.model.*.*\": \"fedpace.$2.get.$1.$3.$4\" }\n"+
		"leafnodes { remotes: [ { url: \"nats://%s\", compression: off } ] }\n", site, leafs)))
	conn, err := nats.Connect(h.url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	_, err = conn.Subscribe("fedpace.r.get.>", func(m *nats.Msg) {
		h.mu.Lock()
		if strings.HasSuffix(m.Subject, ".none") {
			h.probes++
		} else {
			h.chunks++
		}
		chunks, probes := h.chunks, h.probes
		h.mu.Unlock()
		answer(h, m, chunks, probes)
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// restart ends the hub's server and starts it again.
func (h *hub) restart() {
	h.server.Shutdown()
	h.server.WaitForShutdown()
	h.server = testserver.Start(h.T, h.file)
}

// few are the parameters of a model.
var few = []float32{1, 2, 3}

// sendChunk answers a request by the model's chunk.
func (h *hub) sendChunk(m *nats.Msg) {
	values := []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40}
	b, err := bus.Marshal(nil, &bus.ModelChunk{Chunks: 1, Params: uint32(len(few)), Values: values})
	if err == nil {
		err = m.Respond(b)
	}
	if err != nil {
		h.Error(err)
	}
}

// sendNone answers a request by the header of a server that has no such message.
func (h *hub) sendNone(m *nats.Msg) {
	none := nats.NewMsg(m.Reply)
	none.Header.Set("Status", "404")
	if err := m.RespondMsg(none); err != nil {
		h.Error(err)
	}
}

// fetch gets a model as a device at the site does.
func (h *hub) fetch(model []float32) {
	h.Helper()
	conn, err := natsconn.Connect(h.Context(), natsconn.Config{URL: h.site, Patience: -1, Slow: true})
	if err != nil {
		h.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	params, err := conn.AwaitModel(h.Context(), "r", bus.DigestOf(model), slow.Patience(h.T))
	if err != nil {
		h.Fatal(err)
	}
	if bus.DigestOf(params) != bus.DigestOf(model) {
		h.Errorf("the model arrives with %d parameters, want %d", len(params), len(model))
	}
	chunks, probes := h.requests()
	h.Logf("%d requests for chunks and %d probes took %.1f s", chunks, probes, time.Since(began).Seconds())
}

// requests returns how many requests for chunks and probes have arrived so far.
func (h *hub) requests() (chunks, probes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.chunks, h.probes
}

// wantChunks fails the test unless chunks were asked for so many times.
func (h *hub) wantChunks(want int) {
	h.Helper()
	if got, _ := h.requests(); got != want {
		h.Errorf("%d requests for chunks, want %d", got, want)
	}
}

// A request for a chunk, or its answer, that is lost behind a site's server is made again as soon as a probe, which was
// sent later, is answered. One that is only slow is not made again.
func TestModel_LostBehindSite(t *testing.T) {
	t.Cleanup(natsconn.ShortenProbes(300 * time.Millisecond))
	t.Run("chunk lost twice", func(t *testing.T) {
		t.Parallel()
		h := openHub(t, 0, func(h *hub, m *nats.Msg, chunks, probes int) {
			switch {
			case !strings.HasSuffix(m.Subject, ".0"):
				h.sendNone(m)
			case chunks == 3:
				h.sendChunk(m)
			}
		})
		h.fetch(few)
		h.wantChunks(3)
	})
	t.Run("chunk and probe lost", func(t *testing.T) {
		t.Parallel()
		h := openHub(t, 0, func(h *hub, m *nats.Msg, chunks, probes int) {
			switch {
			case chunks == 2:
				h.sendChunk(m)
			case probes == 2:
				h.sendNone(m)
			}
		})
		h.fetch(few)
		h.wantChunks(2)
	})
	t.Run("chunk slow", func(t *testing.T) {
		t.Parallel()
		var waiting *nats.Msg
		h := openHub(t, 0, func(h *hub, m *nats.Msg, chunks, probes int) {
			switch probes {
			case 0:
				waiting = m
			// On a slow link what was asked for first arrives first.
			case 2:
				h.sendChunk(waiting)
				h.sendNone(m)
			}
		})
		h.fetch(few)
		h.wantChunks(1)
	})
	t.Run("hub restarts", func(t *testing.T) {
		t.Parallel()
		asked := make(chan bool, 1)
		h := openHub(t, 0, func(h *hub, m *nats.Msg, chunks, probes int) {
			switch {
			case chunks == 1 && probes == 0:
				asked <- true
			case strings.HasSuffix(m.Subject, ".0"):
				h.sendChunk(m)
			default:
				h.sendNone(m)
			}
		})
		go func() {
			<-asked
			h.restart()
		}()
		h.fetch(few)
	})
}

// Over a slow link between hub and site, where a chunk takes several times as long as the first probe waits, each chunk
// is sent once.
func TestModel_SlowBehindSite(t *testing.T) {
	slow.Test(t, "each chunk takes eight seconds")
	const seconds = 8
	const chunks = 2
	model := make([]float32, chunks*bus.ChunkBytes/4)
	h := openHub(t, bus.ChunkBytes*8/1e6/seconds, func(h *hub, m *nats.Msg, _, _ int) {
		if strings.HasSuffix(m.Subject, ".none") {
			h.sendNone(m)
			return
		}
		chunk := &bus.ModelChunk{Chunks: chunks, Params: uint32(len(model)), Values: make([]byte, bus.ChunkBytes)}
		if strings.HasSuffix(m.Subject, ".1") {
			chunk.Chunk = 1
		}
		b, err := bus.Marshal(nil, chunk)
		if err == nil {
			err = m.Respond(b)
		}
		if err != nil {
			h.Error(err)
		}
	})
	h.fetch(model)
	h.wantChunks(chunks)
}
