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
	// Run is the name under which devices join.
	Run string
	// Devices are the ids of the devices.
	Devices []string
	// Welcome is what devices are sent about the runs to come, with their model. With nil a model of a
	// common size is transferred.
	Welcome *bus.Welcome
	// LocalSteps is K_0 of the runs to come. It is 0 if that is not known.
	LocalSteps int
	// Seconds is about how long a device is measured. It takes longer where times scatter much.
	Seconds float64
	// Pause is how long a device rests before each transfer, as it does in a run while it
	// computes: a connection that was idle starts slowly again (RFC 5681, section 4.1).
	Pause time.Duration
	// Notice takes a line for the user.
	Notice func(string)
	// Silence is how long a device may send nothing before another has its turn. 0 means 30 s.
	Silence time.Duration
	// Calls is the time between two calls for a device to join. With 0 it is that of a run.
	Calls time.Duration
}

// Measured is the link of a device, as its transfers have shown it.
type Measured struct {
	Device  string            `json:"device"`
	Network calibrate.Network `json:"network"`
	// Transfers is the number of models of all sizes that went both ways.
	Transfers int `json:"transfers"`
	// Time is when the device was measured.
	Time time.Time `json:"at"`
}

// standardParams is the number of values of the model that is transferred where none is given: two chunks.
const standardParams = 1 << 18

const (
	// firstTask is the number from which the protocol counts the tasks of devices.
	firstTask = 1 << 52

	// silence is the default of Config.Silence: three heartbeats.
	silence = 30 * time.Second
	// taskLimit bounds the time of one transfer, as devices.task_seconds does by default.
	taskLimit = 10 * time.Minute
	// heartbeat is the time between two heartbeats of a device, in seconds.
	heartbeat = 10
)

// resendAfter is the time after which a task is sent again that the device does not seem to have got, as
// in a run. Tests shorten it.
var resendAfter = 5 * time.Second

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
		config:    c,
		line:      line,
		welcome:   welcome,
		measuring: make(chan struct{}, 1),
		results:   make([]*Measured, len(c.Devices)),
		failures:  make([]error, len(c.Devices)),
	}
	if err := s.storeModels(ctx, models); err != nil {
		return nil, err
	}
	group, inner := errgroup.WithContext(ctx)
	// The measuring also ends when the connection that stores the models is closed.
	inner, stop := bus.Until(inner, models.Life())
	defer stop()
	for i := range c.Devices {
		group.Go(func() error { return s.measureDevice(inner, i) })
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
	// models are the models that devices download, one of each size, and digests their digests.
	models  [][]float32
	digests []bus.Digest
	// measuring holds a token while a device is measured.
	measuring chan struct{}
	// results and failures have an entry for each device, which its goroutine alone writes. An entry is
	// nil until the device was measured, or has failed.
	results  []*Measured
	failures []error
}

// storeModels makes a model of random values for each size and stores it on the bus, where devices download
// it. The values are the same each time, so that compression on a link has the same effect.
func (s *server) storeModels(ctx context.Context, models bus.Coordinator) error {
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
