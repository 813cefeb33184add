package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/config/expect"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/names"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/registry"
)

// Validate says whether the configuration can be run: every value within its
// limits and all of them fit together. It stops at the first problem, which it
// returns as a *[KeyError].
func (c Config) Validate() error {
	for _, check := range []func() error{
		c.checkCustom,
		c.checkOptions,
		c.checkNames,
		c.checkPopulation,
		c.checkModel,
		c.checkTrainer,
		c.checkPersonal,
		c.checkConvex,
		c.checkSchedules,
		c.checkNeeds,
		c.checkTheory,
		c.checkOverlap,
		c.checkSites,
		c.checkAccuracy,
		c.checkChoices,
		c.checkLate,
		c.checkFleet,
		c.checkDevices,
		c.checkDevicesAlone,
		c.checkCompression,
		c.checkStop,
		c.checkClock,
		c.checkNATS,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkOptions holds every value to its limits.
func (c *Config) checkOptions() error {
	isSet := func(string, *registry.Point, any) error { return nil }
	return cmp.Or(
		Error("", registry.Check(*c)),
		c.choices(reflect.ValueOf(c).Elem(), "", isSet),
		c.ask("privacy", c.Privacy),
	)
}

// problem is an error about a key; others are keys that it also concerns.
func problem(key string, relatedKeys []string, format string, args ...any) error {
	return &KeyError{Key: key, RelatedKeys: relatedKeys, Problem: fmt.Sprintf(format, args...)}
}

// Error is the error of a component as one of the configuration; path is that
// of the component.
func Error(path string, err error) error {
	if err == nil {
		return nil
	}
	var o *registry.OptionError
	if path != "" {
		err = registry.Below(path, err)
	}
	if errors.As(err, &o) {
		return &KeyError{Key: o.Key, Problem: o.Problem}
	}
	return &KeyError{Key: "network", Problem: err.Error()}
}

// maxTags bounds the tags of a run.
const maxTags = 32

// checkNames holds texts to their forms.
func (c *Config) checkNames() error {
	type form struct {
		key, text string
		check     func(string) error
	}
	list := []form{
		{"name", c.Name, names.CheckName},
		{"schedule.name", c.Schedule.Label, checkLabel},
		{"http", c.HTTP, names.CheckAddress},
		{"nats.listen", c.NATS.Listen, names.CheckAddress},
		{"nats.url", c.NATS.URL, checkServer},
	}
	for i, k := range c.Fleet {
		list = append(list, form{fmt.Sprintf("fleet[%d].name", i), k.Name, names.CheckName})
	}
	for i, d := range c.Devices.Names {
		list = append(list, form{fmt.Sprintf("devices.names[%d]", i), d.ID, names.CheckDevice})
	}
	for i, tag := range c.Tags {
		list = append(list, form{fmt.Sprintf("tags[%d]", i), tag, names.CheckTag})
	}
	for i, text := range c.Expect {
		list = append(list, form{fmt.Sprintf("expect[%d]", i), text, func(text string) error {
			_, err := expect.Parse(text)
			return err
		}})
	}
	if len(c.Expect) > expect.MaxCount {
		return problem("expect", nil, "are %d, and a run has at most %d", len(c.Expect), expect.MaxCount)
	}
	if len(c.Tags) > maxTags {
		return problem("tags", nil, "are %d, and a run has at most %d", len(c.Tags), maxTags)
	}
	for _, f := range list {
		if err := f.check(f.text); err != nil {
			return problem(f.key, nil, "%v", err)
		}
	}
	return nil
}

// checkServer takes the embedded server, the URL of another, or none.
func checkServer(s string) error {
	if s == Embedded || s == None {
		return nil
	}
	if names.Redacted(s) != s {
		return errors.New("a user or password in it would stand in the results (use --nats, or --creds)")
	}
	err := names.CheckURL(s)
	if err != nil && !strings.Contains(s, "://") {
		return fmt.Errorf("%w, %s or %s", err, Embedded, None)
	}
	return err
}

// checkPopulation refuses clients, cohorts and data that do not fit each other.
func (c *Config) checkPopulation() error {
	if err := c.ask("data", c.Data.Reader); err != nil {
		return err
	}
	switch {
	case c.Data == Data{} && c.Task != TaskCustom:
		return problem("data", nil, "is empty (a path or a reader is wanted)")
	case c.Clients == AllClients && c.IsSynthetic() && c.Task != TaskCustom:
		return problem("clients", []string{"data"}, "all is for data that is read; synthetic data needs a number")
	case c.DevicesAlone() && len(c.Devices.Names) == 0:
		return problem(
			"clients",
			[]string{"devices.names"},
			"0 is for devices alone, and none is named (set devices.names, or clients)",
		)
	case c.DevicesAlone() && c.Cohort > len(c.Devices.Names):
		return problem(
			"cohort",
			[]string{"clients", "devices.names"},
			"%d is more than there are devices (at most %d)",
			c.Cohort,
			len(c.Devices.Names),
		)
	case c.drawn() > 0 && c.Cohort > c.drawn():
		return problem(
			"cohort",
			[]string{"clients"},
			"%d is more than there are clients (at most %d, or set clients)",
			c.Cohort,
			c.drawn(),
		)
	}
	return nil
}

// checkModel refuses a model that the task or its data cannot have.
func (c *Config) checkModel() error {
	_, layers := c.Model.(learn.Sequential)
	switch {
	case c.setsModel() && !layers && c.IsSynthetic():
		return problem(
			"model",
			[]string{"data"},
			"%q is for custom data; synthetic data has the task's model (set data, or model: task)",
			learn.Models.NameOf(c.Model),
		)
	case c.setsModel() && c.Task.IsConvex():
		return problem("model", []string{"task"}, "task %s has a model of its own (set model: task)", c.Task)
	}
	if err := cmp.Or(c.ask("model", c.Model), c.ask("local", c.Local)); err != nil {
		return err
	}
	if layers && c.IsSynthetic() {
		_, err := c.Model.Model(madeSamples[c.Task])
		return Error("model", err)
	}
	return nil
}

// checkConvex refuses what a convex task cannot have.
func (c *Config) checkConvex() error {
	switch {
	case c.Quadratic.Mu > c.Quadratic.L:
		return problem(
			"quadratic.mu",
			[]string{"quadratic.l"},
			"%s is more than quadratic.l, %s: no objective is more convex than it is smooth",
			registry.Number(c.Quadratic.Mu),
			registry.Number(c.Quadratic.L),
		)
	case c.Task == TaskQuadratic && !c.IsSynthetic():
		return problem("data", []string{"task"}, "quadratics are made, not read (set data: synthetic)")
	}
	return nil
}

// checkAccuracy refuses limits of what is never measured, and settings of evaluations that never are.
func (c *Config) checkAccuracy() error {
	stop := c.Stop.Metric
	accuracy := c.Evaluate.Metric.Name
	target := c.Evaluate.Target
	switch s := c.Stop.ValidationAccuracy; {
	case stop.Name != "" && stop.Reaches == nil:
		return problem(
			"stop.metric.reaches",
			[]string{"stop.metric.name"},
			"it is missing, so %s stops nothing (set both)",
			stop.Name,
		)
	case stop.Reaches != nil && !c.Train:
		return problem(
			"stop.metric",
			[]string{"train"},
			"it is never reached with train: false, which measures nothing (remove it)",
		)
	case target != nil && c.Task == TaskQuadratic && accuracy == "":
		return problem(
			"evaluate.target",
			[]string{"task"},
			"a quadratic classifies nothing and has no validation accuracy (set evaluate.metric: loss)",
		)
	case target != nil &&
		(accuracy == "" || accuracy == metric.Accuracy) &&
		!(*target > 0 && *target <= 1):
		return problem(
			"evaluate.target",
			[]string{"evaluate.metric"},
			"%s is no accuracy (more than 0 and at most 1; name another evaluate.metric)",
			registry.Number(*target),
		)
	case s != 0 && c.Task == TaskQuadratic:
		return problem(
			"stop.validation_accuracy",
			[]string{"task"},
			"a quadratic classifies nothing and has no validation accuracy (remove it)",
		)
	case c.Evaluate.Clients.Samples > 0 && !c.Evaluate.Clients.Any():
		return problem(
			"evaluate.clients.samples",
			nil,
			"%d is for evaluations by client, and there are none (set evaluate.clients.every or rounds)",
			c.Evaluate.Clients.Samples,
		)
	case s != 0 && !c.Train:
		return problem(
			"stop.validation_accuracy",
			[]string{"train"},
			"%s is never reached with train: false, which measures no accuracy (remove it)",
			registry.Number(s),
		)
	}
	return nil
}

// checkSchedules asks the schedules whether their options fit each other, and holds
// epochs to what they need.
func (c *Config) checkSchedules() error {
	if err := cmp.Or(
		Error("schedule.k", schedule.Validate(c.Schedule.K)),
		Error("schedule.eta", schedule.Validate(c.Schedule.Eta)),
	); err != nil ||
		c.Schedule.Unit != Epochs {
		return err
	}
	switch name := schedule.Ks.NameOf(c.Schedule.K); {
	case name == "dsgd" || name == "theory":
		return problem(
			"schedule.unit",
			[]string{"schedule.k"},
			"epochs do not go with schedule.k: %s, which counts local steps (set unit: steps)",
			name,
		)
	case len(c.Devices.Names) > 0:
		return problem("schedule.unit", []string{"devices.names"}, "epochs need the clients' numbers of samples before the run, and a device tells its own when it joins, or not at all (set unit: steps)")
	}
	return nil
}

// checkOverlap refuses what steps that overlap with transfers are not timed with.
func (c *Config) checkOverlap() error {
	if c.Overlap() > 0 && c.Network.Shared() {
		return problem("aggregate.overlap", []string{"network"}, "%d steps that overlap with transfers are timed where clients do not share the server's bandwidth (set 0, or remove network.server_download_mbps, network.server_upload_mbps and network.sites)", c.Overlap())
	}
	return nil
}

// checkSites refuses links of no site, and sites without one.
func (c *Config) checkSites() error {
	s := c.Network.Sites
	switch limited := s.DownloadMbps > 0 || s.UploadMbps > 0; {
	case s.Count == 0 && limited:
		return problem("network.sites.count", nil, "it is missing, so no client is behind a site (set it)")
	case c.Aggregate.SiteRounds > 0:
		return c.checkSiteRounds()
	case s.Count > 0 && !limited:
		return problem(
			"network.sites",
			nil,
			"%d sites without a limit change nothing (set download_mbps, upload_mbps or both, or remove count)",
			s.Count,
		)
	case s.Count > 0 && c.DevicesAlone():
		return problem(
			"network.sites",
			[]string{"clients"},
			"are those of simulated clients, and clients is 0 (remove it)",
		)
	}
	return nil
}

// checkSiteRounds refuses what does not go with sites that add up.
func (c *Config) checkSiteRounds() error {
	algorithms := []string{"fedavg", "fedprox", "fedavgm", "fedadam", "fedadagrad", "fedyogi"}
	_, all := c.Close.(closing.All)
	for _, x := range []struct {
		refused bool
		key     string
		problem string
	}{
		{c.Network.Sites.Count == 0, "network.sites.count", "it is missing, so no client is behind a site (set it)"},
		{!all, "close", "ends rounds before a site has all of its clients' updates (set all)"},
		{len(c.Devices.Names) > 0, "devices.names", "are behind no site: real devices send to the server (set [])"},
		{registry.NeedsOf(c.Select).Candidates, "select", "asks candidates for their losses, whom no site asks (use another selection)"},
		{!slices.Contains(algorithms, algorithm.Algorithms.NameOf(c.Aggregate.Algorithm)), "aggregate.algorithm", "does not say what a site makes of its clients' updates (use " + orList(algorithms) + ")"},
		{c.Aggregate.Clip != nil, "aggregate.clip", "is for single updates, and the server has sums of sites (remove it)"},
		{c.Aggregate.Combine != nil, "aggregate.combine", "is for single updates, and the server has sums of sites (remove it)"},
		{c.Compress != nil, "compress", "is for updates of clients, and a site sends a whole sum (remove it)"},
		{c.Privacy.On() || c.Privacy.Local.On(), "privacy", "is accounted for one update of a client in a round (remove it)"},
		{len(c.Personal.Names) > 0, "personal.names", "go from a client's task to its next in another round, not in the same (set [])"},
		{registry.NeedsOf(c.Local).ClientState, "local.keep", "goes from a client's task to its next in another round, not in the same (set false)"},
		{c.UsesTheory(), "schedule.k", "is the best K of clients that send to the server (use another schedule)"},
	} {
		if x.refused {
			return problem(
				x.key,
				[]string{"aggregate.site_rounds"},
				"%s, or remove aggregate.site_rounds)",
				strings.TrimSuffix(x.problem, ")"),
			)
		}
	}
	return nil
}

// checkTheory holds Eq. 9 to what it needs.
func (c *Config) checkTheory() error {
	t := c.Theory
	switch name := schedule.Etas.NameOf(c.Schedule.Eta); {
	case t.Mu != nil && t.L != nil && *t.Mu > *t.L:
		return problem(
			"theory.mu",
			[]string{"theory.l"},
			"%s is more than theory.l, %s",
			registry.Number(*t.Mu),
			registry.Number(*t.L),
		)
	case !c.UsesTheory():
		return nil
	case name != schedule.Fixed:
		return problem(
			"schedule.eta",
			[]string{"schedule.k"},
			"%q goes with no schedule.k: theory, which is the best K for a fixed rate (set schedule.eta: fixed)",
			name,
		)
	case !learn.Plain(c.Local):
		return problem(
			"local",
			[]string{"schedule.k"},
			"%q goes with no schedule.k: theory, which is about plain steps of SGD (set local: sgd)",
			learn.Optimizers.NameOf(c.Local),
		)
	case c.Compress != nil:
		return problem(
			"compress",
			[]string{"schedule.k"},
			"%q goes with no schedule.k: theory, which is about whole updates (remove it)",
			algorithm.Compressions.NameOf(c.Compress),
		)
	}
	if !c.Task.IsConvex() {
		for _, s := range []struct {
			key   string
			value *float64
		}{{"theory.l", t.L}, {"theory.mu", t.Mu}, {"theory.g", t.G}} {
			if s.value == nil {
				return problem(
					s.key,
					[]string{"schedule.k"},
					"is not set: schedule.k: theory needs it, and it cannot be calculated for task %s",
					c.Task,
				)
			}
		}
	}
	if t.Time == AheadTime && c.Stop.VirtualSeconds == 0 && c.Stop.EqualRuntimeRounds == 0 {
		return problem(
			"theory.time",
			[]string{"stop"},
			"ahead needs an end in time (set stop.virtual_seconds or stop.equal_runtime_rounds)",
		)
	}
	return nil
}

// UsesTheory reports whether K follows Eq. 9, which needs the group theory.
func (c *Config) UsesTheory() bool { return schedule.Ks.NameOf(c.Schedule.K) == "theory" }

// checkChoices asks the closing rule and the selection whether they fit the cohort, and the
// combining rule whether it fits the updates that may close a round.
func (c *Config) checkChoices() error {
	if c.Cohort == 0 { // which is fitted when the clients are known
		return nil
	}
	return cmp.Or(c.ask("close", c.Close), c.ask("select", c.Select), c.CheckUpdates(closing.Fewest(c.Close, c.Cohort)))
}

// CheckUpdates asks the combining rule whether a round of so many updates is enough for it.
func (c *Config) CheckUpdates(updates int) error {
	v, ok := c.Aggregate.Combine.(interface{ Validate(updates int) error })
	if !ok {
		return nil
	}
	return withOthers(Error("aggregate.combine", v.Validate(updates)), "cohort", "close")
}

// ask asks a component, if it has an opinion, whether its options fit each other or the run.
func (c *Config) ask(path string, component any) error {
	switch v := component.(type) {
	case interface{ Validate() error }:
		return Error(path, v.Validate())
	case interface{ Validate(cohort int) error }:
		return withOthers(Error(path, v.Validate(c.Cohort)), "cohort")
	case interface {
		Validate(cohort, clients int) error
	}:
		return withOthers(Error(path, v.Validate(c.Cohort, c.drawn())), "cohort", "clients")
	}
	return nil
}

// checkLate refuses late updates where there are none.
func (c *Config) checkLate() error {
	_, all := c.Close.(closing.All)
	switch {
	case !closing.UsesLate(c.Late):
	case all:
		return problem("late", []string{"close"}, "%q is for rounds that close before their last task, and close: all waits for it (use drop, or another closing rule)", closing.Lates.NameOf(c.Late))
	case closing.Overlaps(c.Close):
		return problem(
			"late",
			[]string{"close"},
			"%q is for rounds that do not overlap: under close: %s all updates count, whenever they come (use drop)",
			closing.Lates.NameOf(c.Late),
			closing.Rules.NameOf(c.Close),
		)
	}
	return nil
}

// withOthers adds to an error about a key the keys from which it follows, too, so that the
// message can name where they are set.
func withOthers(err error, relatedKeys ...string) error {
	if k := (*KeyError)(nil); errors.As(err, &k) {
		k.RelatedKeys = relatedKeys
	}
	return err
}

// checkFleet asks package fleet whether it would take the clients' devices,
// without reading the files that they name.
func (c *Config) checkFleet() error {
	if err := c.checkClassesOfDevices(); err != nil {
		return err
	}
	if err := c.devices().Check(); err != nil {
		return Error("", err)
	}
	counted := 0
	uncounted := len(c.Fleet) == 0
	for _, k := range c.Fleet {
		counted = counted + k.Count
		uncounted = uncounted || k.Count == 0 || k.Weight > 0
	}
	switch {
	case c.Clients > 0 && counted > c.Clients:
		return problem(
			"fleet",
			[]string{"clients"},
			"the counts of its classes come to more than %d clients (lower them, or set clients)",
			c.Clients,
		)
	case !uncounted && counted < c.Clients:
		return problem(
			"fleet",
			[]string{"clients"},
			"the counts of its classes come to %d of %d clients (raise them, set clients, or give one class no count)",
			counted,
			c.Clients,
		)
	}
	i := slices.IndexFunc(c.Fleet, func(k fleet.Class) bool { return k.Battery != nil })
	key := fmt.Sprintf("fleet[%d].battery", i)
	switch {
	case i < 0:
		return nil
	case c.Network.Shared():
		return problem(key, []string{"network.server_download_mbps", "network.server_upload_mbps", "network.sites"}, "plans say when a battery is empty, and transfers that share the server's bandwidth, or a site's, take longer than planned (remove one of the two)")
	case registry.NeedsOf(c.Select).Candidates:
		return problem(
			key,
			[]string{"select"},
			"%s asks candidates, whose batteries are not followed (use another selection)",
			selection.Rules.NameOf(c.Select),
		)
	}
	return nil
}

// checkClassesOfDevices holds the classes of real devices to the fleet.
func (c *Config) checkClassesOfDevices() error {
	var classes []string
	for _, k := range c.Fleet {
		classes = append(classes, k.Name)
	}
	for _, d := range c.Devices.Names {
		path := "devices.names." + d.ID
		i := slices.Index(classes, d.Class)
		switch {
		case d.Class == "":
		case len(classes) == 0:
			return problem(path, []string{"fleet"}, "%q is no class of devices: fleet has none", d.Class)
		case i < 0:
			return problem(path, []string{"fleet"}, "%s", notA(d.Class, "class in fleet", classes))
		case c.Batch > 0 && c.Fleet[i].Batch > 0 && c.Fleet[i].Batch != c.Batch:
			return problem(path, []string{"fleet", "batch"}, "class %s gives the time of minibatches of %d samples, and real devices have those of batch, %d (set batch to %d, or measure the class with %d)", d.Class, c.Fleet[i].Batch, c.Batch, c.Fleet[i].Batch, c.Batch)
		}
	}
	return nil
}

// checkDevices refuses what real devices do not take part in.
func (c *Config) checkDevices() error {
	d := c.Devices
	switch {
	case len(d.Names) > names.MaxDevices:
		return problem("devices.names", nil, "%d entries (at most %d)", len(d.Names), names.MaxDevices)
	case len(d.Names) > 0 && !c.Train:
		return problem(
			"train",
			[]string{"devices.names"},
			"false is for simulated clients alone: devices train (set devices.names to [])",
		)
	}
	ids := d.IDs()
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return problem("devices.names", nil, "%q is named twice", id)
		}
	}
	return nil
}

// checkDevicesAlone refuses what is about simulated clients where none takes part.
func (c *Config) checkDevicesAlone() error {
	n := len(c.Devices.Names)
	switch {
	case !c.DevicesAlone():
	case c.Devices.Include == EveryRound && c.Cohort != 0 && c.Cohort != n:
		return problem("cohort", []string{"clients", "devices.names"}, "%d of %d devices are drawn only with devices.include: sampled; otherwise each takes part in every round (set that, or cohort: fit)", c.Cohort, n)
	case c.Evaluate.Clients.Any():
		return problem(
			"evaluate.clients",
			[]string{"clients"},
			"is about the samples of simulated clients, and clients is 0: those of devices stay there (remove it)",
		)
	case c.Correlation.Given():
		return problem("correlation", []string{"clients"}, "is about simulated clients, and clients is 0 (remove it)")
	case c.timedByFixed() != "":
		return problem(
			c.timedByFixed(),
			[]string{"clients"},
			"is timed with simulated clients, and clients is 0 (set a number of virtual seconds, or of rounds)",
		)
	}
	return nil
}

// checkCompression refuses updates that cannot be compressed, or be looked at one by one.
func (c *Config) checkCompression() error {
	err := cmp.Or(
		algorithm.CheckCompression(c.Aggregate.Algorithm, c.Compress),
		c.Combining().Check(c.Aggregate.Algorithm, c.Compress),
	)
	return withOthers(Error("", err), "aggregate.algorithm")
}

// checkStop refuses a run that would never end, and a virtual time that could be known only by
// training for it.
func (c *Config) checkStop() error {
	switch {
	case c.Stop == Stop{} && c.Privacy.Epsilon == 0:
		return problem("stop", nil, "nothing is set, so the run would not end (set rounds, virtual_seconds, equal_runtime_rounds, accepted, samples, tokens, validation_accuracy, metric or privacy.epsilon)")
	case c.timedByFixed() != "" && registry.NeedsOf(c.Select).Losses: // a time that is known only by training for it
		return problem(c.timedByFixed(), []string{"select"}, "%s decides by losses, so the time of rounds is known only by training them (set a number of virtual seconds instead)", selection.Rules.NameOf(c.Select))
	}
	return nil
}

// timedByFixed is a key that asks for the time of rounds of K-eta-fixed; "": none does.
func (c *Config) timedByFixed() string {
	switch {
	case c.Stop.EqualRuntimeRounds > 0:
		return "stop.equal_runtime_rounds"
	case c.Evaluate.EverySeconds == AsFixed:
		return "evaluate.every_seconds"
	}
	return ""
}

// checkClock keeps one round, and K-eta-fixed's runtime, within the clock.
func (c *Config) checkClock() error {
	megabits := c.Network.ModelMegabits
	if p, ok := c.Task.Paper(); megabits == 0 && ok && c.UsesTaskModel() {
		megabits = p.Megabits // near enough for a limit
	} else if megabits == 0 {
		megabits = learn.MaxParams * 32 / 1e6 // the data, not read yet, decides
	}
	update := max(megabits, c.Network.UpdateMegabits)
	roundSeconds := megabits/c.Network.DownloadMbps + update/c.Network.UploadMbps +
		float64(c.Schedule.K0)*(c.Compute.SecondsPerStep+10*c.Compute.Std) // Eq. 4
	if roundSeconds > maxSeconds || math.IsNaN(roundSeconds) {
		return problem(
			"network",
			[]string{"compute", "schedule.k0"},
			"one round would take %.3g virtual seconds (at most %s: raise the speeds or lower schedule.k0)",
			roundSeconds,
			registry.Number(maxSeconds),
		)
	}
	if n := c.Stop.EqualRuntimeRounds; float64(n)*roundSeconds > maxSeconds && c.Network.ModelMegabits != 0 {
		return problem(
			"stop.equal_runtime_rounds",
			nil,
			"%d rounds would take %.3g virtual seconds (at most %s)",
			n,
			float64(n)*roundSeconds,
			registry.Number(maxSeconds),
		)
	}
	return nil
}

// checkNATS refuses settings that belong to another kind of server.
func (c *Config) checkNATS() error {
	embedded := c.NATS.URL == Embedded
	none := c.NATS.URL == None
	switch {
	case none && c.NATS.Listen != "":
		return problem(
			"nats.listen",
			[]string{"nats.url"},
			"%q is for a server, and nats.url is none: there is none",
			c.NATS.Listen,
		)
	case none && c.NATS.Replicas > 1:
		return problem(
			"nats.replicas",
			[]string{"nats.url"},
			"%d are for a cluster, and nats.url is none: there is no server",
			c.NATS.Replicas,
		)
	case none && len(c.Devices.Names) > 0:
		return problem(
			"devices.names",
			[]string{"nats.url"},
			"devices reach a run through a server, and nats.url is none: there is no server",
		)
	case !embedded && c.NATS.Listen != "":
		return problem(
			"nats.listen",
			[]string{"nats.url"},
			"%q is for the embedded server alone, and nats.url is another",
			c.NATS.Listen,
		)
	case embedded && c.NATS.Replicas > 1:
		return problem(
			"nats.replicas",
			[]string{"nats.url"},
			"%d are for a cluster, and the embedded server is one (set nats.url)",
			c.NATS.Replicas,
		)
	}
	return nil
}
