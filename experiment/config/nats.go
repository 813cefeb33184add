package config

import (
	"errors"
	"fmt"
	"strings"

	"fedpace/internal/names"
)

// validServer is the check of nats.url.
func validServer(s string) error {
	if s == Embedded {
		return nil
	}
	if names.Redacted(s) != s {
		return errors.New("a user or password in it would stand in the results (use --nats, or --creds)")
	}
	if err := names.CheckURL(s); err != nil {
		if !strings.Contains(s, "://") {
			return fmt.Errorf("%w, or %s", err, Embedded)
		}
		return err
	}
	return nil
}

// fitNATS refuses settings that belong to another kind of server.
func fitNATS(c Config) *KeyError {
	embedded := c.NATS.URL == Embedded
	switch {
	case !embedded && c.NATS.Listen != "":
		return &KeyError{Key: "nats.listen", Others: []string{"nats.url"},
			Problem: fmt.Sprintf("%q is for the embedded server alone, and nats.url is another", c.NATS.Listen)}
	case embedded && c.NATS.Replicas > 1:
		return &KeyError{Key: "nats.replicas", Others: []string{"nats.url"},
			Problem: fmt.Sprintf("%d are for a cluster, and the embedded server is one (set nats.url)", c.NATS.Replicas)}
	}
	return nil
}

// ForHosts is the configuration as hosts in other processes are told it: without
// what is the coordinator's own business and decides neither plans nor sums.
func (c Config) ForHosts() Config {
	standard := Demonstration()
	c.NATS, c.Checkpoint, c.HTTP, c.Pace = standard.NATS, standard.Checkpoint, "", 0
	c.Out, c.Init = OutFolder(c.Name), ""
	return c
}
