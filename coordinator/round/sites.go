package round

import (
	"cmp"
	"slices"
)

// SiteState is what the machine remembers of one site that adds up before it sends: of the
// clients that are behind it. A site fetches the model, has SiteRounds rounds of its own, each
// until all whom it has asked are done, and sends one update. It asks those again whose update
// it has and who are there.
type SiteState struct {
	Transfer TaskState // between the site, its Client, and the server; numbered from 1
	Round    int32     // of its own, from 1; 0: it has no model yet
	Open     int32     // its clients that are at work
	Counts   bool      // it has had an update
	Clients  []int32   // to be asked in its next round
}

func (c *Config) siteOf(client int32) int32 { return client % int32(c.Server.Sites) }

// openSites has the sites of a round's clients fetch the model.
func (m *Machine) openSites(cohort []int32) error {
	for _, client := range slices.SortedStableFunc(slices.Values(cohort), m.bySite) {
		site := m.config.siteOf(client)
		if n := len(m.sites); n == 0 || m.sites[n-1].Transfer.Client != site {
			m.sites = append(
				m.sites,
				SiteState{Transfer: TaskState{Task: uint64(site) + 1, Client: site, Status: TaskDone}},
			)
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

func (m *Machine) bySite(a, b int32) int { return cmp.Compare(m.config.siteOf(a), m.config.siteOf(b)) }

// site is where a site of the round is listed.
func (m *Machine) site(number int32) int {
	i, _ := slices.BinarySearchFunc(
		m.sites,
		number,
		func(s SiteState, n int32) int { return cmp.Compare(s.Transfer.Client, n) },
	)
	return i
}

// transferSite begins a site's transfer, which takes no time where no link limits it.
func (m *Machine) transferSite(s *SiteState, stage Stage) error {
	way := m.transfers.link(stage)
	if way == nil {
		return m.siteTransferred(s, stage)
	}
	s.Transfer.Stage, s.Transfer.Link = stage, way.Start(int64(m.now), s.Transfer.Task, int(s.Transfer.Client), 0)
	return nil
}

// siteTransferred goes on after a site's transfer. The round closes with the last update.
func (m *Machine) siteTransferred(s *SiteState, stage Stage) error {
	s.Transfer.Stage = NoStage
	s.Transfer.Link = 0
	if stage == Downloading {
		return m.siteRound(s)
	}
	return m.endSite(s)
}

func (m *Machine) endSite(s *SiteState) error {
	i := m.site(s.Transfer.Client)
	m.sites = slices.Delete(m.sites, i, i+1)
	if len(m.sites) > 0 {
		return nil
	}
	return m.closeRound()
}

// siteRound has a site ask its clients, or send what it has where none can be asked any more.
func (m *Machine) siteRound(s *SiteState) error {
	clients := s.Clients
	s.Clients = nil
	if int(s.Round) < m.config.SiteRounds {
		for _, client := range clients {
			if m.clients.available(int(client)) {
				m.issueTask(int(client))
				s.Open++
			}
		}
	}
	switch {
	case s.Open > 0:
		s.Round++
		m.phase = Planning
		return nil
	case s.Counts:
		return m.transferSite(s, Uploading)
	}
	return m.endSite(s)
}

// siteTaskEnds goes on after the task of a client behind a site.
func (m *Machine) siteTaskEnds(t *TaskState, o Outcome) error {
	s := &m.sites[m.site(m.config.siteOf(t.Client))]
	s.Open--
	if o == Accepted {
		s.Clients = append(s.Clients, t.Client)
		s.Counts = true
	}
	if s.Open > 0 {
		return nil
	}
	return m.siteRound(s)
}
