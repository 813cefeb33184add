package problem

import (
	"fmt"
	"math"

	"fedpace/actors/fleet"
	"fedpace/algorithm/privacy"
	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/internal/human"
)

// Secure is how a run aggregates securely.
type Secure struct {
	// Plan is for all clients of a round, and Devices for its real devices, which mask their updates
	// among each other; it is zero without devices.
	Plan    secagg.Plan
	Devices secagg.Plan
	// Shift says that an update of weight W enters the sum with W·2^-Shift (see [secagg.Shift]).
	Shift int
	// Stages are what the protocol adds to a client's task.
	Stages fleet.Stages
	// Grid is the noise that clients add together; its zero value is none.
	Grid privacy.Grid
}

// settleSecure chooses the parameters of secure aggregation: how many neighbours a client shares secrets
// with, how many of them recover a sum, and the scale and noise of updates. There is one plan for the run's
// largest round, and one for its real devices, which aggregate among themselves. It also has the fleet count
// the time of the protocol's stages in each task. It refuses rounds that overlap where the model has values
// that are not trained.
func (p *Problem) settleSecure() error {
	c := &p.Config
	// A model's buffers, such as running means, are means in a sum only where all updates begin with one model.
	if params, trainable := p.params(); trainable < params && closing.Overlaps(c.Close) {
		return &config.KeyError{
			Key:         "close",
			RelatedKeys: []string{"secure_aggregation.on", "model"},
			Problem: "the model has values that are not trained, such as a batch norm's running means, and a sum of " +
				"updates of different models is no mean of them (set all, deadline or first, or take group norm)",
		}
	}
	// A site's model moves by a mean of its clients' models alone, and buffers have no units there.
	if params, trainable := p.params(); trainable < params && c.Aggregate.SiteRounds > 0 {
		return &config.KeyError{
			Key:         "aggregate.site_rounds",
			RelatedKeys: []string{"secure_aggregation.on", "model"},
			Problem: "the model has values that are not trained, such as a batch norm's running means, which sites " +
				"do not add up under masks (remove it, or take group norm)",
		}
	}
	members := p.secureMembers()
	plan, err := c.SecurePlan(members)
	if err != nil {
		return err
	}
	v := &Secure{
		Plan:   plan,
		Shift:  c.SecureShift(p.summedClients()),
		Stages: stagesOf(&c.Secure, plan),
	}
	// Real devices aggregate among themselves, so they have a plan for their own number.
	if n := len(c.Devices.Names); n > 0 {
		v.Devices, err = c.SecurePlan(min(n, members))
		if err != nil {
			return err
		}
	}
	if c.Privacy.Distributed.On() {
		v.Grid, err = c.Privacy.Distributed.Grid(v.noiseClients(), secagg.Share(c.NewestWeightFactor(), v.Shift))
		if err != nil {
			return &config.KeyError{
				Key:         "privacy.distributed",
				RelatedKeys: []string{"cohort"},
				Problem:     err.Error() + " (raise the clip or the noise_multiplier, or lower cohort)",
			}
		}
	}
	p.Secure = v
	p.Fleet.SetStages(v.Stages)
	return nil
}

// secureMembers returns how many clients aggregate among each other: all whose updates the model's next version has
// or, where sites add up, those of a site of the mean size, rounded up.
func (p *Data) secureMembers() int {
	c := &p.Config
	all := p.summedClients()
	if c.Aggregate.SiteRounds > 0 {
		sites := c.Network.Sites.Count
		return (all + sites - 1) / sites
	}
	return all
}

// summedClients returns the largest number of clients whose updates the next version of the model has: the cohort,
// and real devices unless they are drawn into it, or, where rounds overlap, the updates that close a round.
func (p *Data) summedClients() int {
	c := &p.Config
	// The clients of these updates aggregate among each other, however many are at work.
	if closing.Overlaps(c.Close) {
		return closing.Fewest(c.Close, c.Cohort)
	}
	if c.DrawsDevices() {
		return c.Cohort
	}
	return c.Cohort + len(c.Devices.Names)
}

// stagesOf returns what secure aggregation costs a client (a member) in each of the protocol's four stages,
// keys, shares, survivors and recovery: the bits that it receives and sends, and its computing in
// nanoseconds. s has measured seconds for each neighbour and signature, and for a mask of a million words of
// 64 bits; plan has the number of members and of neighbours.
func stagesOf(s *config.SecureAggregation, plan secagg.Plan) (stages fleet.Stages) {
	members := float64(plan.Members)
	neighbours := float64(plan.Neighbours)
	sizes := secagg.Sizes(plan.Members, plan.Neighbours)
	seconds := [fleet.SecureStages]float64{
		// A member makes its own keys, and signs them.
		s.NeighbourSeconds + s.SignatureSeconds,
		// It checks the roster's signatures, and makes and seals a share for each neighbour.
		float64(members*s.SignatureSeconds) + float64(neighbours*s.NeighbourSeconds),
		// It signs the list of the members whose updates have arrived.
		s.SignatureSeconds,
		// It checks that all others have signed the same list, before it reveals any share.
		float64(members * s.SignatureSeconds),
	}
	for stage, size := range sizes {
		stages.Exchanges[stage] = fleet.Exchange{
			// Sizes are in bytes.
			Bits:    fleet.Bits{Down: 8 * int64(size.Down), Up: 8 * int64(size.Up)},
			Compute: int64(math.RoundToEven(seconds[stage] * 1e9)),
		}
	}
	// Every word of the update gets one mask for each neighbour and the member's own.
	masks := neighbours + 1
	const million = 1e6
	secondsPerWord := float64(masks * s.MaskSeconds / million)
	stages.WordNanoseconds = secondsPerWord * 1e9
	return stages
}

// secureRounds returns what the round machine needs to play secure aggregation: the terms, the
// limit of a stage, and the bytes of each one. It is nil in a run without secure aggregation.
func (p *Problem) secureRounds() *round.Secure {
	v := p.Secure
	if v == nil {
		return nil
	}
	r := p.secureTerms(&v.Plan)
	if p.Config.Aggregate.SiteRounds > 0 {
		r.OfSite = p.siteTerms()
	}
	return r
}

// secureTerms returns the terms of a plan, as the round machine plays them.
func (p *Problem) secureTerms(plan *secagg.Plan) *round.Secure {
	r := &round.Secure{
		Neighbours: plan.Neighbours,
		Threshold:  plan.Threshold,
		Colluders:  plan.Colluders,
		Minimum:    plan.Minimum,
		Limit:      round.Time(math.Round(p.Config.Secure.StageSeconds * 1e9)),
		// The bytes by which a masked update is larger than a plain one, which is as large as the model.
		ExtraUpload: (p.Bits.Up - p.Bits.Down) / 8,
		Connected:   func(survives []bool) bool { return plan.CheckConnected(survives) == nil },
	}
	// With fewer the devices of a group could not recover their sum.
	if devices := &p.Secure.Devices; devices.Members > 0 {
		r.DeviceMinimum = devices.FewestMembers()
	}
	// The machine counts bytes of both directions, for each member that finishes the stage.
	for i, x := range p.Secure.Stages.Exchanges {
		r.Bytes[i] = (x.Bits.Up + x.Bits.Down) / 8
	}
	return r
}

// siteTerms returns a function that gives the terms of a site's own round by the number of the site's clients, each
// chosen at first use. Too few clients for any plan have terms under which they are refused. The bytes of a stage are
// those of a site of the mean size.
func (p *Problem) siteTerms() func(members int) *round.Secure {
	known := map[int]*round.Secure{}
	return func(members int) *round.Secure {
		terms := known[members]
		if terms != nil {
			return terms
		}
		plan, err := p.Config.SecurePlan(members)
		// With a minimum above its number of clients, each round of the site is refused.
		if err != nil {
			plan = p.Secure.Plan
			plan.Minimum = members + 1
		}
		terms = p.secureTerms(&plan)
		known[members] = terms
		return terms
	}
}

// Terms returns the terms of secure aggregation that real devices are told when they join, with the
// shift and the largest weight by which updates are scaled.
func (v *Secure) Terms(c *config.Config) *bus.SecureTerms {
	// Devices aggregate among themselves, so their own plan counts here.
	terms := &bus.SecureTerms{
		Neighbours: uint32(v.Devices.Neighbours),
		Threshold:  uint32(v.Devices.Threshold),
		Colluders:  uint32(v.Devices.Colluders),
		Minimum:    uint32(v.Devices.Minimum),
		Shift:      uint32(v.Shift),
		MaxWeight:  c.SecureMaxWeight(),

		NoiseClip:      v.Grid.Clip,
		NoiseStep:      v.Grid.Step,
		NoiseDeviation: v.Grid.Deviation,
	}
	// Where rounds overlap, devices take their steps before they have a group.
	if closing.Overlaps(c.Close) {
		terms.FreshFactor = c.NewestWeightFactor()
	}
	return terms
}

// AboutSecure says in sentences who must not collude or leave, how likely the promises fail, and what
// each stage adds to a client's part in a round; it is empty without secure aggregation.
func (p *Problem) AboutSecure() string {
	v := p.Secure
	if v == nil {
		return ""
	}
	who := "Secure aggregation"
	if p.Config.Aggregate.SiteRounds > 0 {
		who = "Secure aggregation within each site, here of the mean size"
	}
	text := fmt.Sprintf(
		"%s: of %d clients each shares with %d neighbours, of which %d recover it. If at most %d collude "+
			"and %d leave, it hides single updates but for a probability of %s, and fails to recover a sum with one "+
			"of %s. A round with fewer than %d updates is refused.",
		who,
		v.Plan.Members,
		v.Plan.Neighbours,
		v.Plan.Threshold,
		v.Plan.Colluders,
		v.Plan.Dropouts,
		probability(v.Plan.PrivacyFails),
		probability(v.Plan.RecoveryFails),
		v.Plan.Minimum,
	)
	return text + p.secureCosts()
}

// secureCosts says in sentences how many seconds and bytes each part of secure aggregation adds to a
// client's task, on the mean over the fleet, beside what the task takes without it, and how that grows with the number
// of clients. It is empty where only real devices take part, of whose links nothing is known.
func (p *Problem) secureCosts() string {
	// A plain update is as large as the model; a masked one has 64 bits for each value.
	plain, err := p.Fleet.Mean(p.InitialSteps(), fleet.SameBits(p.Bits.Down))
	masked, maskedErr := p.Fleet.Mean(0, p.Bits)
	if err != nil || maskedErr != nil || p.Config.DevicesAlone() {
		return ""
	}
	const second = 1e9
	longerUploadNs := float64(masked.Upload - plain.Upload)
	costs, err := p.stageCosts(&p.Secure.Stages, longerUploadNs)
	if err != nil {
		return ""
	}
	text := " It adds to a client with a mean link: "
	for i, cost := range costs {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %.3g s and %s", cost.name, cost.ns/second, human.Size(cost.bytes))
	}
	ns, bytes := totalCost(costs)
	text += fmt.Sprintf(". That is %.3g s and %s beside the %.3g s of a task of %d steps, and does not shrink "+
		"with K.", ns/second, human.Size(bytes), float64(plain.Total())/second, p.InitialSteps())
	// The terms of many more clients may be refused, and then nothing is said of them.
	const growth = 10
	grown, err := p.Config.SecurePlan(growth * p.Secure.Plan.Members)
	if err != nil {
		return text
	}
	grownStages := stagesOf(&p.Config.Secure, grown)
	costs, err = p.stageCosts(&grownStages, longerUploadNs)
	if err != nil {
		return text
	}
	ns, bytes = totalCost(costs)
	return text + fmt.Sprintf(" With %d times the clients it is %.3g s and %s, with %d neighbours.",
		growth, ns/second, human.Size(bytes), grown.Neighbours)
}

// stageCost is what a part of secure aggregation adds to a client's task, with the part's name for people.
type stageCost struct {
	name  string
	ns    float64
	bytes int64
}

// stageCosts returns what each part of secure aggregation adds to a client's task, on the mean over the fleet, in the
// order of a round. longerUploadNs is by how much longer a masked update's upload takes than a plain one's.
func (p *Problem) stageCosts(stages *fleet.Stages, longerUploadNs float64) (costs []stageCost, err error) {
	names := [fleet.SecureStages]string{"keys", "shares", "survivors", "recovery"}
	for i, exchange := range stages.Exchanges {
		// The masked upload comes between the first two stages and the last two.
		if i == fleet.SecureStages/2 {
			words := float64(p.Bits.Up) / 64
			costs = append(costs,
				stageCost{"masks", words * stages.WordNanoseconds, 0},
				stageCost{"words of 64 bits", longerUploadNs, (p.Bits.Up - p.Bits.Down) / 8},
			)
		}
		d, err := p.Fleet.Mean(0, exchange.Bits)
		if err != nil {
			return nil, err
		}
		ns := float64(d.Download + d.Upload + exchange.Compute)
		costs = append(costs, stageCost{names[i], ns, (exchange.Bits.Down + exchange.Bits.Up) / 8})
	}
	return costs, nil
}

// totalCost returns the sums over all parts.
func totalCost(costs []stageCost) (ns float64, bytes int64) {
	for _, cost := range costs {
		ns += cost.ns
		bytes += cost.bytes
	}
	return ns, bytes
}

// probability returns a small probability in words, as a power of two, rounded up.
func probability(p float64) string {
	if p == 0 {
		return "0"
	}
	return fmt.Sprintf("2^%.0f", math.Ceil(math.Log2(p)))
}
