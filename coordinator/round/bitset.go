package round

import "math/bits"

// bitset is a set of clients.
type bitset []uint64

func newBitset(clients int) bitset { return make(bitset, (clients+63)/64) }

func (b bitset) add(client int)      { b[client>>6] |= 1 << (client & 63) }
func (b bitset) remove(client int)   { b[client>>6] &^= 1 << (client & 63) }
func (b bitset) has(client int) bool { return b[client>>6]>>(client&63)&1 == 1 }

// absent calls f with each of the clients that are not in the set, in order.
func (b bitset) absent(clients int, f func(client int)) {
	for word, set := range b {
		for free := ^set; free != 0; free &= free - 1 {
			client := word<<6 + bits.TrailingZeros64(free)
			if client >= clients {
				return
			}
			f(client)
		}
	}
}
