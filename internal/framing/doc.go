// Package framing is how logs that are only ever appended to hold their records, so that a
// torn end and damage are told apart.
//
// A record is the length of its payload (uint32), the CRC-32C of the payload (uint32), the
// CRC-32C of these eight bytes (uint32), and the payload; integers are little-endian. A log
// ends wherever its writer was killed: a [Reader] gives all whole records and says that the
// end is torn. Anything else that does not fit is damage, and refused with its place.
// Whatever bytes it reads, a Reader takes no more memory than they and the largest record do.
package framing
