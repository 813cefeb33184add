package calibrate

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"time"

	"fedpace/algorithm/secagg"
	"fedpace/internal/robust"
)

// Secure is what a device's part in secure aggregation takes, as a configuration has it under
// secure_aggregation. Bytes are not measured: they follow from the numbers of members and neighbours.
type Secure struct {
	// Neighbour is the time for each neighbour: two keys agreed, two shares made, sealed and opened.
	Neighbour robust.Estimate `json:"neighbour_seconds"`
	// Signature is the time to check a signature.
	Signature robust.Estimate `json:"signature_seconds"`
	// Mask is the time for a mask of a million words.
	Mask robust.Estimate `json:"mask_seconds"`
	// Members is the number of members of the rounds that were played, all of them neighbours.
	Members int `json:"members"`
}

const (
	// secureMembers is the number of members of a measured round. Each member's part is one measurement.
	secureMembers = 21
	// secureWords is the number of words that are masked.
	secureWords = 1 << 20
)

// MeasureSecure carries out rounds of secure aggregation among members in this process for this many
// seconds, at least one, and measures what each member computes. It calls the code that a run calls. ctx
// ends it between two rounds.
func MeasureSecure(ctx context.Context, seconds float64) (s Secure, err error) {
	s.Members = secureMembers
	var t secureTimes
	began := time.Now()
	for number := uint32(1); number == 1 || time.Since(began).Seconds() < seconds; number++ {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		if err := t.playRound(number); err != nil {
			return s, err
		}
	}
	check := robust.Median(t.check)
	open := robust.Median(t.open)
	var neighbour, mask []float64
	for _, shares := range t.shares {
		// A member makes the shares for its neighbours and opens theirs. While it makes them it also checks the
		// signatures of all members, which counts on its own.
		forNeighbours := shares - secureMembers*check + open
		neighbour = append(neighbour, max(0, forNeighbours/(secureMembers-1)))
	}
	for _, masked := range t.masked {
		// A member has a mask with each of its secureMembers - 1 neighbours, and one of its own.
		secondsPerMask := (masked - open) / secureMembers
		mask = append(mask, max(0, secondsPerMask*1e6/secureWords))
	}
	s.Signature = robust.MedianOf(t.check, 0.95)
	s.Neighbour = robust.MedianOf(neighbour, 0.95)
	s.Mask = robust.MedianOf(mask, 0.95)
	return s, nil
}

// secureTimes are measured times of members, in seconds: to check one signature, to make the shares for all
// neighbours, to open the shares of all neighbours, and to do the latter and mask secureWords words.
type secureTimes struct {
	check, shares, open, masked []float64
}

// playRound carries out a round of secure aggregation, up to the masking, among secureMembers members that
// are all neighbours of each other, and appends the measured times of each member to t. Every second member is measured
// while it masks, and the others while they only open their shares. number is the round's number.
func (t *secureTimes) playRound(number uint32) error {
	terms := secagg.Terms{
		Neighbours: secureMembers - 1,
		Threshold:  secureMembers / 2,
		Minimum:    secureMembers / 2,
	}
	c := secagg.NewContext(Run, number)
	server, err := secagg.NewServer(c, terms)
	if err != nil {
		return err
	}
	members := make([]*secagg.Client, secureMembers)
	for i := range members {
		public, identity, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		t.check = append(t.check, signatureCheckSeconds(public, identity))
		// All updates have the same weight.
		members[i], err = secagg.NewClient(rand.Reader, c, terms, identity, uint32(i), 1)
		if err != nil {
			return err
		}
		entry, err := members[i].Keys()
		if err == nil {
			err = server.Keys(uint32(i), entry)
		}
		if err != nil {
			return err
		}
	}
	roster, err := server.Roster()
	if err != nil {
		return err
	}
	for i, member := range members {
		var message []byte
		t.shares = append(t.shares, timed(func() { message, err = member.Shares(roster) }))
		if err == nil {
			err = server.Shares(uint32(i), message)
		}
		if err != nil {
			return err
		}
	}
	if _, err := server.Members(); err != nil {
		return err
	}
	words := make([]uint64, secureWords)
	for i, member := range members {
		inbox, err := server.Inbox(uint32(i))
		if err != nil {
			return err
		}
		// Mask opens the shares of the inbox and masks the words. A member can mask only once, so every
		// second member gets no words: its time is that of opening alone.
		if i%2 == 0 {
			t.open = append(t.open, timed(func() { err = member.Mask(inbox, nil) }))
		} else {
			t.masked = append(t.masked, timed(func() { err = member.Mask(inbox, words) }))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// signatureCheckSeconds returns the seconds that a signature takes to check.
func signatureCheckSeconds(public ed25519.PublicKey, identity ed25519.PrivateKey) float64 {
	const times = 16
	text := make([]byte, 140)
	signature := ed25519.Sign(identity, text)
	return timed(func() {
		for range times {
			ed25519.Verify(public, text, signature)
		}
	}) / times
}

// timed returns the seconds that a function takes.
func timed(do func()) float64 {
	began := time.Now()
	do()
	return time.Since(began).Seconds()
}
