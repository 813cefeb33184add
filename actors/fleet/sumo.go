package fleet

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"

	"fedpace/registry"
)

// init registers the model under the name by which a configuration chooses it.
func init() {
	Availabilities.Register("sumo", "vehicles while they are on the road", SUMO{})
}

// SUMO makes a client available while its vehicle is on the road, by what the traffic simulation SUMO
// writes: fcd-output, with the vehicles of each time step, or tripinfo-output, with each vehicle's
// departure and arrival. The file's vehicles are the clients, in the order in which they come in it.
type SUMO struct {
	File        string  `key:"file" is:"path" help:"file of fcd-output or tripinfo-output (XML)"`
	StartSecond float64 `key:"start_second" default:"0" range:"[-1e9,1e9]" unit:"seconds" help:"SUMO's time at virtual time 0"`
}

// Presence implements [Availability]: it reads the vehicles. Without files (nil) it only checks the options, and
// returns nil.
func (a SUMO) Presence(files *Files) (Presence, error) {
	if a.File == "" {
		return nil, registry.Errorf("file", "is not set (the path of a file of SUMO's fcd-output or tripinfo-output)")
	}
	if files == nil {
		return nil, nil
	}
	t, err := load(files, a.File, fmt.Sprint("sumo ", a.StartSecond), func(in io.Reader) (*timetable, error) {
		return readSUMO(in, a.StartSecond)
	})
	return t, registry.Below("file", err)
}

// vehicles gathers the stays of vehicles from a file.
type vehicles struct {
	// start is SUMO's time at virtual time 0, in seconds.
	start float64
	stayList

	// These are for fcd-output. step is the number of the time step, and seen holds the one in which
	// each vehicle was last, by its place.
	step int
	seen []int
	// now is the time of the step in virtual time, and length how long the last whole step was.
	now, length int64
}

// readSUMO reads the vehicles of a file of fcd-output or tripinfo-output. start is SUMO's time at virtual
// time 0, in seconds.
func readSUMO(r io.Reader, start float64) (*timetable, error) {
	v := &vehicles{stayList: stayList{number: map[string]int{}}, start: start, length: second}
	decoder := xml.NewDecoder(r)
	root := ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("sumo: %w", err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if root == "" {
			root = element.Name.Local
			if root != "fcd-export" && root != "tripinfos" {
				return nil, fmt.Errorf("sumo: the file is <%.40s>, want <fcd-export> or <tripinfos>", root)
			}
			continue
		}
		if err := v.element(&element); err != nil {
			line, _ := decoder.InputPos()
			return nil, fmt.Errorf("sumo: line %d: %w", line, err)
		}
	}
	// Vehicles of the last time step stay for as long as a step was before it.
	v.leave(v.step, v.now+v.length)
	if len(v.stays) == 0 {
		return nil, errors.New("sumo: the file has no vehicle")
	}
	return newTimetable(v.stays), nil
}

// virtualTime returns the attribute name of an element, a time of SUMO in seconds, as virtual time in
// nanoseconds.
func (v *vehicles) virtualTime(element *xml.StartElement, name string) (int64, error) {
	text := attribute(element, name)
	seconds, err := parseNumber(name, text, -maxSeconds, maxSeconds)
	if err != nil {
		return 0, err
	}
	// v.start is SUMO's time at virtual time 0, in seconds.
	return nanoseconds(seconds - v.start), nil
}

// attribute returns the value of an attribute, empty if it is not there.
func attribute(element *xml.StartElement, name string) string {
	for _, a := range element.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// element reads one element of the file: a time step, a vehicle that is in it, or a whole trip. It ignores elements
// of other kinds, such as persons.
func (v *vehicles) element(element *xml.StartElement) error {
	switch element.Name.Local {
	case "timestep":
		return v.beginStep(element)
	case "vehicle":
		return v.seeVehicle(element)
	case "tripinfo":
		return v.addTrip(element)
	}
	return nil
}

// beginStep begins a time step of fcd-output, which lists its vehicles after it. The list of the step before is
// complete now, so the vehicles that it does not have, but the one before it had, have left.
func (v *vehicles) beginStep(element *xml.StartElement) error {
	now, err := v.virtualTime(element, "time")
	if err != nil {
		return err
	}
	isFirst := v.step == 0
	if !isFirst && now <= v.now {
		return fmt.Errorf("the time step at %s is not after the one before", attribute(element, "time"))
	}
	if !isFirst {
		v.length = now - v.now
	}
	// Vehicles that were in step v.step-1 and not in v.step left when v.step began, at v.now.
	v.leave(v.step-1, v.now)
	v.step++
	v.now = now
	return nil
}

// seeVehicle notes that a vehicle is in the present time step. If it was not in the step before, a stay of it begins.
// v.seen has for each vehicle the number of the last step that it was in.
func (v *vehicles) seeVehicle(element *xml.StartElement) error {
	if v.step == 0 {
		return errors.New("a vehicle stands before the first time step")
	}
	i, err := v.vehicle(element)
	if err != nil {
		return err
	}
	wasThere := v.seen[i] == v.step-1 || v.seen[i] == v.step
	if !wasThere {
		return v.enter(i, session{v.now, Never})
	}
	v.seen[i] = v.step
	return nil
}

// addTrip adds a whole trip of tripinfo-output, which is a stay of its vehicle from departure to arrival.
func (v *vehicles) addTrip(element *xml.StartElement) error {
	i, err := v.vehicle(element)
	if err != nil {
		return err
	}
	depart, err := v.virtualTime(element, "depart")
	if err != nil {
		return err
	}
	arrival, err := v.virtualTime(element, "arrival")
	if err != nil {
		return err
	}
	// SUMO writes -1 for a vehicle that had not arrived when the simulation ended.
	text := attribute(element, "arrival")
	if text == "-1.00" || text == "-1" {
		arrival = Never
	}
	if arrival <= depart {
		return fmt.Errorf("vehicle %.40s arrives before it departs", attribute(element, "id"))
	}
	return v.enter(i, session{depart, arrival})
}

// vehicle returns the index in stays of the vehicle that an element names by its id. A vehicle that the file
// names for the first time gets the next index. An element without an id, or one vehicle too many, is an
// error.
func (v *vehicles) vehicle(element *xml.StartElement) (int, error) {
	id := attribute(element, "id")
	if id == "" {
		return 0, fmt.Errorf("a %s has no id", element.Name.Local)
	}
	i, err := v.index(id)
	if err != nil {
		return 0, err
	}
	// The first time that a vehicle comes it was in no time step.
	if i == len(v.seen) {
		v.seen = append(v.seen, -1)
	}
	return i, nil
}

// enter adds a stay of vehicle i, which is in the present step.
func (v *vehicles) enter(i int, s session) error {
	if err := v.add(i, s); err != nil {
		return err
	}
	v.seen[i] = v.step
	return nil
}

// leave ends at time now the stays of all vehicles whose last time step was the given one. Step 0 stands
// for no step.
func (v *vehicles) leave(step int, now int64) {
	for i, last := range v.seen {
		list := v.stays[i]
		if step > 0 && last == step && len(list) > 0 {
			list[len(list)-1].end = now
		}
	}
}
