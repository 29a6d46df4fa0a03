//go:build cluster

package memory_test

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	api = "cluster.k8s.io/v1alpha1"
	// machineSpec is the smallest spec that the schema allows.
	machineSpec = `{"spec":{"providerSpec":{"value":{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1"}}},"versions":{"kubelet":"1.33.4"}}}`
	setSpec     = `{"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"providerSpec":{},"versions":{"kubelet":"1.33.4"}}}}}`
)

func (s *script) machine(name string) *unstructured.Unstructured {
	return s.object(api, "Machine", name, machineSpec)
}

func (s *script) set(name string) *unstructured.Unstructured {
	return s.object(api, "MachineSet", name, setSpec)
}

func (s *script) configMap(name, rest string) *unstructured.Unstructured {
	return s.object("v1", "ConfigMap", name, rest)
}

var writes = []operations{
	{"creating an object sets its name, generation and managed fields", func(s *script) {
		s.create("a Machine", s.machine("m"))
		s.create("it again", s.machine("m"))
		nameless := s.machine("")
		s.create("one without a name", nameless)
		old := s.machine("old")
		old.SetResourceVersion("1")
		s.create("one with a resource version", old)
		lost := s.machine("lost")
		lost.SetNamespace("nowhere")
		s.create("one in a missing namespace", lost)
	}},
	{"a generated name begins with generateName and is unique", func(s *script) {
		names := map[string]bool{}
		for range 5 {
			m := s.machine("")
			m.SetGenerateName("pool-")
			err := s.client.Create(s.ctx, m)
			names[m.GetName()] = true
			s.say("%v, %d characters, prefix %s, asked for %s", err, len(m.GetName()), m.GetName()[:5], m.GetGenerateName())
		}
		s.say("%d names", len(names))
	}},
	{"unknown fields of a new object are dropped unless the schema preserves them", func(s *script) {
		m := s.machine("m")
		m.Object["extra"] = "x"
		_ = unstructured.SetNestedField(m.Object, "x", "spec", "extra")
		_ = unstructured.SetNestedField(m.Object, "kept", "spec", "providerSpec", "value", "cloudProviderSpec", "extra")
		s.create("a Machine with unknown fields", m)
	}},
	{"an update with a resource version older than the object's is refused", func(s *script) {
		m := s.create("a Machine", s.machine("m"))
		stale := m.DeepCopy()
		m.SetLabels(map[string]string{"x": "1"})
		s.update("a label", m)
		_ = unstructured.SetNestedField(m.Object, "1.33.5", "spec", "versions", "kubelet")
		s.update("the spec", m)
		stale.SetLabels(map[string]string{"x": "2"})
		s.update("from a stale copy", stale)
		stale.SetResourceVersion("")
		s.update("without a version", stale)
		s.update("with nothing new", m)
		m.SetUID("11111111-2222-4333-8444-555555555555")
		s.update("with another's UID", m)
		s.update("of what is not there", func() *unstructured.Unstructured {
			o := s.machine("nobody")
			o.SetResourceVersion("1")
			return o
		}())
	}},
	{"an update cannot change the metadata that the API server sets", func(s *script) {
		m := s.create("a Machine", s.machine("m"))
		m.SetGeneration(77)
		m.SetCreationTimestamp(m.GetCreationTimestamp())
		m.SetDeletionGracePeriodSeconds(new(int64(5)))
		s.update("generation and grace", m)
	}},
	{"a merge patch changes only the fields in it", func(s *script) {
		m := s.create("a Machine", s.machine("m"))
		s.patch("a label", m, types.MergePatchType, `{"metadata":{"labels":{"x":"1","y":"2"}}}`)
		s.patch("a label away", m, types.MergePatchType, `{"metadata":{"labels":{"x":null}}}`, client.FieldOwner("other"))
		s.patch("with nothing new", m, types.MergePatchType, `{"metadata":{"labels":{"y":"2"}}}`)
		s.patch("a spec and a status at once", m, types.MergePatchType, `{"spec":{"versions":{"kubelet":"1.33.6"}},"status":{"phase":"Running"}}`)
		s.patch("from a stale version", m, types.MergePatchType, `{"metadata":{"resourceVersion":"1","labels":{"x":"3"}}}`)
		s.patch("with another's UID", m, types.MergePatchType, `{"metadata":{"uid":"11111111-2222-4333-8444-555555555555"}}`)
		s.patch("the name", m, types.MergePatchType, `{"metadata":{"name":"other"}}`)
		s.patch("of what is not there", s.machine("nobody"), types.MergePatchType, `{"metadata":{"labels":{"x":"3"}}}`)
		s.patch("that is not JSON", m, types.MergePatchType, `{`)
		s.patch("that is not an object", m, types.MergePatchType, `["metadata"]`)
		of := func(provider string) string {
			return `{"spec":{"providerSpec":{"value":{"cloudProviderSpec":` + provider + `}}}}`
		}
		s.patch("nothing into what was not there", m, types.MergePatchType, of(`{"deep":{"a":null,"b":{"c":null,"d":1.5,"e":1e3}},"list":[{"x":null,"y":[{"z":null}]},[{"x":null}],null,1]}`))
		s.patch("an object over a value, a value over an object", m, types.MergePatchType, of(`{"flavor":{"a":1},"deep":"x"}`))
	}},
	{"a JSON patch changes the field at its path, and is refused when its test operation fails", func(s *script) {
		m := s.create("a Machine", s.machine("m"))
		s.patch("a field", m, types.JSONPatchType, `[{"op":"replace","path":"/spec/versions/kubelet","value":"1.33.9"}]`)
		s.patch("a test that fails", m, types.JSONPatchType, `[{"op":"test","path":"/spec/versions/kubelet","value":"9"}]`)
	}},
	{"a strategic merge patch merges lists by key, and is refused for custom kinds", func(s *script) {
		s.patch("a Machine", s.create("a Machine", s.machine("m")), types.StrategicMergePatchType, `{"metadata":{"labels":{"x":"1"}}}`)
		n := s.create("a Node", s.object("v1", "Node", s.namespace+"-node", ""))
		for _, kind := range []string{"One", "Two", "One"} {
			s.patchStatus("condition "+kind, n, types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"`+kind+`","status":"True"}]}}`)
		}
		s.patch("a taint by its key", n, types.StrategicMergePatchType, `{"spec":{"taints":[{"key":"t","effect":"NoSchedule"}]}}`)
		s.delete("it", n)
	}},
}

var applies = []operations{
	{"a server-side apply sets its fields, and removes fields that the same manager applied earlier and leaves out now", func(s *script) {
		s.apply("a new Machine", "alice", s.machine("m"))
		with := s.machine("m")
		with.SetLabels(map[string]string{"a": "1"})
		with.SetFinalizers([]string{"example.org/a"})
		s.apply("with a label and a finalizer", "alice", with)
		s.apply("with nothing new", "alice", with)
		other := s.object(api, "Machine", "m", "")
		other.SetLabels(map[string]string{"b": "2"})
		other.SetFinalizers([]string{"example.org/b"})
		s.apply("a second manager's", "bob", other)
		s.apply("without them again", "alice", s.machine("m"))
		s.get("what is left", other)
	}},
	{"a server-side apply of another manager's field is refused with a conflict unless it is forced", func(s *script) {
		s.apply("a Machine", "alice", s.machine("m"))
		other := s.object(api, "Machine", "m", `{"spec":{"versions":{"kubelet":"1.33.7"}}}`)
		s.apply("another's value", "bob", other)
		s.apply("it forced", "bob", other, client.ForceOwnership)
		s.patch("a merge patch over it", other, types.MergePatchType, `{"spec":{"versions":{"kubelet":"1.33.8"}}}`, client.FieldOwner("carol"))
		s.apply("the first again", "alice", s.machine("m"))
	}},
	{"a server-side apply with a wrong UID or an old resource version is refused", func(s *script) {
		m := s.apply("a Machine", "alice", s.machine("m"))
		stale := s.machine("m")
		stale.SetResourceVersion("1")
		s.apply("from a stale version", "alice", stale)
		wrong := s.machine("m")
		wrong.SetUID("11111111-2222-4333-8444-555555555555")
		s.apply("with another's UID", "alice", wrong)
		right := s.machine("m")
		right.SetUID(m.GetUID())
		s.apply("with its own", "alice", right)
		unborn := s.machine("unborn")
		unborn.SetUID(m.GetUID())
		s.apply("of a missing object, with a UID", "alice", unborn)
	}},
	{"a server-side apply without a field manager or with managed fields is refused", func(s *script) {
		raw := `{"apiVersion":"` + api + `","kind":"Machine","metadata":{"name":"m"}}`
		s.patch("without a manager", s.machine("m"), types.ApplyPatchType, raw)
		m := s.apply("a Machine", "alice", s.machine("m"))
		s.apply("with managed fields", "alice", m)
	}},
	{"a server-side apply merges the entries of a list by their keys", func(s *script) {
		set := s.set("s")
		removal := func(name string) string {
			return `{"name":"` + name + `","uid":"u","time":"2026-01-01T00:00:00Z"}`
		}
		one := s.object(api, "MachineSet", "s", `{"spec":{"removals":[`+removal("one")+`]}}`)
		two := s.object(api, "MachineSet", "s", `{"spec":{"removals":[`+removal("two")+`]}}`)
		s.create("a set", set)
		s.apply("one removal", "alice", one)
		s.apply("another's", "bob", two)
		s.apply("the first away", "alice", s.object(api, "MachineSet", "s", ""))
	}},
}

var statuses = []operations{
	{"for a kind with a status subresource, only a write to /status changes the status, and it changes nothing else", func(s *script) {
		born := s.set("s")
		_ = unstructured.SetNestedField(born.Object, int64(7), "status", "replicas")
		set := s.create("a set with a status", born)
		s.patch("status by the main path", set, types.MergePatchType, `{"spec":{"replicas":3},"status":{"replicas":3}}`)
		s.patchStatus("both by the status path", set, types.MergePatchType, `{"metadata":{"labels":{"x":"1"}},"spec":{"replicas":4},"status":{"replicas":4}}`)
		s.patchStatus("with nothing new", set, types.MergePatchType, `{"status":{"replicas":4}}`)
		s.get("it", set)
	}},
	{"a server-side apply to /status has its own entry in the managed fields", func(s *script) {
		set := s.create("a set", s.set("s"))
		status := func(n string) string {
			return `{"apiVersion":"` + api + `","kind":"MachineSet","metadata":{"name":"s"},"status":` + n + `}`
		}
		s.patchStatus("replicas", set, types.ApplyPatchType, status(`{"replicas":1,"readyReplicas":1}`), client.FieldOwner("alice"), client.ForceOwnership)
		s.patchStatus("fewer fields", set, types.ApplyPatchType, status(`{"replicas":1}`), client.FieldOwner("alice"), client.ForceOwnership)
		s.patchStatus("conditions", set, types.ApplyPatchType, status(`{"replicas":1,"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`), client.FieldOwner("bob"), client.ForceOwnership)
		s.patchStatus("of what is not there", s.set("nobody"), types.ApplyPatchType, status(`{"replicas":1}`), client.FieldOwner("alice"))
	}},
	{"an update of a Machine changes the status like any field, because Machines have no status subresource", func(s *script) {
		m := s.machine("m")
		_ = unstructured.SetNestedField(m.Object, "Pending", "status", "phase")
		s.create("a Machine with a status", m)
		s.patch("its status", m, types.MergePatchType, `{"status":{"phase":"Running"}}`)
		s.patchStatus("by an unknown path", m, types.MergePatchType, `{"status":{"phase":"Failed"}}`)
	}},
}

var deletions = []operations{
	{"deleting an object that no longer exists is refused", func(s *script) {
		m := s.create("a Machine", s.machine("m"))
		s.delete("it", m)
		s.delete("it again", m)
		s.get("it", m)
		s.create("one of the same name", s.machine("m"))
	}},
	{"a delete with a wrong UID or an old resource version is refused", func(s *script) {
		m := s.create("a Machine", s.machine("m"))
		wrong := types.UID("11111111-2222-4333-8444-555555555555")
		s.delete("with another's UID", m, client.Preconditions{UID: &wrong})
		stale := "1"
		s.delete("from a stale version", m, client.Preconditions{ResourceVersion: &stale})
		uid := m.GetUID()
		s.delete("with its own", m, client.Preconditions{UID: &uid})
	}},
	{"a deleted object with finalizers stays until its last finalizer is removed", func(s *script) {
		m := s.machine("m")
		m.SetFinalizers([]string{"example.org/a", "example.org/b"})
		s.create("a Machine with finalizers", m)
		s.delete("it", m)
		s.get("it", m)
		s.delete("it again", m)
		s.get("it", m)
		s.patch("one finalizer more", m, types.MergePatchType, `{"metadata":{"finalizers":["example.org/a","example.org/b","example.org/c"]}}`)
		s.patch("one less", m, types.MergePatchType, `{"metadata":{"finalizers":["example.org/a"]}}`)
		s.patch("its spec", m, types.MergePatchType, `{"spec":{"versions":{"kubelet":"1.33.6"}}}`)
		s.patch("none", m, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
		s.get("it", m)
	}},
	{"an object that is being deleted cannot be created again", func(s *script) {
		m := s.machine("m")
		m.SetFinalizers([]string{"example.org/a"})
		s.create("a Machine", m)
		s.delete("it", m)
		s.create("one of the same name", s.machine("m"))
		s.apply("one of the same name", "alice", s.machine("m"))
	}},
	{"deletecollection deletes all selected objects", func(s *script) {
		for _, name := range []string{"a", "b", "c"} {
			m := s.machine(name)
			m.SetLabels(map[string]string{"keep": map[bool]string{true: "yes", false: "no"}[name == "b"]})
			s.create(name, m)
		}
		err := s.client.DeleteAllOf(s.ctx, s.machine(""), client.InNamespace(s.namespace), client.MatchingLabels{"keep": "no"})
		s.say("delete all: %v", err)
		s.list("the rest", s.machine("").GroupVersionKind())
	}},
}
