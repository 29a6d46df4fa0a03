package deploy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/machinecontroller"
)

// legacyProviderDocument has every field of an OpenStack provider spec, in all accepted forms. It includes odd spellings
// and unknown fields.
const legacyProviderDocument = `{
 "cloudProvider":"openstack","CloudProviderSpec":{"Flavor":"odd"},
 "cloudProviderSpec":{"identityEndpoint":"https://x:5000/v3","username":{"value":"u"},"password":{"secretKeyRef":{"namespace":"a","name":"b","key":"c"}},
  "applicationCredentialID":null,"applicationCredentialSecret":"","domainName":{"configMapKeyRef":{"namespace":"a","name":"b","key":"c"}},"projectName":5,"projectID":true,
  "tenantName":"","tenantID":"","tokenId":"","region":"dbl","image":"i","flavor":"f","securityGroups":["a",{"value":"b"},5,null],"network":"n","networks":["m",{"value":"o"}],
  "subnet":"s","floatingIpPool":"p","availabilityZone":"z","trustDevicePath":false,"rootDiskSizeGB":50,"rootDiskVolumeType":"t","nodeVolumeAttachLimit":25,
  "serverGroup":"g","serverGroupID":{"value":"g"},"instanceReadyCheckPeriod":"5s","instanceReadyCheckTimeout":"2m","computeAPIVersion":2.67,"configDrive":{"value":true},
  "disablePortSecurity":null,"openstackClientTimeout":"15s","openstackComputeClientTimeout":null,"tags":{"a":"b","c":"","d":null},"unheardOf":{"deep":[null,{"e":null}]}},
 "operatingSystem":"ubuntu","operatingSystemSpec":{"distUpgradeOnBoot":false,"disableAutoUpdate":true,"novel":null},
 "sshPublicKeys":["ssh-ed25519 AAAA me"],"caPublicKey":"","network":{"cidr":"10.0.0.0/24","gateway":"10.0.0.1","dns":{"servers":["1.1.1.1"]},"ipFamily":"IPv4+IPv6"},
 "overwriteCloudConfig":"#cloud-config\n","unheardOf":1}`

// filler sets every field of a value by reflection, so that a test covers all fields of the type.
type filler struct{ count int64 }

var special = map[reflect.Type]func(n int64) any{
	reflect.TypeFor[metav1.Time](): func(n int64) any {
		return metav1.NewTime(time.Date(2026, 1, 1, 0, 0, int(n), 0, time.UTC))
	},
	reflect.TypeFor[metav1.FieldsV1](): func(int64) any {
		fields := metav1.FieldsV1{}
		fields.SetRawString(`{"f:spec":{".":{},"f:a":{}}}`)
		return fields
	},
	reflect.TypeFor[runtime.RawExtension]():   func(int64) any { return runtime.RawExtension{Raw: []byte(legacyProviderDocument)} },
	reflect.TypeFor[intstr.IntOrString]():     func(int64) any { return intstr.FromString("25%") },
	reflect.TypeFor[corev1.ConditionStatus](): func(int64) any { return corev1.ConditionTrue },
	reflect.TypeFor[corev1.TaintEffect]():     func(int64) any { return corev1.TaintEffectNoExecute },
	reflect.TypeFor[metav1.LabelSelector](): func(int64) any {
		return metav1.LabelSelector{MatchLabels: map[string]string{"key": "value"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "key", Operator: metav1.LabelSelectorOpIn, Values: []string{"value"}}}}
	},
	reflect.TypeFor[machinecontroller.Versions](): func(int64) any { return machinecontroller.Versions{Kubelet: "v1.30.3", ControlPlane: "v1.30.3"} },
}

func (f *filler) fill(v reflect.Value) {
	f.count++
	if make, ok := special[v.Type()]; ok {
		v.Set(reflect.ValueOf(make(f.count)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0))
		f.fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf("value"))
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", f.count))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(f.count)
	default:
		panic("no sample for " + v.Type().String())
	}
}

// object returns a filled legacy value as an object of the kind, with metadata that the API server accepts at creation.
func (f *filler) object(t *testing.T, kind string, value any) *unstructured.Unstructured {
	t.Helper()
	f.fill(reflect.ValueOf(value).Elem())
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &o.Object); err != nil {
		t.Fatal(err)
	}
	o.Object["metadata"] = map[string]any{"name": "maximal", "finalizers": []any{"foregroundDeletion", "machine-delete-finalizer"}}
	o.SetAPIVersion("cluster.k8s.io/v1alpha1")
	o.SetKind(kind)
	return o
}

// When a controller decodes an object of machine-controller into drover's types and writes it back, no field may be lost.
func TestDroversTypesHaveAllFieldsOfMachineControllersTypes(t *testing.T) {
	f := &filler{}
	for _, row := range []struct{ theirs, ours any }{
		{&machinecontroller.Machine{}, &v1alpha1.Machine{}}, {&machinecontroller.MachineSet{}, &v1alpha1.MachineSet{}}, {&machinecontroller.MachineDeployment{}, &v1alpha1.MachineDeployment{}},
	} {
		f.fill(reflect.ValueOf(row.theirs).Elem())
		before := roundTrip(t, row.theirs, row.ours)
		after := roundTrip(t, row.ours, &map[string]any{})
		if diff := cmp.Diff(plain(t, before), plain(t, after)); diff != "" {
			t.Errorf("%T (-theirs +ours):\n%s", row.ours, diff)
		}
	}
}

// roundTrip encodes one value as JSON, decodes the JSON into another value, and returns the JSON.
func roundTrip(t *testing.T, from, into any) []byte {
	t.Helper()
	raw, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
	return raw
}

func plain(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := json.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	return values
}
