package openstack

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/provider"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestShapeReturnsTheCPUMemoryDiskAndZoneOfATemplate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields().with("rootDiskSizeGB", 80))
	template := templateOf(m)
	for range 3 {
		s, err := b.cloud.Shape(b.ctx, "kube-system", template)
		if err != nil {
			t.Fatal(err)
		}
		if s.CPU.String() != "2" || s.Memory.String() != "8Gi" || s.Disk.String() != "80Gi" || s.Zone != sim.MetaKubeZone ||
			s.Region != sim.MetaKubeRegion || s.Architecture != "amd64" || s.Flavor != sim.MetaKubeFlavor {
			t.Fatalf("got %+v", s)
		}
	}
	if got := b.calls("GET /flavors/detail"); got != 1 {
		t.Errorf("CAPI-15: %d lists of flavors", got)
	}
}

func TestShapeOfAFlavorWithADiskOrGPUs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, tt := range map[string]struct {
		flavor sim.Flavor
		volume int // the size of the boot volume in GiB; 0 means none
		disk   string
		gpus   int64
	}{
		"the disk is the flavor's when servers boot from it (report 130)":                        {sim.Flavor{Disk: 40}, 0, "40Gi", 0},
		"the disk is the boot volume where the flavor has none (report 130)":                     {sim.Flavor{}, 30, "30Gi", 0},
		"the disk is the boot volume even where the flavor's is larger (report 130)":             {sim.Flavor{Disk: 400}, 30, "30Gi", 0},
		"the GPUs are the virtual ones of the flavor's extra specs (report 131)":                 {sim.Flavor{Disk: 40, ExtraSpecs: map[string]string{"resources:VGPU": "1"}}, 0, "40Gi", 1},
		"the GPUs are the devices of a PCI alias in the flavor's extra specs (report 131)":       {sim.Flavor{Disk: 40, ExtraSpecs: map[string]string{"pci_passthrough:alias": "nvidia-a100:2"}}, 0, "40Gi", 2},
		"the GPUs are those of the flavor for servers that boot from a volume, too (report 131)": {sim.Flavor{ExtraSpecs: map[string]string{"resources:PGPU": "1"}}, 30, "30Gi", 1},
	} {
		t.Run(name, func(t *testing.T) {
			tt.flavor.Name, tt.flavor.VCPUs, tt.flavor.RAM = strings.ReplaceAll(t.Name(), "/", "-"), 2, 8192
			tt.flavor.ID = b.sim.AddFlavor(tt.flavor)
			spec := seedFields().with("flavor", tt.flavor.ID)
			if tt.volume > 0 {
				spec.with("rootDiskSizeGB", tt.volume)
			}
			s, err := b.cloud.Shape(b.ctx, "kube-system", templateOf(newMachine(t, "a", spec)))
			if err != nil || s.Disk.String() != tt.disk || s.GPUs != tt.gpus {
				t.Errorf("got %+v, %v, want a disk of %s and %d GPUs", s, err, tt.disk, tt.gpus)
			}
			b.clock.Step(11 * time.Minute)
		})
	}
}

func TestTheZoneOfATemplateThatNamesNone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fields := seedFields()
	delete(fields, "availabilityZone")
	template := templateOf(newMachine(t, "a", fields))
	zone := func() string {
		t.Helper()
		s, err := b.cloud.Shape(b.ctx, "kube-system", template)
		if err != nil {
			t.Fatal(err)
		}
		return s.Zone
	}
	if got := zone(); got != "" {
		t.Errorf("the zone is %q in a cloud with two zones (F-127)", got)
	}
	for _, h := range b.sim.Hosts() {
		h.Zone = "nova"
		b.sim.SetHost(h)
	}
	b.sim.ForgetCalls()
	b.clock.Step(11 * time.Minute)
	for range 3 {
		if got := zone(); got != "nova" {
			t.Errorf("the zone is %q, want that of the cloud, which has only one (F-127)", got)
		}
	}
	if got := b.calls("GET /os-availability-zone"); got != 1 {
		t.Errorf("%d lists of zones, want 1 (CAPI-15)", got)
	}
	clear := b.sim.Inject(sim.Fault{Call: "GET /os-availability-zone", Status: http.StatusInternalServerError})
	b.clock.Step(11 * time.Minute)
	if _, err := b.cloud.Shape(b.ctx, "kube-system", template); !fault.Is(err, fault.Transient) {
		t.Errorf("the error is %v; want that of the list of zones, so that the last template stays (F-127)", err)
	}
	clear()
	b.sim.Inject(sim.Fault{Call: "GET /os-availability-zone", Status: http.StatusForbidden})
	if got := zone(); got != "" {
		t.Errorf("the zone is %q although the cloud does not list its zones (F-127)", got)
	}
}

func TestProjectInWhichTheServerOfANewMachineWillBeCreated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "a", seedFields())
	t.Run("the project is returned after a single call, the sign-in, even when the project has no Machine yet (F-17)", func(t *testing.T) {
		b.eventually("drover has signed in", func() bool { return b.cloud.PlaceRecord(b.ctx, "kube-system", templateOf(m)) != nil })
		if got := b.calls(); got != b.calls("POST /auth/tokens") {
			t.Errorf("%d calls, want only the sign-in", got)
		}
	})
	t.Run("no project is returned, and no call is made, before drover has signed in for the template's region (F-17)", func(t *testing.T) {
		b.sim.ForgetCalls()
		elsewhere := newMachine(t, "c", seedFields().with("region", "elsewhere"))
		if got := b.cloud.PlaceRecord(b.ctx, "kube-system", templateOf(elsewhere)); got != nil || b.calls() != 0 {
			t.Errorf("got %v with %d calls", got, b.calls())
		}
	})
	t.Run("the returned project and region are those in which the Machine's resources are created (F-17)", func(t *testing.T) {
		f := b.observe(b.synced(m))
		recorded := m.DeepCopy()
		recorded.Status.ProviderStatus = b.cloud.PlaceRecord(b.ctx, "kube-system", templateOf(m))
		if got := provider.RecordOf(recorded); got.ProjectID != placeOf(f).ProjectID || got.Region != placeOf(f).Region {
			t.Errorf("recorded %+v, want %s in %s", got, placeOf(f).ProjectID, placeOf(f).Region)
		}
	})
	t.Run("no project is returned when a reference in the template to a Secret cannot be read (F-17)", func(t *testing.T) {
		if got := b.cloud.PlaceRecord(b.ctx, "kube-system", templateOf(newMachine(t, "b", fromSecret("gone")))); got != nil {
			t.Errorf("got %s", got.Raw)
		}
	})
}
