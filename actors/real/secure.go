package real

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"fedpace/algorithm"
	"fedpace/algorithm/privacy"
	"fedpace/algorithm/secagg"
	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/internal/vector"
	"fedpace/learn"
)

// computed is the result of a task's local steps. A device keeps that of its last task, since a
// coordinator that is started again goes through the stages of secure aggregation again: steps with
// local noise, taken twice, would give two updates that differ by their noise alone.
type computed struct {
	digest []byte
	update *bus.DeviceUpdate
	base   []float32
	// words are the weighted update before it is masked, with the device's noise; nil before they are made.
	words []uint64
	// factor is that of the words' weight; 0 before they are made.
	factor uint64
	// survivors is the set that the device has signed for the task, as numbers of clients; nil if it has
	// signed none.
	survivors []uint32
}

// ErrNotSecure is wrapped by the error of a run in which the device's update would be seen, or be in a sum
// of fewer than its owner allows.
var ErrNotSecure = errors.New("its owner allows no such run")

// checkSecure returns an error that wraps [ErrNotSecure] for a run whose updates are not aggregated
// securely, or in sums of fewer updates than the device's owner demands. welcome has the run's terms.
func (w *Device) checkSecure(welcome *bus.Welcome) error {
	want := w.config.Survivors
	if want == 0 {
		return nil
	}
	if welcome.Secure == nil {
		return fmt.Errorf("%w: updates are sent without masks, want secure aggregation (--secure)", ErrNotSecure)
	}
	if got := int(welcome.Secure.Minimum); got < want {
		return fmt.Errorf("%w: sums of %d updates are seen, want %d or more (--secure)", ErrNotSecure, got, want)
	}
	return nil
}

// SecureStep is a point in a device's part in secure aggregation.
type SecureStep struct {
	Round int
	Stage bus.SecureStage
	// Answered says that the message of the stage has been answered.
	Answered bool
	// Words are the weighted update before it is masked, Weight is the weight that they have, and Base is the model
	// that the update starts from, at the masked upload; they must not be changed.
	Words  []uint64
	Weight uint64
	Base   []float32
}

// observe reports a step of secure aggregation to the device's owner, if Observe is set. The round is that in which
// the update of task t is summed, as far as the device knows it.
func (w *Device) observe(t *gateway.DeviceTask, s SecureStep) {
	if w.config.Observe != nil {
		s.Round = int(cmp.Or(w.group.round, t.Task.Round))
		w.config.Observe(s)
	}
}

// group is the round in which an update is summed, and the factor of the device's weight there. Its zero value is that
// of a device that has no group yet.
type group struct {
	round  uint32
	factor uint64
}

// errGivesUp is wrapped by the error of a device that gives a task up: the coordinator has sent what the
// protocol does not allow, or the steps did not stay finite.
var errGivesUp = fmt.Errorf("it gives the task up: %w", gateway.ErrUpdateRefused)

// errNotFinite is the error of local steps that did not stay finite.
var errNotFinite = errors.New("its steps do not stay finite")

// giveUp returns the error of a device that gives task t up for a reason.
func giveUp(t *gateway.DeviceTask, reason error) error {
	return fmt.Errorf("task %d: %w: %w", t.Task.Task, errGivesUp, reason)
}

// doSecurely does one task with secure aggregation: keys and shares, the local steps, the masked
// upload, and the recovery of the sum. It begins again if the coordinator was restarted and asks for
// the keys again. A device that gives the task up informs the coordinator, which need not wait for it
// then.
func (w *Device) doSecurely(t *gateway.DeviceTask) error {
	for {
		err := w.secureAttempt(t)
		if errors.Is(err, errGivesUp) {
			// A message of keys without a payload gives the task up. Its answer does not matter.
			_, _ = w.bus.SecureMessage(t.Context, t.Run, &bus.SecureMessage{
				Task:       t.Task.Task,
				TaskDigest: t.Task.Digest,
				Stage:      bus.StageKeys,
			})
		}
		if !errors.Is(err, gateway.ErrSendKeys) {
			return err
		}
		w.bus.Notice(fmt.Sprintf("Task %d: its stages begin again: the coordinator was started again.", t.Task.Task))
	}
}

// secureAttempt goes once through all stages of secure aggregation for a task: keys, shares, local
// steps, upload of the masked update, and recovery of the sum. Each stage needs the coordinator's
// answer to the one before.
//
// Where rounds overlap, the local steps come first, and the device then waits for a group.
func (w *Device) secureAttempt(t *gateway.DeviceTask) error {
	w.group = group{round: t.Task.Round, factor: 1}
	if t.Welcome.Secure.FreshFactor > 0 {
		if err := w.joinGroup(t); err != nil {
			return err
		}
	}
	member, err := w.newMember(t)
	if err != nil {
		return err
	}
	entry, err := member.Keys()
	if err != nil {
		return err
	}
	roster, err := w.stage(t, bus.StageKeys, entry)
	if err != nil {
		return err
	}
	shares, err := member.Shares(roster)
	if err != nil {
		return giveUp(t, err)
	}
	inbox, err := w.stage(t, bus.StageShares, shares)
	if err != nil {
		return err
	}
	// The local steps follow the shares, because the coordinator takes uploads only from members
	// that have shared.
	result, err := w.computeOnce(t)
	if err != nil {
		return err
	}
	// From here on the coordinator needs this device's shares only for the recovery.
	if err := w.upload(t, member, inbox, result); err != nil {
		return err
	}
	return w.helpRecover(t, member, result)
}

// joinGroup takes the local steps of a task and reports them without the update. It returns when the task has a group,
// which it sets in w.group. It refuses a group in which the update would count with another factor than before: from
// two sums of the same updates, one of which has changed its weight, the coordinator would learn that update.
func (w *Device) joinGroup(t *gateway.DeviceTask) error {
	w.group = group{}
	result, err := w.computeOnce(t)
	if err != nil {
		return err
	}
	if len(result.update.Values) < len(result.base) {
		return giveUp(t, errNotFinite)
	}
	payload, err := w.send(t, &bus.SecureMessage{
		Stage:         bus.StageTrained,
		DownloadNs:    result.update.DownloadNs,
		ComputeNs:     result.update.ComputeNs,
		FirstStepLoss: result.update.FirstStepLoss,
		Samples:       result.update.Samples,
	})
	if err != nil {
		return err
	}
	g, err := readGroup(payload, t.Welcome.Secure.FreshFactor)
	if err != nil {
		return giveUp(t, err)
	}
	if result.words != nil && result.factor != g.factor {
		return giveUp(t, fmt.Errorf("its weight has the factor %d, and had %d before", g.factor, result.factor))
	}
	w.group = g
	return nil
}

// readGroup reads what the coordinator says of a task's group: the number of the round in 4 bytes, and the factor of
// the device's weight in 8, at most largest.
func readGroup(payload []byte, largest uint64) (group, error) {
	const length = 4 + 8
	if len(payload) != length {
		return group{}, fmt.Errorf("a group of %d bytes, want %d", len(payload), length)
	}
	g := group{
		round:  binary.LittleEndian.Uint32(payload),
		factor: binary.LittleEndian.Uint64(payload[4:]),
	}
	if g.round == 0 || g.factor == 0 || g.factor > largest {
		return group{}, fmt.Errorf("a group of round %d with the factor %d, want 1 to %d", g.round, g.factor, largest)
	}
	return g, nil
}

// newMember makes this device a member of the secure aggregation of the round of a task. It uses
// the terms from the run's welcome, and the device's long-term identity, which it makes at first
// use.
func (w *Device) newMember(t *gateway.DeviceTask) (*secagg.Client, error) {
	if w.identity == nil {
		_, identity, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		w.identity = identity
	}
	s := t.Welcome.Secure
	terms := secagg.Terms{
		Neighbours: int(s.Neighbours),
		Threshold:  int(s.Threshold),
		Colluders:  int(s.Colluders),
		Minimum:    int(s.Minimum),
	}
	// An update counts by the device's samples, at least 1 and at most what the run allows. The device's own
	// configuration may have a lower limit.
	weight := min(s.MaxWeight, max(1, w.reportedSamples()))
	if ownLimit := w.config.Samples; ownLimit > 0 {
		weight = min(weight, ownLimit)
	}
	context := secagg.NewContext(t.Run, w.group.round)
	// All members see the weight with which the update counts.
	counted := weight * w.group.factor
	member, err := secagg.NewClient(rand.Reader, context, terms, w.identity, uint32(t.Welcome.Client), counted)
	if err != nil {
		return nil, err
	}
	w.weight = weight
	// If Trust is nil, the coordinator is trusted to pass on the identities.
	member.Trust = w.config.Trust
	member.MaxWeight = s.MaxWeight * max(1, s.FreshFactor)
	// A coordinator that lies about the age of updates must not have one of them in a sum of next to nothing else.
	member.Balanced = s.FreshFactor > 0
	return member, nil
}

// stage sends the coordinator this device's message of a stage, payload, and waits for the end of
// the stage. It returns what the coordinator sends for the next stage. The error wraps ErrSendKeys
// if the device must begin with its keys again, and ErrUpdateRefused if it has no part in the round
// any more.
func (w *Device) stage(t *gateway.DeviceTask, stage bus.SecureStage, payload []byte) ([]byte, error) {
	return w.send(t, &bus.SecureMessage{Stage: stage, Payload: payload})
}

// send sends the coordinator a message of a stage, as [Device.stage] does, for task t.
func (w *Device) send(t *gateway.DeviceTask, message *bus.SecureMessage) ([]byte, error) {
	stage := message.Stage
	message.Task = t.Task.Task
	message.TaskDigest = t.Task.Digest
	w.observe(t, SecureStep{Stage: stage})
	r, err := w.bus.SecureMessage(t.Context, t.Run, message)
	if err != nil {
		return nil, err
	}
	w.observe(t, SecureStep{Stage: stage, Answered: true})
	switch r.Status {
	case bus.Continue, bus.Accepted:
		return r.Secure, nil
	case bus.SendKeys:
		return nil, fmt.Errorf("task %d: %w", t.Task.Task, gateway.ErrSendKeys)
	}
	return nil, fmt.Errorf("task %d: %w: %s", t.Task.Task, gateway.ErrUpdateRefused, r.Reason)
}

// computeOnce fetches the model and takes the local steps of a task. If it has done so for the same
// task already, in an earlier attempt, it returns that result, so that a device never makes two
// updates for one task.
func (w *Device) computeOnce(t *gateway.DeviceTask) (*computed, error) {
	if w.lastResult != nil && bytes.Equal(w.lastResult.digest, t.Task.Digest) {
		return w.lastResult, nil
	}
	ctx := t.Context
	began := time.Now()
	// Where rounds overlap no stage comes before the download.
	if t.Welcome.Secure.FreshFactor > 0 {
		began = t.Received
	}
	w.bus.Phase(bus.Download)
	params, err := w.bus.Model(ctx, t.Run, bus.DigestFrom(t.Task.ModelDigest))
	var frozen []float32
	if err == nil {
		frozen, err = w.vector(ctx, t, t.Task.FrozenDigest)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDownload, err)
	}
	// Only the frozen values are kept for the next task; they seldom change.
	w.vectors = map[bus.Digest][]float32{bus.DigestFrom(t.Task.FrozenDigest): frozen}
	// The base is kept as it was, because the steps may change params.
	base := slices.Clone(params)
	download := time.Since(began)
	w.bus.Phase(bus.Compute)
	if err := w.Prepare(ctx, t.Run, t.Welcome); err != nil {
		return nil, err
	}
	update, _, err := w.Compute(ctx, append(params, frozen...), nil, t.Task)
	if err != nil {
		return nil, err
	}
	update.DownloadNs = download.Nanoseconds()
	w.lastResult = &computed{digest: t.Task.Digest, update: update, base: base}
	return w.lastResult, nil
}

// upload masks the update of a task, result, and sends it. inbox holds the encrypted shares of the
// member's neighbours. An update that is not finite ends the task here, because the coordinator
// could not see that under the masks.
func (w *Device) upload(t *gateway.DeviceTask, member *secagg.Client, inbox []byte, result *computed) error {
	values := result.update.Values
	// A shorter update stands for local steps that did not stay finite.
	if len(values) < len(result.base) {
		return giveUp(t, errNotFinite)
	}
	began := time.Now()
	// Noise is drawn once for a task: the sums of two attempts must not differ by noise alone.
	if result.words == nil {
		words, err := w.encodeUpdate(t.Welcome.Secure, values[:len(result.base)], result.base)
		if err != nil {
			return giveUp(t, err)
		}
		result.words = words
		result.factor = w.group.factor
	}
	words := slices.Clone(result.words)
	w.observe(t, SecureStep{
		Stage:  bus.StageMasked,
		Words:  words,
		Weight: w.weight * result.factor,
		Base:   result.base,
	})
	if err := member.Mask(inbox, words); err != nil {
		return giveUp(t, err)
	}
	masked := &bus.DeviceUpdate{
		Update: &bus.Update{
			Task:          t.Task.Task,
			TaskDigest:    t.Task.Digest,
			DownloadNs:    result.update.DownloadNs,
			ComputeNs:     result.update.ComputeNs + time.Since(began).Nanoseconds(),
			FirstStepLoss: result.update.FirstStepLoss,
			Samples:       result.update.Samples,
		},
		// A word of 64 bits travels as two values of 32.
		Values: vector.Append([]float32(nil), vector.Bytes(words)),
	}
	// The device has reported its download and its steps already.
	if t.Welcome.Secure.FreshFactor > 0 {
		masked.DownloadNs = 0
		masked.ComputeNs -= result.update.ComputeNs
	}
	return w.bus.Send(t.Context, t.Run, masked)
}

// encodeUpdate returns the weighted update of the device, from the model base to the model after, as the
// words that are masked next: one for each parameter, with the device's part of the distributed noise where the
// terms ask for it.
func (w *Device) encodeUpdate(terms *bus.SecureTerms, after, base []float32) ([]uint64, error) {
	share := secagg.Share(w.weight*w.group.factor, int(terms.Shift))
	words := make([]uint64, len(base))
	grid := gridOf(terms)
	// Without noise a word is a whole number of the sums' unit or, for a buffer, of the buffer's own unit.
	if !grid.On() {
		err := secagg.Encode(words, share, after, base)
		if err == nil {
			err = w.encodeBuffers(words, share, after, base)
		}
		return words, err
	}
	// With noise it is a whole number of steps of the grid. Such a run has no model with buffers. The noise
	// follows from a key that is drawn anew and that only this device knows.
	if err := grid.Validate(); err != nil {
		return nil, err
	}
	noisy := make([]int64, len(base))
	if err := grid.Add(noisy, share, after, base, secret()); err != nil {
		return nil, err
	}
	for i, x := range noisy {
		words[i] = uint64(x)
	}
	return words, nil
}

// encodeBuffers replaces the words of the model's buffers of floats by words in the buffers' own units
// ([learn.SumUnits]). It is an error if a buffer moved further from base than a word can hold.
func (w *Device) encodeBuffers(words []uint64, share float64, after, base []float32) error {
	for _, u := range learn.SumUnits(w.model, base) {
		scaled := u.Scaled(after)
		before := u.Scaled(base)
		for i, x := range scaled {
			if math.Abs(float64(x)-float64(before[i])) >= algorithm.MaxDifference {
				return fmt.Errorf("a buffer of tensor %s moved from %g to %g, further than 2^35 times its value "+
					"before, which sums hold (scale the features)",
					learn.TensorAt(w.model, u.First+i), base[u.First+i], after[u.First+i])
			}
		}
		if err := secagg.Encode(words[u.First:u.End], share, scaled, before); err != nil {
			return err
		}
	}
	return nil
}

// gridOf returns the rounding and the noise that the terms of a run ask for.
func gridOf(terms *bus.SecureTerms) privacy.Grid {
	return privacy.Grid{Clip: terms.NoiseClip, Step: terms.NoiseStep, Deviation: terms.NoiseDeviation}
}

// helpRecover takes part in the recovery of the sum. The device signs one set of survivors for a task,
// also where the coordinator goes through the stages again: from the sums of two sets it would learn
// the updates of those in one alone.
func (w *Device) helpRecover(t *gateway.DeviceTask, member *secagg.Client, result *computed) error {
	set, err := w.stage(t, bus.StageMasked, nil)
	if err != nil {
		return err
	}
	clients, err := member.Clients(set)
	if err != nil {
		return giveUp(t, err)
	}
	// The set that this device has signed before is the only one that it signs.
	if result.survivors != nil && !slices.Equal(result.survivors, clients) {
		return giveUp(t, errors.New("it has signed another set of survivors"))
	}
	signature, err := member.Sign(set)
	if err != nil {
		return giveUp(t, err)
	}
	result.survivors = clients
	signatures, err := w.stage(t, bus.StageSurvivors, signature)
	if err != nil {
		return err
	}
	shares, err := member.Reveal(signatures)
	if err != nil {
		return giveUp(t, err)
	}
	if _, err := w.stage(t, bus.StageRecovery, shares); err != nil {
		return err
	}
	w.doneTasks++
	return nil
}
