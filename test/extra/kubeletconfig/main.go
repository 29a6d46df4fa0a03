// Command kubeletconfig checks KubeletConfigurations with the kubelet's own code. It decodes each given file strictly,
// as kubelet --config does, and validates it. It prints the errors, and exits with 1 when there are any.
//
// It is a separate Go module so that Kubernetes stays out of the product's go.mod.
package main

import (
	"context"
	"fmt"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/util/codec"
)

func main() {
	failed := false
	for _, file := range os.Args[1:] {
		if err := check(context.Background(), file); err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
		}
	}
	if failed || len(os.Args) < 2 {
		os.Exit(1)
	}
}

func check(ctx context.Context, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	_, codecs, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return err
	}
	config, err := codec.DecodeKubeletConfiguration(ctx, codecs, data)
	if err != nil {
		return err
	}
	// The cgroup version of this host must not matter.
	config.FailCgroupV1 = false
	return validation.ValidateKubeletConfiguration(config, utilfeature.DefaultFeatureGate)
}
