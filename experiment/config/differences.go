package config

// notOfTheRun are keys that change how a run is done or shown and nothing of
// what it computes.
var notOfTheRun = map[string]bool{
	"name": true, "out": true, "http": true, "pace": true, "checkpoint.seconds": true, "events.sample": true,
	"nats.url": true, "nats.listen": true, "nats.replicas": true, "nats.ack_seconds": true,
}

// Change is one key that differs between two configurations, with its values as
// YAML writes them.
type Change struct {
	Key, From, To string
	Inert         bool // it changes nothing that a run computes
}

// Changes lists the keys of which another configuration differs, in their order.
func (c Config) Changes(other Config) []Change {
	var list []Change
	for _, k := range keys {
		if from, to := k.write(&c), k.write(&other); from != to {
			list = append(list, Change{k.path, from, to, notOfTheRun[k.path]})
		}
	}
	return list
}

// Differences lists, as "key=value" in the order of the keys, what the
// configuration computes otherwise than its task's defaults. Two configurations
// with the same task and differences are one run. A key that a later version
// adds does not change the list while it has its default.
func (c Config) Differences() ([]string, error) {
	standard, err := Defaults(c.Task)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, change := range standard.Changes(c) {
		if !change.Inert {
			list = append(list, change.Key+"="+change.To)
		}
	}
	return list, nil
}
