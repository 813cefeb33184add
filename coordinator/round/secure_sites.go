package round

import "fmt"

// Where sites add up the updates of their clients, each own round of a site is a secure aggregation among the clients
// to which it gives tasks: they share secrets with each other, and the site learns the sum of their updates. Its
// stages are before and after the tasks of the own round. The site's sum goes to the server in the open.

// setUpSites divides the new members among their sites, whose own rounds begin now, and simulates the stages of keys
// and shares of each. Members are sorted by task.
func (m *Machine) setUpSites() {
	members := m.secure.members
	m.secure.members = nil
	// places are those of the sites in m.sites, in the order of their first tasks.
	var places []int
	for _, x := range members {
		place := m.sitePlace(m.config.siteOf(m.tasks.find(x.Task).Client))
		s := &m.sites[place]
		if len(s.Members) == 0 {
			places = append(places, place)
		}
		s.Members = append(s.Members, x)
	}
	for _, place := range places {
		m.amongSite(&m.sites[place], func() { m.exchangeSecrets(m.now, nothingDone) })
	}
}

// amongSite calls do while m.secure has the members of a site's own round, and the terms of secure aggregation
// for that many members. All that simulates the stages of a round then simulates those of the site's own round.
func (m *Machine) amongSite(s *SiteState, do func()) {
	whole := m.secure.config
	if whole.OfSite != nil {
		m.secure.config = whole.OfSite(len(s.Members))
	}
	m.secure.members = s.Members
	do()
	m.secure.members = nil
	m.secure.config = whole
}

// noteUpload notes that the masked update of a task has arrived and counts, in the round or in its site's own round.
func (m *Machine) noteUpload(t *TaskState) {
	if !m.config.sitesAddUp() {
		m.secure.uploaded(t.Task)
		return
	}
	s := &m.sites[m.sitePlace(m.config.siteOf(t.Client))]
	m.amongSite(s, func() { m.secure.uploaded(t.Task) })
}

// beginSiteRecovery simulates the recovery of the sum of a site's own round, all tasks of which have ended, and sets
// the timer for its end.
func (m *Machine) beginSiteRecovery(s *SiteState) {
	var end Time
	m.amongSite(s, func() { end, s.Unrecovered = m.simulateRecovery() })
	s.Recovery = m.setTimer(Timer{
		At:       end,
		Priority: priorityTask,
		Kind:     RecoveryEnds,
		Task:     s.Transfer.Task,
	})
}

// siteRecoveryEnds handles the timer for the end of the recovery of a site's own round, and begins the site's next
// one. If the sum could not be recovered, none of its updates counts, and the site has no further own round: it sends
// what it has of earlier ones.
func (m *Machine) siteRecoveryEnds(t Timer) error {
	site := siteOfTransfer(t.Task)
	place := m.sitePlace(site)
	if place == len(m.sites) || m.sites[place].Transfer.Task != t.Task {
		return fmt.Errorf("round: timer %d is of site %d, which has no part in the round", t.Seq, site)
	}
	s := &m.sites[place]
	if err := clearTimer(&s.Recovery, t); err != nil {
		return err
	}
	if !s.Unrecovered {
		// The site has an update now, which it will send to the server.
		s.Counts = true
		return m.startSiteRound(s)
	}
	s.Unrecovered = false
	// Without clients for a next own round, startSiteRound ends the site's part in the round.
	s.Clients = nil
	for i := range s.Members {
		if s.Members[i].Uploaded {
			m.revokeAcceptance(m.tasks.find(s.Members[i].Task))
		}
	}
	return m.startSiteRound(s)
}
