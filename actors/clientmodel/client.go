package clientmodel

// Client is a simulated client as the laws of its device know it. What is drawn for
// its tasks follows from its own number.
type Client struct {
	Number   int
	Device   int     // number of the device whose class, speeds, traces and battery it has: its own number unless a correlation gives it another's
	Presence int     // number of the client whose availability it has, likewise
	Joules   float64 // what its battery holds; 0: it has none
}

// Client is the client of a number, without what its battery holds.
func (f *Fleet) Client(number int) Client {
	return Client{Number: number, Device: of(f.devices, number), Presence: f.presenceNumber(number)}
}

// of is a client's entry of a list; its own number where the list does not reach.
func of(list []uint32, client int) int {
	if client < len(list) {
		return int(list[client])
	}
	return client
}
