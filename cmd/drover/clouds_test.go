package main

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/test/memorycloud"
)

func TestWhichCloudIsUsedForAMachine(t *testing.T) {
	kinds := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(kinds))
	class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "boxes"}, Provider: "memory"}
	document := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "document"}, ProviderSpec: &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"memory"}`)}}
	first, second := &openstack.Cloud{}, memorycloud.New(0)
	c := &clouds{
		list:   []namedCloud{{openstack.Name, first}, {memorycloud.Name, second}},
		reader: fake.NewClientBuilder().WithScheme(kinds).WithObjects(class, document).Build(),
	}
	const server = "openstack:///0a1b2c3d-0000-4000-8000-00000000abcd"
	for name, tc := range map[string]struct {
		value, class, namespace, providerID string
		want                                cloud.Cloud
	}{
		"the default cloud is used for a Machine that names no cloud":                                                  {want: first},
		"the cloud that the Machine's own providerSpec names is used":                                                  {value: `{"cloudProvider":"memory"}`, want: second},
		"the cloud in the Machine's providerSpec is used even when the key is spelled CloudProvider":                   {value: `{"CloudProvider":"memory"}`, want: second},
		"the cloud that the Machine's MachineClass names is used":                                                      {class: "boxes", want: second},
		"the cloud in the providerSpec of a MachineClass in another namespace is used":                                 {class: "document", namespace: "other", want: second},
		"the default cloud is used when the Machine's MachineClass is missing":                                         {class: "gone", want: first},
		"the default cloud is used when the Machine names an unknown cloudProvider":                                    {value: `{"cloudProvider":"aws"}`, want: first},
		"the default cloud is used when cloudProvider in the Machine's providerSpec is not text":                       {value: `{"cloudProvider":{"value":"memory"}}`, want: first},
		"OpenStack is used for a Machine with an OpenStack provider ID although its spec names another cloud":          {value: `{"cloudProvider":"memory"}`, providerID: server, want: first},
		"the in-memory cloud is used for a Machine with a provider ID of that cloud although its spec names OpenStack": {value: `{"cloudProvider":"openstack"}`, providerID: "memory://cellar#7", want: second},
		"the cloud that the Machine's providerSpec names is used when its provider ID belongs to an unknown cloud":     {value: `{"cloudProvider":"memory"}`, providerID: "aws:///z/i-1", want: second},
	} {
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
			if tc.value != "" {
				m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(tc.value)}
			}
			if tc.class != "" {
				m.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{
					ObjectReference: corev1.ObjectReference{Namespace: tc.namespace, Name: tc.class},
				}}
			}
			if tc.providerID != "" {
				m.Spec.ProviderID = ptr.To(tc.providerID)
			}
			if got, err := c.of(t.Context(), m); err != nil || got != tc.want {
				t.Errorf("%T answers, error %v", got, err)
			}
			if got := c.shown(m); got != tc.want {
				t.Errorf("%T answers for what the Machine remembers", got)
			}
		})
	}
	t.Run("a transient error is returned when the MachineClass cannot be read, so that no wrong cloud is used", func(t *testing.T) {
		unreadable := &clouds{list: c.list, reader: interceptor.NewClient(fake.NewClientBuilder().WithScheme(kinds).Build(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return errors.New("the cache has not started")
			},
		})}
		m := &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{ValueFrom: &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{}}}}}
		if _, err := unreadable.Instance(t.Context(), m); !fault.Is(err, fault.Transient) {
			t.Errorf("got %v, want an error of class Transient", err)
		}
	})
	if first, second := c.ServerID(server), c.ServerID("memory://attic#7"); first != "0a1b2c3d-0000-4000-8000-00000000abcd" || second != "box-7" || c.ServerID("aws:///z/i-1") != "" {
		t.Errorf("the servers are %q and %q", first, second)
	}
	if c.IDPrefix(server) != "openstack:///" || c.IDPrefix("memory://attic#7") != "memory://attic#" || c.IDPrefix("aws:///z/i-1") != "" {
		t.Error("a prefix is that of another cloud")
	}
}
