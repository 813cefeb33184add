package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// ErrUsage is a mistake in the arguments that has been told.
var ErrUsage = errors.New("usage")

// Main runs a program until its command ends or a signal stops it.
func Main(name string, command func(ctx context.Context, args []string, out, told io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, ErrUsage):
		os.Exit(2)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, name+": interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Parse reads the arguments. It takes no others than flags; unless valid holds of
// these, it prints the rule that they break.
func Parse(flags *flag.FlagSet, args []string, valid func() bool, rule string) error {
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err == nil && flags.NArg() == 0 && valid():
		return nil
	case err == nil:
		fmt.Fprintf(flags.Output(), "%s: no arguments but flags are taken, %s\n", flags.Name(), rule)
	}
	return ErrUsage
}

// CPU is the processor time of a process that has ended, in seconds.
func CPU(s *os.ProcessState) float64 { return (s.UserTime() + s.SystemTime()).Seconds() }
