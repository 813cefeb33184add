// Package grid plays a Flower app on the virtual clock: it is the Grid behind which its ServerApp
// sees the clients.
//
// The app's processes are those of package actors/flower. The server's process asks, and the clock
// stands still meanwhile: which nodes are available now, here are messages, wait for their replies
// until this time. A [player] answers. It lets a client's process serve each message as soon as the
// node is free, since the time that a reply takes is only known with its local steps and its size;
// then it places the reply on the clock, by the laws of package fleet, and the clock reaches it
// when the server waits or sleeps.
//
// So that the bits depend on nothing else: a node serves its messages one after another in the
// order in which they were sent; its state and its generators follow from its own messages alone;
// events of the clock are numbered by messages, never by who was served first; and the clock moves
// only when every message that it could overtake has been served. Equal seeds then give equal
// runs, whatever the number of processes and their speed.
//
// A message ends in one of these ways: its reply arrives; the node raises an error, which arrives
// like a reply; the node drops out, after which nothing arrives, or the grid reports the node after
// a while; or its time to live is over first. The strategy's rounds become the run's: what began
// between two rounds is reported with the first, as in any other run (rounds.go).
//
// A ServerApp cannot be checkpointed. A [journal] holds the replies of the clients; a run that was
// killed is played again from its start, and the clients are spared what the journal has.
package grid
