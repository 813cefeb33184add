package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/data/federated"
	"fedpace/data/table"
	"fedpace/internal/names"
)

// InitCommand makes "fedpace init", which writes the files that an experiment begins with: a
// configuration for a table, on request with a script in PyTorch, or a policy in Python.
func InitCommand() *cobra.Command {
	s := source{options: federated.Options{Seed: 1}}
	var named Named
	var outPath, policy string
	var torch bool
	c := &cobra.Command{
		Use:   "init [PATH]",
		Short: "Begin an experiment with a table of your own, or a policy in Python",
		Long: `Write a configuration that trains on a CSV or Parquet file, each line with its reason,
and with --torch the model as a script in PyTorch. No file is overwritten.
--policy writes a policy in Python instead (docs/policies.md). The kinds: ` + strings.Join(policyNames(), ", ") + ".",
		Example: `  fedpace init own.csv
  fedpace init own.csv --torch
  fedpace init --policy closing
  fedpace run --config own.yaml
  fedpace compare --config own.yaml --schedules fixed,rounds --seeds 5`,
		Args: func(c *cobra.Command, args []string) error {
			// A policy needs no table.
			if policy != "" {
				return cobra.NoArgs(c, args)
			}
			return cli.OneArgument("the path of the file")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if policy != "" {
				return beginPolicy(c.OutOrStdout(), policy, outPath)
			}
			s.path = args[0]
			// Data that opens without a mapping needs no configuration, which is an error here.
			set, err := s.open(c)
			if err == nil {
				// The error says how to run the data as it is.
				return errors.Join(
					fmt.Errorf(
						"%s: needs no configuration: %s",
						s.path,
						runCommand(taskOf(set.Info()), s.path, set.Info().Samples),
					),
					set.Close(),
				)
			}
			// Only a table whose columns have no meaning yet needs a proposal.
			if !errors.Is(err, table.ErrUnmapped) {
				return err
			}
			// The standard name is that of the table.
			outPath = cmp.Or(outPath, runName(s.path)+".yaml")
			// The ending _model keeps the script from having the name of a module of Python, which
			// it would hide.
			script := strings.TrimSuffix(outPath, filepath.Ext(outPath)) + "_model.py"
			return s.writeFiles(c.OutOrStdout(), c.ErrOrStderr(), outPath, named, script, torch)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&outPath, "out", "o", "",
		"the `FILE` that is written (default: as PATH, with .yaml, or as the kind)")
	flags.StringVar(&named.Client, "client", "",
		"the `COLUMN` that says whose a row is (default: one of such a name)")
	flags.StringVar(&named.Label, "label", "",
		"the `COLUMN` to be predicted (default: one of such a name, or the last)")
	flags.BoolVar(&torch, "torch", false, "write a script in PyTorch that has the model, too")
	flags.StringVar(&policy, "policy", "", "write a policy in Python of this `KIND`")
	return c
}

// writeFiles writes a configuration for the table to outPath and, with torch, a trainer in PyTorch to
// script. named are the columns whose meaning the user gives. It tells w which files it wrote and
// how to go on, and warnings which numbers are in doubt. No file is overwritten.
func (s *source) writeFiles(w, warnings io.Writer, outPath string, named Named, script string, torch bool) error {
	files := []string{outPath}
	trainer := ""
	// The script is a trainer, which the configuration names in the place of a model.
	if torch {
		files = append(files, script)
		trainer = fmt.Sprintf("trainer: %q", "python3 "+script)
	}
	// All files are checked before the first is written.
	for _, name := range files {
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf(
				"%s: is there, and init overwrites nothing: remove it, or give another name by --out",
				name,
			)
		}
	}
	// Nothing is written if the table cannot even be looked at.
	proposal, err := Propose(s.path, named, trainer, s.options)
	if err != nil {
		return err
	}
	proposal.warn(warnings)
	// The comment at the top names the file that is written.
	texts := []string{strings.Replace(proposal.Text, "--config FILE", "--config "+outPath, 1)}
	if torch {
		texts = append(texts, scriptFor(filepath.Base(s.path), outPath, proposal.Info))
	}
	for i, name := range files {
		// O_EXCL fails if the file has appeared since the check.
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		_, err = f.WriteString(texts[i])
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(w, "wrote  %s\n", names.Printable(name))
	}
	shown := names.Printable(outPath)
	// The user should see at once what would be predicted.
	if proposal.Answer != "" {
		fmt.Fprintf(w, "%s (init --label COLUMN takes another)\n", proposal.Answer)
	}
	switch {
	// Without a digest, the table could not be read with the proposal.
	case proposal.Digest == "":
		_, err = fmt.Fprintf(
			w,
			"next   correct %s, whose comments say what it lacks; fedpace data info --config %s tries it\n",
			shown,
			shown,
		)
	// Without clients, there is nothing to federate.
	case proposal.Undealt:
		// It has the configuration's name, as another configuration may read the table otherwise.
		dealt := strings.TrimSuffix(filepath.Base(shown), filepath.Ext(shown)) + ".fedpace"
		_, err = fmt.Fprintf(w, "next   no column says whose a row is: name one (init --client COLUMN, or client in %s), "+
			"or deal the rows to clients that are made:\n"+
			"       fedpace data partition --config %s --kind dirichlet --clients 20 --out %s\n"+
			"       fedpace run --config %s --set data=%s\n", shown, shown, dealt, shown, dealt)
	// Everything is there for a run.
	default:
		_, err = fmt.Fprintf(w, "next   fedpace run --config %s\n"+
			"       fedpace compare --config %s --schedules fixed,rounds --seeds 5\n", shown, shown)
	}
	return err
}
