package handover

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The reasons of the Event about a drover that stays idle, because machine-controller runs, or because a drover in another namespace
// runs.
const (
	reasonMachineController = "MachineControllerRuns"
	reasonAnotherDrover     = "AnotherDroverRuns"
)

// Standby reports that drover stays idle because another program holds machine-controller's lease. It reports this once in the log, in
// the metric drover_standing_by, and by an Event about the lease as soon as the other program has renewed the lease.
type Standby struct {
	namespace, name string
	log             logr.Logger
	metric          prometheus.Gauge

	events events.EventRecorder
	// holder is the identity of the other program that holds the lease; empty means that there is none. renewed is the lease's renew
	// time when drover first read it.
	holder  string
	renewed time.Time
	// reported is true when the Event about the program that holds the lease now was recorded.
	reported bool
}

// NewStandby returns a Standby for the lease namespace/name. registry registers the metric; nil means no metric. NewStandby returns an
// error when the metric cannot be registered.
func NewStandby(namespace, name string, log logr.Logger, registry prometheus.Registerer) (*Standby, error) {
	s := &Standby{namespace: namespace, name: name, log: log, metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_standing_by",
		Help: "1 while drover stays idle because another program, such as machine-controller, holds the lease that --machine-controller-lease names, else 0.",
	})}
	if registry != nil {
		if err := registry.Register(s.metric); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return s, nil
}

// RecordTo sets the recorder of the Event about the lease. It must be called before an elector uses the lease.
func (s *Standby) RecordTo(recorder events.EventRecorder) {
	s.events = recorder
}

// Seen is called after each read of machine-controller's lease: with its record while another program holds it, else with nil.
func (s *Standby) Seen(other *resourcelock.LeaderElectionRecord) {
	if other == nil {
		if s.holder != "" {
			s.log.Info("No other program holds machine-controller's lease any more", "lease", s.namespace+"/"+s.name, "was", s.holder)
		}
		s.holder, s.reported = "", false
		s.metric.Set(0)
		return
	}
	if s.holder != other.HolderIdentity {
		s.holder, s.renewed, s.reported = other.HolderIdentity, other.RenewTime.Time, false
		s.metric.Set(1)
		s.log.Info("Standing by: another program holds machine-controller's lease. drover changes nothing in Kubernetes or in the cloud until the lease expires",
			"lease", s.namespace+"/"+s.name, "holder", s.holder)
	}
	if s.reported || s.events == nil || other.RenewTime.Time.Equal(s.renewed) {
		return
	}
	s.reported = true
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	reason, text := s.why()
	s.events.Eventf(lease, nil, corev1.EventTypeWarning, reason, "Wait", "%s", text)
}

// why returns the reason and the text of the Event.
func (s *Standby) why() (reason, text string) {
	if namespace, is := NamespaceOf(s.holder); is {
		return reasonAnotherDrover, fmt.Sprintf("drover stays idle, because the drover in namespace %s leads and renews this lease: remove one of the two", namespace)
	}
	return reasonMachineController, fmt.Sprintf("drover stays idle, because %s renews this lease: stop machine-controller (kubectl -n %s scale deployment machine-controller --replicas=0)",
		s.holder, s.namespace)
}
