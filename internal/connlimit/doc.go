// Package connlimit bounds the connections that a server has open, so that those
// who connect and do nothing keep nobody out and use up no descriptors.
//
// A connection waits until it has shown that it deserves a place, and is admitted
// from then on. Those that wait are few: a new one takes the place of the oldest of
// whichever address has the most of them. So somebody who opens many shuts out
// himself, and a client that goes on quickly always comes through.
package connlimit
