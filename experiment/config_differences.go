package experiment

// notOfTheRun are keys that change how a run is done or shown and nothing of
// what it computes.
var notOfTheRun = map[string]bool{
	"name": true, "out": true, "http": true, "pace": true, "checkpoint.seconds": true, "events.sample": true,
	"nats.url": true, "nats.listen": true, "nats.replicas": true, "nats.ack_seconds": true,
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
	for _, k := range keys {
		if value := k.write(&c); !notOfTheRun[k.path] && value != k.write(&standard) {
			list = append(list, k.path+"="+value)
		}
	}
	return list, nil
}
