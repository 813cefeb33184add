package main

import (
	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
)

func main() { cli.Main(rootCommand()) }

// rootCommand makes the command line of fedpace-device: the commands that a device needs, without those that read
// configurations and play runs.
func rootCommand() *cobra.Command {
	const name = "fedpace-device"
	return cli.Group(&cobra.Command{
		Use:   name,
		Short: "A real device of federated learning",
		Long: `fedpace-device takes part in the runs of fedpace as a real device, checks whether
this machine can be one, and measures how fast it computes, and its link.`,
		Example: `  fedpace-device actor --nats nats://lab:4222 --client pi1 --creds pi1.creds
  fedpace-device doctor --nats nats://lab:4222 --client pi1 --creds pi1.creds
  fedpace-device calibrate --nats nats://lab:4222 --client pi1 --creds pi1.creds --name pi4 --out pi4.yaml`,
	}, cli.ActorCommand(name), cli.DoctorCommand(name), cli.CalibrateCommand(name, nil), cli.VersionCommand(name))
}
