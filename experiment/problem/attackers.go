package problem

import (
	"fmt"
	"slices"
	"strings"

	"fedpace/actors/attack"
	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/coordinator/aggregate"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
)

// attacks returns the attack of each class of the fleet, in the order of the classes, nil for a
// class of honest clients. The list is nil if all are honest, or if only real devices take part:
// the fleet then has no simulated clients, and only these attack.
func attacks(c *config.Config) (list []attack.Attack) {
	if c.DevicesAlone() || !slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Attack != nil }) {
		return nil
	}
	for _, k := range c.Fleet {
		list = append(list, k.Attack)
	}
	return list
}

// Attackers returns which clients attack and how many of them may collude, in the form that the
// coordinator takes. Attacks belong to classes of the fleet. The result is nil in a run in which
// nobody attacks.
func (p *Timing) Attackers() *aggregate.Attackers {
	list := attacks(&p.Config)
	if list == nil {
		return nil
	}
	return &aggregate.Attackers{
		Class: func(client int) (int, bool) {
			class := p.Fleet.Class(client)
			return class, list[class] != nil
		},
		// Colluders compute their update from the honest ones of at most this many of them. It is
		// 0 for an attack without collusion.
		Colluders: func(class int) int { return attack.BehaviourOf(list[class]).MaxColluders },
	}
}

// AttackerCounts returns, for the summary, one entry for each class that attacks, with its name,
// its attack and the number of its clients. It is nil in a run in which nobody attacks.
func (p *Timing) AttackerCounts() (list []folder.Attackers) {
	all := attacks(&p.Config)
	if all == nil {
		return nil
	}
	// The fleet assigns the classes, so each client's class is looked up.
	counts := make([]int, len(all))
	for client := range p.Config.Clients {
		counts[p.Fleet.Class(client)]++
	}
	// Classes without an attack are left out of the list.
	for i, a := range all {
		if a != nil {
			list = append(
				list,
				folder.Attackers{Class: p.Config.Fleet[i].Name, Attack: attack.Attacks.Text(a), Clients: counts[i]},
			)
		}
	}
	return list
}

// AboutAttackers returns a sentence that says how many clients of which classes attack, and how. It
// is empty if all clients are honest.
func (p *Timing) AboutAttackers() string {
	var descriptions []string
	all := 0
	for _, a := range p.AttackerCounts() {
		all += a.Clients
		descriptions = append(descriptions, fmt.Sprintf("%d of class %s: %s", a.Clients, a.Class, a.Attack))
	}
	if descriptions == nil {
		return ""
	}
	return fmt.Sprintf(
		"%d of %d %s attack (%s).",
		all,
		p.Config.Clients,
		human.Plural(p.Config.Clients, "client"),
		strings.Join(descriptions, "; "),
	)
}

// checkAttacks returns an error for an attack that a class's clients cannot make: of a class of
// real devices, or one that changes labels if a trainer reads the samples itself or the samples
// have no labels.
func (p *Problem) checkAttacks() error {
	c := &p.Config
	for i, class := range c.Fleet {
		if class.Attack == nil {
			continue
		}
		key := fmt.Sprintf("fleet[%d].attack", i)
		for _, d := range c.Devices.Names {
			if d.Class == class.Name {
				return &config.KeyError{
					Key: key,
					Problem: fmt.Sprintf("class %s is that of device %s, and only simulated clients attack (give "+
						"the device another class)", class.Name, d.ID),
				}
			}
		}
		if problem := p.labelAttackProblem(class.Attack); problem != "" {
			return &config.KeyError{Key: key, Problem: problem}
		}
	}
	return nil
}

// labelAttackProblem says why clients cannot make an attack that changes the labels of their samples:
// a trainer in another process reads the samples itself, the samples have no labels, or a changed label
// is none of the data's classes. It is empty if the attack is possible, as it is for every attack that
// leaves labels alone.
func (p *Problem) labelAttackProblem(a attack.Attack) string {
	changedLabel := attack.BehaviourOf(a).Label
	readsSamples := p.Config.Train && p.Set != nil
	if changedLabel == nil || !readsSamples {
		return ""
	}
	name := attack.Attacks.NameOf(a)
	classes := int32(p.Set.Info().Classes)
	switch {
	case p.Trainer != nil:
		return fmt.Sprintf(
			"%s learns from other labels, and trainer %s reads the samples itself (use another attack)",
			name,
			p.Trainer.Name,
		)
	case classes < 2:
		return fmt.Sprintf(
			"%s learns from other labels, and samples of %s have none (use another attack)",
			name,
			p.Set.Info().Name,
		)
	}
	// A label outside of the classes would break the loss, so each label is tried before the run.
	for label := range classes {
		changed := changedLabel(label, classes)
		if changed < 0 || changed >= classes {
			return fmt.Sprintf(
				"%s makes label %d of %d, which is none of the %d classes (0 to %d)",
				name,
				changed,
				label,
				classes,
				classes-1,
			)
		}
	}
	return ""
}
