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
package natsconn
