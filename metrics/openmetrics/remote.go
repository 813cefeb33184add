package openmetrics

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/exp/api/remote"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protowire"

	"fedpace/coordinator/round"
	"fedpace/internal/regular"
	"fedpace/metrics"
	"fedpace/registry"
)

// init registers the output under the name by which a configuration chooses it.
func init() {
	metrics.Sinks.Register(
		"remote_write",
		"rounds against virtual time for Prometheus, during the run",
		Remote{},
	)
}

// Remote is the output that sends what [Write] writes by Prometheus' remote write 1.0, every
// second. Each round arrives at least once if the Prometheus takes it by the run's end. No error
// ends the run.
type Remote struct {
	URL string `key:"url" is:"inert" help:"a Prometheus with --web.enable-remote-write-receiver, such as http://localhost:9090"`
	// Credentials keeps the user and the password out of the configuration, which is written to the
	// run's folder and sent to hosts.
	Credentials string `key:"credentials_file" is:"null,inert,path" help:"file with USER:PASSWORD for the url"`
	Epoch       string `key:"epoch" is:"inert" help:"time of virtual time 0, as 2026-01-01T00:00:00Z"`
}

const (
	sendEvery = time.Second
	// patience bounds one request, and separately the wait for the receiver at the run's end.
	patience = 10 * sendEvery
	// maxWaiting bounds the rounds in memory; if more wait, all are read again from the run's folder.
	maxWaiting = 4_000
	// maxPerRequest bounds the rounds in a request, unless more share the same millisecond.
	maxPerRequest = 500
)

// Files names none: the output writes nowhere but to its receiver.
func (Remote) Files() []string { return nil }

// Open checks the address, the epoch and the credentials, and makes the sender of one run.
// Nothing is sent yet.
func (r Remote) Open(run *metrics.Run) (_ metrics.Output, err error) {
	o := &sender{
		run:      run,
		patience: patience,
		end:      make(chan struct{}),
		ended:    make(chan struct{}),
	}
	if u, err := url.Parse(r.URL); err != nil || u.Host == "" {
		return nil, registry.Errorf("url", "%q is no address such as http://localhost:9090", r.URL)
	}
	o.epoch, err = time.Parse(time.RFC3339, r.Epoch)
	isInRange := !o.epoch.Before(earliest) && !o.epoch.After(latest)
	if err != nil || !isInRange {
		return nil, registry.Errorf("epoch", "%q is no time such as 2026-01-01T00:00:00Z", r.Epoch)
	}
	client := &http.Client{Timeout: patience}
	if r.Credentials != "" {
		client.Transport, err = newBasicAuth(r.Credentials, r.URL)
		if err != nil {
			return nil, err
		}
	}
	o.context, o.stop = context.WithCancel(context.Background())
	// The client repeats failed requests for ever; cancelling the context ends that.
	o.api, err = remote.NewAPI(r.URL, remote.WithAPIHTTPClient(client),
		remote.WithAPIBackoff(remote.BackoffConfig{Min: sendEvery, Max: patience}))
	return o, err
}

// basicAuth adds a user and a password to requests for one host. Others, to which a server may
// redirect, do not get them.
type basicAuth struct {
	host           string
	user, password string
}

// newBasicAuth reads USER:PASSWORD from the first line of the file at path. They are sent to the
// host of address alone.
func newBasicAuth(path, address string) (*basicAuth, error) {
	text, err := regular.ReadHead(path, maxCredentials)
	if err != nil {
		return nil, registry.Errorf("credentials_file", "%v", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	user, password, found := strings.Cut(strings.TrimSpace(line), ":")
	// The password may be empty, and may hold colons.
	if !found || user == "" {
		return nil, registry.Errorf("credentials_file", "%s does not begin with USER:PASSWORD", path)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, registry.Errorf("url", "%q is no address such as http://localhost:9090", address)
	}
	return &basicAuth{host: u.Host, user: user, password: password}, nil
}

// maxCredentials bounds a file of credentials, in bytes.
const maxCredentials = 1 << 12

// RoundTrip implements [http.RoundTripper]: it adds user and password to a request to the
// configured host. A request to another host, after a redirection, goes without them.
func (b *basicAuth) RoundTrip(r *http.Request) (*http.Response, error) {
	// A RoundTripper must not change the request that it is given.
	if r.URL.Host == b.host {
		r = r.Clone(r.Context())
		r.SetBasicAuth(b.user, b.password)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// sender sends rounds to a receiver of Prometheus' remote write protocol, in a goroutine of
// its own. Rounds wait in memory while the receiver is slow; when there are too many they are
// read from the run's folder instead.
type sender struct {
	run   *metrics.Run
	api   *remote.API
	epoch time.Time
	// rounds reads all rounds from the run's folder; nil before Start is called.
	rounds  iter.Seq2[round.Report, error]
	context context.Context
	// stop cancels context, so that the sender gives up.
	stop context.CancelFunc
	// end is closed when no more rounds come, ended when nothing is sent any more.
	end, ended chan struct{}
	// complete says that the run is complete. It is set before end is closed.
	complete bool
	// patience is how long Close waits for the receiver, in wall time.
	patience time.Duration

	mu sync.Mutex
	// pending are the rounds that Round has taken and the goroutine has not.
	pending []round.Report
	// behind says that too many rounds waited, so they must be read from the run's folder.
	behind bool

	// The fields below belong to the goroutine that sends.

	// held are the rounds to be sent, in ascending order. The last ones wait for rounds that may end in
	// the same millisecond.
	held []round.Report
	// sent is the number of the last round that was sent, or given up because it was refused.
	sent int
	// outcomes counts the tasks of all rounds up to the last one that was encoded, by outcome.
	outcomes [round.Outcomes]float64
	// noticed says that the user was told of a problem; further ones are not reported.
	noticed bool
}

// Start implements [metrics.Starter]: it starts the goroutine that sends what waits, every
// sendEvery, until the run ends. The rounds of a resumed run are read from its folder first.
func (o *sender) Start(s *metrics.Start) error {
	o.rounds = s.Rounds
	// s.Last is the last round of a resumed run before this attempt. behind makes the goroutine read the folder.
	o.behind = s.Last != nil
	go func() {
		defer close(o.ended)
		tick := time.Tick(sendEvery)
		for {
			select {
			// The run has ended: send what is left, and if it is complete also the held rounds.
			case <-o.end:
				o.sendPending(o.complete)
				return
			case <-tick:
				o.sendPending(false)
			}
		}
	}()
	return nil
}

// Round implements [metrics.Output]: it keeps the report of round r until it is sent. If too many
// wait, the goroutine reads them from the run's folder later.
func (o *sender) Round(r *metrics.Round) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.behind = o.behind || len(o.pending) >= maxWaiting
	// Memory is bounded: what waits is dropped, since the goroutine reads it from the folder.
	if o.behind {
		o.pending = nil
	} else {
		o.pending = append(o.pending, r.Report)
	}
	return nil
}

// Finish implements [metrics.Finisher].
func (o *sender) Finish(e *metrics.End) error {
	o.complete = e.Completed
	return nil
}

// Close implements [metrics.Closer]: it lets the goroutine send what is left, for at most
// o.patience, and tells the user if rounds of a complete run were not taken.
func (o *sender) Close(error) error {
	defer o.stop()
	// Start was never called, so there is no goroutine to wait for.
	if o.rounds == nil {
		return nil
	}
	close(o.end)
	// If patience runs out, stop cancels what is being sent, and the goroutine ends.
	defer time.AfterFunc(o.patience, o.stop).Stop()
	<-o.ended
	// The rounds that are still held were not sent.
	if o.complete && len(o.held) > 0 {
		o.run.Notice(fmt.Sprintf(
			"remote_write: rounds from %d on were not taken; fedpace export openmetrics has them.",
			o.sent+1,
		))
	}
	return nil
}

// sendPending sends the rounds that wait, from memory (pending) or, if there were too many, from the run's
// folder. It moves them to o.held, the list from which they are sent. last says that no more rounds come, so that
// none has to be held back (see [sender.send]). The goroutine of the sender calls it every sendEvery.
func (o *sender) sendPending(last bool) {
	o.mu.Lock()
	list := o.pending
	behind := o.behind
	o.pending = nil
	o.behind = false
	o.mu.Unlock()
	if behind {
		// The folder has the rounds of list, too, because a round is written before it comes here.
		list = nil
		o.held = nil
		for r, err := range o.rounds {
			// The row may not be whole yet, or the file cannot be read. Either way, try again
			// later.
			if err != nil {
				o.readAgain(err, last)
				break
			}
			if r.Round > o.sent {
				o.held = append(o.held, r)
			}
			// Memory is bounded: what has been read is sent before more is. If the sender has given up, nothing more
			// is read.
			if len(o.held) > 2*maxPerRequest && !o.send(false) {
				break
			}
		}
	}
	// newest is the number of the last round that was taken. A round that closed while the folder was
	// read may have been read already.
	newest := o.sent
	if n := len(o.held); n > 0 {
		newest = o.held[n-1].Round
	}
	for _, r := range list {
		if r.Round > newest {
			o.held = append(o.held, r)
		}
	}
	o.send(last)
}

// readAgain makes the next call of sendPending read from the folder again, after the error err. last
// says that there is no next call; then it tells the user why rounds were not read.
func (o *sender) readAgain(err error, last bool) {
	o.mu.Lock()
	o.behind = true
	o.mu.Unlock()
	if last {
		o.noticeOnce(err, "were not read")
	}
}

// nextRequest returns how many rounds from the beginning of list go into the next request, at least 1. There are about
// maxPerRequest, and the newest of list is not among them, because it may have to wait; but rounds that share a
// millisecond with those before them are added, up to maxWaiting.
func (o *sender) nextRequest(list []round.Report) int {
	n := min(maxPerRequest, len(list)-1)
	for n < min(len(list), maxWaiting) && o.sharesMillisecond(list, n) {
		n++
	}
	return n
}

// send sends the held rounds, in requests of about maxPerRequest rounds. Rounds that start or end in the same
// millisecond go into one request, which has one value of a series for a millisecond: the last. So,
// unless last says that no more rounds come, the newest rounds stay held, because the next one may share
// their millisecond. send returns false if the sender gave up because its context has ended.
func (o *sender) send(last bool) bool {
	for len(o.held) > 0 {
		n := o.nextRequest(o.held)
		// The newest round would be sent, and the rounds to come may share its millisecond, so these wait for them.
		if n == len(o.held) && !last {
			break
		}
		_, err := o.api.Write(
			o.context,
			remote.WriteV1MessageType,
			o.encode(o.held[:n]),
			remote.WithWriteRetryCallback(func(err error) { o.noticeOnce(err, "wait") }),
		)
		if o.context.Err() != nil {
			return false
		}
		// The receiver refuses these rounds for good, so the sender goes on with the next ones.
		if err != nil {
			o.noticeOnce(err, "are refused")
		}
		o.sent = o.held[n-1].Round
		o.held = o.held[n:]
	}
	return true
}

// sharesMillisecond reports whether round n of a list must be sent with the rounds before it, as it starts or
// ends in the same millisecond as the one before. The first round, 0, always must: a request is not empty.
func (o *sender) sharesMillisecond(list []round.Report, n int) bool {
	if n == 0 {
		return true
	}
	same := func(a, b round.Time) bool { return Milliseconds(o.epoch, a) == Milliseconds(o.epoch, b) }
	return same(list[n].End, list[n-1].End) || same(list[n].Start, list[n-1].Start)
}

// noticeOnce informs the user that the rounds after the last sent one have a problem, such as "are refused",
// and why. Only the first call has an effect.
func (o *sender) noticeOnce(err error, problem string) {
	if !o.noticed {
		o.noticed = true
		o.run.Notice(fmt.Sprintf("remote_write: rounds from %d on %s: %v", o.sent+1, problem, err))
	}
}

// message is an encoded request, in the form that the client library sends.
type message []byte

// Size is the number of bytes.
func (m message) Size() int { return len(m) }

// MarshalToSizedBuffer copies the bytes to b.
func (m message) MarshalToSizedBuffer(b []byte) (int, error) { return copy(b, m), nil }

// field appends field number n of a protobuf message, whose value are the bytes v, to b.
func field(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

// encode makes a WriteRequest, the protobuf message of Prometheus' remote write, of rounds, which are the next to be
// sent: it adds their tasks to o.outcomes. Its time series are field 1; of each, labels by name are field 1 (name 1,
// value 2) and samples field 2 (value 1, milliseconds 2).
func (o *sender) encode(rounds []round.Report) (m message) {
	nameLabel := "__name__"
	for f := range families(o.run, o.epoch, rounds, &o.outcomes) {
		for _, x := range f.Metric {
			labels := append([]*dto.LabelPair{{Name: &nameLabel, Value: f.Name}}, x.Label...)
			slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
			var series []byte
			for _, l := range labels {
				label := field(nil, 1, []byte(*l.Name))
				label = field(label, 2, []byte(*l.Value))
				series = field(series, 1, label)
			}
			// A sample is a gauge or a counter, and the other one's value is 0.
			v := x.GetGauge().GetValue() + x.GetCounter().GetValue()
			sample := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
			sample = protowire.AppendFixed64(sample, math.Float64bits(v))
			sample = protowire.AppendTag(sample, 2, protowire.VarintType)
			sample = protowire.AppendVarint(sample, uint64(*x.TimestampMs))
			series = field(series, 2, sample)
			m = field(m, 1, series)
		}
	}
	return m
}
