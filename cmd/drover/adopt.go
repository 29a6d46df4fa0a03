package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/adoption"
	"github.com/drover-project/drover/machines/adoption/survey"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/handover"
	"github.com/drover-project/drover/machines/machine"
	openstackclient "github.com/drover-project/drover/machines/openstack/client"
)

// The exit codes of drover adopt.
const (
	exitDisruptive = 1
	exitFailed     = 2
)

// exitCode is an error whose number is the exit code of the process. drover prints no message for it.
type exitCode int

func (exitCode) Error() string { return "see the report" }

// adoptOptions are the flags of drover adopt, in addition to drover's own.
type adoptOptions struct {
	dryRun, all bool
	output      string
	patience    time.Duration
}

// errAdoptNeedsNothing is the error of drover adopt without the flag --dry-run. It explains that drover takes over a cluster
// without a command.
var errAdoptNeedsNothing = errors.New("taking over needs no command: start drover, and it takes over what exists. To see beforehand what it would do: drover adopt --dry-run")

// adoptCommand returns the command that reports in advance what drover would do with a cluster.
func adoptCommand() *cobra.Command {
	o, a := defaults(), adoptOptions{output: "text", patience: time.Minute}
	c := &cobra.Command{
		Use:   "adopt --dry-run",
		Short: "Say what drover would do with the Machines of a cluster that another program looks after now",
		Long: "Reads the Machines, sets and deployments of a cluster and the servers of their clouds, and says what drover would keep, make, roll, " +
			"delete and leave alone. Nothing is written, neither to Kubernetes nor to the cloud. Give it the flags that drover will be started with; " +
			"without --kubeconfig it uses yours. Exit code: 0 nothing would be rolled or deleted, 1 something would, 2 the report failed or is incomplete.",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			err := runAdopt(ctrl.SetupSignalHandler(), o, a, c.OutOrStdout())
			var code exitCode
			if err == nil || errors.As(err, &code) {
				return err
			}
			_, _ = fmt.Fprintln(c.ErrOrStderr(), "drover adopt:", err)
			return exitCode(exitFailed)
		},
	}
	sets := o.flags()
	f := sets.FlagSet("report")
	f.BoolVar(&a.dryRun, "dry-run", a.dryRun, "say what would be done; required")
	f.BoolVar(&a.all, "all", a.all, "list the objects too that are kept as they are")
	f.StringVarP(&a.output, "output", "o", a.output, "text or json")
	f.DurationVar(&a.patience, "cloud-timeout", a.patience, "how long the clouds have to list their servers")
	addFlags(c, sets)
	return c
}

// runAdopt prints the report of drover adopt --dry-run.
func runAdopt(ctx context.Context, o *options, a adoptOptions, out io.Writer) error {
	if !a.dryRun {
		return errAdoptNeedsNothing
	}
	if a.output != "text" && a.output != "json" {
		return fmt.Errorf("--output %q is neither text nor json", a.output)
	}
	o.onlyLook()
	credentials, err := credentialsFrom(o, os.Environ())
	if err := errors.Join(o.validate(), err); err != nil {
		return err
	}
	quiet(o.verbosity)
	report, err := look(ctx, o, a, credentials)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return report.WriteText(w, a.all) }
	if a.output == "json" {
		write = report.WriteJSON
	}
	if err := write(out); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	switch {
	case report.Disruptive():
		return exitCode(exitDisruptive)
	case len(report.Incomplete) > 0:
		return exitCode(exitFailed)
	}
	return nil
}

// onlyLook sets the options so that drover neither listens nor writes. Without --kubeconfig, drover then uses the caller's
// kubeconfig.
func (o *options) onlyLook() {
	o.observe, o.features = true, append(o.features, noLeaderElection)
	o.metricsAddress, o.healthAddress = off, off
	o.grpcOptions = grpcOptions{grpcAddress: "unix:///unused"}
	if _, err := rest.InClusterConfig(); o.kubeconfig == "" && err != nil {
		o.kubeconfig = clientcmd.NewDefaultClientConfigLoadingRules().GetDefaultFilename()
	}
}

// quiet suppresses the log unless a higher level is requested, because the report contains the decisions.
func quiet(verbosity int) {
	if verbosity > 0 {
		setLoggers(verbosity)
		return
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
}

// look runs the survey and returns its report. It starts the caches and the clouds in observe mode, without the controllers.
func look(ctx context.Context, o *options, a adoptOptions, credentials openstackclient.Credentials) (*adoption.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config, err := clusterConfig(o.kubeconfig)
	if err != nil {
		return nil, err
	}
	reads := &survey.Reads{}
	config.Wrap(reads.Watch)
	around := surroundings{cluster: config, credentials: credentials}
	w, id, err := connect(ctx, o, around)
	if err != nil {
		return nil, err
	}
	if err := addGuards(&w, o); err != nil {
		return nil, err
	}
	openStack, err := newOpenStack(w, o, id, around)
	if err != nil {
		return nil, fmt.Errorf("making the cloud: %w", err)
	}
	so, err := surveyOptions(ctx, w, o, openStack)
	if err != nil {
		return nil, err
	}
	so.Names, so.Reads, so.Patience = openStack.Check, reads, a.patience
	ended := make(chan error, 1)
	go func() { ended <- w.controllers.Start(ctx) }()
	go func() {
		// Discard the keys of changed Machines, because no controller runs that would receive them.
		for {
			select {
			case <-ctx.Done():
				return
			case <-openStack.Changes():
			}
		}
	}()
	report, err := survey.Run(ctx, so)
	cancel()
	return report, errors.Join(err, <-ended)
}

// surveyOptions returns the options of the survey: the clients, the clouds and the settings of this drover.
func surveyOptions(ctx context.Context, w wiring, o *options, its cloud.Cloud) (survey.Options, error) {
	var out survey.Options
	source, err := newSource(w, o, its)
	if err != nil {
		return out, err
	}
	machines, err := o.machines()
	if err != nil {
		return out, err
	}
	machines.Control, machines.Target, machines.Cloud, machines.Bootstrap, machines.Clock = w.controllers, w.target, its, source, clock.RealClock{}
	forecaster, err := machine.NewForecaster(ctx, machines)
	if err != nil {
		return out, fmt.Errorf("preparing the caches: %w", err)
	}
	out = survey.Options{
		Forecaster: forecaster, Inventory: its, Clock: clock.RealClock{},
		Holder: handover.Holder(o.namespace), Account: "system:serviceaccount:" + o.serviceAccount(),
	}
	out.Lease.Namespace, out.Lease.Name, _, err = handover.ParseLease(o.handover.lease)
	if err != nil {
		return out, err
	}
	if out.Client, err = client.New(w.controllers.GetConfig(), client.Options{Scheme: knownKinds()}); err != nil {
		return out, fmt.Errorf("making a client: %w", err)
	}
	if out.Target, err = client.New(w.target.GetConfig(), client.Options{Scheme: knownKinds()}); err != nil {
		return out, fmt.Errorf("making a client of the target cluster: %w", err)
	}
	shipped := map[string]*[]*unstructured.Unstructured{"crds": &out.Kinds, "policies": &out.Policies, "rbac": &out.Roles}
	if o.targetKubeconfig != "" {
		delete(shipped, "rbac")
		shipped["control"], shipped["target"] = &out.Roles, &out.TargetRoles
	}
	for part, objects := range shipped {
		if *objects, err = deploy.Objects(part); err != nil {
			return out, err
		}
	}
	out.Kinds = slices.DeleteFunc(out.Kinds, func(o *unstructured.Unstructured) bool { return o.GetKind() != "CustomResourceDefinition" })
	return out, nil
}
