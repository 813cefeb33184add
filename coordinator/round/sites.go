package round

import (
	"cmp"
	"slices"
)

// SiteState is what the machine remembers of one site, which adds up the updates of the clients behind
// it before it sends. A site fetches the model, has SiteRounds rounds of its own, each until all of its
// tasks have ended, and sends one update. The next round of its own is for those clients whose update
// it has and that are available.
type SiteState struct {
	// Transfer is the transfer of a model between the site and the server. Its Client is the number of the site, from
	// 0, and its Task is that number plus 1, as no transfer has the number 0. It has no plan and no outcome.
	Transfer TaskState
	// Round is the number of the site's own round, from 1, 0 while it has no model.
	Round int32
	// Open is how many of its clients are at work.
	Open int32
	// Counts is true once the site has had an update.
	Counts bool
	// Clients are those that get a task in the site's next round, if they are available.
	Clients []int32

	// The remaining fields are of secure aggregation. Members are those of the site's own round, in the order of
	// their tasks, Recovery is the timer RecoveryEnds or noTimer, and Unrecovered says that the sum of the own round
	// cannot be recovered.
	Members     []SecureMember
	Recovery    uint64
	Unrecovered bool
}

// sitesAddUp reports whether sites add up the updates of their clients (hierarchical FedAvg), in rounds of their own.
// Otherwise clients send to the server.
func (c *Config) sitesAddUp() bool { return c.SiteRounds > 0 }

// siteOf returns the number of a simulated client's site.
func (c *Config) siteOf(client int32) int32 { return client % int32(c.Server.Sites) }

// newSite makes the state of the site with this number, which has no clients in the round yet.
func newSite(number int32) SiteState {
	return SiteState{Transfer: TaskState{Task: uint64(number) + 1, Client: number, Status: TaskDone}}
}

// siteOfTransfer returns the number of the site whose transfer has this number, the Task of [SiteState].Transfer.
func siteOfTransfer(task uint64) int32 { return int32(task - 1) }

// openSites begins a round with sites: it lists the sites of the cohort's clients, in ascending order, and
// has each site download the model, once for all of its clients.
func (m *Machine) openSites(cohort []int32) error {
	for _, client := range slices.SortedStableFunc(slices.Values(cohort), m.bySite) {
		site := m.config.siteOf(client)
		// The clients are sorted by site, so a new site follows the last one listed.
		if n := len(m.sites); n == 0 || m.sites[n-1].Transfer.Client != site {
			m.sites = append(m.sites, newSite(site))
		}
		s := &m.sites[len(m.sites)-1]
		s.Clients = append(s.Clients, client)
	}
	for i := range m.sites {
		if err := m.transferSite(&m.sites[i], Downloading); err != nil {
			return err
		}
	}
	return nil
}

// bySite compares clients a and b by their sites, as for [slices.SortFunc].
func (m *Machine) bySite(a, b int32) int { return cmp.Compare(m.config.siteOf(a), m.config.siteOf(b)) }

// sitePlace returns the place in m.sites of the site with this number or, if it is not there, the place where it
// would be. The list is in ascending order of the sites' numbers, which stand in Transfer.Client.
func (m *Machine) sitePlace(number int32) int {
	i, _ := slices.BinarySearchFunc(
		m.sites,
		number,
		func(s SiteState, n int32) int { return cmp.Compare(s.Transfer.Client, n) },
	)
	return i
}

// transferSite begins a site's transfer at this stage, its download or its upload. If no shared link limits
// the transfer it takes no time, and the site continues at once.
func (m *Machine) transferSite(s *SiteState, stage Stage) error {
	link := m.transfers.link(stage)
	if link == nil {
		return m.siteTransferred(s, stage)
	}
	s.Transfer.Stage = stage
	// A site has no speed of its own: it takes what the link gives.
	const unshared = 0
	s.Transfer.Link = link.Start(int64(m.now), s.Transfer.Task, int(s.Transfer.Client), unshared)
	return nil
}

// siteTransferred continues after a site's transfer at this stage: after the download the site's first own
// round begins, and after the upload the site's part in the round ends.
func (m *Machine) siteTransferred(s *SiteState, stage Stage) error {
	s.Transfer.Stage = NoStage
	s.Transfer.Link = 0
	if stage == Downloading {
		return m.startSiteRound(s)
	}
	return m.endSite(s)
}

// endSite ends a site's part in the round and removes it from the list. With the last site the round
// closes.
func (m *Machine) endSite(s *SiteState) error {
	i := m.sitePlace(s.Transfer.Client)
	m.sites = slices.Delete(m.sites, i, i+1)
	if len(m.sites) > 0 {
		return nil
	}
	return m.closeRound()
}

// startSiteRound begins a site's next own round: it gives tasks to those of state.Clients that are available. After the
// last own round, or if no client is available, the site uploads its sum, or ends its part in the round of the server
// if it has no update.
func (m *Machine) startSiteRound(state *SiteState) error {
	// Clients whose updates are accepted in this own round get into the list for the next one.
	clients := state.Clients
	state.Clients = nil
	state.Members = nil
	if int(state.Round) < m.config.SiteRounds {
		for _, client := range clients {
			if m.clients.available(int(client)) {
				m.issueTask(int(client))
				state.Open++
			}
		}
	}
	switch {
	// The driver is to plan the tasks.
	case state.Open > 0:
		state.Round++
		m.phase = Planning
		return nil
	case state.Counts:
		return m.transferSite(state, Uploading)
	}
	return m.endSite(state)
}

// siteTaskEnds continues after task t of a client behind a site has ended with outcome o. A client whose
// update was accepted gets a task in the site's next own round, which begins when no task of the site is
// open. The site then has an update, too, that it will send to the server (Counts).
func (m *Machine) siteTaskEnds(t *TaskState, o Outcome) error {
	s := &m.sites[m.sitePlace(m.config.siteOf(t.Client))]
	s.Open--
	if o == Accepted {
		s.Clients = append(s.Clients, t.Client)
		// Under secure aggregation their sum may yet be refused.
		s.Counts = s.Counts || m.secure == nil
	}
	switch {
	case s.Open > 0:
		return nil
	case m.secure != nil && len(s.Clients) > 0:
		m.beginSiteRecovery(s)
		return nil
	}
	return m.startSiteRound(s)
}
