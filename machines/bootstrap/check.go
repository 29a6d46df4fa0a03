package bootstrap

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// check returns an error for values that a kubelet or a shell on the server could not handle; it names all of them. A value that passes the
// check cannot end the quotes, the line or the document into which it is written.
func (in *Input) check() error {
	var problems []error
	wrong := func(err error) { problems = append(problems, err) }
	if _, err := version.ParseSemantic(in.KubeletVersion); err != nil {
		wrong(problem("spec.versions.kubelet %q is not a version such as 1.33.4", in.KubeletVersion))
	}
	if faults := slices.Concat(validation.IsDNS1123Subdomain(in.Name), atMost63(in.Name)); len(faults) > 0 {
		wrong(problem("spec.metadata.name %q cannot be a node's name: %s", in.Name, faults[0]))
	}
	for _, key := range slices.Sorted(maps.Keys(in.Labels)) {
		if faults := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(in.Labels[key])); len(faults) > 0 {
			wrong(problem("spec.metadata.labels %q=%q: %s", key, in.Labels[key], faults[0]))
		}
	}
	for i, t := range in.Taints {
		wrong(checkTaint(t))
		if slices.ContainsFunc(in.Taints[:i], func(o corev1.Taint) bool { return o.MatchTaint(&t) }) {
			wrong(problem("spec.taints has the key %s with the effect %s twice, and the API server accepts no Node with both; keep one of them", t.Key, t.Effect))
		}
	}
	for i, entry := range in.Provider.SSHPublicKeys {
		for _, key := range keysOf(entry) {
			wrong(checkKey(fmt.Sprintf("sshPublicKeys[%d]", i), key))
		}
	}
	if key := in.Provider.CAPublicKey; key != "" {
		wrong(checkKey("caPublicKey", key))
	}
	if faults := validation.IsDNS1123Subdomain(in.ClusterDomain); len(faults) > 0 {
		wrong(problem("--cluster-domain %q is not a domain: %s", in.ClusterDomain, faults[0]))
	}
	if size := in.Kubelet.ContainerLogMaxSize; size != "" {
		if _, err := resource.ParseQuantity(size); err != nil {
			wrong(problem("ContainerLogMaxSize %q is not a size such as 100Mi", size))
		}
	}
	wrong(checkNetwork(in.Provider.Network))
	_, err := in.osSpec()
	wrong(err)
	return together(problems...)
}

func atMost63(name string) []string {
	if len(name) <= validation.LabelValueMaxLength {
		return nil
	}
	return []string{"it is longer than 63 characters"}
}

func checkTaint(t corev1.Taint) error {
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	faults := slices.Concat(validation.IsQualifiedName(t.Key), validation.IsValidLabelValue(t.Value))
	if !slices.Contains(effects, t.Effect) {
		faults = append(faults, "the effect must be NoSchedule, PreferNoSchedule or NoExecute")
	}
	if len(faults) > 0 {
		return problem("spec.taints %q: %s", t.ToString(), faults[0])
	}
	return nil
}

// checkKey checks that a line is an SSH key without control characters.
func checkKey(field, key string) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if strings.ContainsFunc(strings.TrimSpace(key), control) || len(strings.Fields(key)) < 2 {
		return problem("%s is not a public key such as \"ssh-ed25519 AAAA… name\" on one line", field)
	}
	return nil
}

// ipFamilies lists the values of network.ipFamily. The empty value means IPv4.
var ipFamilies = []string{"", "IPv4", "IPv6", "IPv4+IPv6", "IPv6+IPv4"}

// checkNetwork checks the network configuration. Static addresses have no effect, and [Warnings] names them: a server gets its address
// from its port, and all servers of a deployment have the same configuration.
func checkNetwork(n *v1alpha1.NetworkConfig) error {
	switch {
	case n == nil:
		return nil
	case !slices.Contains(ipFamilies, n.IPFamily):
		return problem("network.ipFamily %q is none of IPv4, IPv6, IPv4+IPv6, IPv6+IPv4", n.IPFamily)
	}
	for _, s := range n.DNS.Servers {
		if _, err := netip.ParseAddr(s); err != nil || strings.ContainsRune(s, '%') {
			return problem("network.dns.servers: %q is not an IP address", s)
		}
	}
	return nil
}
