// Package hostile attacks a fedpace server as a device could that is not this
// project's: it writes NATS's protocol itself, in pieces, out of order and without end.
//
// A [Client] is one connection, which sends whatever its caller writes. An [Attack] is
// what a hostile device does with a [Target] until its context ends; [Attacks] lists them.
// Only tests use the package.
//
// Which room plays which attacks:
//   - bus/admission: what a connection may do, against the proxy alone
//   - cmd (TestAttacks_...): the attack suite of docs/security.md, each attack of one device against a whole run
//   - internal/chaos (TestSiege): several of them at once, from processes of their own
//   - experiment/run/devices: what takes many rounds, what the summary corrects, bans that end, and what a member of
//     secure aggregation can do
//   - actors/attack, actors and experiment/run: attacks of papers by simulated clients: their formulas, their place
//     in a client's work, and the keys that ask for them
package hostile
