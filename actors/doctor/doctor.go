package doctor

import (
	"context"
	"time"

	"fedpace/actors/real"
	"fedpace/bus/natsconn"
)

// State is how grave a finding is.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failure State = "failure"
)

// Finding is what a check has found.
type Finding struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"` // what to do; empty: nothing
}

// Config is what is examined: a device as it would take part, and its way to the server.
type Config struct {
	Device real.Config
	Conn   natsconn.Config // no URL: nothing is asked of a server
	Listen time.Duration   // how long to wait for runs that call the device; 0: 3 s, two calls and a pause

	called []string // runs of this version that call the device
}

// defaultListen is longer than two calls of a run to devices that are away.
const defaultListen = 3 * time.Second

// Examine makes all checks, one after the other, and tells each finding at once. It
// ends early only when ctx does.
func Examine(ctx context.Context, c Config, tell func(Finding)) error {
	for _, check := range []func(context.Context, *Config) []Finding{program, clock, room, credentials, server, samples} {
		findings := check(ctx, &c)
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, f := range findings {
			tell(f)
		}
	}
	return nil
}

func ok(check, text string) Finding            { return Finding{Check: check, State: OK, Text: text} }
func warning(check, text, mend string) Finding { return Finding{check, Warning, text, mend} }
func failure(check, text, mend string) Finding { return Finding{check, Failure, text, mend} }
