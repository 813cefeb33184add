package fleet

import "fedpace/actors/attack"

// Config is a population of devices, as a configuration describes it.
type Config struct {
	Network      Network      `key:"network"`
	Compute      Compute      `key:"compute"`
	Slowdown     Slowdown     `key:"slowdown" is:"null" help:"slow periods of clients"`
	Availability Availability `key:"availability" is:"null" help:"when clients can be chosen"`
	Dropout      Dropout      `key:"dropout"`
	Fleet        []Class      `key:"fleet" is:"null" help:"classes of devices, [{name: phone, weight: 3, ...}, ...]; []: all clients alike"`
	// Correlation relates the clients' data to the devices that they have; see [Fleet.Correlate].
	Correlation Correlation

	// Deadline is that of rounds, in nanoseconds, for attackers that keep it; 0 if there is none.
	Deadline int64
	// Devices are the classes of the run's real devices, in the devices' order, "" for a device
	// without one. See [Fleet.SetDevices].
	Devices []string
}

// Network is every client's link (Eq. 3), where its class does not give another.
// 1 Mbit is 10^6 bit.
type Network struct {
	DownloadMbps float64 `key:"download_mbps" range:"(0,1e6]" unit:"Mbit/s" help:"download speed of a client, D"`
	UploadMbps   float64 `key:"upload_mbps" range:"(0,1e6]" unit:"Mbit/s" help:"upload speed of a client, U"`
	Links        Links   `key:"links" is:"null" help:"link traces in place of speeds"`
}

// Compute is the time of a client's minibatches (Table 2), where its class does
// not give another: normal, never negative.
type Compute struct {
	SecondsPerStep float64 `key:"seconds_per_step" range:"[0,1e6]" unit:"seconds" help:"mean time of a minibatch, beta"`
	Std            float64 `key:"std" range:"[0,1e6]" unit:"seconds" help:"standard deviation of a minibatch's time"`
	Measured       string  `key:"measured" is:"null,path" help:"CSV of measured devices (device,milliseconds)"`
	Reference      string  `key:"reference" is:"null" help:"device in that file that takes seconds_per_step"`

	Columns []string `key:"columns" is:"null" help:"its columns in this order; 0: not measured"`
}

// Class is a kind of device. What a class does not set is that of the [Config].
type Class struct {
	Name   string  `key:"name" help:"name of the class"`
	Weight float64 `key:"weight" is:"null" range:"[0,1e12]" help:"share of clients; null in all: equal; in some: for real devices alone"`

	Count int `key:"count" is:"null" range:"[1,10000000]" help:"clients of this class; null: by weight"`

	// DownloadMbps, UploadMbps and SecondsPerStep are distributions of which each client draws its
	// own speeds once, and keeps them in all rounds.
	DownloadMbps   Distribution `key:"download_mbps" is:"null" unit:"Mbit/s" help:"download speed of a client"`
	UploadMbps     Distribution `key:"upload_mbps" is:"null" unit:"Mbit/s" help:"upload speed of a client"`
	SecondsPerStep Distribution `key:"seconds_per_step" is:"null" unit:"seconds" help:"mean time of a client's minibatch"`
	StepCV         float64      `key:"step_cv" default:"0" range:"[0,100]" help:"standard deviation of a minibatch's time, over its mean"`

	// Batch is how many samples a minibatch of these clients has, whose time is
	// SecondsPerStep. 0 means the run's number. This package does not use it.
	Batch int `key:"batch" is:"null" range:"[1,100000]" help:"minibatch size, which seconds_per_step is for; null: batch"`

	Overhead     Overhead     `key:"overhead" is:"null" help:"extra seconds of each phase"`
	Vary         Vary         `key:"vary" is:"null" help:"factors drawn for each task"`
	FirstTask    Overhead     `key:"first_task" is:"null" help:"extra seconds of the first task, in predictions only"`
	Uncertainty  Uncertainty  `key:"uncertainty" is:"null" help:"deviation of a device from its class, in predictions only"`
	Links        Links        `key:"links" is:"null" help:"link traces in place of both speeds"`
	Slowdown     Slowdown     `key:"slowdown" is:"null" help:"slowdown of the class; {}: none"`
	Availability Availability `key:"availability" is:"null" help:"availability of the class"`
	Dropout      *Dropout     `key:"dropout" is:"null" help:"dropout of the class; {}: never"`
	Watts        Watts        `key:"watts" is:"null" help:"power in a task, or by phase"`
	Zone         string       `key:"zone" is:"null" help:"zone of the grid, such as DEU; null: carbon.zone"`
	Battery      *Battery     `key:"battery" is:"null" help:"battery that gives the watts; null: mains"`

	// Attack is what these clients do in place of honest work. This package uses only
	// what it changes of their time.
	Attack attack.Attack `key:"attack" is:"null" help:"attack of these clients"`
}

// Overhead is the time that a phase takes however little is transferred or computed: round
// trips of a model's chunks, digests, preparing. A transfer of nothing, and a task without
// steps, has none. Neither [Vary] nor a [Slowdown] changes it.
type Overhead struct {
	Download float64 `key:"download" default:"0" range:"[0,1e6]" unit:"seconds" help:"of a download"`
	Compute  float64 `key:"compute" default:"0" range:"[0,1e6]" unit:"seconds" help:"of all local steps of a task"`
	Upload   float64 `key:"upload" default:"0" range:"[0,1e6]" unit:"seconds" help:"of an upload"`
}

// Phases returns the values of an overhead by phase: download, compute, upload. They may be changed.
func (o *Overhead) Phases() [3]*float64 { return [...]*float64{&o.Download, &o.Compute, &o.Upload} }

// Uncertainty is the relative standard deviation of what a device's phases take in all of a
// run, less their overhead, from what its class says. What varies by task is no part of it.
type Uncertainty struct {
	Download float64 `key:"download" default:"0" range:"[0,1]" help:"of the time of downloads"`
	Compute  float64 `key:"compute" default:"0" range:"[0,1]" help:"of the time of a minibatch"`
	Upload   float64 `key:"upload" default:"0" range:"[0,1]" help:"of the time of uploads"`
}

// Phases returns the values of an uncertainty by phase: download, compute, upload. They may be changed.
func (u *Uncertainty) Phases() [3]*float64 {
	return [...]*float64{&u.Download, &u.Compute, &u.Upload}
}

// Vary is what multiplies a client's own speeds in one task: megabits a second
// of the links, seconds of a step. A factor that is not given is 1.
type Vary struct {
	Download Distribution `key:"download" is:"null" help:"on the download speed"`
	Upload   Distribution `key:"upload" is:"null" help:"on the upload speed"`
	Compute  Distribution `key:"compute" is:"null" help:"on the time of a minibatch"`
	Together bool         `key:"together" default:"false" help:"one draw for tasks and phases that start together"`
}

// Links are link traces to replay. Each client gets one of them and a place in
// it to start from at virtual time 0, both by its key.
type Links struct {
	File   string   `key:"file" is:"path,short" help:"CSV of link traces (trace,second,download_mbps,upload_mbps)"`
	Traces []string `key:"traces" is:"null" help:"traces to use; null: all"`

	Columns      []string `key:"columns" is:"null" help:"its columns in this order; both speeds may be one"`
	UnitMbps     float64  `key:"unit_mbps" is:"null" range:"[1e-6,1e3]" unit:"Mbit/s" help:"unit of the file, as 0.001 for kbit/s; null: 1"`
	UploadFactor float64  `key:"upload_factor" is:"null" range:"(0,1e3]" help:"factor on uploads, as 0.25 if only downloads were measured; null: 1"`
}

// isSet reports whether transfers follow link traces.
func (l *Links) isSet() bool { return l.File != "" }

// Dropout says how tasks end early. The zero Dropout is never.
type Dropout struct {
	// Probability is that with which the client of a task leaves, at a time drawn uniformly from
	// the whole of the planned work.
	Probability float64 `key:"probability" default:"0" range:"[0,1]" help:"that a client leaves during a task"`
	// WhenUnavailable says that a client also leaves when its availability ends before its work
	// does, and at once when it is not available at the start.
	WhenUnavailable bool `key:"when_unavailable" default:"false" help:"clients leave when their availability ends"`
	// Away is what a client does whose availability ends in a task: [AwayWaits], or nothing, as if it
	// were available until the task is done.
	Away string `key:"away" is:"null" words:"wait" help:"wait: transfers pause while a client is away"`
}

// AwayWaits is the value of Dropout.Away by which a client that is away continues its task: it
// computes meanwhile, and its transfers continue when it is back.
const AwayWaits = "wait"

// Watts is the power that a device draws in each phase of a task. If all are 0 it
// is not known. It empties a [Battery] and changes nothing else of a plan.
type Watts struct {
	Download float64 `key:"download" default:"0" is:"short" range:"[0,1e6]" unit:"W" help:"while it downloads"`
	Compute  float64 `key:"compute" default:"0" is:"short" range:"[0,1e6]" unit:"W" help:"while it computes"`
	Upload   float64 `key:"upload" default:"0" is:"short" range:"[0,1e6]" unit:"W" help:"while it uploads"`
}
