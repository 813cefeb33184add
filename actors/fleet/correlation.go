package fleet

import (
	"cmp"
	"math"
	"slices"

	"fedpace/internal/keyed"
	"fedpace/internal/portable"
	"fedpace/internal/robust"
	"fedpace/registry"
)

// Correlation ties clients' devices to their data: whole devices, with all that
// belongs to them, are assigned to other clients, so that the fleet stays the same and
// speeds keep their distribution exactly.
//
// The coupling is a Gaussian copula. A client's place z among all clients, by its data,
// is mixed with noise e of its own: w = rho z + sqrt(1 - rho^2) e, both standard
// normal. The client with the k-th smallest w gets the k-th slowest device. For
// Spearman's coefficient rho_s of two normal variables with Pearson's rho,
//
//	rho_s = 6/pi asin(rho/2),  so  rho = 2 sin(pi rho_s / 6)
//
// (Pearson 1907; Kruskal, Ordinal measures of association, JASA 53, 1958). Where
// clients, or devices, are equal, chance decides between them, and the coefficient
// comes out nearer to 0.
type Correlation struct {
	Speed        SpeedCorrelation `key:"speed"`
	Availability RankCorrelation  `key:"availability"`
}

// RankCorrelation is a wanted rank correlation of devices with a property of the clients' data.
type RankCorrelation struct {
	Spearman float64 `key:"spearman" default:"0" range:"[-1,1]" help:"Spearman's rank correlation with clients' data"`
	// Property is samples, labels or entropy.
	Property string `key:"with" default:"samples" words:"samples,labels,entropy" help:"samples, distinct labels, or entropy of labels"`
}

// SpeedCorrelation is the rank correlation of a speed with the data. A positive one gives faster
// devices to clients with more of the property.
type SpeedCorrelation struct {
	RankCorrelation
	Phase string `key:"of" default:"compute" words:"compute,download,upload" help:"speed that ranks devices"`
}

// Given reports whether a correlation of devices with the data is configured.
func (c *Correlation) Given() bool { return c.Speed.Spearman != 0 || c.Availability.Spearman != 0 }

// CorrelationNote reports the rank correlation that a fleet has reached.
type CorrelationNote struct {
	// Quantity is speed or availability.
	Quantity string
	// Property is samples, labels or entropy.
	Property string
	// Wanted is the configured Spearman coefficient.
	Wanted float64
	// Achieved is the coefficient in this population. Equal values have the mean of their ranks.
	Achieved float64
}

// Sharing is a [Presence] that knows the share of the time for which each client is available.
type Sharing interface {
	Presence
	// Share returns the long-run share of the time, between 0 and 1.
	Share(seed uint64, client int) float64
}

// Correlate assigns the devices and availabilities of clients 0 to clients-1 so that they have the
// wanted rank correlation with the data. values returns a property of each client's data (see
// CorrelationNote.Property). It must be called before a client is asked for. Its errors are
// [*registry.OptionError] or those of values.
func (f *Fleet) Correlate(c Correlation, clients int, values func(property string) ([]float64, error)) error {
	speed := correlated{
		quantity:    "speed",
		remedy:      "give the clients one of their own, such as a distribution",
		correlation: c.Speed.RankCorrelation,
		value:       func(client int) float64 { return f.speed(client, c.Speed.Phase) },
		purpose:     keyed.CorrelatedSpeed,
	}
	availability := correlated{
		quantity:    "availability",
		remedy:      "use availability: share, or trace",
		correlation: c.Availability,
		value:       f.availableShare,
		purpose:     keyed.CorrelatedAvailability,
	}
	if err := f.correlate(&speed, clients, values, &f.devices); err != nil {
		return err
	}
	return f.correlate(&availability, clients, values, &f.presences)
}

// correlated is a quantity of the fleet that is to be correlated with the clients' data.
type correlated struct {
	// quantity is speed or availability, and remedy what to do where all clients have the same.
	quantity, remedy string
	// correlation is the wanted one.
	correlation RankCorrelation
	// value returns the quantity of a client that still has the device of its own number.
	value func(client int) float64
	// purpose keys the random draws of the assignment.
	purpose keyed.Purpose
}

// correlate assigns devices, or availabilities, to clients 0 to clients-1 so that a quantity of theirs has the wanted
// rank correlation with the clients' data, and notes which it has reached. values returns a property of each
// client's data. *assignment becomes the list that gives, by client, the number of the device or availability that it
// is assigned. Nothing happens where no correlation is wanted.
func (f *Fleet) correlate(
	target *correlated,
	clients int,
	values func(property string) ([]float64, error),
	assignment *[]uint32,
) error {
	wanted := target.correlation.Spearman
	if wanted == 0 {
		return nil
	}
	data, err := values(target.correlation.Property)
	if err != nil {
		return err
	}
	// Before the assignment, client i has device i.
	deviceValues := make([]float64, clients)
	for i := range deviceValues {
		deviceValues[i] = target.value(i)
	}
	key := "correlation." + target.quantity
	switch {
	case allEqual(deviceValues):
		return registry.Errorf(
			key,
			"every client has the same %s, so there is nothing to correlate (%s)",
			target.quantity,
			target.remedy,
		)
	case allEqual(data):
		return registry.Errorf(
			key+".with",
			"%s are the same for every client, so there is nothing to correlate",
			target.correlation.Property,
		)
	}
	assigned := assignByRank(f.seed, target.purpose, wanted, data, deviceValues)
	*assignment = assigned
	// The correlation that was reached is noted, as ranks with ties cannot have every value.
	valueOfClient := make([]float64, clients)
	for client, device := range assigned {
		valueOfClient[client] = deviceValues[device]
	}
	f.Correlations = append(f.Correlations, CorrelationNote{
		Quantity: target.quantity,
		Property: target.correlation.Property,
		Wanted:   wanted,
		Achieved: robust.Spearman(data, valueOfClient),
	})
	return nil
}

// check validates the options of the correlations that are set. It refuses a correlated
// availability beside a class with an availability of its own, which cannot be assigned apart from
// the device.
func (c *Correlation) check(classes []Class) error {
	if c.Speed.Spearman != 0 {
		if err := registry.Check(c.Speed); err != nil {
			return registry.Below("correlation.speed", err)
		}
	}
	// A coefficient of 0 stands for a correlation that is not wanted.
	if c.Availability.Spearman == 0 {
		return nil
	}
	if err := registry.Check(c.Availability); err != nil {
		return registry.Below("correlation.availability", err)
	}
	for _, k := range classes {
		if k.Availability != nil {
			return registry.Errorf(
				"correlation.availability",
				"class %q has an availability of its own, which comes with its devices "+
					"(correlate speed, or give one availability for all)",
				k.Name,
			)
		}
	}
	return nil
}

// speed returns how fast a client's device is in the given phase (compute, download or upload), as
// a number that is larger for faster devices. For compute it is the negative time of a step at the
// long-run pace.
func (f *Fleet) speed(client int, phase string) float64 {
	k, deviceKey := f.class(client)
	down, step, up := k.typical(deviceKey)
	switch {
	case phase == "download":
		return down
	case phase == "upload":
		return up
	case k.slow != nil:
		return -step / k.slow.MeanPace()
	}
	return -step
}

// availableShare returns the long-run share of the time for which a client is available, 1 if the model does
// not know it.
func (f *Fleet) availableShare(client int) float64 {
	p, number := f.presenceOf(client)
	if s, ok := p.(Sharing); ok {
		return s.Share(f.seed, number)
	}
	return 1
}

// assignByRank returns for each client the number of the device that it is assigned, so that data, a
// property of each client, and the values of the assigned devices have about this coefficient of rank
// correlation (Spearman's). Clients are ranked by a mixture of their data and noise, a Gaussian copula (see
// [Correlation]), and devices by deviceValues. The client of each rank is assigned the device of that rank.
func assignByRank(seed uint64, purpose keyed.Purpose, coefficient float64, data, deviceValues []float64) []uint32 {
	// Normal variables with Pearson's correlation rho have Spearman's correlation coefficient.
	rho := 2 * float64(portable.Sin(float64(coefficient*(math.Pi/6))))
	noiseShare := math.Sqrt(max(0, 1-float64(rho*rho)))
	n := float64(len(data))
	// The numbers of the draws keep their random bits apart.
	const (
		drawNoise       = 0
		drawDataTies    = 1
		drawDeviceTies  = 2
		drawMixtureTies = 3
	)
	mixed := make([]float64, len(data))
	for rank, client := range ranked(seed, purpose, drawDataTies, data) {
		// Both are standard normal: one follows from the client's rank, the other is random.
		score := portable.Normal(uint64((float64(rank) + 0.5) / n * 0x1p64))
		noise := portable.Normal(keyed.Hash(seed, purpose, uint64(client), drawNoise))
		mixed[client] = float64(rho*score) + float64(noiseShare*noise)
	}
	assigned := make([]uint32, len(data))
	devices := ranked(seed, purpose, drawDeviceTies, deviceValues)
	for rank, client := range ranked(seed, purpose, drawMixtureTies, mixed) {
		assigned[client] = devices[rank]
	}
	return assigned
}

// ranked returns the indices of values in ascending order of value. Ties are broken at random by bits that
// follow from the seed, the purpose and the number of the draw, which is another for each call.
func ranked(seed uint64, purpose keyed.Purpose, draw uint64, values []float64) []uint32 {
	type entry struct {
		value float64
		key   uint64
		index uint32
	}
	list := make([]entry, len(values))
	for i, v := range values {
		list[i] = entry{value: v, key: keyed.Hash(seed, purpose, uint64(i), draw), index: uint32(i)}
	}
	// Equal keys are improbable, but the order must be the same on every machine.
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.key, b.key), cmp.Compare(a.index, b.index))
	})
	order := make([]uint32, len(list))
	for i, e := range list {
		order[i] = e.index
	}
	return order
}

// allEqual reports whether all values are the same.
func allEqual(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return v != values[0] })
}
