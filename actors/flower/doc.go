// Package flower runs the two parts of a Flower app in processes of their own: its ServerApp in
// one, and its ClientApp in as many as there are workers.
//
// A [Server] asks: which nodes are there, please send these messages, let me wait for their
// replies. A [Pool] does: it hands a message for a node to one of its processes and gives back the
// node's reply, the number of local steps that the reply took, and the state that the node keeps.
// Who answers a server and when a reply arrives is the business of package experiment/grid,
// which has the clock. Nothing here knows a duration.
//
// A process is a Python that has flwr, with the modules flower_server and flower_client of the
// package fedpace, which this program writes for it. Frames on two pipes (frame.go) are a line of
// JSON and blobs of bytes, which lie in shared memory where they are large; docs/flower.md has the
// protocol. The data of an array travels as a blob with a digest, so that the model of a broadcast
// goes to each process once. The content of a
// message is opaque here but for its size and some numbers beside it.
//
// A pool's process that dies is started again, and the message that it had is served again: a
// node's reply follows from the message, the node's state and a seed alone. A server's process
// cannot be continued; its run is played again from a journal.
package flower
