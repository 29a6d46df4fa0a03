//go:build cluster

package ends

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// machines is the number of Machines that are created and deleted in each round.
var machines = flag.Int("machines", 400, "the number of Machines that are created and deleted in each of the two rounds")

// The Machines of a round are created in waves. Each wave has its own project, user and Secret, and some deployments.
const (
	deploymentsOfWave     = 4
	machinesOfDeployments = 50
)

// sampleEvery is the mean number of allocated bytes between two samples of the heap profile.
const sampleEvery = 512

func TestMain(m *testing.M) {
	runtime.MemProfileRate = sampleEvery
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func TestMemoryAndMetricsOfDroverAfterAllMachinesAreDeleted(t *testing.T) {
	t.Run("a second round of Machines adds at most 5 % of memory, no goroutine and no metric series, and durations are histograms (F-12, MCM-110)", func(t *testing.T) {
		synctest.Test(t, testDroverForgets)
	})
}

func testDroverForgets(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	<-w.groups.Synced()
	// The first wave is the largest possible one, because a Go map keeps the memory of its largest size.
	w.wave("at-most", deploymentsOfWave*machinesOfDeployments)
	w.round("first")
	first := w.usage()
	t.Logf("after the first round of %d Machines: %+v", *machines, first)
	w.round("second")
	second := w.usage()
	t.Logf("after the second: %+v", second)
	if second.goroutines != first.goroutines || second.series != first.series {
		t.Errorf("goroutines or metric series have changed from %+v to %+v", first, second)
	}
	w.checkDurations()
	if second.heap > first.heap*105/100 {
		t.Errorf("drover's part of the heap has grown from %d to %d bytes\n%s", first.heap, second.heap, second.grown(first))
	}
}

// round creates and deletes Machines in waves, and waits until drover has freed what it no longer uses.
func (w *world) round(name string) {
	w.Helper()
	left := *machines
	for n := 0; left > 0; n++ {
		size := min(left, deploymentsOfWave*machinesOfDeployments)
		w.wave(fmt.Sprintf("%s-%d", name, n), size)
		left -= size
	}
	time.Sleep(70 * time.Minute)
}

// wave creates some deployments, scales them up with a call of the autoscaler, and deletes them.
func (w *world) wave(name string, size int) {
	w.Helper()
	fields := w.tenant(name)
	var all []*v1alpha1.MachineDeployment
	for n := range min(deploymentsOfWave, size) {
		replicas := size / deploymentsOfWave
		if n < size%deploymentsOfWave {
			replicas++
		}
		all = append(all, w.deployment(fmt.Sprintf("%s-%d", name, n), fields, replicas))
	}
	time.Sleep(5 * time.Second)
	w.must(w.groups.Refresh(w.Context()))
	for _, d := range all {
		w.must(w.groups.IncreaseSize(w.Context(), "MachineDeployment/"+d.Namespace+"/"+d.Name, 1))
	}
	w.until(fmt.Sprintf("%s: %d servers", name, size), func() bool { return w.cloud.ServerCount() == size && w.provisioned() == size })
	for _, d := range all {
		w.must(w.admin.Delete(w.Context(), d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	w.until(name+": no Machine and no server is left", func() bool { return w.cloud.ServerCount() == 0 && w.provisioned() < 0 })
	w.must(w.admin.Delete(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	time.Sleep(time.Minute)
	w.must(w.admin.DeleteAllOf(w.Context(), &eventsv1.Event{}, client.InNamespace(namespace)))
	// The simulated API server and cloud drop their call history, because recording it would take most of the time.
	w.kube.Forget()
	w.cloud.ForgetCalls()
	w.cloud.ArchiveDeleted()
}

// provisioned returns how many Machines have a server, or -1 when there are no Machines.
func (w *world) provisioned() (n int) {
	var list v1alpha1.MachineList
	w.must(w.admin.List(w.Context(), &list))
	if len(list.Items) == 0 {
		return -1
	}
	for i := range list.Items {
		if list.Items[i].Spec.ProviderID != nil {
			n++
		}
	}
	return n
}

func (w *world) until(what string, reached func() bool) {
	w.Helper()
	for began := time.Now(); !reached(); time.Sleep(5 * time.Second) {
		if time.Since(began) > time.Hour {
			w.Fatalf("not reached within an hour: %s; %d servers, %d Machines with one", what, w.cloud.ServerCount(), w.provisioned())
		}
	}
}

// usage holds the memory, the goroutines and the metric series that are in use while drover is idle.
type usage struct {
	goroutines, series int
	// heap is the number of bytes on the heap that drover has allocated.
	heap int64
	// places holds the number of bytes on the heap by the code that allocated them.
	places map[string]int64
}

// String returns all numbers except places.
func (h usage) String() string {
	return fmt.Sprintf("%d bytes, %d goroutines, %d series", h.heap, h.goroutines, h.series)
}

// usage measures what is in use now, without the memory of the simulated API server and cloud.
func (w *world) usage() usage {
	w.Helper()
	synctest.Wait()
	h := usage{goroutines: runtime.NumGoroutine(), places: map[string]int64{}}
	families, err := w.registry.Gather()
	w.must(err)
	for _, f := range families {
		h.series += len(f.GetMetric())
	}
	// Collect garbage several times, because a heap profile shows the state at the end of an earlier garbage collection.
	for range 3 {
		runtime.GC()
	}
	n, _ := runtime.MemProfile(nil, false)
	records := make([]runtime.MemProfileRecord, n+1000)
	n, ok := runtime.MemProfile(records, false)
	if !ok {
		w.Fatal("the heap profile has grown during the measurement")
	}
	for i := range records[:n] {
		if place, ours := placeOf(&records[i]); ours {
			h.heap += records[i].InUseBytes()
			h.places[place] += records[i].InUseBytes()
		}
	}
	return h
}

// times lists the metrics whose unit is seconds but which do not measure durations: the age of something, and the time
// until something.
var times = []string{"drover_openstack_inventory_age_seconds", "drover_openstack_rest_seconds"}

// checkDurations fails the test unless every metric that measures durations is a histogram.
func (w *world) checkDurations() {
	w.Helper()
	families, err := w.registry.Gather()
	w.must(err)
	seen := 0
	for _, f := range families {
		if !strings.HasSuffix(f.GetName(), "_seconds") || slices.Contains(times, f.GetName()) {
			continue
		}
		if seen++; f.GetType() != dto.MetricType_HISTOGRAM {
			w.Errorf("metric %s is a %s, want a histogram", f.GetName(), f.GetType())
		}
	}
	if seen == 0 {
		w.Error("no metric is a duration")
	}
}

// placeOf returns the stack that allocated the memory of a record, and reports whether drover rather than the test allocated it.
func placeOf(r *runtime.MemProfileRecord) (place string, ours bool) {
	var b strings.Builder
	frames := runtime.CallersFrames(r.Stack())
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.Contains(f.Function, "drover/test/") {
			return "", false
		}
		fmt.Fprintf(&b, "  %s:%d\n", f.Function, f.Line)
	}
	return b.String(), true
}

// grown returns the places in the code whose allocated memory has grown by more than 16 KiB since an earlier
// measurement.
func (h usage) grown(before usage) string {
	var b strings.Builder
	for place, bytes := range h.places {
		if more := bytes - before.places[place]; more > 16<<10 {
			fmt.Fprintf(&b, "%d bytes more:\n%s", more, place)
		}
	}
	return b.String()
}
