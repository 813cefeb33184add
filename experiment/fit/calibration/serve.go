package calibration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"fedpace/actors/calibrate"
	"fedpace/bus"
	"fedpace/internal/keyed"
)

// Config is the coordinator's end of a calibration.
type Config struct {
	Run     string
	Devices []string
	// Welcome is what devices are told of the runs to come, with their model; nil: of
	// none, and a model of a common size travels.
	Welcome *bus.Welcome
	// LocalSteps are those of the first tasks of the runs to come; 0: they are not known.
	LocalSteps int
	// That a device is measured, longer where it is noisy.
	Seconds float64
	// Pause is how long a device rests before each transfer, as it does in a run while it
	// computes: a connection that was idle starts slowly again (RFC 5681, section 4.1).
	Pause  time.Duration
	Notice func(string)
	// Silence is how long a device may say nothing before another has its turn; 0: 30 s.
	Silence time.Duration
	// Pause between two calls of a device; 0: as in a run.
	Calls time.Duration
}

// Measured is what a device's transfers came to.
type Measured struct {
	Device  string            `json:"device"`
	Network calibrate.Network `json:"network"`
	// Of all sizes.
	Transfers int       `json:"transfers"`
	Time      time.Time `json:"at"`
}

// standardParams is the size of the model that travels where none is named: two chunks.
const standardParams = 1 << 18

const (
	firstTask = 1 << 52 // of devices, as the protocol has them

	silence   = 30 * time.Second // three heartbeats
	resend    = 5 * time.Second  // after which a task without an answer is sent again, as in a run
	taskLimit = 10 * time.Minute // for one transfer, as devices.task_seconds is by default
	heartbeat = 10               // s
)

// Serve measures the links of all devices of configuration c. line carries the messages to and from
// the devices, and models stores what they download. Each device that joins is sent models of
// several sizes and sends them back, one device after the other, so that they do not share the
// coordinator's link. Serve returns what it measured once every device was measured or has failed,
// and the failures joined to one error.
func Serve(ctx context.Context, line bus.Line, models bus.Coordinator, c Config) (all []Measured, err error) {
	if c.Silence == 0 {
		c.Silence = silence
	}
	if c.Welcome == nil {
		c.Welcome = &bus.Welcome{Params: standardParams, Spec: &bus.Spec{Batch: 1}}
	}
	welcome := proto.CloneOf(c.Welcome)
	welcome.Clients = uint64(len(c.Devices))
	welcome.HeartbeatSeconds = min(heartbeat, c.Silence.Seconds()/3)
	s := &server{
		config:   c,
		line:     line,
		welcome:  welcome,
		turn:     make(chan struct{}, 1),
		results:  make([]*Measured, len(c.Devices)),
		failures: make([]error, len(c.Devices)),
	}
	if err := s.put(ctx, models); err != nil {
		return nil, err
	}
	group, inner := errgroup.WithContext(ctx)
	// The measuring also ends when the connection that stores the models is closed.
	inner, stop := bus.Until(inner, models.Life())
	defer stop()
	for i := range c.Devices {
		group.Go(func() error { return s.device(inner, i) })
	}
	err = errors.Join(append([]error{group.Wait()}, s.failures...)...)
	for _, m := range s.results {
		if m != nil {
			all = append(all, *m)
		}
	}
	return all, err
}

// server measures devices. Each device has a goroutine, and one token has them measured one
// after the other.
type server struct {
	config  Config
	line    bus.Line
	welcome *bus.Welcome
	models  [][]float32
	digests []bus.Digest
	// Holds a token while a device is measured.
	turn chan struct{}
	// By device; each goroutine writes its own.
	results  []*Measured
	failures []error
}

// put makes a model of random values for each size and stores it on the bus, where devices download
// it. The values are the same each time, so that compression on a link has the same effect.
func (s *server) put(ctx context.Context, models bus.Coordinator) error {
	r := keyed.New(1, keyed.Weights)
	for _, n := range calibrate.Sizes(int(s.welcome.Params)) {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64()) / 32
		}
		d := bus.DigestOf(x)
		if err := models.PutModel(ctx, d, x); err != nil {
			return err
		}
		s.models = append(s.models, x)
		s.digests = append(s.digests, d)
	}
	return nil
}

// notice tells the user a line.
func (s *server) notice(format string, args ...any) { s.config.Notice(fmt.Sprintf(format, args...)) }
