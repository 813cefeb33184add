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

// Validate reports whether the configuration can be run: every value is within its limits, and all
// of them fit together. It stops at the first problem, which it returns as a *[KeyError] without a
// place. Files that the configuration names are not read.
func (c Config) Validate() error {
	// The order matters: later checks rely on what earlier ones have made sure of, and the first
	// problem is the one that the user reads.
	for _, check := range []func() error{
		c.checkCustom,
		c.checkOptions,
		c.checkNames,
		c.checkPopulation,
		c.checkModel,
		c.checkTrainer,
		c.checkFlower,
		c.checkPersonal,
		c.checkConvex,
		c.checkSchedules,
		c.checkFormulas,
		c.checkNeeds,
		c.checkTheory,
		c.checkOverlap,
		c.checkDecoupled,
		c.checkArrivals,
		c.checkSites,
		c.checkAccuracy,
		c.checkChoices,
		c.checkLate,
		c.checkFleet,
		c.checkDevices,
		c.checkDevicesAlone,
		c.checkCompression,
		c.checkSecure,
		c.checkStop,
		c.checkCarbon,
		c.checkAway,
		c.checkClock,
		c.checkNATS,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkOptions checks each value against the limits of its own key, that every choice that must be
// made is made, and that the options of privacy fit each other.
func (c *Config) checkOptions() error {
	// visitChoices itself reports a choice that was not made, so nothing is left to check of those that were.
	nothingMore := func(string, *registry.Point, any) error { return nil }
	return cmp.Or(
		Error("", registry.Check(*c)),
		c.visitChoices(reflect.ValueOf(c).Elem(), "", nothingMore),
		c.ask("privacy", c.Privacy),
	)
}

// problem returns a *[KeyError] about a key, whose message is formatted as by [fmt.Sprintf].
// relatedKeys are other keys from which the problem follows; the place of one of them is given if
// the key itself is nowhere set.
func problem(key string, relatedKeys []string, format string, args ...any) error {
	return &KeyError{Key: key, RelatedKeys: relatedKeys, Problem: fmt.Sprintf(format, args...)}
}

// Error turns an error of a component into a *[KeyError]. path is that of the component, and is put before the
// option that the error names; an error that names no option is about path itself. An empty path means that the
// error names a whole key. If it then names none, it is about network, whose checks alone may name none. A nil error
// stays nil.
func Error(path string, err error) error {
	if err == nil {
		return nil
	}
	var o *registry.OptionError
	// The component names its own option; the path says where the component stands.
	if path != "" {
		err = registry.Below(path, err)
	}
	if errors.As(err, &o) {
		return &KeyError{Key: o.Key, Problem: o.Problem}
	}
	return &KeyError{Key: "network", Problem: err.Error()}
}

// maxTags is how many tags a run may have.
const maxTags = 32

// checkNames checks the form of every text of the configuration that is a name, an address, a URL,
// a tag or a condition on results, and that there are not too many tags and conditions.
func (c *Config) checkNames() error {
	// form is a text of the configuration with the function that checks it.
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
	// The texts within lists have paths with an index.
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

// checkServer checks the value of nats.url: the word for the embedded server, the word for none, or
// a URL. Credentials within the URL are refused, because results contain the configuration.
func checkServer(s string) error {
	if s == Embedded || s == None {
		return nil
	}
	if names.Redacted(s) != s {
		return errors.New("a user or password in it would stand in the results (use --nats, or --creds)")
	}
	err := names.CheckURL(s)
	// A text that is no URL at all may be one of the words, misspelt.
	if err != nil && !strings.Contains(s, "://") {
		return fmt.Errorf("%w, %s or %s", err, Embedded, None)
	}
	return err
}

// checkPopulation refuses numbers of clients and cohorts that do not fit each other or the data: a
// cohort cannot be larger than the population that it is drawn from, and data that is made needs a
// number of clients.
func (c *Config) checkPopulation() error {
	// The reader of the data knows the limits of its own options.
	if err := c.ask("data", c.Data.Reader); err != nil {
		return err
	}
	switch {
	// checkCustom has asked for the data of task custom, and allows it to have none.
	case c.Data == Data{} && c.Task != TaskCustom:
		return problem("data", nil, "is empty (a path or a reader is wanted)")
	case c.Clients == AllClients && c.IsSynthetic() && c.Task != TaskCustom:
		return problem("clients", []string{"data"}, "all is for data that is read; synthetic data needs a number")
	// A run needs at least one client, and a deployment has devices alone.
	case c.DevicesAlone() && len(c.Devices.Names) == 0:
		return problem(
			"clients",
			[]string{"devices.names"},
			"0 is for devices alone, and none is named (set devices.names, or clients)",
		)
	// A cohort is drawn from the devices, or from all clients.
	case c.DevicesAlone() && c.Cohort > len(c.Devices.Names):
		return problem(
			"cohort",
			[]string{"clients", "devices.names"},
			"%d is more than there are devices (at most %d)",
			c.Cohort,
			len(c.Devices.Names),
		)
	// drawnFrom is 0 while the number is not known.
	case c.drawnFrom() > 0 && c.Cohort > c.drawnFrom():
		return problem(
			"cohort",
			[]string{"clients"},
			"%d is more than there are clients (at most %d, or set clients)",
			c.Cohort,
			c.drawnFrom(),
		)
	}
	return nil
}

// checkModel refuses a model that the task or its data cannot have. Made data has the shape that
// the task's own model expects, so only layers that fit this shape may replace that model. The model and the local
// optimizer are asked whether their own options are valid.
func (c *Config) checkModel() error {
	_, hasLayers := c.Model.(learn.Sequential)
	switch {
	case c.setsModel() && !hasLayers && c.IsSynthetic():
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
	// The shape of made data is known now; for other data the model is made once they are read.
	if hasLayers && c.IsSynthetic() {
		_, err := c.Model.Model(madeSamples[c.Task])
		return Error("model", err)
	}
	return nil
}

// checkConvex refuses settings that contradict the definition of a convex task: an objective cannot
// be more convex (mu) than it is smooth (L), and quadratics exist only as made data.
func (c *Config) checkConvex() error {
	switch {
	// Strong convexity bounds curvature from below, and smoothness bounds it from above.
	case c.Quadratic.Mu > c.Quadratic.L:
		return problem(
			"quadratic.mu",
			[]string{"quadratic.l"},
			"%s is more than quadratic.l, %s: no objective is more convex than it is smooth",
			registry.Number(c.Quadratic.Mu),
			registry.Number(c.Quadratic.L),
		)
	// A file of samples does not define a quadratic.
	case c.Task == TaskQuadratic && !c.IsSynthetic():
		return problem("data", []string{"task"}, "quadratics are made, not read (set data: synthetic)")
	}
	return nil
}

// checkAccuracy refuses limits by metrics that the run never measures, targets of a task that has no
// accuracy, a target that is no accuracy, and settings of evaluations on the clients' own samples where none
// takes place. A target may stand beside train: false, where nothing reaches it.
func (c *Config) checkAccuracy() error {
	metricStop := c.Stop.Metric
	// The name is empty where models are compared by the model's own metric.
	comparedBy := c.Evaluate.Metric.Name
	isAccuracy := comparedBy == "" || comparedBy == metric.Accuracy
	target := c.Evaluate.Target
	switch minAccuracy := c.Stop.ValidationAccuracy; {
	// A metric without a value would never end the run, which the user may not notice.
	case metricStop.Name != "" && metricStop.Reaches == nil:
		return problem(
			"stop.metric.reaches",
			[]string{"stop.metric.name"},
			"it is missing, so %s stops nothing (set both)",
			metricStop.Name,
		)
	case metricStop.Reaches != nil && !c.Train:
		return problem(
			"stop.metric",
			[]string{"train"},
			"it is never reached with train: false, which measures nothing (remove it)",
		)
	// The target is an accuracy where no other metric is named, and must be one.
	case target != nil && c.Task == TaskQuadratic && comparedBy == "":
		return problem(
			"evaluate.target",
			[]string{"task"},
			"a quadratic classifies nothing and has no validation accuracy (set evaluate.metric: loss)",
		)
	case target != nil && isAccuracy && !(*target > 0 && *target <= 1):
		return problem(
			"evaluate.target",
			[]string{"evaluate.metric"},
			"%s is no accuracy (more than 0 and at most 1; name another evaluate.metric)",
			registry.Number(*target),
		)
	// A limit by accuracy needs a task with classes, as a target does.
	case minAccuracy != 0 && c.Task == TaskQuadratic:
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
	case minAccuracy != 0 && !c.Train:
		return problem(
			"stop.validation_accuracy",
			[]string{"train"},
			"%s is never reached with train: false, which measures no accuracy (remove it)",
			registry.Number(minAccuracy),
		)
	}
	return nil
}

// checkSchedules asks the schedules of K and eta whether their options are valid. Where K counts
// epochs, it also refuses schedules that count local steps, and devices, whose numbers of samples
// are not known before the run.
func (c *Config) checkSchedules() error {
	// Each schedule knows the limits of its own options.
	err := cmp.Or(
		Error("schedule.k", schedule.Validate(c.Schedule.K)),
		Error("schedule.eta", schedule.Validate(c.Schedule.Eta)),
	)
	if err != nil || c.Schedule.Unit != Epochs {
		return err
	}
	switch name := schedule.Ks.NameOf(c.Schedule.K); {
	// These two follow formulas in which K is the number of gradient steps.
	case name == "dsgd" || name == "theory":
		return problem(
			"schedule.unit",
			[]string{"schedule.k"},
			"epochs do not go with schedule.k: %s, which counts local steps (set unit: steps)",
			name,
		)
	case len(c.Devices.Names) > 0:
		return problem("schedule.unit", []string{"devices.names"}, "epochs need the clients' numbers of samples "+
			"before the run, and a device tells its own when it joins, or not at all (set unit: steps)")
	}
	return nil
}

// checkOverlap refuses local steps that overlap with transfers where clients share bandwidth: the
// times of such transfers depend on each other, and are not modelled with overlap.
func (c *Config) checkOverlap() error {
	if c.Overlap() > 0 && c.Network.Shared() {
		return problem("aggregate.overlap", []string{"network"}, "%d steps that overlap with transfers are timed "+
			"where clients do not share the server's bandwidth (set 0, or remove network.server_download_mbps, "+
			"network.server_upload_mbps and network.sites)", c.Overlap())
	}
	return nil
}

// checkSites refuses sites that change nothing, because neither a limit nor sums of their own use
// them, limits of sites without a number of sites, and sites in a deployment, which has no
// simulated clients behind them.
func (c *Config) checkSites() error {
	s := c.Network.Sites
	switch isLimited := s.DownloadMbps > 0 || s.UploadMbps > 0; {
	// The limits of sites are useless without any.
	case s.Count == 0 && isLimited:
		return problem("network.sites.count", nil, "it is missing, so no client is behind a site (set it)")
	// Sites that add up updates need no limit to make a difference.
	case c.Aggregate.SiteRounds > 0:
		return c.checkSiteRounds()
	// Sites without a limit slow nobody down.
	case s.Count > 0 && !isLimited:
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

// checkSiteRounds refuses what cannot be combined with sites that add up the updates of their
// clients. The server then sees only sums, and a client trains several times in a round of the
// server.
func (c *Config) checkSiteRounds() error {
	// These algorithms say what a site makes of its clients' updates.
	algorithms := []string{"fedavg", "fedprox", "fedavgm", "fedadam", "fedadagrad", "fedyogi"}
	_, waitsForAll := c.Close.(closing.All)
	// Each row is a setting that sites with rounds of their own cannot have, with the reason and a
	// remedy. The first that applies is reported.
	for _, conflict := range []struct {
		refused bool
		key     string
		problem string
	}{
		{c.Network.Sites.Count == 0, "network.sites.count", "it is missing, so no client is behind a site (set it)"},
		{!waitsForAll, "close", "ends rounds before a site has all of its clients' updates (set all)"},
		{len(c.Devices.Names) > 0, "devices.names", "are behind no site: real devices send to the server (set [])"},
		{registry.NeedsOf(c.Select).Candidates, "select", "asks candidates for their losses, whom no site asks " +
			"(use another selection)"},
		{!slices.Contains(algorithms, algorithm.Algorithms.NameOf(c.Aggregate.Algorithm)), "aggregate.algorithm",
			"does not say what a site makes of its clients' updates (use " + orList(algorithms) + ")"},
		{c.Aggregate.Clip != nil, "aggregate.clip", "is for single updates, and the server has sums of sites " +
			"(remove it)"},
		{c.Aggregate.Combine != nil, "aggregate.combine", "is for single updates, and the server has sums of sites " +
			"(remove it)"},
		{c.Compress != nil, "compress", "is for updates of clients, and a site sends a whole sum (remove it)"},
		{c.Privacy.On() || c.Privacy.Local.On(), "privacy", "is accounted for one update of a client in a round " +
			"(remove it)"},
		{len(c.Personal.Names) > 0, "personal.names", "go from a client's task to its next in another round, not " +
			"in the same (set [])"},
		{registry.NeedsOf(c.Local).ClientState, "local.keep", "goes from a client's task to its next in another " +
			"round, not in the same (set false)"},
		{c.UsesTheory(), "schedule.k", "is the best K of clients that send to the server (use another schedule)"},
	} {
		if conflict.refused {
			return problem(
				conflict.key,
				[]string{"aggregate.site_rounds"},
				"%s, or remove aggregate.site_rounds)",
				strings.TrimSuffix(conflict.problem, ")"),
			)
		}
	}
	return nil
}

// checkTheory checks that schedule theory has the constants and the conditions that Eq. 9 assumes:
// a fixed learning rate, plain steps of SGD and whole updates. Constants that are given without
// that schedule are only checked against each other.
func (c *Config) checkTheory() error {
	t := c.Theory
	switch name := schedule.Etas.NameOf(c.Schedule.Eta); {
	// No objective is more convex (mu) than it is smooth (L).
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
	// The theorem holds for a fixed rate, plain steps of SGD and whole updates.
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
	// Only for convex tasks can the run calculate the constants itself.
	if !c.Task.IsConvex() {
		for _, constant := range []struct {
			key   string
			value *float64
		}{{"theory.l", t.L}, {"theory.mu", t.Mu}, {"theory.g", t.G}} {
			if constant.value == nil {
				return problem(
					constant.key,
					[]string{"schedule.k"},
					"is not set: schedule.k: theory needs it, and it cannot be calculated for task %s",
					c.Task,
				)
			}
		}
	}
	// The time that remains is known only where the run ends at a virtual time.
	if t.Time == AheadTime && c.Stop.VirtualSeconds == 0 && c.Stop.EqualRuntimeRounds == 0 {
		return problem(
			"theory.time",
			[]string{"stop"},
			"ahead needs an end in time (set stop.virtual_seconds or stop.equal_runtime_rounds)",
		)
	}
	return nil
}

// UsesTheory reports whether K follows Eq. 9, which needs the constants of the group theory.
func (c *Config) UsesTheory() bool { return schedule.Ks.NameOf(c.Schedule.K) == "theory" }

// checkChoices asks the closing rule and the selection whether they fit the cohort, and the
// combining rule whether the fewest updates that may close a round are enough for it.
func (c *Config) checkChoices() error {
	// The cohort is fitted once the number of clients is known; the run checks again then.
	if c.Cohort == 0 {
		return nil
	}
	// The first objection is returned; a later one may follow from it.
	return cmp.Or(
		c.ask("close", c.Close),
		c.ask("late", c.Late),
		c.ask("select", c.Select),
		c.CheckUpdates(closing.Fewest(c.Close, c.Cohort)),
	)
}

// CheckUpdates asks the combining rule whether a round with this number of updates is enough for
// it, and returns its objection as a *[KeyError]. Rules without a least number take any.
func (c *Config) CheckUpdates(updates int) error {
	v, ok := c.Aggregate.Combine.(interface{ Validate(updates int) error })
	if !ok {
		return nil
	}
	return withOthers(Error("aggregate.combine", v.Validate(updates)), "cohort", "close")
}

// ask asks a component whether its options fit each other, the cohort and the number of clients that cohorts are
// drawn from (0 while it is not known), as far as the component has a method Validate for that. Its objection becomes
// a *[KeyError] below path, which is the component's own.
func (c *Config) ask(path string, component any) error {
	switch v := component.(type) {
	// Components differ in what they must know to check their options.
	case interface{ Validate() error }:
		return Error(path, v.Validate())
	case interface{ Validate(cohort int) error }:
		return withOthers(Error(path, v.Validate(c.Cohort)), "cohort")
	case interface {
		Validate(cohort, clients int) error
	}:
		return withOthers(Error(path, v.Validate(c.Cohort, c.drawnFrom())), "cohort", "clients")
	}
	return nil
}

// checkLate refuses a use of late updates under closing rules that leave none: those that wait for
// all tasks, and those of overlapping rounds, in which every update counts whenever it comes.
func (c *Config) checkLate() error {
	_, all := c.Close.(closing.All)
	switch {
	case !closing.UsesLate(c.Late):
	// A round that waits for all of its tasks has no late updates.
	case all:
		return problem("late", []string{"close"}, "%q is for rounds that close before their last task, and close: "+
			"all waits for it (use drop, or another closing rule)", closing.Lates.NameOf(c.Late))
	// In overlapping rounds every update counts whenever it comes, so none is late.
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

// withOthers adds to a *[KeyError] the other keys from which the problem follows, so that the
// message can name the place of one of them. Other errors, and nil, are returned as they are.
func withOthers(err error, relatedKeys ...string) error {
	if k := (*KeyError)(nil); errors.As(err, &k) {
		k.RelatedKeys = relatedKeys
	}
	return err
}

// checkFleet checks the classes of devices: their options, their counts against the number of
// clients, and what batteries cannot be combined with. The files that classes name are not read.
func (c *Config) checkFleet() error {
	if err := c.checkClassesOfDevices(); err != nil {
		return err
	}
	if err := c.devices().Check(); err != nil {
		return Error("", err)
	}
	// Clients that no class counts are shared out by weight, so the counts must come to all clients
	// only if each class has a count.
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
	// From here on, only batteries matter: the first class that has one stands for all.
	i := slices.IndexFunc(c.Fleet, func(k fleet.Class) bool { return k.Battery != nil })
	key := fmt.Sprintf("fleet[%d].battery", i)
	switch {
	case i < 0:
		return nil
	case c.Network.Shared():
		return problem(key, []string{"network.server_download_mbps", "network.server_upload_mbps", "network.sites"},
			"plans say when a battery is empty, and transfers that share the server's bandwidth, or a site's, take "+
				"longer than planned (remove one of the two)")
	// Candidates that compute a loss would drain their batteries, too.
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

// checkClassesOfDevices checks that each class of a real device is one of the fleet, and that its
// times were measured with the minibatches that real devices have.
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
		// The class was measured with minibatches of another size, so its times would be wrong.
		case c.Batch > 0 && c.Fleet[i].Batch > 0 && c.Fleet[i].Batch != c.Batch:
			return problem(path, []string{"fleet", "batch"}, "class %s gives the time of minibatches of %d "+
				"samples, and real devices have those of batch, %d (set batch to %d, or measure the class "+
				"with %d)", d.Class, c.Fleet[i].Batch, c.Batch, c.Fleet[i].Batch, c.Batch)
		}
	}
	return nil
}

// checkDevices refuses too many devices, devices with the same id, and devices in a run that trains
// nothing: real devices always train.
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
	// Two devices with one id could not be told apart.
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return problem("devices.names", nil, "%q is named twice", id)
		}
	}
	return nil
}

// checkDevicesAlone refuses, for a deployment, a cohort of some devices that is not drawn, settings about
// simulated clients, of which it has none, and the times of K-eta-fixed, which would be calculated with
// them. Configurations with simulated clients always pass.
func (c *Config) checkDevicesAlone() error {
	devices := len(c.Devices.Names)
	switch {
	case !c.DevicesAlone():
	// A cohort that is smaller than all devices must be drawn, which include: every_round excludes.
	// checkPopulation has refused a larger one.
	case c.Devices.Include == EveryRound && c.Cohort != 0 && c.Cohort != devices:
		return problem("cohort", []string{"clients", "devices.names"}, "%d of %d devices are drawn only with "+
			"devices.include: sampled; otherwise each takes part in every round (set that, or "+
			"cohort: fit)", c.Cohort, devices)
	// The samples of devices never leave them, so the coordinator cannot measure on them.
	case c.Evaluate.Clients.Any():
		return problem(
			"evaluate.clients",
			[]string{"clients"},
			"is about the samples of simulated clients, and clients is 0: those of devices stay there (remove it)",
		)
	// Correlations between samples and devices are drawn for simulated clients alone.
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

// checkCompression refuses a compression that the algorithm cannot take, and rules about single
// updates that the algorithm or the compression does not allow.
func (c *Config) checkCompression() error {
	err := cmp.Or(
		algorithm.CheckCompression(c.Aggregate.Algorithm, c.Compress),
		c.Combining().Check(c.Aggregate.Algorithm, c.Compress),
	)
	return withOthers(Error("", err), "aggregate.algorithm")
}

// checkStop refuses a run that would never end, and an end at the virtual time of fixed K where
// this time is known only by training for it.
func (c *Config) checkStop() error {
	switch {
	// A Flower app ends by itself.
	case c.PlaysFlower():
	case c.Stop == Stop{} && c.Privacy.Epsilon == 0:
		return problem("stop", nil, "nothing is set, so the run would not end (set rounds, virtual_seconds, "+
			"equal_runtime_rounds, accepted, samples, tokens, energy_joules, bytes, carbon_grams, energy_cost, "+
			"client_hours, validation_accuracy, metric or privacy.epsilon)")
	// A selection by losses decides who takes part, and so how long rounds last.
	case c.timedByFixed() != "" && registry.NeedsOf(c.Select).Losses:
		return problem(c.timedByFixed(), []string{"select"}, "%s decides by losses, so the time of rounds is known "+
			"only by training them (set a number of virtual seconds instead)", selection.Rules.NameOf(c.Select))
	}
	return nil
}

// timedByFixed returns the key by which the run ends, or is validated, after as much virtual time as a number of
// rounds of the schedule K-eta-fixed take; with stop.equal it is as much energy, or the like. What they take must
// then be calculated before the run. It is empty if no key says so.
func (c *Config) timedByFixed() string {
	switch {
	case c.Stop.EqualRuntimeRounds > 0:
		return "stop.equal_runtime_rounds"
	case c.Evaluate.EverySeconds == AsFixed:
		return "evaluate.every_seconds"
	}
	return ""
}

// checkClock refuses configurations whose virtual times would not fit the clock: those of one round
// by Eq. 4, and those of all rounds where the runtime of K-eta-fixed ends the run.
func (c *Config) checkClock() error {
	megabits := c.Network.ModelMegabits
	// The exact size is not known yet. The paper's is near enough for a limit; for data that has
	// not been read, the largest size of any model is taken.
	if p, ok := c.Task.Paper(); megabits == 0 && ok && c.UsesTaskModel() {
		megabits = p.Megabits
	} else if megabits == 0 {
		// A model of the largest size is assumed, with 32 bits a parameter.
		megabits = learn.MaxParams * 32 / 1e6
	}
	// An update may have a size of its own on the network.
	update := max(megabits, c.Network.UpdateMegabits)
	// Eq. 4 gives the time of a round without contention: the download, the upload, and K_0 local
	// steps, each at most ten standard deviations above its mean.
	roundSeconds := megabits/c.Network.DownloadMbps + update/c.Network.UploadMbps +
		float64(c.Schedule.K0)*(c.Compute.SecondsPerStep+10*c.Compute.Std)
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

// checkNATS refuses settings that contradict the kind of the message server. Without a server nothing can
// listen, keep copies or reach devices; only the embedded server listens for this run, and only a cluster
// keeps copies.
func (c *Config) checkNATS() error {
	embedded := c.NATS.URL == Embedded
	none := c.NATS.URL == None
	switch {
	// These are about a run without any server.
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
	// Another server listens where its own configuration says.
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
