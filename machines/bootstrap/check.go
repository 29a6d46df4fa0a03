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

// check returns an error for values that a kubelet or a shell on the server could not handle. A value that passes the check cannot end the
// quotes, the line or the document into which it is written.
func (in *Input) check() error {
	if _, err := version.ParseSemantic(in.KubeletVersion); err != nil {
		return problem("spec.versions.kubelet %q is not a version such as 1.33.4", in.KubeletVersion)
	}
	if faults := slices.Concat(validation.IsDNS1123Subdomain(in.Name), atMost63(in.Name)); len(faults) > 0 {
		return problem("spec.metadata.name %q cannot be a node's name: %s", in.Name, faults[0])
	}
	for _, key := range slices.Sorted(maps.Keys(in.Labels)) {
		if faults := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(in.Labels[key])); len(faults) > 0 {
			return problem("spec.metadata.labels %q=%q: %s", key, in.Labels[key], faults[0])
		}
	}
	for _, t := range in.Taints {
		if err := checkTaint(t); err != nil {
			return err
		}
	}
	for i, key := range in.Provider.SSHPublicKeys {
		if err := checkKey(fmt.Sprintf("sshPublicKeys[%d]", i), key); err != nil {
			return err
		}
	}
	if key := in.Provider.CAPublicKey; key != "" {
		if err := checkKey("caPublicKey", key); err != nil {
			return err
		}
	}
	if faults := validation.IsDNS1123Subdomain(in.ClusterDomain); len(faults) > 0 {
		return problem("--cluster-domain %q is not a domain: %s", in.ClusterDomain, faults[0])
	}
	if size := in.Kubelet.ContainerLogMaxSize; size != "" {
		if _, err := resource.ParseQuantity(size); err != nil {
			return problem("ContainerLogMaxSize %q is not a size such as 100Mi", size)
		}
	}
	return checkNetwork(in.Provider.Network)
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

// checkKey checks that an SSH key is a single line, because a second line in the file authorized_keys would be a second key.
func checkKey(field, key string) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if strings.ContainsFunc(strings.TrimSpace(key), control) || len(strings.Fields(key)) < 2 {
		return problem("%s is not a public key such as \"ssh-ed25519 AAAA… name\" on one line", field)
	}
	return nil
}

// ipFamilies lists the values of network.ipFamily. The empty value means IPv4.
var ipFamilies = []string{"", "IPv4", "IPv6", "IPv4+IPv6", "IPv6+IPv4"}

// checkNetwork refuses static addresses: a server gets its address from its port, and all servers of a deployment have the same
// configuration.
func checkNetwork(n *v1alpha1.NetworkConfig) error {
	switch {
	case n == nil:
		return nil
	case n.CIDR != "" || n.Gateway != "":
		return problem("network.cidr and network.gateway: remove both; a server gets its address from its port")
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

// prefersIPv6 reports whether the node's first address must be its IPv6 address.
func (in *Input) prefersIPv6() bool {
	return in.Provider.Network != nil && strings.HasPrefix(in.Provider.Network.IPFamily, "IPv6")
}
