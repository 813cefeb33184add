package prometheus

import "time"

// Vitals are a run's signs of life in wall time, asked for at a scrape.
type Vitals struct {
	PacingLag time.Duration // behind the pace that was asked for
	BusLag    time.Duration // from the last cohort's tasks going out until its last plan was back
	Pending   int           // messages that wait for the coordinator
	Dropped   int64         // messages lost to a slow consumer
	Ignored   int64         // messages that did not count: repeated, stale or refused
	Devices   Devices
}

// Watch has every scrape ask for the vitals. The function must be safe for
// concurrent use, must not wait, and must answer after the run's end, too.
func (m *Metrics) Watch(vitals func() Vitals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.vitals = vitals
}

// Devices is what is known of real devices.
type Devices struct {
	Present    int           // joined and heard of
	Silent     int           // joined and silent for too long, or heard no more
	Heartbeats int64         // received
	Oldest     time.Time     // when the most silent present device was last heard of; zero: none
	Held       time.Duration // wall time that the clock has stood for devices
	Refused    int64         // messages that were not valid
}
