// Package child starts a program of the user's as a child process and talks to it: trainers
// (package actors/external) and policies (package experiment/policies).
//
// A [Process] reads requests on descriptor 3 and writes replies on descriptor 4, a line each.
// Descriptor 5 is [Memory] that both processes map, so that vectors are neither copied nor
// sent. What the process prints is shown line by line, and its last lines are kept for an
// error ([Output]).
//
// A process is watched by waiting for it, and not by the end of its pipes, which its children
// may hold. It is the leader of a group of its own, and the whole group is killed with it.
//
// The package knows the form of a reply (a line, at most so long) and not its meaning.
package child
