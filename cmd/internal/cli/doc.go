// Package cli is what the programs' command lines share: how a command runs and
// fails, what it prints for people and for programs, progress on a terminal, the
// flags of a connection, and the commands of a real device (actor, doctor,
// calibrate), which fedpace-device has alone and fedpace among others.
//
// It knows nothing of experiments, and links neither a NATS server nor anything that
// draws: it goes to a Raspberry Pi.
package cli
