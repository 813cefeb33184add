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

// errorBytes is the size of a reply that is an error, as it takes on a link.
const errorBytes = 64

// flwr's codes of errors that a Grid makes.
const (
	codeExpired     = 3
	codeUnavailable = 5
)

// Config says what is played.
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
	// InOrder delivers replies in the order of their messages, as far as they have arrived, in place
	// of the order in which they arrive.
	InOrder bool
	// Journal is the path of the journal of replies, and JournalBytes the size beyond which it holds
	// digests alone. An existing journal is played again first.
	Journal      string
	JournalBytes int64
	Observer
}

// Observer is told what happens, from the goroutine of Play. Each function may be nil.
type Observer struct {
	// Task takes a message that has ended, before the round in which it counts.
	Task func(*Task) error
	// Round takes a round that is over.
	Round func(*Round) error
	// Notice takes a line for the user.
	Notice func(string)
}

// Result is how an app has ended.
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
	// Restarts is the number of processes that were started in place of one that died.
	Restarts int64
	// Flwr is the version of flwr, App the name of the app, and RunConfig its run config.
	Flwr, App string
	RunConfig map[string]string
}

// message is a message on its way: from its push to its delivery.
type message struct {
	number uint64
	sent   *flower.Message
	client int
	pushed round.Time
	// expires is when its time to live is over; simclock.Never if that is beyond the clock.
	expires round.Time
	// ordinal is the number of the message at its node, from 1.
	ordinal int
	// content is the digest of its content, downBytes the content's size on a link, config the numbers
	// of its configuration, and secure says that it belongs to SecAgg+.
	content   [sha256.Size]byte
	downBytes int64
	config    map[string]float64
	secure    bool

	// The following are known once a process has served it.

	reply *flower.Reply
	// begins is when its node takes it, and plan how long the node takes.
	begins round.Time
	plan   fleet.Plan
	// ends is when its fate is known to the grid: the arrival of the reply, the report of a dropout,
	// or the end of its time to live.
	ends round.Time
	fate fate

	// arrived says that the clock has reached ends, delivered that the server has the reply, and
	// abandoned that the server has stopped waiting for it.
	arrived, delivered, abandoned bool
	// reported says that its round is over and has reported it as one that nobody waits for.
	reported bool
}

// isError reports whether the reply is an error that the node raised.
func (m *message) isError() bool { return m.reply.Code != 0 }

// secureRecord is the name of the record by which messages of SecAgg+ are known.
const secureRecord = `"secaggplus_`

// fate is how a message ends.
type fate uint8

const (
	// replied means that a reply arrives, perhaps an error that the node raised.
	replied fate = iota
	// expired means that the time to live is over before.
	expired
	// unavailable means that the grid reports that the node is gone.
	unavailable
)

// trains reports whether the message is one that trains.
func (m *message) trains() bool { return category(m.sent.Type) == "train" }

// category is the part of a message's type before the name of an action.
func category(kind string) string {
	for i := range kind {
		if kind[i] == '.' {
			return kind[:i]
		}
	}
	return kind
}

// node is a client.
type node struct {
	// free is when it has done what it has taken so far, in virtual time.
	free round.Time
	// served is the number of messages that it has taken.
	served int
	// state is what the app keeps of it.
	state [][]byte
	// waiting are the messages that it has not taken yet, and busy says that a process serves one.
	waiting []*message
	busy    bool
}

// player answers the server's process. It is for one goroutine.
type player struct {
	Config
	server  *flower.Server
	pool    *flower.Pool
	journal *journal
	clock   *simclock.Clock
	now     round.Time
	nodes   []node
	// messages are those that are not delivered, by number. last is the last number.
	messages map[uint64]*message
	last     uint64
	// results are what the processes have served, and serving the number of messages that they have.
	results chan flower.Result
	serving int

	rounds  rounds
	notices notices
	result  Result
}

// Play runs an app to its end. It returns a result also with an error, as far as the app came.
func Play(ctx context.Context, c Config) (*Result, error) {
	p := &player{
		Config:   c,
		clock:    simclock.New(),
		nodes:    make([]node, c.Nodes),
		messages: map[uint64]*message{},
		results:  make(chan flower.Result, 1<<10),
	}
	p.notices.tell = c.Notice
	err := p.open(ctx)
	if err == nil {
		err = p.play(ctx)
	}
	err = errors.Join(err, p.close())
	p.result.End = p.now
	p.result.Fingerprint = p.clock.Fingerprint()
	return &p.result, err
}

// open starts the processes and opens the journal.
func (p *player) open(ctx context.Context) (err error) {
	if p.journal, err = openJournal(p.Config.Journal, p.JournalBytes); err != nil {
		return err
	}
	if p.server, err = flower.StartServer(ctx, &p.App); err != nil {
		return err
	}
	p.result.Flwr = p.server.Flwr
	p.result.App = p.server.Ready.App
	p.result.RunConfig = p.server.Ready.Config
	p.rounds.config = p.server.Ready.Config
	p.pool, err = flower.StartPool(ctx, &p.App, p.Workers)
	return err
}

// close ends the processes and closes the journal.
func (p *player) close() (err error) {
	if p.server != nil {
		// A server that was stopped in the middle has nothing left to say.
		_ = p.server.Close()
	}
	if p.pool != nil {
		// Results that nobody waits for must not block the pool.
		go func() {
			for range p.results {
				continue
			}
		}()
		err = p.pool.Close()
		close(p.results)
		p.result.Restarts = p.pool.Restarts()
	}
	if p.journal != nil {
		err = errors.Join(err, p.journal.Close())
	}
	return err
}

// play answers requests until the app has finished.
func (p *player) play(ctx context.Context) error {
	for {
		request, err := p.server.Next(ctx)
		if err != nil {
			return err
		}
		if err := p.note(ctx, request.Notes); err != nil {
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
		case request.Finished != nil:
			return p.finish(ctx, request.Finished)
		}
		if err != nil {
			return err
		}
	}
}

// finish ends the last round and tells the server's process that its end is known.
func (p *player) finish(ctx context.Context, f *flower.Finished) error {
	// Messages that nobody waits for any more are served, so that their nodes' times are known.
	if err := p.settle(ctx); err != nil {
		return err
	}
	if err := p.closeRound(true); err != nil {
		return err
	}
	p.result.Digest = f.Digest
	p.notices.finished(f, &p.result)
	return p.server.AnswerFinished(int64(p.now))
}

// available lists the ids of the nodes that are available now.
func (p *player) available() []int64 {
	var list []int64
	for client := range p.nodes {
		if p.Fleet.Available(client, int64(p.now)) {
			list = append(list, int64(FirstNode+client))
		}
	}
	p.notices.asked(p.now, len(list))
	return list
}

// push takes messages of the server, in their order, and answers with their numbers.
func (p *player) push(list []flower.Message) error {
	numbers := make([]uint64, len(list))
	for i := range list {
		sent := &list[i]
		client := int(sent.Node - FirstNode)
		if client < 0 || client >= len(p.nodes) {
			// As in flwr, a message to a node that does not exist gets no number.
			continue
		}
		p.last++
		numbers[i] = p.last
		m := &message{
			number:  p.last,
			sent:    sent,
			client:  client,
			pushed:  p.now,
			expires: p.after(sent.TTL),

			content:   sent.Content.Digest,
			downBytes: sent.Content.Size,
			config:    sent.Content.Config,
			secure:    strings.Contains(sent.Content.Text, secureRecord),
		}
		p.messages[m.number] = m
		if m.trains() {
			if err := p.trainsFirst(sent.Group); err != nil {
				return err
			}
		}
		p.rounds.sent(m)
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

// after is the time so many seconds from now, at most the end of the clock.
func (p *player) after(seconds float64) round.Time {
	ns := seconds * 1e9
	if !(ns < float64(round.MaxTime-p.now)) {
		return simclock.Never
	}
	return p.now + round.Time(math.RoundToEven(max(0, ns)))
}

// receive waits for replies and delivers them.
func (p *player) receive(ctx context.Context, wait *flower.Receive) error {
	if err := p.settle(ctx); err != nil {
		return err
	}
	start := p.now
	until := simclock.Never
	if wait.Until != nil {
		until = max(p.now, round.Time(*wait.Until))
	}
	pending, replies := p.arrived(wait.Messages, nil)
	last := p.now
	for len(pending) > 0 && !(wait.First && len(replies) > 0) {
		event, ok := p.clock.Peek()
		if !ok && until == simclock.Never {
			return errors.New("the ServerApp waits for replies that never come, without a timeout")
		}
		if !ok || event.At > until {
			break
		}
		p.pop()
		before := len(replies)
		pending, replies = p.arrived(pending, replies)
		if len(replies) > before {
			last = p.now
		}
	}
	timedOut := len(pending) > 0 && !(wait.First && len(replies) > 0)
	if timedOut {
		if err := p.advance(ctx, until); err != nil {
			return err
		}
		for _, m := range pending {
			m.abandoned = m.abandoned || until > start
		}
		p.notices.timedOut(p, pending, last, until)
	}
	p.notices.waitedForExpiry(p, replies)
	if p.InOrder {
		slices.SortFunc(replies, func(a, b *message) int { return cmp.Compare(a.number, b.number) })
	}
	for _, m := range replies {
		if err := p.deliver(m); err != nil {
			return err
		}
	}
	return p.server.AnswerReceive(int64(p.now))
}

// arrived splits messages, which are numbers or still pending messages, into those that are pending
// and those whose replies have arrived, which it appends to replies in the order of arrival.
func (p *player) arrived(list any, replies []*message) (pending, all []*message) {
	var open []*message
	switch list := list.(type) {
	case []uint64:
		for _, number := range list {
			if m := p.messages[number]; m != nil {
				open = append(open, m)
			}
		}
	case []*message:
		open = list
	}
	var fresh []*message
	for _, m := range open {
		if m.arrived {
			fresh = append(fresh, m)
		} else {
			pending = append(pending, m)
		}
	}
	slices.SortFunc(fresh, func(a, b *message) int {
		return cmp.Or(cmp.Compare(a.ends, b.ends), cmp.Compare(a.number, b.number))
	})
	return pending, append(replies, fresh...)
}

// deliver hands a reply that has arrived to the server.
func (p *player) deliver(m *message) error {
	d := &flower.Delivery{Message: m.number}
	switch {
	case m.fate == expired:
		d.Code = codeExpired
		d.Reason = "the message has expired"
	case m.fate == unavailable:
		d.Code = codeUnavailable
		d.Reason = "the node is not available"
	case m.isError():
		d.Code = m.reply.Code
		d.Reason = m.reply.Raised
	default:
		d.Content = m.reply.Content
	}
	m.delivered = true
	p.rounds.delivered(m)
	delete(p.messages, m.number)
	err := p.server.Deliver(int64(p.now), d)
	// What was delivered is needed no more, and may be large.
	m.reply.Content = nil
	m.reply.State = nil
	return err
}

// advance moves the clock to a time, and lets happen what lies before it.
func (p *player) advance(ctx context.Context, to round.Time) error {
	if to <= p.now {
		return nil
	}
	if to > round.MaxTime {
		return fmt.Errorf("the ServerApp waits until %g s of virtual time, 146 years", to.Seconds())
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
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

// pop lets the next event happen: the fate of one message.
func (p *player) pop() {
	event, _ := p.clock.Pop()
	p.now = max(p.now, event.At)
	// Its message is there until it is delivered, which needs this event.
	m := p.messages[event.Task]
	m.arrived = true
	if m.reported {
		delete(p.messages, m.number)
	}
}
