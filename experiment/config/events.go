package config

// Events says what of a run's tasks the event log keeps.
type Events struct {
	Sample int // clients a round, beside the slowest and real devices; NoEvents: no log
}

// NoEvents stands for a run without an event log.
const NoEvents = -1

const (
	defaultSample = 32
	maxSample     = 10_000
)

// eventsKeys are the keys of Events.
var eventsKeys = []key{
	orWord(whole("events.sample", "clients a round whose tasks events.log keeps, beside the slowest and real devices", func(c *Config) *int { return &c.Events.Sample }, 0, maxSample), "off",
		func(c *Config) { c.Events.Sample = NoEvents }, func(c *Config) bool { return c.Events.Sample == NoEvents }),
}
