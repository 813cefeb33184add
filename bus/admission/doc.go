// Package admission stands between the network and the embedded server. It takes
// connections over TCP, encrypts them if that is asked for, and carries those to the
// server that it admits.
//
// A NATS server has one limit of pending bytes for all its connections, and none of
// messages a second or of connections of one user. It needs large ones for a run's
// hosts. So that a device cannot use them, a [Front] holds each device to its quota,
// by what its credentials say:
//
//   - Connections that have not shown credentials yet are few, have little time, and
//     give way to others (package connlimit).
//   - Devices have few connections each. All connections together need fewer
//     descriptors than the process may have.
//   - Messages of a device over its rate are not read: its own buffers fill. Nothing is
//     read either of a device that does not read what waits for it, or whose requests
//     wait for answers: an answer may have half a megabyte, and the server makes as many
//     as it is asked for.
//   - What waits for a device is bounded, and what waits for all of them: then the
//     connection is closed for which most waits. Who reads is never that one.
//
// The server behind still checks credentials and permissions: what is read here of a
// token counts once the server has accepted it.
package admission
