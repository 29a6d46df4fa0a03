package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// factsLife is how long drover uses the facts (address, CA, DNS, version) that it has read from the cluster.
const factsLife = 5 * time.Minute

// Options configure a [Source].
type Options struct {
	// Control is the cluster with the Machines. Target is the cluster with their Nodes.
	Control, Target cluster.Cluster
	Clock           clock.PassiveClock
	// APIServer replaces the URL of the API server that drover would find itself.
	APIServer string
	// ClusterDNS replaces the addresses of the cluster's DNS Service (see clusterDNS).
	ClusterDNS []string
	// ClusterDomain defaults to cluster.local.
	ClusterDomain string
	// StartupTaint is the key of the taint (NoSchedule) with which a node registers; empty means no taint.
	StartupTaint string
	// ProviderIDs handles the provider IDs of Nodes. By default, the kubelet writes no provider IDs.
	ProviderIDs ProviderIDs
	// InPod is true when drover connects to the API server as a pod does, at an address that a server cannot reach before it is a node.
	InPod bool
	// AllowedNamespaces lists the namespaces in which a MachineClass and its Secrets may be, in addition to the Machine's own.
	AllowedNamespaces []string
	// ServiceAccount is drover's service account, as namespace:name. It is part of the command that drover suggests when it may not read a
	// Secret. Default: v1alpha1.DefaultServiceAccount.
	ServiceAccount string
	// Site holds the operator's settings for every node.
	Site Site
}

// ProviderIDs handles the forms of provider IDs. See cloud.Provider.
type ProviderIDs interface {
	// IDPrefix returns the part before the server's own part in a provider ID; empty when there is none.
	IDPrefix(providerID string) string
	// KubeletIDPrefix returns the text that a kubelet must write before its server's own part of the provider ID; empty means that the
	// kubelet writes no provider ID. existing holds the prefixes of the existing Nodes, each with the number of Nodes.
	KubeletIDPrefix(config *v1alpha1.ProviderConfig, existing map[string]int) string
}

// noProviderIDs leaves provider IDs to the cloud-controller-manager.
type noProviderIDs struct{}

func (noProviderIDs) IDPrefix(string) string                                          { return "" }
func (noProviderIDs) KubeletIDPrefix(*v1alpha1.ProviderConfig, map[string]int) string { return "" }

// Source creates user data for Machines from the state of the cluster.
type Source struct {
	options Options
	Tokens  *Tokens

	// facts are those that were read last; nil means that none were.
	facts   atomic.Pointer[clusterFacts]
	reading singleflight.Group
}

// clusterFacts holds the facts that are the same for all Machines.
type clusterFacts struct {
	endpoint
	dns     []string
	version string
	// prefixes holds the prefixes of the Nodes' provider IDs, each with the number of Nodes.
	prefixes map[string]int
	read     time.Time
}

// New returns a Source. It reads nothing yet.
func New(o Options) *Source {
	if o.ClusterDomain == "" {
		o.ClusterDomain = "cluster.local"
	}
	if o.ProviderIDs == nil {
		o.ProviderIDs = noProviderIDs{}
	}
	return &Source{options: o, Tokens: NewTokens(o.Target.GetClient(), o.Target.GetAPIReader(), o.Clock)}
}

// Check reports whether user data can be created for the Machine; a *[Problem] describes why not. It creates nothing.
func (s *Source) Check(ctx context.Context, m *v1alpha1.Machine) error {
	if m.Spec.Versions.Kubelet == "" {
		return problem("spec.versions.kubelet is empty: name the kubelet's version, such as 1.33.4")
	}
	if m.Annotations[v1alpha1.AnnotationAllowSkew] == "true" {
		return nil
	}
	facts, err := s.cluster(ctx)
	if missing := (*Waiting)(nil); err != nil && !errors.As(err, &missing) {
		return err
	}
	if err := CheckSkew(m.Spec.Versions.Kubelet, facts.version); err != nil {
		return problem("%v (annotation %s: \"true\" overrides)", err, v1alpha1.AnnotationAllowSkew)
	}
	return nil
}

// UserData returns the Machine's user data, and creates the Machine's token when there is none yet. It returns a *[Problem] for an
// error that waiting alone does not resolve, and a *[Waiting] for an object or condition that must exist first.
func (s *Source) UserData(ctx context.Context, m *v1alpha1.Machine, config *v1alpha1.ProviderConfig) ([]byte, error) {
	owners, err := OwnersOf(ctx, s.options.Control.GetClient(), m)
	if err != nil {
		return nil, err
	}
	t, err := s.foreign(ctx, m, owners, config)
	if err != nil {
		return nil, err
	}
	if t.content != "" {
		return s.foreignUserData(ctx, m, t)
	}
	in, err := s.input(ctx, m, owners, config)
	if err != nil {
		return nil, err
	}
	// The user data is rendered before the token is stored, so that no token is stored when rendering fails.
	in.Token = s.Tokens.Draw(m)
	out, err := in.Render()
	if err != nil {
		return nil, err
	}
	kept, err := s.Tokens.Keep(ctx, m, in.Token)
	if err != nil || kept == in.Token {
		return out, err
	}
	in.Token = kept
	return in.Render()
}

// input collects everything that drover's own user data depends on, except the token.
func (s *Source) input(ctx context.Context, m *v1alpha1.Machine, owners Owners, config *v1alpha1.ProviderConfig) (*Input, error) {
	facts, err := s.cluster(ctx)
	if err != nil {
		return nil, err
	}
	labels, err := s.NodeLabels(ctx, m)
	if err != nil {
		return nil, err
	}
	o := s.options
	return &Input{
		Name: m.ServerName(), Provider: config, KubeletVersion: m.Spec.Versions.Kubelet, Kubelet: owners.KubeletSettings(m.Annotations),
		Server: facts.server, CA: facts.ca, ClusterDNS: facts.dns, ClusterDomain: o.ClusterDomain,
		Labels: labels, Taints: registrationTaints(m.Spec.Taints, o.StartupTaint),
		ProviderIDPrefix: o.ProviderIDs.KubeletIDPrefix(config, facts.prefixes),
		Site:             o.Site,
	}, nil
}

// NodeLabels returns the labels of the Machine's Node (see the function NodeLabels), with the selector of the Machine's set.
func (s *Source) NodeLabels(ctx context.Context, m *v1alpha1.Machine) (map[string]string, error) {
	var selector *metav1.LabelSelector
	owner := metav1.GetControllerOf(m)
	if owner != nil && owner.Kind == v1alpha1.MachineSetKind.Kind {
		var set v1alpha1.MachineSet
		err := s.options.Control.GetClient().Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: owner.Name}, &set)
		if err != nil {
			return nil, fmt.Errorf("reading the Machine's set: %w", err)
		}
		selector = &set.Spec.Selector
	}
	return NodeLabels(&m.Spec, m.Labels, selector), nil
}

// cluster returns the facts that are the same for all Machines. It reads them at most every five minutes, once for all concurrent
// callers. A *[Waiting] describes what must exist in the cluster before drover can write user data. The version is known then, too, and the
// facts are read again for each Machine.
func (s *Source) cluster(ctx context.Context) (clusterFacts, error) {
	if facts := s.facts.Load(); facts != nil && s.options.Clock.Now().Sub(facts.read) < factsLife {
		return *facts, nil
	}
	read, err, _ := s.reading.Do("", func() (any, error) {
		facts, err := s.readCluster(ctx)
		if err == nil {
			s.facts.Store(&facts)
		}
		return facts, err
	})
	facts, _ := read.(clusterFacts)
	return facts, err
}

func (s *Source) readCluster(ctx context.Context) (clusterFacts, error) {
	now := s.options.Clock.Now()
	o := s.options
	reader := o.Target.GetAPIReader()
	version, err := serverVersion(o.Target)
	if err != nil {
		return clusterFacts{}, err
	}
	var nodes corev1.NodeList
	if err := o.Target.GetClient().List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return clusterFacts{}, fmt.Errorf("listing nodes to see the form of their provider IDs: %w", err)
	}
	facts := clusterFacts{dns: o.ClusterDNS, version: version, prefixes: prefixesOf(nodes.Items, o.ProviderIDs), read: now}
	facts.endpoint, err = readEndpoint(ctx, reader, &o)
	if err == nil && len(facts.dns) == 0 {
		facts.dns, err = clusterDNS(ctx, reader)
	}
	return facts, err
}

// prefixesOf counts the prefixes of the Nodes' provider IDs.
func prefixesOf(nodes []corev1.Node, ids ProviderIDs) map[string]int {
	out := map[string]int{}
	for i := range nodes {
		if prefix := ids.IDPrefix(nodes[i].Spec.ProviderID); prefix != "" {
			out[prefix]++
		}
	}
	return out
}

func serverVersion(target cluster.Cluster) (string, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(target.GetConfig(), target.GetHTTPClient())
	if err != nil {
		return "", fmt.Errorf("reading the API server's version: %w", err)
	}
	info, err := d.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("reading the API server's version: %w", err)
	}
	return info.GitVersion, nil
}
