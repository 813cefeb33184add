package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"fedpace/actors/doctor"
	"fedpace/internal/names"
)

// DoctorCommand makes the command "doctor", which checks whether this machine can take part as a
// real device. program is the name of the program, for the examples.
func DoctorCommand(program string) *cobra.Command {
	var config doctor.Config
	device := &config.Device
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine can take part as a real device",
		Long: `Check with the flags of actor whether this machine can be a real device: clock,
memory, disk, credentials, connection, data, trainer, and runs that call it. A
line that is not ok has a remedy. The exit status is 1 if the device cannot take
part.`,
		Example: "  " + program + " doctor\n  " + program + " doctor --nats tls://lab:4222 --client pi1 --creds " +
			"pi1.creds --data own.parquet",
		RunE: func(c *cobra.Command, _ []string) error {
			// The checks concern a device with the version of this program.
			device.Version = Version()
			config.Conn.Name = "doctor of device " + device.ID
			return examine(c, config)
		},
	}
	AddServer(c, &config.Conn)
	addDevice(c, device)
	JSONFlag(c, "each with check, state (ok, warning or failure), text and mend")
	return c
}

// examine runs the checks that config describes and prints each finding at once, or all as JSON at
// the end. It returns an error if at least one check fails.
func examine(c *cobra.Command, config doctor.Config) error {
	var all []doctor.Finding
	failures := 0
	w := c.OutOrStdout()
	err := doctor.Examine(c.Context(), config, func(f doctor.Finding) {
		all = append(all, f)
		if f.State == doctor.Failure {
			failures++
		}
		// JSON is printed as one object at the end.
		if AsJSON(c) {
			return
		}
		fmt.Fprintf(w, "%-8s %-12s %s\n", f.State, f.Check, names.Printable(f.Text))
		if f.Mend != "" {
			fmt.Fprintf(w, "%22s%s\n", "", names.Printable(f.Mend))
		}
	})
	if err == nil && AsJSON(c) {
		err = PrintJSON(c, struct {
			Checks []doctor.Finding `json:"checks"`
		}{all})
	}
	if err == nil && failures > 0 {
		err = fmt.Errorf("%d of %d checks fail: this machine cannot take part as it is", failures, len(all))
	}
	return err
}
