package grid

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/actors/fleet"
	"fedpace/actors/flower"
	"fedpace/coordinator/round"
	"fedpace/simclock"
)

// FirstNode is the id of the node with partition 0. The others follow.
const FirstNode = 1000

// errorBytes is how many bytes a reply that is an error takes on a link, in place of the size of a
// content.
const errorBytes = 64

// flwr's codes of errors that a Grid makes.
const (
	codeExpired     = 3
	codeUnavailable = 5
)

// Config says which Flower app [Play] plays, on which simulated devices, and under which rules of
// the grid between its server and its nodes.
type Config struct {
	// App says how the app's processes are started, and Workers how many serve clients.
	App     flower.Config
	Workers int
	// Fleet has the laws of the nodes' devices: links, speed, availability and dropouts.
	Fleet *fleet.Fleet
	// Nodes is the number of nodes. Their ids begin with FirstNode.
	Nodes int
	// Heartbeat is how long after a dropout the grid reports that the node is gone; 0: it never
	// does, and the server waits for the end of its timeout or of the message's time to live.
	Heartbeat round.Time
	// InOrder delivers replies in the order of their messages, as far as they have arrived, in
	// place of the order in which they arrive.
	InOrder bool
	// Journal is the path of the journal of replies, and JournalBytes the size beyond which it
	// holds digests alone. An existing journal is played again first.
	Journal      string
	JournalBytes int64
	// Expected are the sums of an earlier run, which this one is to repeat; nil: there is none.
	Expected []Sum
	// Join lets hosts in other processes join the pool that serves clients, from the start of the app on; nil: there
	// are none. ready is what the server's process said of itself. leave is called at the end, before the pool is
	// closed.
	Join func(ctx context.Context, pool *flower.Pool, ready *flower.Ready) (leave func() error, err error)
	Observer
}

// Observer has functions that are told what happens while an app is played. They are called from
// the goroutine of [Play], one at a time, and an error ends the run. Each may be nil.
type Observer struct {
	// Task takes a message that has ended, before the round in which it counts.
	Task func(*Task) error
	// Round takes a round that is over.
	Round func(*Round) error
	// Notice takes a line for the user.
	Notice func(string)
}

// Result is what [Play] counted and measured while it played an app to its end, or until an error.
type Result struct {
	// Rounds is the number of rounds, and End the virtual time of the end.
	Rounds int
	End    round.Time
	// Outcomes counts the messages that train by how they ended.
	Outcomes [round.Outcomes]int
	// Fingerprint is a digest of the clock's events.
	Fingerprint uint64
	// Digest is that of the arrays of the app's result; empty: it has shown none.
	Digest string
	// Messages is the number of all messages, Replayed of those whose reply came from the journal.
	Messages, Replayed int
	// Steps and Seconds are the local steps of those messages of which the processor time was
	// measured, and that time on this machine.
	Steps   int64
	Seconds float64
	// Measured are these messages, in the order in which they were served.
	Measured []Measured
	// Sums stand for the messages and their replies, in the order of their numbers.
	Sums []Sum
	// Restarts is the number of processes that were started in place of one that died.
	Restarts int64
	// Flwr is the version of flwr, App the name of the app, and RunConfig its run config.
	Flwr, App string
	RunConfig map[string]string
}

// Measured is a message of which the processor time was measured: the local steps that it took, and the seconds.
type Measured struct {
	Steps   int
	Seconds float64
}

// maxMeasured bounds the messages in Result.Measured.
const maxMeasured = 1 << 16

// message is a message from the server to a node on its way: from its push by the server to the
// delivery of its reply. Times are virtual.
type message struct {
	// number counts the messages of the run from 1, in the order of their pushes.
	number uint64
	// sent is the message as the ServerApp made it. Its content is dropped once it was served.
	sent *flower.Message
	// client is the index of its node, from 0: the node's id less FirstNode.
	client int
	// pushed is when the server sent it.
	pushed round.Time
	// expires is when its time to live is over; simclock.Never if that is beyond the clock.
	expires round.Time
	// ordinal is the number of the message at its node, from 1.
	ordinal int
	// contentDigest is the digest of its content, downBytes the content's size on a link, config the
	// numbers of its configuration, and secure says that it belongs to SecAgg+.
	contentDigest [sha256.Size]byte
	downBytes     int64
	config        map[string]float64
	secure        bool

	// The following are known once a process has served it.

	// reply is what its node's app answered, whether or not it reaches the server.
	reply *flower.Reply
	// begins is when its node takes it, and plan how long the node takes.
	begins round.Time
	plan   fleet.Plan
	// ends is when its fate is known to the grid: the arrival of the reply, the report of a
	// dropout, or the end of its time to live.
	ends round.Time
	fate fate

	// arrived says that the clock has reached ends, delivered that the server has the reply, and
	// abandoned that the server has stopped waiting for it.
	arrived, delivered, abandoned bool
	// forgotten says that its round is over and has reported it as one that nobody waits for, so that its reply was
	// dropped.
	forgotten bool
}

// isError reports whether the reply is an error that the node's app raised. The message must have
// been served: its reply is read.
func (m *message) isError() bool { return m.reply.Code != 0 }

// secureRecord is the name of the record by which messages of SecAgg+ are known.
const secureRecord = `"secaggplus_`

// fate is how a message ends for the server: by a reply, or by one of two errors that the grid
// makes.
type fate uint8

const (
	// replied means that a reply arrives, perhaps an error that the node raised.
	replied fate = iota
	// expired means that the time to live is over before.
	expired
	// unavailable means that the grid reports that the node is gone.
	unavailable
)

// trains reports whether the message asks its node to train, and not to evaluate or to answer a
// query. Those that train make up the cohort of a round.
func (m *message) trains() bool { return category(m.sent.Type) == "train" }

// category returns the part of a message's type before its first dot, or the whole type if it has
// none: the type "train.personal" has the category train.
func category(kind string) string {
	for i := range kind {
		if kind[i] == '.' {
			return kind[:i]
		}
	}
	return kind
}

// node is one simulated client: what the player must know of it between its messages. It serves one
// message at a time, in the order in which they were pushed.
type node struct {
	// free is the virtual time from which on it can take another message: it has done what it took
	// so far.
	free round.Time
	// served is the number of messages that it has taken so far, of all kinds.
	served int
	// state is what the app keeps at this node between messages: a text and its arrays; nil:
	// nothing yet.
	state [][]byte
	// waiting are the messages that it has not taken yet, and busy says that a process serves one.
	waiting []*message
	busy    bool
}

// player plays one app: it answers the requests of the server's process, lets client processes
// serve messages, and moves the virtual clock. It is for one goroutine.
type player struct {
	Config
	// server is the ServerApp's process, pool the processes of the ClientApp, and journal the
	// replies of this and earlier attempts. They are nil until open has made them.
	server  *flower.Server
	pool    *flower.Pool
	journal *journal
	// arena is the memory through which replies get from the clients' processes to the server's.
	arena *flower.Arena
	// leave ends the time in which hosts may join the pool; nil if none may.
	leave func() error
	// clock has an event for the end of each message that was served and that ends at all; now is
	// the present virtual time.
	clock *simclock.Clock
	now   round.Time
	// nodes are all clients by their index, which is also the number of their partition of the
	// data.
	nodes []node
	// messages are those that are not delivered, by number. lastNumber is the number of the last one that was
	// pushed, 0 before the first.
	messages   map[uint64]*message
	lastNumber uint64
	// results receives what the processes have made of their messages, and serving is the number of messages that
	// they have and of which no result was taken yet.
	results chan flower.Result
	serving int

	// rounds follows the app's rounds, notices tells the user of what goes wrong, and result is
	// what Play returns.
	rounds  rounds
	notices notices
	result  Result
}

// Play plays a Flower app to its end on simulated devices: the app's own processes compute, and the
// virtual clock says when each message and reply arrives. It returns a result also with an error,
// which then holds what was counted until the error. The same configuration gives the same events,
// whatever the number of processes and their speed.
func Play(ctx context.Context, c Config) (*Result, error) {
	p := &player{
		Config:   c,
		clock:    simclock.New(),
		nodes:    make([]node, c.Nodes),
		messages: map[uint64]*message{},
		results:  make(chan flower.Result, 1<<10),
	}
	p.notices.notify = c.Notice
	err := p.open(ctx)
	if err == nil {
		err = p.play(ctx)
	}
	// The processes must end also after an error.
	err = errors.Join(err, p.close())
	p.result.End = p.now
	p.result.Fingerprint = p.clock.Fingerprint()
	return &p.result, err
}

// open opens the journal and starts the processes of the app, first the server's, which tells the
// app's name and run config. What it has opened before an error remains for close to end.
func (p *player) open(ctx context.Context) (err error) {
	p.journal, err = openJournal(p.Config.Journal, p.JournalBytes)
	if err != nil {
		return err
	}
	// The server's process tells the name and the run config of the app.
	p.arena, err = flower.NewArena()
	if err != nil {
		return err
	}
	p.App.Arena = p.arena
	p.server, err = flower.StartServer(ctx, &p.App)
	if err != nil {
		return err
	}
	p.result.Flwr = p.server.Flwr
	p.result.App = p.server.Ready.App
	p.result.RunConfig = p.server.Ready.Config
	p.rounds.config = p.server.Ready.Config
	p.pool, err = flower.StartPool(ctx, &p.App, p.Workers)
	if err != nil || p.Join == nil {
		return err
	}
	p.leave, err = p.Join(ctx, p.pool, &p.server.Ready)
	return err
}

// close ends the processes and closes the journal, as far as open has made them, and notes how many
// processes were restarted.
func (p *player) close() (err error) {
	if p.server != nil {
		// A server that was stopped in the middle has nothing left to say.
		_ = p.server.Close()
	}
	if p.leave != nil {
		err = p.leave()
	}
	if p.pool != nil {
		// Results that nobody waits for must not block the pool.
		go func() {
			for range p.results {
				continue
			}
		}()
		err = errors.Join(err, p.pool.Close())
		close(p.results)
		p.result.Restarts = p.pool.Restarts()
	}
	if p.arena != nil {
		err = errors.Join(err, p.arena.Close())
	}
	if p.journal != nil {
		err = errors.Join(err, p.journal.Close())
	}
	return err
}

// play takes the requests of the server's process one by one, moves the clock to the time of each,
// and answers it, until the app has finished or has failed.
func (p *player) play(ctx context.Context) error {
	for {
		request, err := p.server.Next(ctx)
		if err != nil {
			return err
		}
		// What the strategy said lies before the request itself, in virtual time.
		if err := p.takeNotes(ctx, request.Notes); err != nil {
			return err
		}
		if err := p.advance(ctx, round.Time(request.Now)); err != nil {
			return err
		}
		switch {
		case request.Nodes:
			err = p.server.AnswerNodes(int64(p.now), p.available())
		case request.Push != nil:
			err = p.push(request.Push)
		case request.Receive != nil:
			err = p.receive(ctx, request.Receive)
		// This is the app's last request.
		case request.Finished != nil:
			return p.finish(ctx, request.Finished)
		}
		if err != nil {
			return err
		}
	}
}

// finish is called when the app has finished, with how it ended. It reports the last round and all
// messages that are left, and acknowledges the end to the server's process, which then ends.
func (p *player) finish(ctx context.Context, f *flower.Finished) error {
	// Messages that nobody waits for any more are served, so that their nodes' times are known.
	if err := p.awaitServed(ctx); err != nil {
		return err
	}
	const last = true
	if err := p.closeRound(last); err != nil {
		return err
	}
	// The digest identifies the model in the summary, as the arrays stay with the app.
	p.result.Digest = f.Digest
	p.notices.finished(f, &p.result)
	return p.server.AnswerFinished(int64(p.now))
}

// available returns the ids of the nodes that are available at the present virtual time, in
// ascending order. Nodes that are busy with a message are among them, as in flwr.
func (p *player) available() []int64 {
	var list []int64
	for client := range p.nodes {
		if p.Fleet.Available(client, int64(p.now)) {
			list = append(list, int64(FirstNode+client))
		}
	}
	p.notices.nodesQueried(p.now, len(list))
	return list
}

// push takes the messages in list, which the server sends at the present virtual time, in their
// order, and answers with the number that each gets; 0 for a node that does not exist. Each message
// joins the queue of its node, which serves it at once if it is idle.
func (p *player) push(list []flower.Message) error {
	numbers := make([]uint64, len(list))
	for i := range list {
		sent := &list[i]
		client := int(sent.Node - FirstNode)
		if client < 0 || client >= len(p.nodes) {
			// As in flwr, a message to a node that does not exist gets no number.
			continue
		}
		p.lastNumber++
		numbers[i] = p.lastNumber
		// What is known of the message now is kept apart, since its content is dropped once served.
		m := &message{
			number:  p.lastNumber,
			sent:    sent,
			client:  client,
			pushed:  p.now,
			expires: p.timeAfter(sent.TTL),

			contentDigest: sent.Content.Digest,
			downBytes:     sent.Content.Size,
			config:        sent.Content.Config,
			secure:        strings.Contains(sent.Content.Text, secureRecord),
		}
		p.messages[m.number] = m
		// A message that trains may begin a round, which must be open before the message joins it.
		if m.trains() {
			if err := p.beforeTraining(sent.Group); err != nil {
				return err
			}
		}
		p.rounds.sent(m)
		// The node may be idle, and then takes the message at once.
		n := &p.nodes[client]
		n.waiting = append(n.waiting, m)
		if err := p.serveNext(client); err != nil {
			return err
		}
	}
	p.result.Messages += len(list)
	p.notices.pushed()
	return p.server.AnswerPush(int64(p.now), numbers)
}

// timeAfter returns the virtual time that lies this many seconds from now, rounded to nanoseconds.
// Negative seconds are now, and a time beyond the clock's end, or NaN seconds, is [simclock.Never].
func (p *player) timeAfter(seconds float64) round.Time {
	ns := seconds * 1e9
	if !(ns < float64(round.MaxTime-p.now)) {
		return simclock.Never
	}
	return p.now + round.Time(math.RoundToEven(max(0, ns)))
}

// receive lets virtual time pass until the server's wait is over, and delivers the replies that
// have arrived. The wait is over when all messages have their replies, with wait.First when one
// has, or at the time wait.Until; messages without a reply by then are abandoned.
func (p *player) receive(ctx context.Context, wait *flower.Receive) error {
	// What is still being served may end before anything that the clock has now.
	if err := p.awaitServed(ctx); err != nil {
		return err
	}
	start := p.now
	until := simclock.Never
	if wait.Until != nil {
		until = max(p.now, round.Time(*wait.Until))
	}
	pending, replies := p.arrived(p.undelivered(wait.Messages), nil)
	// lastReply is when the last reply came, the beginning of the wait if none has.
	lastReply := p.now
	// Each turn lets one message end, in the order of time, which may be one of this wait or not.
	isOver := func() bool {
		hasFirst := wait.First && len(replies) > 0
		return len(pending) == 0 || hasFirst
	}
	for !isOver() {
		event, ok := p.clock.Peek()
		if !ok && until == simclock.Never {
			return errors.New("the ServerApp waits for replies that never come, without a timeout")
		}
		// Nothing more happens before the timeout.
		if !ok || event.At > until {
			break
		}
		p.pop()
		before := len(replies)
		pending, replies = p.arrived(pending, replies)
		if len(replies) > before {
			lastReply = p.now
		}
	}
	timedOut := !isOver()
	if timedOut {
		if err := p.advance(ctx, until); err != nil {
			return err
		}
		// A server that only looks what has arrived, without waiting, has not given up on the rest.
		hasWaited := until > start
		for _, m := range pending {
			m.abandoned = m.abandoned || hasWaited
		}
		p.notices.timedOut(p, pending, lastReply, until)
	}
	p.notices.waitedForExpiry(p, replies)
	if p.InOrder {
		slices.SortFunc(replies, func(a, b *message) int { return cmp.Compare(a.number, b.number) })
	}
	list := make([]*flower.Delivery, len(replies))
	for i, m := range replies {
		list[i] = p.delivery(m)
	}
	return p.server.AnswerReceive(ctx, int64(p.now), list)
}

// undelivered returns the messages with these numbers. Numbers that are unknown or were delivered already are
// left out.
func (p *player) undelivered(numbers []uint64) (list []*message) {
	for _, number := range numbers {
		if m := p.messages[number]; m != nil {
			list = append(list, m)
		}
	}
	return list
}

// arrived splits the messages in list, for which the server waits, into those without a reply yet, pending, and
// those whose replies have arrived, which it appends to replies by the time of arrival and then by number.
func (p *player) arrived(list, replies []*message) (pending, all []*message) {
	var fresh []*message
	for _, m := range list {
		if m.arrived {
			fresh = append(fresh, m)
		} else {
			pending = append(pending, m)
		}
	}
	// Several may have arrived at once, so the order must not depend on that of the request.
	slices.SortFunc(fresh, func(a, b *message) int {
		return cmp.Or(cmp.Compare(a.ends, b.ends), cmp.Compare(a.number, b.number))
	})
	return pending, append(replies, fresh...)
}

// delivery returns the end of message m, which has arrived, as the server gets it: the content of
// the reply, or an error if the message expired, if its node is gone, or if the node's app raised
// one. The message counts as delivered and is forgotten.
func (p *player) delivery(m *message) *flower.Delivery {
	d := &flower.Delivery{Message: m.number}
	switch {
	case m.fate == expired:
		d.Code = codeExpired
		d.Reason = "the message has expired"
	case m.fate == unavailable:
		d.Code = codeUnavailable
		d.Reason = "the node is not available"
	// The node's app has raised the error, which flwr passes on as it is.
	case m.isError():
		d.Code = m.reply.Code
		d.Reason = m.reply.Raised
	default:
		d.Reply = m.reply.Take()
	}
	m.delivered = true
	p.rounds.delivered(m)
	delete(p.messages, m.number)
	// Its round still reports the message, without what may be large.
	m.reply.Drop()
	return d
}

// advance moves the clock to virtual time to, and lets every event until then happen. A time that
// has passed changes nothing; one beyond the clock's range is an error. Before it moves, all
// messages are served, since they may end in between.
func (p *player) advance(ctx context.Context, to round.Time) error {
	if to <= p.now {
		return nil
	}
	// The clock counts nanoseconds and cannot go further.
	if to > round.MaxTime {
		return fmt.Errorf("the ServerApp waits until %g s of virtual time, 146 years", to.Seconds())
	}
	if err := p.awaitServed(ctx); err != nil {
		return err
	}
	// Messages that end until then have arrived when the clock stands there.
	for {
		event, ok := p.clock.Peek()
		if !ok || event.At > to {
			break
		}
		p.pop()
	}
	p.now = to
	return nil
}

// pop lets the earliest event of the clock happen, the end of one message, which has arrived then.
// The clock must have an event.
func (p *player) pop() {
	event, _ := p.clock.Pop()
	p.now = max(p.now, event.At)
	// A message can be delivered only after this event, so it is still there.
	m := p.messages[event.Task]
	m.arrived = true
	// Nobody will ask for it.
	if m.forgotten {
		delete(p.messages, m.number)
	}
}
