package nodegroup

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/test/pools"
)

// flags are the settings that an autoscaler with its default flags sends.
var flags = model.Settings{UtilizationThreshold: 0.5, GPUUtilizationThreshold: 0.5, UnneededTime: 10 * time.Minute, UnreadyTime: 20 * time.Minute, ProvisionTime: 15 * time.Minute}

// with returns the settings of an autoscaler with default flags, modified by the function change.
func with(change func(*model.Settings)) model.Settings {
	s := flags
	change(&s)
	return s
}

func TestOptionsOfAGroupOverrideTheAutoscalersFlags(t *testing.T) {
	const ours, capi = v1alpha1.AnnotationOptions, v1alpha1.AnnotationOptionsCAPI
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		options     Options
		// want holds the expected settings. It is nil when the autoscaler's own flags apply.
		want *model.Settings
		// says lists parts of the expected Events, separated by |.
		says string
	}{
		{name: "a group without annotations has no options of its own (CA-C90)"},
		{
			name: "one annotation overrides one flag, and the other options are returned as the autoscaler sent them (CA-C91)", annotations: map[string]string{ours + "scaledownunneededtime": "3m"},
			want: new(with(func(s *model.Settings) { s.UnneededTime = 3 * time.Minute })),
		},
		{
			name: "every option can also be set by an annotation with Cluster API's prefix (CA-C91)",
			annotations: map[string]string{
				capi + "scaledownutilizationthreshold": "0.7", capi + "scaledowngpuutilizationthreshold": "0.8", capi + "scaledownunneededtime": "1m",
				capi + "scaledownunreadytime": "2m", capi + "maxnodeprovisiontime": "40m", capi + "ignoredaemonsetsutilization": "true",
			},
			options: Options{JoinTimeout: 35 * time.Minute},
			want:    &model.Settings{UtilizationThreshold: 0.7, GPUUtilizationThreshold: 0.8, UnneededTime: time.Minute, UnreadyTime: 2 * time.Minute, ProvisionTime: 40 * time.Minute, IgnoreDaemonSets: true},
		},
		{
			name: "an annotation with drover's prefix takes precedence over one with Cluster API's prefix", annotations: map[string]string{ours + "scaledownunneededtime": "3m", capi + "scaledownunneededtime": "4m"},
			want: new(with(func(s *model.Settings) { s.UnneededTime = 3 * time.Minute })),
		},
		{name: "the autoscaler's flag applies when an option's value cannot be read, and an Event reports the value (CA-C93)", annotations: map[string]string{ours + "scaledownunneededtime": "soon"}, says: `scaledownunneededtime has the value "soon"`},
		{name: "an option with a time of 0 is refused (CA-C91)", annotations: map[string]string{ours + "scaledownunreadytime": "0s"}, says: "above 0"},
		{name: "a utilization threshold above 1 is refused", annotations: map[string]string{ours + "scaledownutilizationthreshold": "50"}, says: "from 0 to 1"},
		{name: "a utilization threshold that is not a number is refused", annotations: map[string]string{ours + "scaledownutilizationthreshold": "NaN"}, says: "from 0 to 1"},
		{name: "an unknown option is reported in an Event", annotations: map[string]string{ours + "scaledownunneeded": "1m"}, says: "there is no such option"},
		{name: "an Event reports the option maxnodestartuptime, because it cannot be passed to the autoscaler (CA-C94)", annotations: map[string]string{ours + "maxnodestartuptime": "5m"}, says: "maxnodestartuptime cannot be passed"},
		{name: "the option zeroormaxnodescaling is refused when drover's flag does not allow it (CA-C95)", annotations: map[string]string{ours + "zeroormaxnodescaling": "true"}, says: "--features=zero-or-max"},
		{
			name: "the option zeroormaxnodescaling is passed to the autoscaler when drover's flag allows it (CA-C95)", annotations: map[string]string{ours + "zeroormaxnodescaling": "true"}, options: Options{ZeroOrMax: true},
			want: new(with(func(s *model.Settings) { s.ZeroOrMax = true })),
		},
		{
			name: "a provision time shorter than drover's join timeout plus two minutes is refused (CA-C96)", annotations: map[string]string{ours + "maxnodeprovisiontime": "11m"},
			options: Options{JoinTimeout: 10 * time.Minute}, says: "at least 12m0s",
		},
		{
			name: "a provision time of drover's join timeout plus two minutes is passed to the autoscaler (CA-C96)", annotations: map[string]string{ours + "maxnodeprovisiontime": "12m"}, options: Options{JoinTimeout: 10 * time.Minute},
			want: new(with(func(s *model.Settings) { s.ProvisionTime = 12 * time.Minute })),
		},
		{
			name: "a provision time longer than drover's join timeout plus ten minutes is shortened to that, and an Event reports it (F-92)", annotations: map[string]string{ours + "maxnodeprovisiontime": "20000h"},
			options: Options{JoinTimeout: 10 * time.Minute}, says: "maxnodeprovisiontime is 20000h0m0s: 20m0s is used",
			want: new(with(func(s *model.Settings) { s.ProvisionTime = 20 * time.Minute })),
		},
		{
			name: "the join timeout in a group's annotation allows no longer provision time (F-92)", annotations: map[string]string{ours + "maxnodeprovisiontime": "20000h", v1alpha1.AnnotationJoinTimeout: "20000h"},
			options: Options{JoinTimeout: 10 * time.Minute}, says: "20m0s is used",
			want: new(with(func(s *model.Settings) { s.ProvisionTime = 20 * time.Minute })),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 2, 1, 5)
			for key, value := range tc.annotations {
				p.Deployment.Annotations[key] = value
			}
			b := newBench(t, w, tc.options)
			got, ok := b.groups.Settings(p.ID(), flags)
			if ok != (tc.want != nil) || tc.want != nil && got != *tc.want {
				t.Errorf("the options are %+v (%v), want %+v", got, ok, tc.want)
			}
			b.groups.advisor.advise(b.groups.store.published())
			said := drain(b.recorder)
			if tc.says == "" && tc.want == nil && said != "" || !strings.Contains(said, tc.says) {
				t.Errorf("the Events are %q, want %q", said, tc.says)
			}
			b.groups.advisor.advise(b.groups.store.published())
			if again := drain(b.recorder); again != "" {
				t.Errorf("it is reported again: %q", again)
			}
		})
	}
}

// drain returns all recorded Events.
func drain(r *events.FakeRecorder) string {
	var all strings.Builder
	for {
		select {
		case e := <-r.Events:
			all.WriteString(e + "\n")
		default:
			return all.String()
		}
	}
}

func TestOptionsInUnusualSituations(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 1, 5)
	p.Deployment.Annotations[v1alpha1.AnnotationOptions+"scaledownunneededtime"] = "3m"
	b := newBench(t, w, Options{JoinTimeout: 10 * time.Minute})
	t.Run("cluster-autoscaler up to release 1.28, which sends no provision time, receives no options (CA-C92)", func(t *testing.T) {
		if got, ok := b.groups.Settings(p.ID(), model.Settings{UnneededTime: time.Minute}); ok {
			t.Errorf("it receives %+v", got)
		}
	})
	t.Run("no options are returned for an unknown group (CA-C93)", func(t *testing.T) {
		if got, ok := b.groups.Settings("nonsense", flags); ok {
			t.Errorf("it receives %+v", got)
		}
	})
	t.Run("options are returned while the API server does not answer (CA-C93)", func(t *testing.T) {
		b.clock.Step(time.Hour)
		if _, ok := b.groups.Settings(p.ID(), flags); !ok {
			t.Error("it fails")
		}
	})
	t.Run("an Event reports that the autoscaler's flag sets too short a provision time (CA-C96)", func(t *testing.T) {
		b.groups.Settings(p.ID(), with(func(s *model.Settings) { s.ProvisionTime = 11 * time.Minute }))
		b.groups.advisor.advise(b.groups.store.published())
		if said := drain(b.recorder); !strings.Contains(said, "--max-node-provision-time") {
			t.Errorf("the Events are %q", said)
		}
	})
}
