// Package subject makes and reads the subjects on which messages travel
// (docs/protocol.md):
//
//	fedpace.<run>.client.<id>.<verb>    verb: task, task.<host>, plan, update.<n>, join, join.<samples>, heartbeat,
//	                                    message.<host>, fetch, reply
//	fedpace.<run>.model.<digest>.<n>
//	fedpace.<run>.jobs.<kernel>
//	fedpace.<run>.sums
//	fedpace.<run>.info
//	fedpace.runs                        of all runs
//
// It knows no connection.
package subject
