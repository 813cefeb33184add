// Package natsconn is a connection to a NATS server, in this process or over TCP:
// the [bus.Line] over NATS, on which package natsbus builds the ends of a run.
//
// What it promises:
//
//   - A transient failure is tried again for as long as retry.go says; every other
//     failure is returned at once. Both name the server and what it was asked to do and,
//     where a limit, a credential or a certificate is the reason, what to do about it.
//   - A request that takes long is reported while it lasts ([Config], [Conn.Waiting]).
//   - A connection that is lost comes back by itself, which is reported since messages
//     may be missing ([Conn.Watch]). One that stays away for too long is given up
//     ([Conn.Life]).
//   - No message is dropped in silence: a drop breaks the connection, or is reported to
//     the subscription that bounded its own backlog.
//
// conn.go has the connection, remote.go what only a connection over TCP has, retry.go what is
// tried again and for how long, waits.go what is reported meanwhile, line.go the [bus.Line].
//
// It knows how a model is fetched, as a [bus.Line] must, and nothing else of a run.
//
// # Requests without an answer
//
// A connection to a site's server stands while the server behind that dies, and a lost request and a slow answer look
// the same. A request and its short answer are given up soon: 4 s after the server has read the request, and twice as
// long each time. A chunk of a model is large, and on a slow link it may take a minute, in which repeats would make it
// later still. So after 2 s a device sends a probe, a request that goes the same way and has a short answer. What goes
// one way stays in order, so if the probe's answer comes first, the chunk or the request for it was lost, and the
// request is made again. A probe without an answer is repeated after 4 s, 8 s, and then every 16 s. Whichever request
// is answered first counts, as a chunk is named by its digest.
package natsconn
