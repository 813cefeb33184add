// Package secagg is secure aggregation: a coordinator learns the sum of its clients' updates and
// no update by itself. It is the protocol of Bonawitz et al. (CCS 2017) on the sparse graph of Bell
// et al. (CCS 2020).
//
// # What happens in a round
//
// The clients that take part are the members of a round. They go through five stages, and a member
// that leaves in one of them is no member of the next:
//
//  1. Keys. Each member draws two secrets and two keys, and sends an [Entry]. The coordinator
//     answers with the [Roster], which is all entries. From its digest follows a ring of all members,
//     on which each has its k neighbours.
//  2. Shares. Each member splits its two secrets by Shamir's scheme into a share for each neighbour,
//     and sends them encrypted. The coordinator passes them on.
//  3. Upload. Each member sends its weighted update with masks: one from its own seed, and one from
//     the key that it agrees on with each neighbour that has sent shares. The second kind is added by
//     one of the two and subtracted by the other.
//  4. Survivors. The coordinator names the members that have uploaded. Each of them signs that set,
//     at most one a round, and gets the signatures of the others.
//  5. Recovery. A member that has seen enough signatures of one set reveals, for each neighbour, the
//     share of the own seed if that neighbour survives, and else the share of its key. Never both.
//
// With Threshold shares the coordinator removes the self-masks of survivors and the masks that
// survivors share with those who left.
//
// # Exactness
//
// Updates are whole numbers of 64 bits (package algorithm), and masks are words that are added
// modulo 2^64. Masks cancel exactly, so the sum has the bits of the sum of the survivors' updates
// without masks. Package algorithm keeps every such sum within 63 bits. The weights are fixed before
// anybody knows who survives: a member of weight W adds W·2^-s times its difference, where 2^s is at
// least the weight of everybody together ([Shift]). The coordinator divides once, by the weight of the
// survivors.
//
// # What is promised
//
// [Choose] finds the smallest k, and the threshold for it, so that with the stated shares of
// colluding and of leaving members the promises fail with a probability of at most 2^-40 for privacy
// and 2^-30 for recovery. [Plan] has the bounds. A coordinator that tells members different
// sets of survivors gets no shares: more than half of all members and the colluders must have signed
// one set ([Terms.Quorum]). One that says that the neighbours of a member have left, to see its update
// alone, gets no signatures: each member looks whether the set holds together ([Terms.Cut]). A coordinator that
// invents members is outside the promise, unless members know each other's signing keys ([Client.Trust]).
//
// The package knows no bus, clock, model or file. [Client] and [Server] are state machines: they take
// messages as bytes and return messages as bytes.
package secagg
