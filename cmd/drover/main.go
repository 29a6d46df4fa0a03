// Command drover lets the stock Kubernetes cluster-autoscaler scale clusters whose nodes are OpenStack servers: it
// serves cluster-autoscaler's externalgrpc protocol and runs the Machine, MachineSet and MachineDeployment controllers.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/version"
)

func main() {
	if err := command().Execute(); err != nil {
		var code exitCode
		if errors.As(err, &code) {
			os.Exit(int(code))
		}
		if !errors.Is(err, errLogged) {
			fmt.Fprintln(os.Stderr, "drover:", err)
		}
		os.Exit(1)
	}
}

// errLogged ends the process after an error that was already logged.
var errLogged = errors.New("see the log")

func command() *cobra.Command {
	o := defaults()
	c := &cobra.Command{
		Use: "drover",
		Long: "Serves node groups of OpenStack servers to the Kubernetes cluster-autoscaler, and runs the Machines behind them.\n\n" +
			"Other commands: drover adopt reports what drover would do with a cluster, drover version prints the build.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			credentials, err := credentialsFrom(o, os.Environ())
			if err := errors.Join(o.validate(), err); err != nil {
				return err
			}
			setLoggers(o.verbosity)
			build := version.Get()
			ctrl.Log.Info("Drover", "version", build.Version, "commit", build.Commit, "go", build.Go)
			for _, note := range credentials.Notes {
				ctrl.Log.Info("A setting of the configured cloud has no effect", "cloud", credentials.Source, "setting", note)
			}
			if err := run(ctrl.SetupSignalHandler(), o, credentials); err != nil {
				ctrl.Log.Error(err, "Stopped by an error")
				return errLogged
			}
			return nil
		},
	}
	addFlags(c, o.flags())
	c.Version = version.Get().String()
	c.SetVersionTemplate("{{.Version}}\n")
	c.CompletionOptions.DisableDefaultCmd = true
	v := &cobra.Command{
		Use: "version", Long: "Print which build of drover this is: version, commit, Go release.", Args: cobra.NoArgs,
		Run: func(v *cobra.Command, _ []string) { _, _ = fmt.Fprintln(v.OutOrStdout(), version.Get()) },
	}
	cliflag.SetUsageAndHelpFunc(v, cliflag.NamedFlagSets{}, 0)
	c.AddCommand(adoptCommand(), v)
	return c
}
