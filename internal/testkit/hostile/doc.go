// Package hostile attacks a fedpace server as a device could that is not this
// project's: it writes NATS's protocol itself, in pieces, out of order and without end.
//
// A [Client] is one connection, which says what it is told to say. An [Attack] is what
// a hostile device does with a [Target] until its context ends; [Attacks] lists them.
// Only tests use it.
package hostile
